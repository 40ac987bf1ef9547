"""Regressions of people who differ, each pulled towards the others as far as the data ask for it.

All are built on the restricted likelihood of `learning.pooling`: a linear model directly, a logistic or Poisson one by
penalised quasi-likelihood (Breslow and Clayton, 1993: the linear model of the working response, again and again), and a
normal one of which only intervals were seen by drawing what lies in them (stochastic EM; Celeux and Diebolt, 1985).
Arrays are (people, decision points, …); a decision point with weight 0 does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from surefoot.learning.moments import Moments
from surefoot.learning.pooling.mixed_effects import Likelihood
from surefoot.learning.pooling.reml import LEAST, search_spread
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
TRACE = 0.01
"""Decision points' worth of pull of every coefficient but the first towards 0: what nothing is known of stays there."""
PRIOR = 3.0
"""Coefficients of log odds, but the first, are believed to lie within a few times this of 0."""
FURTHEST, LEAP, SETTLED = 8.0, 1.5, 0.02
"""Log odds stay within ± the first, move at most by the second at a time, and are settled when they move by less than the
third."""
ROUNDS = 25
SWEEPS = 12
TAIL = 1e-12


@dataclass(frozen=True, eq=False)
class LinearFit:
    """y = xᵀwᵢ + σᵢ ε."""

    coefficients: Varying
    log_noise: Varying
    """log σᵢ, (1, people)."""
    residual: Floats
    """(y − xᵀwᵢ) / σᵢ, NaN where a decision point does not count."""


def fit_linear(x: Floats, y: Floats, weight: Floats, common: Sequence[int] = ()) -> LinearFit:
    """Linear regression with normal noise whose spread differs between people too; `common` coefficients are everybody's.

    >>> rng = np.random.default_rng(0)
    >>> x = np.ones((100, 50, 1))
    >>> y = 5 + 2 * rng.standard_normal((100, 1)) + 3 * rng.standard_normal((100, 50))
    >>> found = fit_linear(x, y, np.ones((100, 50)))
    >>> found.coefficients.spread.round(1), np.exp(found.log_noise.population).round(1)
    (array([1.9]), array([3.]))
    """
    coefficients = _fit_weighted(x, np.where(weight > 0, y, 0.0), weight, common)
    error = np.where(weight > 0, y - predict(x, coefficients), np.nan)
    log_noise = _fit_noise(error)
    return LinearFit(coefficients, log_noise, error / np.exp(log_noise.own[0])[:, None])


def predict(x: Floats, coefficients: Varying) -> Floats:
    """xᵀwᵢ, (people, decision points)."""
    return np.asarray(np.einsum("ptd,dp->pt", x, coefficients.own))


def _fit_weighted(x: Floats, y: Floats, weight: Floats, common: Sequence[int], pull: float = 0.0) -> Varying:
    """A linear model; `pull` is the penalty of every coefficient but the first, beside a trace of one."""
    x = np.where(weight[..., None] > 0, x, 0.0)
    trace = TRACE * np.maximum((weight[..., None] * x**2).sum(axis=(0, 1)) / weight.sum(), TAIL)
    penalty = np.concatenate([[0.0], trace[1:] + pull])
    likelihood = Likelihood.of_moments(Moments.of_rows(x, y[..., None], weight), 0, penalty, np.eye(x.shape[-1]))
    held = np.full(x.shape[-1], np.nan)
    held[list(common)] = LEAST
    best, steps, converged = search_spread(likelihood, held)
    found = best.posterior(steps, converged, np.asarray(best.root**2 <= LEAST))
    # What is not known of a person given the population: what is not known of the population would be the same for all.
    here = likelihood.basis * best.root
    return Varying.of_posterior(np.asarray(found.mean), np.asarray(best.noise * (here @ best.inverse @ here.T)))


