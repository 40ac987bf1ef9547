"""An actor's rule: probabilities proportional to the exponential of a linear function of the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from operator import mul
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.boltzmann import boltzmann
from surefoot.policies.features import policy_features
from surefoot.policies.rules.decision_rule import Chooser, DecisionRule, evaluate_linear, register_rule


@register_rule
@dataclass(frozen=True, eq=False)
class Boltzmann(DecisionRule):
    """π_θ(a | s) ∝ exp(θ_aᵀ z(s)) with θ_0 = 0."""

    name: ClassVar[str] = "boltzmann"
    how: ClassVar[str] = "The probability of an action is proportional to exp(logit); the logit of doing nothing is 0."
    batch_axes_follow: ClassVar[int] = 2
    coef: NDArray[np.float64]
    """θ, (*batch, actions − 1, variables + 1)."""

    def coefficients(self) -> NDArray[np.float64]:
        return self.coef

    def with_coefficients(self, coef: NDArray[np.float64]) -> Boltzmann:
        return Boltzmann(coef)

    def preferences(self) -> NDArray[np.float64]:
        """θ: the logits."""
        return self.coef

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        # Actions go first, so that sums over the few of them are sums of whole arrays.
        logits = np.einsum("...km,...m->k...", self.coef, policy_features(state))
        top = np.maximum(logits.max(axis=0), 0.0)
        nothing = np.exp(-top)
        raised = np.exp(logits - top)
        total = nothing + raised.sum(axis=0)
        return np.stack([nothing / total, *(raised / total)], axis=-1)

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        blocks = [(block[:-1], block[-1]) for block in self.coef.tolist()]

        def probabilities(state: Sequence[float]) -> list[float]:
            logits = [sum(map(mul, slopes, state), offset) for slopes, offset in blocks]
            top = max(0.0, *logits)
            raised = [exp(-top), *(exp(logit - top) for logit in logits)]
            total = sum(raised)
            return [value / total for value in raised]

        return probabilities

    def chooser(self) -> Chooser:
        xp = array_namespace(self.coef)
        logits = evaluate_linear(self.coef)
        k = self.coef.shape[-2]

        def choose(state: Array, uniform: Array) -> Array:
            if k == 1:
                # An exponential that overflows leaves a probability of zero for the reference, as it should.
                with np.errstate(over="ignore"):
                    return xp.astype(uniform >= 1.0 / (1.0 + xp.exp(logits(0, state))), xp.int64)
            raised = boltzmann(xp.stack([logits(a, state) for a in range(k)], axis=-1))
            edge = 1.0 - xp.sum(raised, axis=-1)
            action = xp.astype(uniform >= edge, xp.int64)
            for a in range(k - 1):
                edge = edge + raised[..., a]
                action += xp.astype(uniform >= edge, xp.int64)
            return action

        return choose
