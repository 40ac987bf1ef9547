"""Actor-critic bandits: a Boltzmann policy that earns most by the critic's expectation, and one that stays stochastic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.errors import InputError
from surefoot.learning.actor import optimise
from surefoot.learning.methods.composition import Method
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.features import policy_features
from surefoot.policies.rules import Boltzmann


@dataclass(kw_only=True, eq=False)
class ACCB(Method):
    """θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) x(s_i, a)ᵀw − (ζ_a / 2) ‖θ‖²: the actor-critic contextual bandit.

    Parameters
    ----------
    actor_penalty
        ζ_a; the other parameters are those of `Method`.

    Attributes
    ----------
    coef_
        θ, (fits, k·m).
    critic_coef_, weights_, threshold_, residuals_, n_iter_
        w, u, ε, r − xᵀw, and the critic's iterations.
    policies_
        What was learned, to decide with.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> sf.ACCB(critic="capped").fit(logs).coef_.shape
    (3, 4)
    """

    actor_penalty: float = 1e-4
    """ζ_a."""
    needs_coefficients: ClassVar[bool] = False
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "actor_penalty")

    @property
    def radius(self) -> float | None:
        """The limit of the mean squared logit; None without one."""
        return None

    def learn_rule(self, result: CriticResult) -> tuple[Boltzmann, Array]:
        batch = result.batch
        fit = result.fit
        xp = array_namespace(batch.state)
        if result.ahead is None:
            advantage = fit.find_advantage(batch.state, batch.actions)
        else:
            effect = xp.matrix_transpose(result.ahead.mean)
            advantage = batch.state @ effect[:, :-1, :] + effect[:, -1:, :]
        z = policy_features(result.scaling.standardise(batch.state, batch.policy_sees))
        penalty = (self.actor_penalty * result.scaling.reward)[:, None]
        count = xp.sum(batch.weights, axis=1)
        start = None if result.start is None else result.scaling.to_standard(result.start)
        actor = optimise(z, advantage, fit.weights, count=count, penalty=penalty, radius=self.radius, start=start)
        return Boltzmann(result.scaling.to_raw(actor.coef)), actor.converged


@dataclass(kw_only=True, eq=False)
class SACCB(ACCB):
    """ACCB that keeps every action possible: θᵀ Σ θ ≤ α (log(p₀ / (1 − p₀)))², Σ the weighted mean of g gᵀ.

    This is Lei's relaxation of P(p₀ ≤ π_θ(1 | S) ≤ 1 − p₀) ≥ 1 − α.

    Parameters
    ----------
    minimum_probability
        p₀; the other parameters are those of `ACCB`, and so are the attributes.
    violation
        α.

    Examples
    --------
    >>> import surefoot as sf
    >>> round(sf.SACCB(minimum_probability=0.1, violation=1.0).radius, 4)
    4.8278
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
