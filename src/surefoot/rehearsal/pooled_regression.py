"""Regressions of people who differ, each pulled towards the others as far as the data support it.

All are built on the restricted likelihood of `learning.pooling`: a linear model directly, a logistic or negative binomial
one by penalised quasi-likelihood (Breslow and Clayton, 1993: the linear model of the working response, repeated), and a
normal one with interval-censored values by drawing the values (stochastic EM; Celeux and Diebolt, 1985). Arrays are (people,
decision points, …); a decision point with weight 0 does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import expit, ndtr, ndtri

from surefoot.learning.pooling.mixed_effects import LEAST, Likelihood, Moments, search_spread

Floats = NDArray[np.float64]
Component = TypeVar("Component", bound=Any)
TRACE = 0.01
"""Decision points' worth of pull of every coefficient but the first towards 0."""
PRIOR = 3.0
"""Prior standard deviation of log odds ratios."""
FURTHEST = 8.0
"""Log odds stay within ± this, …"""
LEAP = 1.5
"""… move at most by this at a time, …"""
SETTLED = 0.02
"""… and have settled when they move by less."""
ROUNDS = 25
SWEEPS = 12
TAIL = 1e-12
PILE = 0.02
"""A value with more than this share of all is a pile: its scores are an interval."""
MOST_VALUES = 400
WIDEST_SCORE = 6.0
GRID = 4801
"""Scores are looked up within ± the widest, on a grid of this size."""


@dataclass(frozen=True, eq=False)
class Varying:
    """Coefficients that differ between people, wᵢ, and the models of new people: w = wⱼ + Rⱼ ε, j one of them at random.

    Rⱼ Rⱼᵀ is the uncertainty of wⱼ. New people differ as the old ones do, also where their distribution is skewed, and
    coefficients that go together in one person go together in the new one.
    """

    individual: Floats
    """wᵢ, (d, *people)."""
    models: Floats
    """wⱼ, (d, m)."""
    roots: Floats
    """Rⱼ, (m, d, d)."""

    @classmethod
    def of_posterior(cls, mean: Floats, covariance: Floats) -> Varying:
        """People themselves are the models; (people, d) and (people, d, d)."""
        values, vectors = np.linalg.eigh(covariance)
        return cls(mean.T.copy(), mean.T.copy(), vectors * np.sqrt(values.clip(0))[:, None, :])

    @classmethod
    def normal(cls, population: Floats, spread: Floats) -> Varying:
        """One model; new people lie around it, independently, with these standard deviations."""
        middle = np.asarray(population, dtype=np.float64)[:, None]
        return cls(middle, middle, np.diag(np.asarray(spread, dtype=np.float64))[None])

    @classmethod
    def constant(cls, values: Floats, people: int) -> Varying:
        """The same for everybody."""
        same = np.repeat(np.asarray(values, dtype=np.float64)[:, None], people, axis=1)
        return cls(same, same, np.zeros((people, len(same), len(same))))

    @classmethod
    def stack(cls, blocks: Sequence[Varying]) -> Varying:
        """Blocks of coefficients with independent uncertainty as one."""
        roots = np.stack([block_diag(*person) for person in zip(*(block.roots for block in blocks), strict=True)])
        individual = np.concatenate([block.individual for block in blocks])
        return cls(individual, np.concatenate([block.models for block in blocks]), roots)

    def __len__(self) -> int:
        return len(self.individual)

    @property
    def population(self) -> Floats:
        """The mean over the models, (d,)."""
        return np.asarray(self.models.mean(axis=1))

    @property
    def spread(self) -> Floats:
        """Standard deviations between people, (d,)."""
        return np.asarray(np.sqrt(self.models.var(axis=1) + (self.roots**2).sum(axis=-1).mean(axis=0)))

    def redraw(self, model: NDArray[np.int64], normals: Floats) -> Varying:
        """New people after the given models, (*people), from standard normal numbers (d, *people)."""
        moved = np.einsum("...de,e...->d...", self.roots[model], normals)
        return replace(self, individual=self.models[:, model] + moved)

    def select(self, people: slice) -> Varying:
        """Some of the people; coefficients that are common to all stay."""
        return self if self.individual.shape[-1] == 1 else replace(self, individual=self.individual[..., people])


def list_varying(component: Any) -> dict[str, Varying]:
    """The fields of a component that differ between people."""
    values = {field.name: getattr(component, field.name) for field in fields(component)}
    return {name: value for name, value in values.items() if isinstance(value, Varying)}


def map_varying(component: Component, change: Callable[[Varying], Varying]) -> Component:
    """A component with everything changed that differs between people."""
    return replace(component, **{name: change(value) for name, value in list_varying(component).items()})


