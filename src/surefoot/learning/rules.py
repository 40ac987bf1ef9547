"""Learners of decision rules: what a method makes of the critic's result. They own the parameters of exploration."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from array_api_compat import device

from surefoot.errors import InputError, did_you_mean
from surefoot.learning.actor import optimise
from surefoot.learning.batch import Batch
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.horizon import Horizon
from surefoot.learning.horizon.look_ahead import Advantage
from surefoot.learning.part import Part
from surefoot.learning.penalties import FitScales, PlacedPrior, Prior, check_prior, place_prior
from surefoot.learning.pooling import Pooling
from surefoot.numerics.action_probabilities import EXPONENTS
from surefoot.numerics.arrays import Array, array_namespace, contiguous
from surefoot.numerics.batched_cholesky import Cholesky, solve
from surefoot.policies import rules
from surefoot.policies.features import policy_features
from surefoot.registry import Registry

__all__ = [
    "RULE_LEARNERS",
    "Actor",
    "CriticResult",
    "LinUCB",
    "Pessimist",
    "PosteriorSampler",
    "RuleLearner",
    "StochasticActor",
    "register_rule_learner",
]

CAUTION = ((1500, 1.0), (400, 2.0), (0, 3.0))
"""From so many decision points of a fit on: κ. Policies from few of them harm more often than they help."""
KERNEL_WIDTH = 2.34
"""Epanechnikov's kernel is so many standard deviations n^(−1/5) wide: Silverman's rule."""
MOST_LOST = 0.75
NOISE_STEPS = 5
"""With a prior of given scale the noise depends on the coefficients and these on the noise: so many rounds settle both."""


@dataclass(frozen=True, eq=False)
class CriticResult:
    """The input of a decision rule's learning: the critic's fit to a batch, or the long-run advantages."""

    batch: Batch
    """The decision points."""
    fit: CriticFit
    """The critic's fit to them."""
    scaling: FitScales
    """The units of the penalties."""
    penalty: Array
    """ζ of every feature, (people, features)."""
    critic_penalty: float
    """The number that ζ was made of."""
    residuals: Array
    """r − E[r | s, a] of every decision point, (people, decision points)."""
    scale: Array
    """Weighted root mean squared residual, (people,)."""
    ahead: Advantage | None = None
    """With a long-run horizon, or with partial pooling."""
    start: Array | None = None
    """Coefficients of policies of a fit to similar decision points, (people, k, m), where they are known."""

    @classmethod
    def of_fit(
        cls, batch: Batch, fit: CriticFit, scaling: FitScales, penalty: Array, critic_penalty: float
    ) -> "CriticResult":
        """With the residuals that the fit leaves, and their scale."""
        xp = array_namespace(batch.features)
        left = fit.find_residuals(batch.features, batch.reward)
        total = xp.sum(fit.weights, axis=1)
        squares = xp.sum(fit.weights * left**2, axis=1)
        scale = xp.sqrt(squares / xp.where(total > 0, total, xp.ones_like(total)))
        return cls(batch, fit, scaling, penalty, critic_penalty, left, scale)

    @property
    def system(self) -> Array:
        """XᵀUX + ζ, (people, features, features)."""
        xp = array_namespace(self.penalty)
        eye = xp.eye(self.penalty.shape[1], dtype=self.penalty.dtype, device=device(self.penalty))
        return self.fit.gram + self.penalty[:, None, :] * eye

    def find_advantage(self, system: Array, scale: Array) -> Advantage:
        """The advantages ahead, or else those in the next outcome alone, with covariance scale² system⁻¹."""
        if self.ahead is not None:
            return self.ahead
        xp = array_namespace(system)
        eye = xp.eye(system.shape[-1], dtype=system.dtype, device=device(system))
        covariance = (scale**2)[:, None, None] * solve(system, xp.broadcast_to(eye, system.shape)).solution
        actions = self.batch.actions
        count = xp.sum(self.fit.weights, axis=1)
        advantage = Advantage.of_coefficients(self.fit.coef, covariance, actions, count)
        # Variables that the critic does not see have no effect, and that is certain.
        sees = self.batch.critic_sees
        seen = xp.concat([xp.concat([sees, xp.ones_like(sees[:1])])] * (actions - 1))
        return replace(advantage, covariance=advantage.covariance * seen[:, None] * seen)


