"""The search for Ψ: where the restricted likelihood of people who differ is highest, and between which limits it may lie.

A few steps of EM, λ ← mean of b² and what is not known of it, are quick while Ψ is far too small. Newton's method, which
follows, is quick at the end, and on the boundary, where people do not differ in a coefficient and EM would crawl.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.moments import Moments
from surefoot.learning.pooling.mixed_effects import Likelihood, LikelihoodPoint, Posterior
from surefoot.numerics.arrays import Array, array_namespace

LEAST = 1e-12
MOST = 1e8
"""λ = ψ / σ², counted in what one participant's decision points tell of a coefficient, is searched between these: at the
first people do not differ, at the second they have nothing in common."""
EM_STEPS = 3
NEWTON_STEPS = 100
FULL_STEPS = 2000
NOISE_ROUNDS = 50
SETTLED = 1e-9
"""With a prior σ² is found when a round changes it by less than this share."""
LEAST_FULL = 1e-4
"""The least diagonal of a full L: with a smaller one its deviance is rounding."""
PROMISED = 1e-9
"""The search ends after a step that promised less than this of the deviance."""
CUT = 3.841458820694124
"""The 95 % point of χ² with one degree of freedom."""
FLAT = 1e-10
"""A deviance that changes by less when λ is multiplied by e tells nothing of it."""


@dataclass(frozen=True, eq=False)
class SpreadIntervals:
    """By how much people differ in every coefficient, with 95 % intervals; intercepts at the mean state, (d,)."""

    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def fit_mixed_effects(
    moments: Moments,
    penalty: Array,
    *,
    response: int = 0,
    basis: Array | None = None,
    correlated: bool = False,
    variance_left: float = 1.0,
    prior: tuple[Array, Array] | None = None,
) -> Posterior:
    """β, Ψ, σ² and everybody's coefficients, from everybody's moments.

    Parameters
    ----------
    moments
        Of every participant; who has no decision points is believed to be like somebody new.
    penalty
        ζ of β, (d,).
    response
        Which of the moments' responses.
    basis
        (d, d): in these columns, a linear transformation of the moments', Ψ is diagonal. By default in their own.
    correlated
        Whether Ψ is full. With 50 people a diagonal one is closer to the truth.
    variance_left
        The share of the noise's variance that the critic left, where it cuts into noise without outliers.
    prior
        Mean and standard deviation of every coefficient of β, (d,) each; +∞: nothing is known of it but ζ.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.ones((200, 20, 1))
    >>> y = 5 + 2 * rng.standard_normal((200, 1, 1)) + rng.standard_normal((200, 20, 1))
    >>> found = fit_mixed_effects(Moments.of_rows(x, y, np.ones((200, 20))), np.zeros(1))
    >>> found.population.round(1), found.spread.round(1), round(found.noise, 1)
    (array([5.]), array([[3.6]]), 1.0)
    """
    xp = array_namespace(moments.gram)
    if basis is None:
        basis = xp.eye(moments.gram.shape[-1], dtype=moments.gram.dtype)
    if prior is None:
        optimum = _search(Likelihood.of_moments(moments, response, penalty, basis, variance_left), correlated)
        return _make_posterior(*optimum)
    return _fit_with_prior(moments, response, (penalty, basis, variance_left), correlated, prior)


def _search(likelihood: Likelihood, correlated: bool) -> tuple[LikelihoodPoint, int, bool]:
    """The best L, diagonal or full, how many were tried, and whether the search ended."""
    best, steps, converged = search_spread(likelihood)
    if not correlated or likelihood.people < 2:
        return best, steps, converged
    best, full_steps, converged = _search_full(likelihood, best)
    return best, steps + full_steps, converged


def _make_posterior(best: LikelihoodPoint, steps: int, converged: bool) -> Posterior:
    least = best.root**2 <= LEAST if best.root.ndim == 1 else best.root[0, :] != best.root[0, :]
    return best.posterior(steps, converged, least)


def _fit_with_prior(
    moments: Moments,
    response: int,
    data: tuple[Array, Array, float],
    correlated: bool,
    prior: tuple[Array, Array],
) -> Posterior:
    """In deviations from the prior's mean, where it is a penalty σ² / s²: Ψ and σ² in turn, until σ² stays."""
    mean, scale = prior
    given = moments
    moments = moments.subtract(mean[:, None])
    best, steps, _ = _search(Likelihood.of_moments(moments, response, *data), correlated)
    noise = best.noise
    settled = False
    for _ in range(NOISE_ROUNDS):
        likelihood = Likelihood.of_moments(moments, response, *data, prior=(1 / scale**2, noise))
        best, round_steps, converged = _search(likelihood, correlated)
        steps = steps + round_steps
        before = noise
        noise = best.estimate_noise()
        settled = converged and abs(noise - before) <= SETTLED * noise
        if settled:
            break
    posterior = _make_posterior(best, steps, settled)
    likelihood_of_moments = replace(posterior.likelihood, moments=given)
    return replace(
        posterior, population=posterior.population + mean, mean=posterior.mean + mean, likelihood=likelihood_of_moments
    )


