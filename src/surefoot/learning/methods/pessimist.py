"""The pessimist: leaves a reference action only where another is surely better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.learning.methods.composition import Method
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.rules import Pessimistic


@dataclass(kw_only=True, eq=False)
class Pessimist(Method):
    """Leaves the reference action only where another's advantage m(s) exceeds κ standard errors: m(s) > κ √(zᵀVz).

    The reference is doing nothing, unless always taking another action earns more by two standard errors in the long run.
    Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `outlook_` and `policies_`.
    """

    caution: float | None = None
    """κ. By default it follows the decision points of a fit: 1 from 1,500 on, 2 from 400 on, 3 below."""

    def learn_rule(self, result: CriticResult) -> tuple[Pessimistic, Array]:
        advantage = result.ahead or result.immediate_advantage(result.system, result.scale)
        kappa = choose_caution(advantage.count) if self.caution is None else self.caution + 0.0 * advantage.count
        mean, spread = advantage.over_reference()
        return Pessimistic(mean, kappa[:, None, None, None] ** 2 * spread), result.fit.converged

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.caution is not None and not (np.isfinite(self.caution) and self.caution >= 0):
            raise InputError(f"caution is {self.caution}; it must be a finite number of at least 0")


CAUTION = ((1500, 1.0), (400, 2.0), (0, 3.0))
"""From so many decision points of a fit on: κ."""


def choose_caution(count: Array) -> Array:
    """κ by the number of decision points of each fit: policies from few of them harm more often than they help."""
    xp = array_namespace(count)
    kappa = xp.zeros_like(count)
    for least, value in CAUTION:
        kappa = xp.where((kappa == 0) & (count >= least), value, kappa)
    return kappa
