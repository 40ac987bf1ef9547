"""The paper's critic: least squares whose squared residuals are capped."""

from dataclasses import dataclass
from operator import itemgetter
from statistics import NormalDist
from typing import ClassVar

from array_api_compat import device

from surefoot.learning.batch import Batch
from surefoot.learning.critics.critic import (
    CriticFit,
    Removal,
    RemovingCritic,
    join_rewards,
    joined_residuals,
    register_critic,
    solve_ridge,
    weighted_moments,
)
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.masked_quantiles import quantiles

BOXPLOT_FACTOR = 1.5
FIRST_QUARTILE = NormalDist().inv_cdf(0.625) ** 2
THIRD_QUARTILE = NormalDist().inv_cdf(0.875) ** 2
NORMAL_CAP = (THIRD_QUARTILE + BOXPLOT_FACTOR * (THIRD_QUARTILE - FIRST_QUARTILE)) ** 0.5
"""The cap in standard deviations of normal noise, from the quartiles of its square."""


def boxplot_threshold(squared_residuals: Array, rewards: Array, weights: Array, tau: float) -> Array:
    """ε = τ (q₃ + 1.5 (q₃ − q₁)) over each participant's usable squared residuals, (people,).

    Residuals below 1e-13 of the largest reward are rounding, not information: ε never falls below their square, so that a
    perfect fit keeps its decision points.
    """
    xp = array_namespace(squared_residuals)
    usable = weights > 0
    first, third = quantiles(squared_residuals, usable, (0.25, 0.75))
    # A participant with no usable decision point has quartiles of +∞, and so no cap.
    fence = third + BOXPLOT_FACTOR * (third - xp.where(xp.isfinite(first), first, xp.zeros_like(first)))
    largest = xp.max(xp.abs(rewards) * weights, axis=1)
    rounding = (1e-13 * largest) ** 2 + float(xp.finfo(rewards.dtype).smallest_normal)
    return xp.maximum(tau * fence, rounding)


def fit_capped(
    features: Array,
    rewards: Array,
    weights: Array,
    *,
    penalty: Array,
    arms: int = 1,
    tau: float = 1.0,
    refresh_threshold: bool = False,
    max_iter: int = 1000,
) -> CriticFit:
    """Minimise Σ min{(r − xᵀw)², ε} + ζ‖w‖² by dropping decision points beyond ε and fitting again.

    With ε held at its first value the objective cannot rise and the loop ends. With `refresh_threshold` ε follows every fit;
    that can cycle, and who is caught (Brent: weights remembered at every power of two) goes on with ε as it then is.
    """
    xp = array_namespace(features)
    joined = join_rewards(features, rewards)
    v = weights
    zeta = penalty + xp.zeros_like(features[:, 0, :])
    w, squares, squared = _fit_weighted(joined, v, zeta, arms)
    epsilon = boxplot_threshold(squared, rewards, v, tau)
    u = xp.where(squared < epsilon[:, None], v, 0.0)
    active = xp.arange(w.shape[0], device=device(w))
    result = CriticFit(*map(xp.empty_like, (w, squares, u, epsilon, active, active < 0)))
    remembered = u
    refreshing = xp.full(w.shape[0], refresh_threshold, dtype=xp.bool, device=device(w))
    for iteration in range(2, max_iter + 1):
        w, squares, squared = _fit_weighted(joined, u, zeta, arms)
        if refresh_threshold:
            epsilon = xp.where(refreshing, boxplot_threshold(squared, joined[:, 0, :], v, tau), epsilon)
        inside = xp.where(squared < epsilon[:, None], v, 0.0)
        changed = xp.any(inside != u, axis=1)
        if refresh_threshold:
            refreshing = refreshing & xp.any(inside != remembered, axis=1)
            remembered = inside if iteration & (iteration - 1) == 0 else remembered
        if xp.any(~changed):
            fit = CriticFit(w, squares, u, epsilon, xp.full_like(active, iteration), ~changed)
            result.record(active[~changed], fit.of(~changed))
            still_changing = itemgetter(changed)
            active, joined, v, w, inside, epsilon, zeta = map(still_changing, (active, joined, v, w, inside, epsilon, zeta))
            if refresh_threshold:
                remembered = remembered[changed]
                refreshing = refreshing[changed]
            if not active.shape[0]:
                return result
        u = inside
    squares = weighted_moments(joined, u, arms)[0]
    result.record(active, CriticFit(w, squares, u, epsilon, xp.full_like(active, max_iter), active < 0))
    return result


def _fit_weighted(joined: Array, weights: Array, penalty: Array, arms: int) -> tuple[Array, Array, Array]:
    """Ridge coefficients, XᵀUX and the squared residuals of every decision point."""
    coef, squares = solve_ridge(joined, weights, penalty, arms)
    return coef, squares, joined_residuals(joined, coef) ** 2


@register_critic
@dataclass(frozen=True)
class Capped(RemovingCritic):
    """Minimises Σ min{(r − xᵀw)², ε} + ζ‖w‖² with ε = τ (q₃ + 1.5 (q₃ − q₁)) of the squared residuals of ridge."""

    name: ClassVar[str] = "capped"
    title: ClassVar[str] = "the paper's cap"
    removal: ClassVar[Removal] = Removal("the cap", unit="caps", normal_share=2 * NormalDist().cdf(-NORMAL_CAP))
    refresh_threshold: bool = False
    """Compute ε anew from the residuals of every fit, not only of the first."""

    def judge_residuals(self, residuals: Array, present: Array) -> Array:
        """The next state as a whole: ε of the sum over its variables of squared residuals, each in its own mean square."""
        xp = array_namespace(residuals)
        u = xp.astype(present, residuals.dtype)
        count = xp.maximum(xp.sum(u, axis=1), xp.ones_like(u[:, 0]))
        squares = residuals**2 * u[..., None]
        typical = xp.sum(squares, axis=1) / count[:, None]
        total = xp.sum(squares / xp.where(typical > 0, typical, 1.0)[:, None, :], axis=-1)
        return present & (total < boxplot_threshold(total, xp.sqrt(total), u, self.tau)[:, None])

    def fit(self, batch: Batch) -> CriticFit:
        return fit_capped(
            *(batch.features, batch.reward, batch.weights),
            penalty=batch.penalty,
            arms=batch.arms,
            tau=self.tau,
            refresh_threshold=self.refresh_threshold,
        )
