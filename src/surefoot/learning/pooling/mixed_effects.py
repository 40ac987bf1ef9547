"""Coefficients that differ between people: restricted maximum likelihood from each participant's moments.

    y = x(s, a)ᵀ wᵢ + noise of variance σ²,   wᵢ = β + bᵢ,   bᵢ ~ N(0, Ψ)

With Ψ = σ² L Lᵀ all is computed in coordinates in which bᵢ has the covariance σ² I: S = Lᵀ XᵀUX L and m = Lᵀ XᵀUy of a
participant give

    M = I + S,   W = S M⁻¹,   A = Σ W + ζ,   β = A⁻¹ Σ M⁻¹m,   bᵢ = M⁻¹m − W β
    σ² = (Σ yᵀUy − mᵀM⁻¹m − βᵀ Σ M⁻¹m) / (N − d)
    −2 log likelihood = Σ log det M + log det A + (N − d) log σ²  (Laird and Ware, 1982; Patterson and Thompson, 1971)

and wᵢ has the posterior covariance σ² (M⁻¹ + M⁻¹ A⁻¹ M⁻¹), of which the second part is what is not known of β.

A prior β ~ N(0, s²), s in units of the outcome, adds σ² / s² to ζ, which is held while Ψ is searched; then σ² is

    σ² = (Σ yᵀUy − mᵀM⁻¹m − βᵀ Σ M⁻¹m − βᵀ(σ²/s²)β) / (N − d + tr A⁻¹ σ²/s²)

where the derivative of the likelihood of y alone, β integrated out, is zero.

The search for Ψ: a few steps of EM, λ ← mean of b² and what is not known of it, are quick while Ψ is far too small. Newton's
method, which follows, is quick at the end, and on the boundary, where people do not differ in a coefficient and EM would
crawl.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, gram, split_people
from surefoot.numerics.batched_cholesky import invert, invert_definite, solve

ROUNDING = 1e-14
"""A residual sum of squares below this share of Σ y² is rounding."""
NOTHING = 1e-12
"""A column whose square is less than this share of what it was before it was centred is constant."""
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


@dataclass(frozen=True)
class Moments(PerParticipant):
    """XᵀUX, XᵀUY and YᵀUY of each participant."""

    gram: Array
    """XᵀUX, (people, d, d). Its first row counts: [0, 0] the decision points, [0, a·k] those with action a."""
    cross: Array
    """XᵀUY, (people, d, responses)."""
    squares: Array
    """YᵀUY, (people, responses, responses)."""

    @classmethod
    def of_rows(cls, features: Array, responses: Array, weights: Array) -> Moments:
        """From x (people, decision points, d), Y (…, responses) and a weight for each decision point."""
        xp = array_namespace(features)
        weighted = xp.matrix_transpose(responses * weights[..., None])
        return cls(gram(features, weights), xp.matrix_transpose(weighted @ features), weighted @ responses)

    def total(self) -> Moments:
        """Everybody's together, as one unit."""
        return Moments(*(np.sum(part, axis=0, keepdims=True) for part in vars(self).values()))

    def subtract(self, coef: Array) -> Moments:
        """Of the same decision points with Y − X w instead of Y; `coef` is w, (d, responses)."""
        cross = self.cross - self.gram @ coef
        return Moments(self.gram, cross, self.squares - coef.T @ self.cross - np.swapaxes(cross, 1, 2) @ coef)

    @property
    def count(self) -> Array:
        """How many decision points each participant has, (people,)."""
        return self.gram[:, 0, 0]

    def solve(self, penalty: Array) -> tuple[Array, Array]:
        """Ridge coefficients (units, d, responses) and (XᵀUX + ζ)⁻¹; `penalty` is ζ, (d,)."""
        xp = array_namespace(self.gram)
        eye = xp.eye(self.gram.shape[-1], dtype=self.gram.dtype, device=device(self.gram))
        system = self.gram + penalty * eye
        return solve(system, self.cross)[0], solve(system, xp.broadcast_to(eye, system.shape))[0]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of one output's coefficients: of the population, and of every participant."""

    population: Array
    """β, (d,)."""
    population_covariance: Array
    """Of β̂, (d, d)."""
    spread: Array
    """Ψ, (d, d): how people differ."""
    noise: float
    """σ²."""
    mean: Array
    """wᵢ, (people, d)."""
    covariance: Array
    """Of wᵢ, (people, d, d), Ψ and σ² taken as known."""
    deviance: float
    """−2 log restricted likelihood, but for a constant."""
    n_iter: int
    converged: bool
    likelihood: Likelihood
    """What it was found from."""
    walk: float = 0.0
    """q: by which share of Ψ a participant's coefficients vary from one decision point to the next; `mean` is the last."""

    @property
    def new_covariance(self) -> Array:
        """Of the coefficients of somebody of whom nothing is known, (d, d): Ψ, and what is not known of β."""
        return self.spread + self.population_covariance