def search_spread(
    likelihood: Likelihood, held: NDArray[np.float64] | None = None, start: NDArray[np.float64] | None = None
) -> tuple[LikelihoodPoint, int, bool]:
    """The diagonal of L with the lowest deviance, how many were tried, and whether the search ended.

    `held` holds λ where it is not NaN; with a `start` Newton's method begins there.
    """
    informed = np.array([float(likelihood.gram[:, j, j].sum()) > 0 for j in range(likelihood.gram.shape[-1])])
    held = np.full(len(informed), np.nan) if held is None else held
    searched = informed & np.isnan(held) & (likelihood.people > 1)
    now = _at(likelihood, np.where(searched, 1.0 if start is None else start, np.where(np.isnan(held), LEAST, held)))
    for _ in range(EM_STEPS if start is None else 0):
        slope = _to_numpy(now.diagonal_slope())
        scale = _to_numpy(now.root) ** 2
        now = _at(likelihood, np.where(searched, (scale * (1 - slope / likelihood.people)).clip(LEAST, MOST), scale))
    damping = 0.0
    before = np.inf
    for steps in range(EM_STEPS + 1, NEWTON_STEPS):
        scale = _to_numpy(now.root) ** 2
        rounding = now.rounding
        change, promised = _newton_step(now, scale, searched, damping)
        # Where a step is rounding, the next one promises no less.
        if promised < PROMISED**2 or (promised < rounding and promised > before / 2):
            return now, steps, True
        trial = _at(likelihood, np.where(searched, (scale * (1 + change)).clip(LEAST, MOST), scale))
        if trial.deviance <= now.deviance + rounding:
            now = trial
            before = promised
            damping = damping / 16 if damping > 1e-3 else 0.0
            if promised < PROMISED:
                return now, steps, True
        else:
            damping = max(8 * damping, 1e-2)
    return now, NEWTON_STEPS, False


def _newton_step(
    point: LikelihoodPoint, scale: NDArray[np.float64], searched: NDArray[np.bool_], damping: float
) -> tuple[NDArray[np.float64], float]:
    """The step in shares of λ, and how much of the deviance it promises.

    A coefficient at the least or most λ that would leave it stays there (Bertsekas, 1982).
    """
    slope = _to_numpy(point.diagonal_slope())
    exact, average = (_to_numpy(part) for part in point.curvature())
    change = np.zeros_like(scale)
    moving = np.flatnonzero(searched & ~((scale <= LEAST) & (slope >= 0)) & ~((scale >= MOST) & (slope <= 0)))
    if not moving.size or (np.abs(slope[moving]) < FLAT * (scale[moving] > LEAST)).all():
        return change, 0.0
    downhill = -slope[moving]
    for curvature in (exact, average):
        system = curvature[np.ix_(moving, moving)]
        width = np.sqrt(np.maximum(np.diagonal(system), 1e-30 * np.abs(np.diagonal(average)[moving]) + 1e-60))
        system = system / (width[:, None] * width) + damping * np.eye(len(moving))
        values, vectors = np.linalg.eigh(system)
        if values[0] > 1e-8 or curvature is average:
            turned = vectors.T @ (downhill / width)
            change[moving] = vectors @ (turned / np.maximum(values, 1e-8)) / width
            break
    taken = np.maximum(change, -1.0)
    return change, float(np.abs(taken[moving] * downhill).sum())


