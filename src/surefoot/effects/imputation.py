"""Multiple imputation of outcomes: chained over the decision points of a participant, with effects of participants.

The outcome of a decision point is modelled as Y = zᵀβ + wᵀb_i + ε, ε ~ N(0, σ²). z holds the state, the action, their
products, attendance, time and the participant's previous outcome, also times the action; w is an intercept and the action,
b_i ~ N(0, Σ). Gibbs' sampler draws β, σ², b, Σ and the missing outcomes in turn. A missing outcome is drawn given the
outcome before it and the outcome after it: with c the coefficient of Y in the mean of the next outcome, its mean is
(μ + c (Y⁺ − μ⁺ + c Y))/(1 + c²) and its variance σ²/(1 + c²). Outcomes of 0 and 1 follow a probit model, with a latent
normal variable for each. Every imputation comes from a chain with random numbers of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri

from surefoot.effects.analysis import Codes, Floats
from surefoot.effects.observation_model import OutcomeSeries
from surefoot.errors import InputError

SWEEPS = 40
"""Rounds of a chain before its outcomes are taken."""
RIDGE = 0.1
"""Prior precision of a standardised coefficient, in units of 1/σ²."""
PRIOR_VARIANCE = 0.05
"""Of the effects of participants, in variances of the outcome; it weighs as much as a few participants."""
BLOCK_NUMBERS = 1 << 23
"""Numbers of the designs of chains that run together; results do not depend on it."""
Generators = list[np.random.Generator]


@dataclass(frozen=True, eq=False)
class Draws:
    """Imputed outcomes of the missing entries of a series."""

    entries: Codes  # Of the series.
    outcomes: Floats  # (imputations, entries).
    chances: Floats | None = None  # Of a 1, for outcomes of 0 and 1.
    uniforms: Floats | None = None  # An outcome is 1 where this is below its chance.

    def __len__(self) -> int:
        return len(self.outcomes)

    def shift(self, amounts: Floats) -> Floats:
        """Outcomes that are higher by these amounts; for 0 and 1 amounts of log odds."""
        if self.chances is None or self.uniforms is None:
            return np.asarray(self.outcomes + amounts)
        odds = np.log(self.chances) - np.log1p(-self.chances)
        return np.asarray(self.uniforms < expit(odds + amounts), dtype=np.float64)


def impute(series: OutcomeSeries, *, imputations: int, seed: int) -> Draws:
    """Draw the missing outcomes that the analysis needs, as often as asked.

    Parameters
    ----------
    series
        Decision points, or participants for a distal outcome.
    imputations
        Number of completed data sets.
    seed
        Of the random numbers.

    Returns
    -------
    Draws
    """
    known = series.outcome[~series.missing]
    if len(np.unique(known)) < 2:
        raise InputError("observed outcomes are all equal, so missing ones cannot be imputed; analyse complete rows")
    generators = list(np.random.default_rng(seed).spawn(imputations))
    draw = _draw_series if series.has_past else _draw_people
    size = max(1, BLOCK_NUMBERS // max(1, series.predictors.size))
    blocks = [draw(series, generators[start : start + size]) for start in range(0, imputations, size)]
    entries = np.flatnonzero(series.missing)
    outcomes = np.concatenate([block.outcomes for block in blocks])
    if blocks[0].chances is None:
        return Draws(entries, outcomes)
    chances = np.concatenate([np.asarray(block.chances) for block in blocks])
    return Draws(entries, outcomes, chances, np.concatenate([np.asarray(block.uniforms) for block in blocks]))


def _draw_people(series: OutcomeSeries, generators: Generators) -> Draws:
    """Without a past, from the posterior of a ridge regression on the participants with an outcome."""
    known = ~series.missing
    scaled = (series.outcome[known] - series.centre) / series.scale
    design = series.predictors[known]
    precision = design.T @ design + np.eye(design.shape[1])
    mean = np.linalg.solve(precision, design.T @ scaled)
    square = float(((scaled - design @ mean) ** 2).sum() + (mean**2).sum())
    variance = square / np.array([generator.chisquare(max(len(scaled) - 1, 1)) for generator in generators])
    noise = _draw_normal(generators, len(mean))
    coefficients = mean + np.sqrt(variance)[:, None] * np.linalg.solve(np.linalg.cholesky(precision).T, noise.T).T
    error = np.sqrt(variance)[:, None] * _draw_normal(generators, int(series.missing.sum()))
    scaled_draws = coefficients @ series.predictors[series.missing].T + error
    return Draws(np.flatnonzero(series.missing), series.centre + series.scale * scaled_draws)


class Neighbours(NamedTuple):
    """What the conditional distribution of a missing outcome needs; arrays (chains, entries)."""

    mean: Floats  # μ.
    slope: Floats  # c: of this outcome in the mean of the next; 0 where there is none.
    next_outcome: Floats  # Y⁺, standardised (or, for 0 and 1, as it is).
    next_mean: Floats  # μ⁺ at the current value of this outcome.
    current: Floats  # This outcome, standardised.


def condition_normal(around: Neighbours) -> tuple[Floats, Floats]:
    """Mean of a missing outcome given its neighbours, and its variance in units of σ²."""
    innovation = around.next_outcome - around.next_mean + around.slope * around.current
    precision = 1 + around.slope**2
    return (around.mean + around.slope * innovation) / precision, 1 / precision


def condition_binary(around: Neighbours, low: float, high: float) -> Floats:
    """Chance that a missing outcome is 1 given its neighbours; `low` and `high` are 0 and 1, standardised."""
    sign = 2 * around.next_outcome - 1
    base = around.next_mean - around.slope * around.current
    after = log_ndtr(sign * (base + around.slope * high)) - log_ndtr(sign * (base + around.slope * low))
    odds = log_ndtr(around.mean) - log_ndtr(-around.mean) + np.where(around.slope == 0, 0.0, after)
    return np.asarray(np.clip(expit(odds), 1e-12, 1 - 1e-12), dtype=np.float64)


def _draw_series(series: OutcomeSeries, generators: Generators) -> Draws:
    """Run one chain for each generator, all together."""
    is_binary = bool(np.isin(series.outcome[~series.missing], (0.0, 1.0)).all())
    chains = _Chains(series, generators, is_binary=is_binary)
    for _ in range(SWEEPS):
        chains.draw_coefficients()
        chains.draw_people()
        for half in chains.halves:
            chains.draw_outcomes(half)
    missing = np.flatnonzero(series.missing)
    outcomes = series.centre + series.scale * chains.scaled[:, missing]
    if not is_binary:
        return Draws(missing, outcomes)
    return Draws(missing, np.round(outcomes), chains.chances[:, missing], chains.uniforms[:, missing])


class _Chains:
    """The state of chains that run together; the first axis of every array is the chain."""

    def __init__(self, series: OutcomeSeries, generators: Generators, *, is_binary: bool) -> None:
        self.series = series
        self.generators = generators
        self.is_binary = is_binary
        count = len(generators)
        entries = len(series.rows)
        self.low = (0.0 - series.centre) / series.scale
        self.high = (1.0 - series.centre) / series.scale
        start = np.nan_to_num((series.outcome - series.centre) / series.scale)
        if is_binary:
            start = np.where(series.missing, self.low if series.centre < 0.5 else self.high, start)
        self.scaled = np.repeat(start[None], count, axis=0)
        self.chances = np.full((count, entries), 0.5)
        self.uniforms = np.full((count, entries), 0.5)
        self.first_past = series.predictors.shape[1]
        actions = series.treated.shape[1] + 1
        self.design = np.empty((count, entries, self.first_past + actions))
        self.design[:, :, : self.first_past] = series.predictors
        self.design[:, :, self.first_past :] = series.make_past(self.scaled)
        self.of_people = np.column_stack([np.ones(entries), series.treated])  # w.
        self.starts = np.flatnonzero(np.diff(series.person, prepend=-1))
        self.group = np.cumsum(np.diff(series.person, prepend=-1) != 0) - 1
        squares = self.of_people[:, :, None] * self.of_people[:, None, :]
        self.squares = np.add.reduceat(squares, self.starts, axis=0)
        self.effects = np.zeros((count, len(self.starts), actions))  # b.
        self.person_means = np.zeros((count, entries))  # wᵀb.
        self.precision = np.repeat(np.eye(actions)[None] / (4 * PRIOR_VARIANCE), count, axis=0)  # Σ⁻¹.
        self.variance = np.ones(count)  # σ².
        self.coefficients = np.zeros((count, self.design.shape[2]))  # β.
        following = np.full(entries, -1)
        following[series.previous[series.previous >= 0]] = np.flatnonzero(series.previous >= 0)
        self.following = following
        odd = (np.arange(entries) - self.starts[self.group]) % 2 == 1
        # Every other outcome of a participant is independent of the others, given these.
        self.halves = [np.flatnonzero(series.missing & (odd == parity)) for parity in (False, True)]

    def find_means(self) -> Floats:
        means = (self.design @ self.coefficients[:, :, None])[:, :, 0]
        return np.asarray(means + self.person_means)

    def draw_coefficients(self) -> None:
        """β and σ² given outcomes and effects of participants; for 0 and 1, first the latent variables."""
        self.target = self._draw_latent() if self.is_binary else self.scaled
        rows = self.target - self.person_means
        transposed = np.swapaxes(self.design, 1, 2)
        size = self.design.shape[2]
        precision = transposed @ self.design + RIDGE * np.eye(size)
        mean = np.linalg.solve(precision, transposed @ rows[:, :, None])
        noise = np.sqrt(self.variance)[:, None] * _draw_normal(self.generators, size)
        upper = np.swapaxes(np.linalg.cholesky(precision), 1, 2)
        self.coefficients = (mean + np.linalg.solve(upper, noise[:, :, None]))[:, :, 0]
        self.residuals = self.target - (self.design @ self.coefficients[:, :, None])[:, :, 0]
        if not self.is_binary:
            errors = self.residuals - self.person_means
            square = (errors**2).sum(axis=1) + RIDGE * (self.coefficients**2).sum(axis=1)
            degrees = errors.shape[1] + size
            self.variance = square / np.array([generator.chisquare(degrees) for generator in self.generators])

    def draw_people(self) -> None:
        """b and Σ."""
        products = self.of_people.T * self.residuals[:, None, :]
        moments = np.swapaxes(np.add.reduceat(products, self.starts, axis=2), 1, 2)
        scale = self.variance[:, None, None]
        precision = self.squares / scale[..., None] + self.precision[:, None]
        mean = np.linalg.solve(precision, (moments / scale)[..., None])
        noise = _draw_normal(self.generators, self.effects.shape[1:])
        upper = np.swapaxes(np.linalg.cholesky(precision), 2, 3)
        self.effects = (mean + np.linalg.solve(upper, noise[..., None]))[..., 0]
        self.person_means = np.einsum("cnq,nq->cn", self.effects[:, self.group], self.of_people)
        actions = self.effects.shape[2]
        spread = np.swapaxes(self.effects, 1, 2) @ self.effects + PRIOR_VARIANCE * (actions + 1) * np.eye(actions)
        self.precision = self._draw_wishart(np.linalg.inv(spread), self.effects.shape[1] + actions + 1)

    def _draw_wishart(self, scale: Floats, degrees: int) -> Floats:
        """By Bartlett's decomposition."""
        size = scale.shape[1]
        factor = np.tril(_draw_normal(self.generators, (size, size)), -1)
        freedom = degrees - np.arange(size)
        for chain, generator in enumerate(self.generators):
            factor[chain] += np.diag(np.sqrt(generator.chisquare(freedom)))
        root = np.linalg.cholesky(scale) @ factor
        return np.asarray(root @ np.swapaxes(root, 1, 2))

    def draw_outcomes(self, half: Codes) -> None:
        """Every missing outcome of a half, given all others."""
        if not len(half):
            return
        means = self.find_means()
        after = self.following[half]
        follows = after >= 0
        past = self.coefficients[:, self.first_past :]
        slope = np.where(follows, past[:, :1] + past[:, 1:] @ self.series.treated[after].T, 0.0)
        around = Neighbours(means[:, half], slope, self.scaled[:, after], means[:, after], self.scaled[:, half])
        if self.is_binary:
            around = around._replace(next_outcome=(self.scaled[:, after] > (self.low + self.high) / 2).astype(np.float64))
            self.chances[:, half] = condition_binary(around, self.low, self.high)
            self.uniforms[:, half] = np.stack([generator.random(len(half)) for generator in self.generators])
            happened = self.uniforms[:, half] < self.chances[:, half]
            self.scaled[:, half] = np.where(happened, self.high, self.low)
        else:
            mean, variance = condition_normal(around)
            noise = np.sqrt(self.variance[:, None] * variance) * _draw_normal(self.generators, len(half))
            self.scaled[:, half] = mean + noise
        self.design[:, :, self.first_past :] = self.series.make_past(self.scaled)

    def _draw_latent(self) -> Floats:
        """Normal variables around their means, above 0 where the outcome is 1."""
        means = self.find_means()
        below = ndtr(-means)
        uniform = np.stack([generator.random(means.shape[1]) for generator in self.generators])
        happened = self.scaled > (self.low + self.high) / 2
        levels = np.where(happened, below + uniform * (1 - below), uniform * below)
        return np.asarray(means + ndtri(np.clip(levels, 1e-12, 1 - 1e-12)))


def _draw_normal(generators: Generators, shape: int | tuple[int, ...]) -> Floats:
    return np.stack([generator.standard_normal(shape) for generator in generators])