@dataclass(frozen=True, eq=False)
class LinearFit:
    """y = xᵀwᵢ + σᵢ ε."""

    coefficients: Varying
    log_noise: Varying
    """log σᵢ, (1, people)."""
    residual: Floats
    """(y − xᵀwᵢ) / σᵢ, NaN where a decision point does not count."""

    @property
    def noise(self) -> Floats:
        """σᵢ, (people, 1)."""
        return np.asarray(np.exp(self.log_noise.individual[0])[:, None])


def fit_linear(x: Floats, y: Floats, weight: Floats, common: Sequence[int] = ()) -> LinearFit:
    """Linear regression with normal noise of everybody's own spread; `common` coefficients do not differ between people."""
    coefficients = _fit_weighted(x, np.where(weight > 0, y, 0.0), weight, common)
    error = np.where(weight > 0, y - predict(x, coefficients), np.nan)
    log_noise = _fit_noise(error)
    return LinearFit(coefficients, log_noise, error / np.exp(log_noise.individual[0])[:, None])


def predict(x: Floats, coefficients: Varying) -> Floats:
    """xᵀwᵢ, (people, decision points)."""
    return np.asarray(np.einsum("ptd,dp->pt", x, coefficients.individual))


def _fit_weighted(x: Floats, y: Floats, weight: Floats, common: Sequence[int], pull: float = 0.0) -> Varying:
    """A linear model; `pull` is the penalty of every coefficient but the first, in addition to a trace of one."""
    x = np.where(weight[..., None] > 0, x, 0.0)
    trace = TRACE * np.maximum((weight[..., None] * x**2).sum(axis=(0, 1)) / weight.sum(), TAIL)
    penalty = np.concatenate([[0.0], trace[1:] + pull])
    likelihood = Likelihood.of_moments(Moments.of_rows(x, y[..., None], weight), 0, penalty, np.eye(x.shape[-1]))
    held = np.full(x.shape[-1], np.nan)
    held[list(common)] = LEAST
    best, steps, converged = search_spread(likelihood, held)
    posterior = best.posterior(steps, converged)
    # The uncertainty of a person given the population: the population's uncertainty would be the same for all.
    scaled = likelihood.basis * best.root
    return Varying.of_posterior(np.asarray(posterior.mean), np.asarray(best.noise * (scaled @ best.inverse @ scaled.T)))


def _fit_noise(error: Floats) -> Varying:
    """log σᵢ of everybody, pulled towards the mean as far as chance alone makes them differ."""
    count = (~np.isnan(error)).sum(axis=1)
    pooled = float(np.sqrt(np.nanmean(error**2)))
    if not pooled > 0:
        return Varying.constant(np.array([-np.inf]), len(error))
    square = np.nansum(error**2, axis=1) / np.maximum(count - 1, 1)
    # log s has the variance (kurtosis − 1) / 4n, and lies below log σ by as much.
    kurtosis = float(np.nanmean(error**4)) / pooled**4
    chance = max(kurtosis - 1, 0.5) / (4 * np.maximum(count, 1))
    enough = count >= 5
    if enough.sum() < 3:
        return Varying.constant(np.array([np.log(pooled)]), len(error))
    logs = 0.5 * np.log(np.where(enough, square, pooled**2).clip(1e-6 * pooled**2)) + np.where(enough, chance, 0.0)
    centre = float(logs[enough].mean())
    between = max(float(logs[enough].var(ddof=1) - chance[enough].mean()), 0.0)
    pull = np.where(enough, between / (between + chance), 0.0)
    variance = np.where(enough, between * chance / (between + chance), between)
    return Varying.of_posterior((centre + pull * (logs - centre))[:, None], variance[:, None, None])


def fit_yes_no(
    x: Floats, y: Floats, weight: Floats, common: Sequence[int] = (), start: Varying | None = None, rounds: int = ROUNDS
) -> Varying:
    """Logistic regression: P(y = 1) = 1 / (1 + exp(−xᵀwᵢ)); y may lie between 0 and 1."""
    y = np.where(weight > 0, y, 0.5)
    share = ((y * weight).sum() + 0.5) / (weight.sum() + 1)
    level = np.full(y.shape, np.log(share / (1 - share)))
    linear = level if start is None else predict(x, start).clip(-FURTHEST, FURTHEST)
    for _ in range(rounds):
        chance = expit(linear)
        slope = chance * (1 - chance)
        mean = max(float((weight * slope).sum() / weight.sum()), TAIL)
        coefficients = _fit_weighted(x, linear + (y - chance) / slope, weight * slope / mean, common, 1 / (PRIOR**2 * mean))
        # For rare events a full step would overshoot beyond repair.
        change = (predict(x, coefficients) - linear).clip(-LEAP, LEAP)
        linear = (linear + change).clip(-FURTHEST, FURTHEST)
        if np.abs(change[weight > 0]).max() < SETTLED:
            break
    return coefficients