def _times(values: Array, root: Array) -> Array:
    """Rows times L, which is diag(root) or the matrix itself."""
    return values * root if root.ndim == 1 else values @ root


def _between(matrix: Array, root: Array) -> Array:
    """Lᵀ M L."""
    return matrix * (root[:, None] * root) if root.ndim == 1 else root.T @ matrix @ root


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The restricted likelihood of one output as a function of L, in columns of one participant's information each."""

    gram: Array
    """XᵀUX, (people, d, d)."""
    cross: Array
    """XᵀUy, (people, d)."""
    squares: float
    """Σ yᵀUy."""
    free: float
    """N − d."""
    penalty: Array
    """ζ, (d, d)."""
    basis: Array
    """(d, d): columns of these coordinates in those of the moments."""
    moments: Moments
    prior: Array | None = None
    """The part of ζ that is σ² / s² of a prior, (d, d)."""
    held_noise: float | None = None
    """σ², where it is not the best for every L, because ζ depends on it."""

    @classmethod
    def of_moments(
        cls,
        moments: Moments,
        response: int,
        penalty: Array,
        basis: Array,
        variance_left: float = 1.0,
        *,
        prior: tuple[Array, float] | None = None,
    ) -> Likelihood:
        """Of one response; `penalty` is ζ, (d,), `basis` says in which columns Ψ is diagonal, and `prior` holds 1 / s² of
        every coefficient and σ².

        Where outliers were cut off, the rest tells of too little noise, and Ψ would absorb what is missing: everybody's own
        residual sum of squares is divided by the square of the share of the variance that was left.
        """
        gram = basis.T @ moments.gram @ basis
        size = np.diagonal(np.sum(gram, axis=0))
        largest = np.diagonal(np.abs(basis.T) @ np.abs(np.sum(moments.gram, axis=0)) @ np.abs(basis))
        informed = size > NOTHING * largest
        given = (basis.T * (np.zeros_like(penalty) if prior is None else prior[0] * prior[1])) @ basis
        # A prior may inform coefficients on which the data are silent.
        size = np.where(informed, size, np.diagonal(given))
        informed = informed | (np.diagonal(given) > 0)
        people = max(int(np.count_nonzero(moments.count)), 1)
        scale = np.where(informed, np.sqrt(people / np.where(informed, size, 1.0)), 0.0)
        basis = basis * np.where(informed, scale, 1.0)
        shrink = (basis.T * penalty) @ basis * (informed[:, None] & informed)
        given = _between(given, scale)
        squares = float(np.sum(moments.squares[:, response, response]))
        if variance_left < 1:
            coefficients = moments.solve(penalty)[0][:, :, response]
            left = squares - float(np.sum(coefficients * moments.cross[:, :, response]))
            squares += (1 / variance_left**2 - 1) * left
        return cls(
            gram=_between(gram, scale),
            cross=(basis.T @ moments.cross[:, :, response, None])[..., 0] * informed,
            squares=squares,
            free=max(float(np.sum(moments.count)) - float(np.sum(informed)), 1.0),
            penalty=shrink + given,
            basis=basis,
            moments=moments,
            prior=None if prior is None else given,
            held_noise=None if prior is None else prior[1],
        )

    @property
    def people(self) -> int:
        """Those with decision points."""
        return int(np.any(self.gram != 0, axis=(1, 2)).sum())

    def at(self, root: Array) -> LikelihoodPoint:
        """At L = diag(root), or at L itself, (d, d)."""
        cross = _times(self.cross, root)
        inverse = np.empty_like(self.gram)
        reliability = np.empty_like(self.gram)
        log_determinant = np.empty(len(self.gram))
        d = self.gram.shape[-1]
        for people in split_people(self.gram, d**2):
            inner = _between(self.gram[people], root)
            inverse[people], log_determinant[people] = invert_definite(np.eye(d) + inner)
            reliability[people] = inner @ inverse[people]
        right = (inverse @ cross[..., None])[..., 0]
        systems, log_determinants = invert((np.sum(reliability, axis=0) + _between(self.penalty, root))[None])
        system = systems[0]
        pull = np.sum(right, axis=0)
        beta = system @ pull
        left = self.squares - float(np.sum(cross * right)) - float(np.sum(pull * beta))
        left = max(left, ROUNDING * self.squares, float(np.finfo(np.float64).tiny))
        noise = left / self.free if self.held_noise is None else self.held_noise
        # log det A is that of these coordinates; columns that were dropped have no part in it.
        lengths = (root if root.ndim == 1 else np.diagonal(root))[np.diagonal(system) > 0]
        noise_term = self.free * float(np.log(noise)) if self.held_noise is None else left / noise
        deviance = (
            float(np.sum(log_determinant)) + float(log_determinants[0]) - 2 * float(np.log(lengths).sum()) + noise_term
        )
        return LikelihoodPoint(
            self, root, inverse, reliability, right - reliability @ beta, system, beta, noise, deviance, left
        )