def _fit_noise(error: Floats) -> Varying:
    """log σᵢ: everybody's own, pulled towards the mean as far as chance alone makes them differ."""
    seen = ~np.isnan(error)
    count = seen.sum(axis=1)
    pooled = float(np.sqrt(np.nanmean(error**2)))
    if not pooled > 0:
        return Varying.constant(np.array([-np.inf]), len(error))
    square = np.nansum(error**2, axis=1) / np.maximum(count - 1, 1)
    # log s has the variance (kurtosis − 1) / 4n, and lies below log σ by as much.
    kurtosis = float(np.nanmean(error**4)) / pooled**4
    chance = max(kurtosis - 1, 0.5) / (4 * np.maximum(count, 1))
    told = count >= 5
    logs = 0.5 * np.log(np.where(told, square, pooled**2).clip(1e-6 * pooled**2)) + np.where(told, chance, 0.0)
    if told.sum() < 3:
        return Varying.constant(np.array([np.log(pooled)]), len(error))
    centre = float(logs[told].mean())
    between = max(float(logs[told].var(ddof=1) - chance[told].mean()), 0.0)
    pull = np.where(told, between / (between + chance), 0.0)
    left = np.where(told, between * chance / (between + chance), between)
    return Varying.of_posterior((centre + pull * (logs - centre))[:, None], left[:, None, None])


def fit_yes_no(
    x: Floats, y: Floats, weight: Floats, common: Sequence[int] = (), start: Varying | None = None, rounds: int = ROUNDS
) -> Varying:
    """Logistic regression: P(y = 1) = 1 / (1 + exp(−xᵀwᵢ)); y may lie between 0 and 1.

    >>> x, y = np.ones((200, 60, 1)), np.random.default_rng(0).random((200, 60)) < 0.8
    >>> float(expit(fit_yes_no(x, y.astype(float), np.ones((200, 60))).population)[0].round(2))
    0.8
    """
    y = np.where(weight > 0, y, 0.5)
    share = ((y * weight).sum() + 0.5) / (weight.sum() + 1)
    level = np.full(y.shape, np.log(share / (1 - share)))
    linear = level if start is None else predict(x, start).clip(-FURTHEST, FURTHEST)
    for _ in range(rounds):
        chance = expit(linear)
        slope = chance * (1 - chance)
        mean = max(float((weight * slope).sum() / weight.sum()), TAIL)
        coefficients = _fit_weighted(x, linear + (y - chance) / slope, weight * slope / mean, common, 1 / (PRIOR**2 * mean))
        # Where an event is rare a whole step would leap far beyond what the next one could mend.
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
    whole = max(float((weight * slope).sum() / weight.sum()), TAIL)
    return _fit_weighted(x, linear + (np.where(weight > 0, y, mean) - mean) / mean, weight * slope / whole, ())


def draw_within(mean: Floats, noise: Floats, low: Floats, high: Floats, uniform: Floats) -> Floats:
    """Normal numbers of this mean and spread, given that they lie between two limits."""
    below, above = ndtr((low - mean) / noise), ndtr((high - mean) / noise)
    drawn = mean + noise * ndtri((below + uniform * (above - below)).clip(TAIL, 1 - TAIL))
    return np.asarray(np.clip(drawn, low, high))


def fit_between(x: Floats, low: Floats, high: Floats, start: Floats, weight: Floats, rng: np.random.Generator) -> LinearFit:
    """Linear regression of y of which only limits are known; where they are equal, y is known."""
    hidden = (weight > 0) & (high > low)
    y = start.copy()
    fitted = fit_linear(x, y, weight)
    for _ in range(SWEEPS if hidden.any() else 0):
        noise = np.broadcast_to(np.exp(fitted.log_noise.own[0])[:, None], y.shape)
        drawn = draw_within(predict(x, fitted.coefficients), noise, low, high, rng.random(y.shape))
        y = np.where(hidden, drawn, y)
        fitted = fit_linear(x, y, weight)
    return fitted
