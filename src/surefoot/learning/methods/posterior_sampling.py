"""Posterior sampling: an action is as likely as it is to be the best one, by the posterior of a linear regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from array_api_compat import device

from surefoot.errors import InputError, did_you_mean
from surefoot.learning.batch import Batch
from surefoot.learning.critics import CriticBatch, CriticFit
from surefoot.learning.critics.ridge import residuals
from surefoot.learning.horizon import Advantage, find_horizon
from surefoot.learning.methods.composition import Method
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.learning.penalty_units import FitScales
from surefoot.learning.priors import PlacedPrior, Prior, check_prior, place_prior
from surefoot.numerics.action_probabilities import EXPONENTS
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.rules import DecisionRule, PosteriorSampling, SmoothAllocation

KERNEL_WIDTH = 2.34
"""Epanechnikov's kernel is so many standard deviations n^(−1/5) wide: Silverman's rule."""
MOST_LOST = 0.75
NOISE_STEPS = 5
"""With a prior of given scale the noise depends on the coefficients and these on the noise: so many rounds settle both."""


@dataclass(kw_only=True, eq=False)
class PosteriorSampler(Method):
    """P(a | s) = P(action a has the largest effect): Thompson sampling, the probabilities computed instead of drawn.

    The effects are those of a Bayesian linear regression with prior w_j ~ N(0, σ²/ζ_j) and noise N(0, σ²):

        w | data ~ N((XᵀUX + ζ)⁻¹ XᵀU r, σ² (XᵀUX + ζ)⁻¹)

    u are the critic's weights, σ² is estimated. With a long-run horizon the effects are the advantages ahead, with their
    covariance. Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `scale_` and
    `policies_`.
    """

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
    `surefoot.learning.priors.list_coefficient_names`; the others keep the weak prior of the penalty."""
    _positive: ClassVar[tuple[str, ...]] = ("tau", "smooth_offset", "smooth_steepness")

    def regress(self, batch: Batch, data: CriticBatch, scaling: FitScales) -> tuple[CriticFit, Array]:
        """The critic says which decision points count; from these the posterior is computed."""
        xp = array_namespace(data.rewards)
        prior = self.place_prior(*batch.names)
        mean = xp.zeros_like(data.penalty[:1, :])
        scale = mean + xp.inf
        if prior is not None:
            mean, scale = (xp.asarray(part[None, :], device=device(mean)) for part in vars(prior).values())
        # In deviations from the prior's mean the prior has mean 0, as a penalty has.
        rewards = residuals(data.features, data.rewards, mean)
        first = (scaling.reward[:, None] / scale) ** 2
        fit, _ = super().regress(batch, replace(data, rewards=rewards, penalty=_where_given(first, data.penalty)), scaling)
        fit = replace(fit, coef=fit.coef + mean)
        pull = xp.matrix_transpose(data.features) @ (fit.weights * rewards)[..., None]
        penalty = data.penalty
        for _ in range(1 if prior is None else NOISE_STEPS):
            result = CriticResult.of_fit(batch, data.features, fit, scaling, penalty)
            penalty = _where_given((estimate_noise(result)[:, None] / scale) ** 2, data.penalty)
            moved = solve(self._system(replace(result, penalty=penalty)), pull).solution[..., 0]
            fit = replace(fit, coef=mean + moved)
        return fit, penalty

    def place_prior(self, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior | None:
        return place_prior(self.prior, state, actions) if self.prior else None

    def _system(self, result: CriticResult) -> Array:
        """XᵀUX + ζ with a prior that is proper in every effect: what nobody has tried yet is as likely good as bad.

        Where the penalty leaves the intercept of an effect free, because where zero lies is a matter of units, the effect in
        the middle of the states is taken to be N(0, σ²/ζ_c).
        """
        xp = array_namespace(result.penalty)
        system = result.system
        actions = result.batch.actions
        size = system.shape[-1] // actions
        middle = xp.concat([xp.ones_like(result.scale[:, None]), result.scaling.centre * result.batch.critic_sees], axis=1)
        shrink = self.critic_penalty * middle[:, :, None] * middle[:, None, :]
        for block in (slice(a * size, (a + 1) * size) for a in range(1, actions)):
            free = result.penalty[:, block][:, :1, None] == 0
            system[:, block, block] += xp.where(free, shrink, 0.0)
        return system

    def learn_rule(self, result: CriticResult) -> tuple[DecisionRule, Array]:
        noise = estimate_noise(result)
        advantage = result.ahead or result.immediate_advantage(self._system(result), noise * measure_widening(result))
        return ALLOCATIONS[self.allocation](self, advantage, noise), result.fit.converged

    def check_names(self, state: Sequence[str], actions: Sequence[str]) -> None:
        super().check_names(state, actions)
        self.place_prior(state, actions)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_prior(self.prior or {})
        if self.prior and find_horizon(self.horizon).looks_ahead:
            raise InputError(
                "prior: it is about the next outcome, and a look ahead also learns what the next state will be; leave the "
                "prior out or use horizon = 'immediate'"
            )
        if self.prior and self.random_walk is not None:
            raise InputError("prior: it is of a population whose people do not change; leave the prior or random_walk out")
        if self.allocation not in ALLOCATIONS:
            near = did_you_mean(str(self.allocation), ALLOCATIONS)
            raise InputError(f"allocation is {self.allocation!r}{near}; choose from {list(ALLOCATIONS)}")
        low, high = self.smooth_minimum, self.smooth_maximum
        if not 0 <= low < high <= 1:
            raise InputError(f"smooth_minimum {low} must be below smooth_maximum {high}, both between 0 and 1")
        least, most = EXPONENTS
        if not least <= self.smooth_exponent <= most:
            raise InputError(f"smooth_exponent is {self.smooth_exponent}; it must be between {least:g} and {most:g}")


def _where_given(given: Array, otherwise: Array) -> Array:
    """A prior of infinite scale is none: there the penalty stays."""
    xp = array_namespace(otherwise)
    return xp.where(given > 0, given, otherwise)


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


def _allocate_to_best(method: PosteriorSampler, advantage: Advantage, noise: Array) -> DecisionRule:
    return PosteriorSampling(advantage.mean, advantage.covariance)


def _allocate_smoothly(method: PosteriorSampler, advantage: Advantage, noise: Array) -> DecisionRule:
    if advantage.mean.shape[1] > 1:
        raise InputError(
            "allocation = 'smooth' weighs one effect, so it is for two actions; with more use allocation = 'best' and keep "
            "probabilities in their limits by [probability_limits]"
        )
    xp = array_namespace(noise)
    ones = xp.ones_like(noise)
    curve = (method.smooth_minimum, method.smooth_maximum, method.smooth_offset)
    steepness = method.smooth_steepness / xp.where(noise > 0, noise, 1.0)
    parts = [*(value * ones for value in curve), steepness, method.smooth_exponent * ones]
    return SmoothAllocation(advantage.mean, advantage.covariance, xp.stack(parts, axis=-1))


ALLOCATIONS: dict[str, Callable[[PosteriorSampler, Advantage, Array], DecisionRule]] = {
    "best": _allocate_to_best,
    "smooth": _allocate_smoothly,
}
"""How a posterior becomes probabilities."""