@dataclass(frozen=True, eq=False)
class LikelihoodPoint:
    """The likelihood at one L, in coordinates in which bᵢ has the covariance σ² I."""

    likelihood: Likelihood
    root: Array
    inverse: Array
    """M⁻¹, (people, d, d)."""
    reliability: Array
    """W, (people, d, d)."""
    deviation: Array
    """bᵢ, (people, d)."""
    system: Array
    """A⁻¹, (d, d)."""
    beta: Array
    noise: float
    deviance: float
    left: float
    """σ² times the sum of squares that is left, in units of its own covariance, with what ζ adds."""

    @property
    def scale(self) -> NDArray[np.float64]:
        """λ of a diagonal L."""
        return np.asarray(self.root**2)

    def estimate_noise(self) -> float:
        """The best σ² for this L, and this β, with the part of ζ that a prior has."""
        prior = _between(self.likelihood.prior, self.root)
        paid = float(np.sum(self.beta * (prior @ self.beta)))
        return (self.left - paid) / (self.likelihood.free + float(np.sum(self.system * prior)))

    def slope(self) -> Array:
        """Of the deviance in L Lᵀ, at I of these coordinates: Σ W − W A⁻¹ W − b bᵀ / σ², (d, d)."""
        d = self.reliability.shape[-1]
        explained = (self.system @ self.reliability).reshape(-1, d).T @ self.reliability.reshape(-1, d)
        return np.sum(self.reliability, axis=0) - explained - self.deviation.T @ self.deviation / self.noise

    def diagonal_slope(self) -> Array:
        """The diagonal of `slope`, for less."""
        total = -np.sum(self.deviation**2, axis=0) / self.noise
        for people in split_people(self.reliability, self.reliability.shape[-1] ** 2):
            w = self.reliability[people]
            total = total + np.diagonal(np.sum(w, axis=0)) - np.sum(np.sum((w @ self.system) * w, axis=2), axis=0)
        return total

    def curvature(self) -> tuple[Array, Array]:
        """Second derivatives of the deviance in λ, times λλᵀ, (d, d), and a positive semi-definite stand-in (the average
        information of Gilmour, Thompson and Cullis, 1995)."""
        d = self.reliability.shape[-1]
        rows = np.swapaxes(self.reliability, 0, 1)
        between = self.system @ (np.swapaxes(rows, 1, 2) @ rows)
        expected = between.reshape(d, d * d) @ np.swapaxes(between, 1, 2).reshape(d, d * d).T
        quadratic = np.zeros((d, d))
        pulled = np.zeros((d, d))
        for people in split_people(self.reliability, d**2):
            w = self.reliability[people]
            off = self.deviation[people]
            expected = expected + np.sum(w * (w - 2 * (w @ self.system @ w)), axis=0)
            pull = w * off[:, None, :]
            pulled += np.sum(pull, axis=0)
            quadratic += np.sum(pull * off[:, :, None], axis=0)
        average = (quadratic - pulled.T @ self.system @ pulled) / self.noise
        exact = 2 * average - expected
        if self.likelihood.held_noise is not None:
            return exact, average
        squares = np.sum(self.deviation**2, axis=0) / self.noise
        noise_term = squares[:, None] * squares / self.likelihood.free
        return exact - noise_term, average - noise_term

    def posterior(self, n_iter: int, converged: bool) -> Posterior:
        """In the coordinates of the moments; where λ is the least that is searched, Ψ is zero."""
        transform = _times(self.likelihood.basis, self.root)
        differs = transform * (self.scale > LEAST) if self.root.ndim == 1 else transform
        return Posterior(
            population=transform @ self.beta,
            population_covariance=self.noise * (transform @ self.system @ transform.T),
            spread=self.noise * (differs @ differs.T),
            noise=self.noise,
            mean=(self.beta + self.deviation) @ transform.T,
            covariance=self.noise * (transform @ (self.inverse + self.inverse @ self.system @ self.inverse) @ transform.T),
            deviance=self.deviance,
            n_iter=n_iter,
            converged=converged,
            likelihood=self.likelihood,
        )


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

    `penalty` is ζ of β, (d,). Ψ is diagonal in the columns of `basis` (d, d), or full if `correlated`; with 50 people a
    diagonal one is closer to the truth. `variance_left` is the share of the noise's variance that the critic left, where it
    cuts into noise without outliers. `prior` holds mean and standard deviation of every coefficient of β, +∞ where nothing
    is known of it but ζ. A participant without decision points is believed to be like somebody new.

    >>> rng = np.random.default_rng(0)
    >>> x = np.ones((200, 20, 1))
    >>> y = 5 + 2 * rng.standard_normal((200, 1, 1)) + rng.standard_normal((200, 20, 1))
    >>> found = fit_mixed_effects(Moments.of_rows(x, y, np.ones((200, 20))), np.zeros(1))
    >>> found.population.round(1), found.spread.round(1), round(found.noise, 1)
    (array([5.]), array([[3.6]]), 1.0)
    """
    data = (response, penalty, np.eye(moments.gram.shape[-1]) if basis is None else basis, variance_left)
    if prior is None:
        best, steps, converged = _search(Likelihood.of_moments(moments, *data), correlated)
        return best.posterior(steps, converged)
    # In deviations from its mean a prior is a penalty σ² / s²: Ψ and σ² in turn, until σ² stays.
    mean, scale = prior
    deviations = moments.subtract(mean[:, None])
    best, steps, _ = _search(Likelihood.of_moments(deviations, *data), correlated)
    noise = best.noise
    for _ in range(NOISE_ROUNDS):
        likelihood = Likelihood.of_moments(deviations, *data, prior=(1 / scale**2, noise))
        best, round_steps, converged = _search(likelihood, correlated)
        steps = steps + round_steps
        before = noise
        noise = best.estimate_noise()
        settled = converged and abs(noise - before) <= SETTLED * noise
        if settled:
            break
    posterior = best.posterior(steps, settled)
    return replace(
        posterior,
        population=posterior.population + mean,
        mean=posterior.mean + mean,
        likelihood=replace(posterior.likelihood, moments=moments),
    )


def _search(likelihood: Likelihood, correlated: bool) -> tuple[LikelihoodPoint, int, bool]:
    """The best L, diagonal or full, how many were tried, and whether the search ended."""
    best, steps, converged = search_spread(likelihood)
    if not correlated or likelihood.people < 2:
        return best, steps, converged
    # L in full, from the best diagonal one, by the slope of the deviance alone.
    from scipy.optimize import minimize

    d = likelihood.gram.shape[-1]
    lower = np.tril_indices(d)

    def fill(values: NDArray[np.float64]) -> NDArray[np.float64]:
        root = np.zeros((d, d))
        root[lower] = values
        return root

    def deviance(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        root = fill(values)
        point = likelihood.at(root)
        return point.deviance, np.asarray(2 * np.linalg.solve(root.T, point.slope())[lower], dtype=np.float64)

    first = np.diag(np.maximum(best.root, 1e-3))[lower]
    bounds = [(LEAST_FULL, None) if row == column else (None, None) for row, column in zip(*lower, strict=True)]
    options = {"maxiter": FULL_STEPS, "maxfun": 2 * FULL_STEPS, "ftol": 1e-12, "gtol": 1e-6, "maxcor": 50}
    optimum = minimize(deviance, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return likelihood.at(fill(optimum.x)), steps + int(optimum.nfev), bool(optimum.success)


def search_spread(
    likelihood: Likelihood, held: NDArray[np.float64] | None = None, start: NDArray[np.float64] | None = None
) -> tuple[LikelihoodPoint, int, bool]:
    """The diagonal of L with the lowest deviance, how many were tried, and whether the search ended.

    `held` holds λ where it is not NaN; with a `start` Newton's method begins there.
    """
    informed = np.diagonal(np.sum(likelihood.gram, axis=0)) > 0
    held = np.full(len(informed), np.nan) if held is None else held
    searched = informed & np.isnan(held) & (likelihood.people > 1)

    def at(scale: NDArray[np.float64]) -> LikelihoodPoint:
        return likelihood.at(np.sqrt(scale))

    now = at(np.where(searched, 1.0 if start is None else start, np.where(np.isnan(held), LEAST, held)))
    for _ in range(EM_STEPS if start is None else 0):
        slope = now.diagonal_slope()
        now = at(np.where(searched, (now.scale * (1 - slope / likelihood.people)).clip(LEAST, MOST), now.scale))
    damping = 0.0
    before = np.inf
    for steps in range(EM_STEPS + 1, NEWTON_STEPS):
        # Differences of the deviance below this are rounding: σ² is a small difference of large sums.
        rounding = 8 * float(np.finfo(np.float64).eps) * (abs(now.deviance) + likelihood.squares / now.noise)
        change, promised = _newton_step(now, searched, damping)
        # Where a step is rounding, the next one promises no less.
        if promised < PROMISED**2 or (promised < rounding and promised > before / 2):
            return now, steps, True
        trial = at(np.where(searched, (now.scale * (1 + change)).clip(LEAST, MOST), now.scale))
        if trial.deviance <= now.deviance + rounding:
            now = trial
            before = promised
            damping = damping / 16 if damping > 1e-3 else 0.0
            if promised < PROMISED:
                return now, steps, True
        else:
            damping = max(8 * damping, 1e-2)
    return now, NEWTON_STEPS, False


def _newton_step(point: LikelihoodPoint, searched: NDArray[np.bool_], damping: float) -> tuple[NDArray[np.float64], float]:
    """The step in shares of λ, and how much of the deviance it promises.

    A coefficient at the least or most λ that would leave it stays there (Bertsekas, 1982).
    """
    scale = point.scale
    slope = point.diagonal_slope()
    exact, average = point.curvature()
    change = np.zeros_like(scale)
    moving = np.flatnonzero(searched & ~((scale <= LEAST) & (slope >= 0)) & ~((scale >= MOST) & (slope <= 0)))
    if not moving.size or (np.abs(slope[moving]) < FLAT * (scale[moving] > LEAST)).all():
        return change, 0.0
    downhill = -slope[moving]
    for curvature in (exact, average):
        system = curvature[np.ix_(moving, moving)]
        width = np.sqrt(np.maximum(np.diagonal(system), 1e-30 * np.abs(np.diagonal(average)[moving]) + 1e-60))
        values, vectors = np.linalg.eigh(system / (width[:, None] * width) + damping * np.eye(len(moving)))
        if values[0] > 1e-8 or curvature is average:
            turned = vectors.T @ (downhill / width)
            change[moving] = vectors @ (turned / np.maximum(values, 1e-8)) / width
            break
    return change, float(np.abs(np.maximum(change, -1.0)[moving] * downhill).sum())


class SpreadIntervals(NamedTuple):
    """By how much people differ in every coefficient, with 95 % intervals; intercepts at the mean state, (d,)."""

    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def profile_spread(posterior: Posterior) -> SpreadIntervals:
    """Standard deviations between people with intervals of the profile likelihood, for a diagonal Ψ.

    ψ is in the interval if some σ², β and other ψ make −2 log likelihood less than the 95 % point of χ²₁ worse than at
    best. σ², which is known far better, stays as it is.
    """
    from scipy.optimize import brentq

    likelihood = posterior.likelihood
    best = search_spread(likelihood)[0]
    scale = best.scale
    ends = np.zeros((2, len(scale)))
    informed = np.diagonal(np.sum(likelihood.gram, axis=0)) > 0
    for coefficient in np.flatnonzero(informed & (likelihood.people > 1)).tolist():

        def excess(logarithm: float, coefficient: int = coefficient) -> float:
            held = np.full(len(scale), np.nan)
            held[coefficient] = np.exp(logarithm)
            return search_spread(likelihood, held, scale)[0].deviance - best.deviance - CUT

        start = np.log(max(scale[coefficient], 1e-4))
        high = start + 1.0
        while excess(high) < 0 and high < np.log(MOST):
            high += 1.0
        ends[1, coefficient] = np.exp(brentq(excess, start, high, xtol=1e-3)) if excess(high) > 0 else np.inf
        if scale[coefficient] > LEAST and excess(np.log(LEAST)) >= 0:
            while excess(start - 1.0) < 0:
                start -= 1.0
            ends[0, coefficient] = np.exp(brentq(excess, start - 1.0, start, xtol=1e-3))
    unit = best.noise**0.5 * np.abs(np.diagonal(likelihood.basis))
    return SpreadIntervals(unit * np.sqrt(np.where(scale > LEAST, scale, 0.0)), *(unit * np.sqrt(ends)))