def _search_full(likelihood: Likelihood, start: LikelihoodPoint) -> tuple[LikelihoodPoint, int, bool]:
    """L in full, from the best diagonal one, by the slope of the deviance alone."""
    from scipy.optimize import minimize

    xp = array_namespace(likelihood.gram)
    d = likelihood.gram.shape[-1]
    places = np.tril_indices(d)
    first = np.diag(np.maximum(_to_numpy(start.root), 1e-3))

    def fill(values: NDArray[np.float64]) -> NDArray[np.float64]:
        root = np.zeros((d, d))
        root[places] = values
        return root

    def deviance(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        root = fill(values)
        optimum = likelihood.at(xp.asarray(root))
        slope = 2 * np.linalg.solve(root.T, _to_numpy(optimum.slope()))
        return optimum.deviance, np.asarray(slope[places], dtype=np.float64)

    bounds = [(LEAST_FULL, None) if row == column else (None, None) for row, column in zip(*places, strict=True)]
    options = {"maxiter": FULL_STEPS, "maxfun": 2 * FULL_STEPS, "ftol": 1e-12, "gtol": 1e-6, "maxcor": 50}
    optimum = minimize(deviance, first[places], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return likelihood.at(xp.asarray(fill(optimum.x))), int(optimum.nfev), bool(optimum.success)


def profile_spread(posterior: Posterior) -> SpreadIntervals:
    """Standard deviations between people with intervals of the profile likelihood, for a diagonal Ψ.

    ψ is in the interval if some σ², β and other ψ make −2 log likelihood less than the 95 % point of χ²₁ worse than at
    best. σ², which is known far better, stays as it is.
    """
    likelihood = posterior.likelihood
    best = search_spread(likelihood)[0]
    scale = _to_numpy(best.root) ** 2
    d = likelihood.gram.shape[-1]
    informed = np.array([float(likelihood.gram[:, j, j].sum()) > 0 for j in range(d)])
    ends = np.zeros((2, d))
    for j in np.flatnonzero(informed) if likelihood.people > 1 else ():
        ends[:, j] = _profile_ends(likelihood, best, int(j))
    unit = best.noise**0.5 * np.abs(np.diagonal(_to_numpy(likelihood.basis)))
    return SpreadIntervals(unit * np.sqrt(np.where(scale > LEAST, scale, 0.0)), *(unit * np.sqrt(ends)))


def _profile_ends(likelihood: Likelihood, best: LikelihoodPoint, coefficient: int) -> tuple[float, float]:
    """The least and the largest λ of one coefficient that the data do not exclude."""
    from scipy.optimize import brentq

    scale = _to_numpy(best.root) ** 2
    start = np.log(max(scale[coefficient], 1e-4))

    def excess(logarithm: float) -> float:
        held = np.full(len(scale), np.nan)
        held[coefficient] = np.exp(logarithm)
        return search_spread(likelihood, held, scale)[0].deviance - best.deviance - CUT

    low, high = np.log(LEAST), start + 1.0
    while excess(high) < 0 and high < np.log(MOST):
        high += 1.0
    upper = np.exp(brentq(excess, start, high, xtol=1e-3)) if excess(high) > 0 else np.inf
    if scale[coefficient] <= LEAST or excess(low) < 0:
        return 0.0, float(upper)
    while excess(start - 1.0) < 0:
        start -= 1.0
    return float(np.exp(brentq(excess, start - 1.0, start, xtol=1e-3))), float(upper)


def _at(likelihood: Likelihood, scale: NDArray[np.float64]) -> LikelihoodPoint:
    return likelihood.at(array_namespace(likelihood.gram).asarray(np.sqrt(scale)))


def _to_numpy(values: Array) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)