@dataclass(frozen=True)
class RuleLearner(Part, ABC):
    """Learns decision rules from a critic's result; the fields of a subclass are its parameters, and each has a default."""

    kind: ClassVar[str] = "rule"
    title: ClassVar[str]
    """As it stands in a sentence."""
    needs_coefficients: ClassVar[bool] = True
    """Whether the decision rule is made of the critic's coefficients, and not only of what it expects."""
    takes_prior: ClassVar[bool] = False
    """Whether a pilot may say what is believed of the critic's coefficients beforehand."""

    @abstractmethod
    def learn(self, result: CriticResult) -> tuple[rules.DecisionRule, Array]:
        """The decision rules of the block's people, and for whom the search for them converged."""

    def regress(self, critic: Critic, batch: Batch, scaling: FitScales, critic_penalty: float) -> tuple[CriticFit, Array]:
        """The model of the expected reward, and ζ of every feature that it was fitted with."""
        return critic.fit(batch), batch.penalty

    def place_prior(self, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior | None:
        """What is believed of the critic's coefficients beforehand; None: nothing but the penalty."""
        return None

    def check_company(self, horizon: Horizon, pooling: Pooling) -> None:
        """Refuse a horizon or a pooling that it cannot work with."""


RULE_LEARNERS: Registry[type[RuleLearner]] = Registry("rule")
register_rule_learner = RULE_LEARNERS.register
"""Adds a class of rule learners under its `name`, which must be free."""


@register_rule_learner
@dataclass(frozen=True)
class Actor(RuleLearner):
    """Learns the smooth policy with the largest expected reward by the critic: the actor of `accb`.

    θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) x(s_i, a)ᵀw − (ζ_a / 2) ‖θ‖².
    """

    name: ClassVar[str] = "actor"
    title: ClassVar[str] = "the actor"
    labels: ClassVar[Mapping[str, str]] = {"actor_penalty": "policy's penalty ζ_a"}
    at_least: ClassVar[Mapping[str, float]] = {"actor_penalty": 0}
    needs_coefficients: ClassVar[bool] = False
    actor_penalty: float = 1e-4
    """ζ_a."""

    @property
    def radius(self) -> float | None:
        """The limit of the mean squared logit; None without one."""
        return None

    def learn(self, result: CriticResult) -> tuple[rules.Boltzmann, Array]:
        batch = result.batch
        xp = array_namespace(batch.state)
        if result.ahead is None:
            advantage = result.fit.find_advantage(batch.state, batch.actions)
        else:
            effect = xp.matrix_transpose(result.ahead.mean)
            advantage = batch.state @ effect[:, :-1, :] + effect[:, -1:, :]
        fit = optimise(
            policy_features(result.scaling.standardise(batch.state, batch.policy_sees)),
            advantage,
            result.fit.weights,
            count=xp.sum(batch.weights, axis=1),
            penalty=(self.actor_penalty * result.scaling.reward)[:, None],
            radius=self.radius,
            start=None if result.start is None else result.scaling.to_standard(result.start),
        )
        return rules.Boltzmann(result.scaling.to_raw(fit.coef)), fit.converged


@register_rule_learner
@dataclass(frozen=True)
class StochasticActor(Actor):
    """An actor that keeps every action possible (`saccb`).

    θᵀ Σ θ ≤ α (log(p₀ / (1 − p₀)))², Σ the weighted mean of g gᵀ. This is Lei's relaxation of P(p₀ ≤ π_θ(1 | S) ≤ 1 − p₀) ≥
    1 − α.

    >>> round(StochasticActor(minimum_probability=0.1, violation=1.0).radius, 4)
    4.8278
    """

    name: ClassVar[str] = "stochastic-actor"
    title: ClassVar[str] = "the stochastic actor"
    labels: ClassVar[Mapping[str, str]] = {
        **Actor.labels,
        "minimum_probability": "least probability p₀ of the stochasticity constraint",
        "violation": "share α of states where it may be violated",
    }
    above: ClassVar[Mapping[str, float]] = {"minimum_probability": 0, "violation": 0}
    minimum_probability: float = 0.1
    """p₀."""
    violation: float = 0.1
    """α."""

    @property
    def radius(self) -> float:
        return float(self.violation * np.log(self.minimum_probability / (1 - self.minimum_probability)) ** 2)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.minimum_probability >= 0.5 or self.violation > 1:
            raise InputError("minimum_probability must be below 0.5 and violation at most 1")


@register_rule_learner
@dataclass(frozen=True)
class LinUCB(RuleLearner):
    """Takes the action whose reward has the largest upper confidence bound.

    a = argmax_a x(s, a)ᵀw + α σ √(x(s, a)ᵀ A⁻¹ x(s, a)), A = XᵀUX + ζ_c I, σ the weighted residual scale.
    """

    name: ClassVar[str] = "linucb"
    title: ClassVar[str] = "LinUCB"
    labels: ClassVar[Mapping[str, str]] = {"exploration": "width α of the confidence bound"}
    at_least: ClassVar[Mapping[str, float]] = {"exploration": 0}
    exploration: float = 1.0
    """α."""

    def learn(self, result: CriticResult) -> tuple[rules.UpperConfidence, Array]:
        batch = result.batch
        coef = result.fit.coef
        if result.ahead is not None or batch.centre is not None:
            # Of centred actions only the effects are known, not what is expected without one.
            advantage = result.find_advantage(result.system, result.scale)
            mean, spread = replace(advantage, reference=0 * advantage.reference).over_reference()
            return rules.UpperConfidence(mean, self.exploration**2 * spread), result.fit.converged
        xp = array_namespace(coef)
        people, d = coef.shape
        size = d // batch.actions
        system = Cholesky(result.system)
        means = []
        spreads = []
        # Takes the policy's [s, 1] to a block of the critic, [1, s], without the variables that it does not see.
        turn = xp.asarray(np.roll(np.eye(size), -1, axis=0), device=device(coef))
        turn[:-1, :] *= batch.critic_sees[:, None]
        for action in range(batch.actions):
            select = xp.zeros((size, d), dtype=coef.dtype, device=device(coef))
            select[:, :size] = turn
            select[:, action * size : (action + 1) * size] = turn
            # Products participant by participant: one large product would be rounded by how many people there are.
            means.append((coef[:, None, :] @ xp.matrix_transpose(select))[:, 0, :])
            half = system.half_solve(xp.broadcast_to(xp.matrix_transpose(select), (people, d, size)))
            half = contiguous(xp.permute_dims(half, (2, 1, 0)))
            spreads.append(half @ xp.matrix_transpose(half))
        width = (self.exploration * result.scale)[:, None, None, None] ** 2
        return rules.UpperConfidence(xp.stack(means, axis=1), width * xp.stack(spreads, axis=1)), result.fit.converged


@register_rule_learner
@dataclass(frozen=True)
class Pessimist(RuleLearner):
    """Leaves the reference action only if another action is better by more than its uncertainty.

    Its advantage m(s) must exceed κ standard errors: m(s) > κ √(zᵀVz). The reference is doing nothing, unless always taking
    another action earns more by two standard errors in the long run.
    """

    name: ClassVar[str] = "pessimist"
    title: ClassVar[str] = "the pessimist"
    labels: ClassVar[Mapping[str, str]] = {"caution": "caution κ"}
    caution: float | None = None
    """κ. By default it follows the decision points of a fit: 1 from 1,500 on, 2 from 400 on, 3 below."""

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.caution is not None and not (np.isfinite(self.caution) and self.caution >= 0):
            raise InputError(f"caution is {self.caution}; it must be a finite number of at least 0")

    def learn(self, result: CriticResult) -> tuple[rules.Pessimistic, Array]:
        advantage = result.find_advantage(result.system, result.scale)
        kappa = choose_caution(advantage.count) if self.caution is None else self.caution + 0.0 * advantage.count
        mean, spread = advantage.over_reference()
        return rules.Pessimistic(mean, kappa[:, None, None, None] ** 2 * spread), result.fit.converged


def choose_caution(count: Array) -> Array:
    """κ by the number of decision points of each fit."""
    xp = array_namespace(count)
    kappa = xp.zeros_like(count)
    for least, value in CAUTION:
        kappa = xp.where((kappa == 0) & (count >= least), value, kappa)
    return kappa


@register_rule_learner
@dataclass(frozen=True)
class PosteriorSampler(RuleLearner):
    """Thompson sampling (`ts`): the probability of an action is its posterior probability of being the best.

    P(a | s) = P(action a has the largest effect), computed instead of drawn.

    The effects are those of a Bayesian linear regression with prior w_j ~ N(0, σ²/ζ_j) and noise N(0, σ²):

        w | data ~ N((XᵀUX + ζ)⁻¹ XᵀU r, σ² (XᵀUX + ζ)⁻¹)

    u are the critic's weights, σ² is estimated. With a long-run horizon the effects are the advantages ahead, with their
    covariance.
    """

    name: ClassVar[str] = "posterior-sampling"
    title: ClassVar[str] = "posterior sampling"
    takes_prior: ClassVar[bool] = True
    labels: ClassVar[Mapping[str, str]] = {"allocation": "allocation"}
    above: ClassVar[Mapping[str, float]] = {"smooth_offset": 0, "smooth_steepness": 0}
    allocation: str = "best"
    """`best`: the probability that an action has the largest effect. `smooth`, for two actions: the mean over the posterior
    of ρ(x) = L_min + (L_max − L_min) / [1 + c exp(−b x / σ)]^k, the generalised logistic of Oralytics and MiWaves."""
    smooth_minimum: float = 0.2
    """L_min."""
    smooth_maximum: float = 0.8
    """L_max."""
    smooth_offset: float = 5.0
    """c: the larger, the larger must an effect be before it counts."""
    smooth_steepness: float = 20.0
    """b, for effects in standard deviations σ of the noise."""
    smooth_exponent: float = 1.0
    """k."""
    prior: Prior | None = None
    """Mean and scale of some coefficients, {"send": {"mean": 0.1, "scale": 0.5}}, by the names of
    `surefoot.learning.penalties.list_coefficient_names`; the others keep the weak prior of the penalty."""

    def check_parameters(self) -> None:
        super().check_parameters()
        check_prior(self.prior or {})
        if self.allocation not in ALLOCATIONS:
            near = did_you_mean(str(self.allocation), ALLOCATIONS)
            raise InputError(f"allocation is {self.allocation!r}{near}; choose from {list(ALLOCATIONS)}")
        if not 0 <= self.smooth_minimum < self.smooth_maximum <= 1:
            limits = f"smooth_minimum {self.smooth_minimum} must be below smooth_maximum {self.smooth_maximum}"
            raise InputError(f"{limits}, both between 0 and 1")
        least, most = EXPONENTS
        if not least <= self.smooth_exponent <= most:
            raise InputError(f"smooth_exponent is {self.smooth_exponent}; it must be between {least:g} and {most:g}")

    def check_company(self, horizon: Horizon, pooling: Pooling) -> None:
        if self.prior and horizon.looks_ahead:
            raise InputError(
                "prior: it is about the next outcome, and a look ahead also learns what the next state will be; leave the "
                "prior out or use horizon = 'immediate'"
            )
        if self.prior and pooling.walk_step is not None:
            raise InputError("prior: it is of a population whose people do not change; leave the prior or random_walk out")

    def describe(self) -> list[str]:
        return super().describe() if self.prior is None else [*replace(self, prior=None).describe(), "with a prior"]

    def place_prior(self, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior | None:
        return place_prior(self.prior, state, actions) if self.prior else None

    def regress(self, critic: Critic, batch: Batch, scaling: FitScales, critic_penalty: float) -> tuple[CriticFit, Array]:
        """The critic says which decision points count; from these the posterior is computed."""
        xp = array_namespace(batch.reward)
        prior = self.place_prior(*batch.names)
        mean = xp.zeros_like(batch.penalty[:1, :])
        scale = mean + xp.inf
        if prior is not None:
            mean = xp.asarray(prior.mean[None, :], device=device(mean))
            scale = xp.asarray(prior.scale[None, :], device=device(mean))

        def penalise(noise: Array) -> Array:
            """ζ of a prior of this scale; a prior of infinite scale is none, and there the penalty stays."""
            given = (noise[:, None] / scale) ** 2
            return xp.where(given > 0, given, batch.penalty)

        # In deviations from the prior's mean the prior has mean 0, as a penalty has.
        deviations = batch.reward - (batch.features @ mean[..., None])[..., 0]
        fit = critic.fit(replace(batch, reward=deviations, penalty=penalise(scaling.reward)))
        fit = replace(fit, coef=fit.coef + mean)
        pull = xp.matrix_transpose(batch.features) @ (fit.weights * deviations)[..., None]
        penalty = batch.penalty
        for _ in range(1 if prior is None else NOISE_STEPS):
            result = CriticResult.of_fit(batch, fit, scaling, penalty, critic_penalty)
            penalty = penalise(estimate_noise(result))
            moved = solve(_proper_system(replace(result, penalty=penalty)), pull).solution[..., 0]
            fit = replace(fit, coef=mean + moved)
        return fit, penalty

    def learn(self, result: CriticResult) -> tuple[rules.DecisionRule, Array]:
        noise = estimate_noise(result)
        advantage = result.find_advantage(_proper_system(result), noise * measure_widening(result))
        if self.allocation == "best":
            return rules.PosteriorSampling(advantage.mean, advantage.covariance), result.fit.converged
        if advantage.mean.shape[1] > 1:
            raise InputError(
                "allocation = 'smooth' weighs one effect, so it is for two actions; with more use allocation = 'best' and "
                "keep probabilities in their limits by [probability_limits]"
            )
        xp = array_namespace(noise)
        curve = [self.smooth_minimum, self.smooth_maximum, self.smooth_offset, self.smooth_steepness, self.smooth_exponent]
        curves = xp.stack([value * xp.ones_like(noise) for value in curve], axis=-1)
        curves[:, 3] /= xp.where(noise > 0, noise, 1.0)
        return rules.SmoothAllocation(advantage.mean, advantage.covariance, curves), result.fit.converged


ALLOCATIONS = ("best", "smooth")
"""How a posterior becomes probabilities."""


def _proper_system(result: CriticResult) -> Array:
    """XᵀUX + ζ with a prior that is proper in every effect: what nobody has tried yet is as likely good as bad.

    Where the penalty leaves the intercept of an effect free, because where zero lies is a matter of units, the effect in the
    middle of the states is taken to be N(0, σ²/ζ_c).
    """
    xp = array_namespace(result.penalty)
    system = result.system
    actions = result.batch.actions
    size = system.shape[-1] // actions
    middle = xp.concat([xp.ones_like(result.scale[:, None]), result.scaling.centre * result.batch.critic_sees], axis=1)
    shrink = result.critic_penalty * middle[:, :, None] * middle[:, None, :]
    for block in (slice(a * size, (a + 1) * size) for a in range(1, actions)):
        free = result.penalty[:, block][:, :1, None] == 0
        system[:, block, block] += xp.where(free, shrink, 0.0)
    return system


def estimate_noise(result: CriticResult) -> Array:
    """σ of every fit: √((Σ u e² + r₀²) / (max(Σ u − d, 0) + 1)), (fits,).

    The spread r₀ of the reward counts as one more decision point, so that a fit through as many points as it has
    coefficients does not claim to be certain.
    """
    xp = array_namespace(result.scale)
    total = xp.sum(result.fit.weights, axis=1)
    free = xp.maximum(total - result.fit.coef.shape[-1], xp.zeros_like(total))
    return xp.sqrt((result.scale**2 * total + result.scaling.reward**2) / (free + 1))


def measure_widening(result: CriticResult) -> Array:
    """How many times wider the posterior is because moving w also moves decision points across the critic's limit, (fits,).

    To first order w moves as if Σ u − c f(±c) decision points held it instead of Σ u, with c the limit of the residuals and
    f their density there (as in the sandwich of a capped fit). Left out, `ro-ts` would be 44 % too sure of normal noise.
    """
    xp = array_namespace(result.scale)
    total = xp.sum(result.fit.weights, axis=1)
    limited = xp.isfinite(result.fit.threshold)
    limit = xp.sqrt(xp.where(limited, result.fit.threshold, 1.0))
    width = KERNEL_WIDTH * result.scale * xp.where(total > 0, total, 1.0) ** -0.2
    known = limited & (width > 0) & (total > 0)
    width = xp.where(known, width, 1.0)[:, None]
    gap = (xp.abs(result.residuals) - limit[:, None]) / width
    kernel = xp.where(xp.abs(gap) < 1, 0.75 * (1 - gap**2) / width, 0.0) * result.batch.weights
    lost = limit * xp.sum(kernel, axis=1) / xp.where(total > 0, total, 1.0)
    return xp.where(known, 1 / (1 - xp.clip(lost, 0.0, MOST_LOST)), 1.0)