def fit_count_step(x: Floats, y: Floats, weight: Floats, linear: Floats, shape: float) -> Varying:
    """One round of a negative binomial regression: log mean = xᵀwᵢ, variance = mean + mean² / shape."""
    mean = np.exp(linear)
    slope = mean / (1 + mean / shape)
    # Weights of mean 1 count as many decision points as there are.
    average = max(float((weight * slope).sum() / weight.sum()), TAIL)
    return _fit_weighted(x, linear + (np.where(weight > 0, y, mean) - mean) / mean, weight * slope / average, ())


def fit_between(x: Floats, low: Floats, high: Floats, start: Floats, weight: Floats, rng: np.random.Generator) -> LinearFit:
    """Linear regression of interval-censored y; where both limits are equal, y is known."""
    hidden = (weight > 0) & (high > low)
    y = start.copy()
    fitted = fit_linear(x, y, weight)
    for _ in range(SWEEPS if hidden.any() else 0):
        noise = np.broadcast_to(fitted.noise, y.shape)
        y = np.where(hidden, draw_within(predict(x, fitted.coefficients), noise, low, high, rng.random(y.shape)), y)
        fitted = fit_linear(x, y, weight)
    return fitted


def draw_within(mean: Floats, noise: Floats, low: Floats, high: Floats, uniform: Floats) -> Floats:
    """Normal numbers of this mean and spread, given that they lie between two limits."""
    below = ndtr((low - mean) / noise)
    above = ndtr((high - mean) / noise)
    drawn = mean + noise * ndtri((below + uniform * (above - below)).clip(TAIL, 1 - TAIL))
    return np.asarray(np.clip(drawn, low, high))


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Normal scores z = Φ⁻¹(F(x)) with F the empirical distribution, linear between its values, and back."""

    values: Floats
    """Sorted and different, (m,)."""
    low: Floats
    """The scores at which a value begins …, (m,)."""
    high: Floats
    """… and ends."""

    @classmethod
    def of_values(cls, values: Floats) -> ScoreTable:
        """Of all values that are not missing; of many values with the same piles and fewer quantiles in between."""
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        weights = counts / counts.sum()
        if len(distinct) > MOST_VALUES:
            piled = weights > PILE
            share = weights[~piled].sum()
            reached = (np.cumsum(weights[~piled]) - weights[~piled] / 2) / share
            thinned = np.interp((np.arange(MOST_VALUES) + 0.5) / MOST_VALUES, reached, distinct[~piled])
            distinct = np.concatenate([distinct[piled], thinned])
            order = np.argsort(distinct, kind="stable")
            distinct = distinct[order]
            weights = np.concatenate([weights[piled], np.full(MOST_VALUES, share / MOST_VALUES)])[order]
        share = np.concatenate([[0.0], np.cumsum(weights)]).clip(0, 1)
        middle = ndtri((share[:-1] + share[1:]) / 2)
        pile = weights > PILE
        return cls(distinct, np.where(pile, ndtri(share[:-1]), middle), np.where(pile, ndtri(share[1:]), middle))

    @cached_property
    def _grid(self) -> Floats:
        """Values at evenly spaced scores: a lookup is ten times as fast as interpolation, and never mixes a pile with its
        neighbour."""
        knots = np.column_stack([self.low, self.high]).clip(-9, 9).ravel()
        return np.asarray(np.interp(np.linspace(-WIDEST_SCORE, WIDEST_SCORE, GRID), knots, np.repeat(self.values, 2)))

    def to_values(self, scores: Floats) -> Floats:
        """The values of scores; no value lies outside those that were seen."""
        position = ((scores + WIDEST_SCORE) * ((GRID - 1) / (2 * WIDEST_SCORE)) + 0.5).clip(0, GRID - 1)
        return self._grid[position.astype(np.int64)]

    @cached_property
    def _middle(self) -> Floats:
        return np.asarray(ndtri((ndtr(self.low) + ndtr(self.high)) / 2))

    def to_scores(self, values: Floats) -> Floats:
        """The scores of values; of a pile the middle by share."""
        return np.where(np.isnan(values), np.nan, np.interp(values, self.values, self._middle))

    def limits(self, values: Floats) -> tuple[Floats, Floats]:
        """The limits of every value's score."""
        position = np.searchsorted(self.values, np.nan_to_num(values)).clip(0, len(self.values) - 1)
        piled = (self.values[position] == values) & (self.high[position] > self.low[position])
        scores = self.to_scores(values)
        return np.where(piled, self.low[position], scores), np.where(piled, self.high[position], scores)
