"""Off-policy estimators: what a policy is worth by each of them, as a ratio of two sums over decision points.

ρ = π(a | s) / b(a | s) is how much more likely the policy takes the logged action than the logging policy did; q̂ is the
expected reward of a critic that did not see the decision point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.registry import Registry

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Numerator and denominator of every decision point; the value is the ratio of their sums."""


@dataclass(frozen=True, eq=False)
class JudgedPolicy:
    """A policy at the usable decision points of the logs.

    Attributes
    ----------
    probabilities
        π(a | s), (rows, actions).
    ratio
        ρ of the logged actions, (rows,).
    expected
        q̂(s, a), (rows, actions).
    action
        What was done, (rows,).
    reward
        What came back, (rows,).
    """

    probabilities: NDArray[np.float64]
    ratio: NDArray[np.float64]
    expected: NDArray[np.float64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]

    @cached_property
    def model_value(self) -> NDArray[np.float64]:
        """Σ_a π(a | s) q̂(s, a), (rows,)."""
        return np.asarray((self.probabilities * self.expected).sum(axis=1))

    @cached_property
    def surprise(self) -> NDArray[np.float64]:
        """r − q̂(s, a) of the logged actions, (rows,)."""
        return np.asarray(self.reward - self.expected[np.arange(len(self.action)), self.action])


class Estimator(ABC):
    """An estimator by name.

    Attributes
    ----------
    name
        What it is registered as.
    label
        As it stands in tables and legends.
    has_interval
        Whether resampling people says how wrong it may be.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    has_interval: ClassVar[bool] = True

    @abstractmethod
    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        """Numerator and denominator of every decision point."""


ESTIMATORS: Registry[Estimator] = Registry("estimator")
register_estimator = ESTIMATORS.register
"""Adds an estimator of one's own under its `name`, which must be free."""
find_estimator = ESTIMATORS.find
"""The estimator of a name; an unknown one is refused with those there are."""


class InverseWeights(Estimator):
    """Σ ρr / n."""

    name: ClassVar[str] = "ips"
    label: ClassVar[str] = "inverse weights"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.ratio * judged.reward, np.ones_like(judged.reward)


class SelfNormalised(Estimator):
    """Σ ρr / Σ ρ."""

    name: ClassVar[str] = "snips"
    label: ClassVar[str] = "self-normalised"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.ratio * judged.reward, judged.ratio


class DirectMethod(Estimator):
    """Σ Σ_a π(a | s) q̂(s, a) / n.

    It has no interval: resampling people with q̂ held would say nothing about the error of q̂, which is most of it.
    """

    name: ClassVar[str] = "direct"
    label: ClassVar[str] = "direct method"
    has_interval: ClassVar[bool] = False

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.model_value, np.ones_like(judged.reward)


class DoublyRobust(Estimator):
    """Σ [Σ_a π(a | s) q̂(s, a) + ρ (r − q̂(s, a))] / n: right when either the weights or the model are."""

    name: ClassVar[str] = "doubly robust"
    label: ClassVar[str] = "doubly robust"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.model_value + judged.ratio * judged.surprise, np.ones_like(judged.reward)


for _estimator in (InverseWeights(), SelfNormalised(), DirectMethod(), DoublyRobust()):
    register_estimator(_estimator)
