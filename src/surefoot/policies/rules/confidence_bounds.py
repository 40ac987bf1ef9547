"""Rules that take the action whose expected reward, more or less its uncertainty, is the highest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from operator import mul
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.features import policy_features
from surefoot.policies.rules.decision_rule import Chooser, DecisionRule, evaluate_linear, register_rule


@dataclass(frozen=True, eq=False)
class _ConfidenceBound(DecisionRule):
    """The action with the highest m_aᵀ z(s) ± √(z(s)ᵀ V_a z(s)); a tie goes to the lower action."""

    sign: ClassVar[float]
    """+1: what is uncertain is tried; −1: it is shunned."""
    looks_through: ClassVar[str] = "critic"
    batch_axes_follow: ClassVar[int] = 2
    mean: NDArray[np.float64]
    """m, (*batch, actions, variables + 1)."""
    spread: NDArray[np.float64]
    """V, (*batch, actions, variables + 1, variables + 1): the squared half-width of the confidence bound."""

    def preferences(self) -> NDArray[np.float64]:
        """The advantages, whose sign decides but for the width of the bound."""
        return np.asarray(self.mean[..., 1:, :] - self.mean[..., :1, :])

    def scores(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        z = policy_features(state)
        width = np.einsum("...m,...kmn,...n->...k", z, self.spread, z)
        return np.asarray(np.einsum("...km,...m->...k", self.mean, z) + self.sign * np.sqrt(np.maximum(width, 0.0)))

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.scores(state)
        return np.asarray(np.eye(scores.shape[-1])[scores.argmax(axis=-1)])

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        rules = list(zip(self.mean.tolist(), self.spread.tolist(), strict=True))
        sign = self.sign

        def probabilities(state: Sequence[float]) -> list[float]:
            z = [*state, 1.0]
            best = -inf
            chosen = 0
            for action, (mean, spread) in enumerate(rules):
                width = sum(map(mul, z, [sum(map(mul, row, z)) for row in spread]))
                score = sum(map(mul, mean, z)) + sign * sqrt(abs(width))
                if score > best:
                    best = score
                    chosen = action
            return [float(action == chosen) for action in range(len(rules))]

        return probabilities

    def chooser(self) -> Chooser:
        xp = array_namespace(self.mean)
        means = evaluate_linear(self.mean)
        actions = self.mean.shape[-2]
        size = self.mean.shape[-1]
        spread = xp.asarray(xp.moveaxis(self.spread, (-3, -2, -1), (0, 1, 2)), copy=True)
        certain = not xp.any(spread != 0)

        def score(a: int, state: Array) -> Array:
            mean = means(a, state)
            if certain:
                return mean
            width = spread[a, size - 1, size - 1]
            for i in range(size - 1):
                row = spread[a, i, i] * state[i] + 2 * spread[a, i, size - 1]
                for j in range(i):
                    row = row + 2 * spread[a, i, j] * state[j]
                width = width + row * state[i]
            # Rounding may leave a width of zero slightly below it.
            return mean + self.sign * xp.sqrt(xp.abs(width))

        def choose(state: Array, uniform: Array) -> Array:
            best = score(0, state)
            other = score(1, state)
            action = xp.astype(other > best, xp.int64)
            for a in range(2, actions):
                best = xp.maximum(best, other)
                other = score(a, state)
                action = xp.where(other > best, a, action)
            return action

        return choose


@register_rule
@dataclass(frozen=True, eq=False)
class UpperConfidence(_ConfidenceBound):
    """The action with the highest m_aᵀ z(s) + √(z(s)ᵀ V_a z(s)): of two equal actions the one that is less well known."""

    name: ClassVar[str] = "upper-confidence"
    how: ClassVar[str] = (
        "It takes the action with the highest upper confidence bound of the expected reward. It does not randomise."
    )
    sign: ClassVar[float] = 1.0


@register_rule
@dataclass(frozen=True, eq=False)
class Pessimistic(_ConfidenceBound):
    """The action with the highest m_aᵀ z(s) − √(z(s)ᵀ V_a z(s)), m the advantage over a reference action and V κ² times its
    covariance: the reference, whose m and V are zero, is left only where an advantage is more than κ standard errors.

    >>> rule = Pessimistic(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([np.zeros((2, 2)), np.diag([0.0, 4.0])]))
    >>> rule.scalar()([1.9]), rule.scalar()([2.1])
    ([1.0, 0.0], [0.0, 1.0])
    """

    name: ClassVar[str] = "pessimistic"
    how: ClassVar[str] = "It leaves the reference action only where another is significantly better. It does not randomise."
    sign: ClassVar[float] = -1.0
