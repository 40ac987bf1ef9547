"""Actor-critic bandits: a Boltzmann policy that earns most by the critic's expectation, and one that stays stochastic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.errors import InputError
from surefoot.learning.actor import optimise
from surefoot.learning.methods.composition import CriticResult, Method
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.features import effects, policy_features
from surefoot.policies.rules import Boltzmann


@dataclass(kw_only=True, eq=False)
class ACCB(Method):
    """θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) x(s_i, a)ᵀw − (ζ_a / 2) ‖θ‖²: the actor-critic contextual bandit.

    Learns `coef_` (θ), `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_` and `policies_`.
    """

    actor_penalty: float = 1e-4
    """ζ_a."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "actor_penalty")

    @property
    def radius(self) -> float | None:
        """The limit of the mean squared logit; None without one."""
        return None

    def learn_rule(self, found: CriticResult) -> tuple[Boltzmann, Array]:
        batch, fit = found.batch, found.fit
        xp = array_namespace(batch.state)
        effect = xp.matrix_transpose(effects(fit.coef, batch.actions) if found.ahead is None else found.ahead.mean)
        advantage = batch.state @ effect[:, :-1, :] + effect[:, -1:, :]
        z = policy_features(found.scaling.standardise(batch.state, batch.policy_sees))
        penalty = (self.actor_penalty * found.scaling.reward)[:, None]
        count = xp.sum(batch.usable, axis=1)
        actor = optimise(z, advantage, fit.weights, count=count, penalty=penalty, radius=self.radius)
        return Boltzmann(found.scaling.to_raw(actor.coef)), actor.converged


@dataclass(kw_only=True, eq=False)
class SACCB(ACCB):
    """ACCB that keeps every action possible: θᵀ Σ θ ≤ α (log(p₀ / (1 − p₀)))², Σ the weighted mean of g gᵀ.

    This is Lei's relaxation of P(p₀ ≤ π_θ(1 | S) ≤ 1 − p₀) ≥ 1 − α.
    """

    minimum_probability: float = 0.1
    """p₀."""
    violation: float = 0.1
    """α."""
    _positive: ClassVar[tuple[str, ...]] = ("tau", "minimum_probability", "violation")

    @property
    def radius(self) -> float:
        return float(self.violation * np.log(self.minimum_probability / (1 - self.minimum_probability)) ** 2)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.minimum_probability >= 0.5 or self.violation > 1:
            raise InputError("minimum_probability must be below 0.5 and violation at most 1")
