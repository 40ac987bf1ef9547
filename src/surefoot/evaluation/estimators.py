"""Off-policy estimators: the value of a policy as a ratio of two sums over decision points.

ρ = π(a | s) / b(a | s) is how much more likely the policy takes the logged action than the logging policy did; q̂ is the
expected reward of a critic that did not see the decision point.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.registry import Registry

Floats = NDArray[np.float64]
Scores = tuple[Floats, Floats]
"""Numerator and denominator of every decision point; the value is the ratio of their sums."""


@dataclass(frozen=True, eq=False)
class JudgedPolicy:
    """A policy at the usable decision points of the logs."""

    probabilities: Floats
    """π(a | s), (rows, actions)."""
    logged_probability: Floats
    """b(a | s) of the logged actions, (rows,)."""
    expected: Floats
    """q̂(s, a), (rows, actions)."""
    action: NDArray[np.int64]
    """The logged actions, (rows,)."""
    reward: Floats
    """The logged rewards, (rows,)."""
    expect_rewards: Callable[[Floats], Floats]
    """Learns q̂ anew with weights (rows,), without the fold that it judges: for an estimator whose q̂ depends on the policy,
    such as MRDR."""

    @cached_property
    def ratio(self) -> Floats:
        """ρ of the logged actions, (rows,)."""
        return np.asarray(self.probabilities[np.arange(len(self.action)), self.action] / self.logged_probability)

    def score_doubly_robust(self, expected: Floats) -> Floats:
        """Σ_a π(a | s) q̂(s, a) + ρ (r − q̂(s, a)), (rows,), for a given q̂ (rows, actions)."""
        residual = self.reward - expected[np.arange(len(self.action)), self.action]
        return np.asarray((self.probabilities * expected).sum(axis=1) + self.ratio * residual)


class Estimator(ABC):
    """An estimator by name."""

    name: ClassVar[str]
    """Under which it is registered."""
    label: ClassVar[str]
    """In tables and legends."""
    has_interval: ClassVar[bool] = True
    """Whether resampling people reveals its error."""

    @abstractmethod
    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        """Numerator and denominator of every decision point."""


ESTIMATORS: Registry[Estimator] = Registry("estimator")
register_estimator = ESTIMATORS.register
"""Adds an estimator under its `name`, which must be free."""
find_estimator = ESTIMATORS.find
"""The estimator of a name; an unknown name is an error that lists the known ones."""


class InverseWeights(Estimator):
    """Σ ρr / n."""

    name = "ips"
    label = "inverse weights"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.ratio * judged.reward, np.ones_like(judged.reward)


class SelfNormalised(Estimator):
    """Σ ρr / Σ ρ."""

    name = "snips"
    label = "self-normalised"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.ratio * judged.reward, judged.ratio


class DirectMethod(Estimator):
    """Σ Σ_a π(a | s) q̂(s, a) / n.

    It has no interval: resampling people with q̂ held fixed would not reveal the error of q̂, which is most of it.
    """

    name = "direct"
    label = "direct method"
    has_interval = False

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return (judged.probabilities * judged.expected).sum(axis=1), np.ones_like(judged.reward)


class DoublyRobust(Estimator):
    """Σ [Σ_a π(a | s) q̂(s, a) + ρ (r − q̂(s, a))] / n: consistent when either the weights or the model are right."""

    name = "doubly robust"
    label = "doubly robust"

    def compute_scores(self, judged: JudgedPolicy) -> Scores:
        return judged.score_doubly_robust(judged.expected), np.ones_like(judged.reward)


for _estimator in (InverseWeights(), SelfNormalised(), DirectMethod(), DoublyRobust()):
    register_estimator(_estimator)
