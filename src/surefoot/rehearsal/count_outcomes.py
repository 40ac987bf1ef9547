"""Counts with more zeros than a count should have: the zero-inflated negative binomial family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, expit, gammaln, ndtr, ndtri
from scipy.stats import nbinom

from surefoot.rehearsal.outcome_families import OutcomeFamily, register_family
from surefoot.rehearsal.pooled_regression import fit_count_step, fit_yes_no, predict
from surefoot.rehearsal.state_parts import combine
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
TAIL = 1e-12
ROUNDS = 8
SCORES = np.linspace(-5.0, 5.0, 401)
MEANS = 120
"""The inverse distribution is looked up in a table of so many means and those scores: exact ones take far longer."""


@register_family
@dataclass(frozen=True, eq=False)
class ZeroInflatedCount(OutcomeFamily):
    """A structural zero with a logistic chance, else negative binomial with log mean xᵀwᵢ and variance μ + μ² / shape."""

    name: ClassVar[str] = "zero-inflated count"
    formula: ClassVar[str] = "y = 0 with logit P = xᵀvᵢ, else NB with log μ = xᵀwᵢ, variance μ + μ² / shape"
    absence: Varying
    mean: Varying
    shape: float
    means: Floats
    """log μ of the table's rows."""
    table: Floats
    """Quantiles, (means, scores)."""

    @classmethod
    def suits(cls, values: Floats) -> bool:
        whole = bool((values >= 0).all() and (values == values.round()).all())
        return whole and bool((values == 0).any()) and len(np.unique(values)) > 2

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        """By EM: how likely each zero is a structural one, then a regression for either part."""
        seen = weight > 0
        zero = seen & (y == 0)
        structural, shape = np.where(zero, 0.5, 0.0), 1.0
        log_mean = np.full(y.shape, np.log(y[seen & (y > 0)].mean()))
        absence = fit_yes_no(x, structural, weight, rounds=1)
        for _ in range(ROUNDS):
            counted = np.where(seen, weight * (1 - structural), 0.0)
            mean = fit_count_step(x, y, counted, log_mean, shape)
            log_mean = predict(x, mean).clip(-8, 16)
            shape = _fit_shape(y[seen], np.exp(log_mean[seen]), counted[seen])
            absence = fit_yes_no(x, structural, weight, start=absence, rounds=2)
            chance = expit(predict(x, absence))
            by_chance = (1 - chance) * (shape / (shape + np.exp(log_mean))) ** shape
            structural = np.where(zero, chance / (chance + by_chance), 0.0)
        low, high = np.quantile(log_mean[seen], (0, 1))
        means = np.linspace(low - 1.5, high + 1.5, MEANS)
        share = shape / (shape + np.exp(means))
        return cls(absence, mean, shape, means, nbinom.ppf(ndtr(SCORES)[None], shape, share[:, None]))

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        absent = expit(combine(self.absence.own, features))
        mean = np.exp(combine(self.mean.own, features).clip(-20, 20))
        whole = np.floor(y)
        below = betainc(self.shape, np.maximum(whole, 0.0) + 1, self.shape / (self.shape + mean))
        return np.where(y < 0, 0.0, absent + (1 - absent) * below)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        absent = expit(combine(self.absence.own, features))
        within = ((uniform - absent) / np.maximum(1 - absent, TAIL)).clip(TAIL, 1 - TAIL)
        step = (self.means[-1] - self.means[0]) / (MEANS - 1)
        row = ((combine(self.mean.own, features) - self.means[0]) / step).clip(0, MEANS - 1.001)
        column = ((ndtri(within) - SCORES[0]) / (SCORES[1] - SCORES[0])).clip(0, len(SCORES) - 1.001)
        above, right = row.astype(np.int64), column.astype(np.int64)
        down, across = row - above, column - right
        upper = self.table[above, right] * (1 - across) + self.table[above, right + 1] * across
        lower = self.table[above + 1, right] * (1 - across) + self.table[above + 1, right + 1] * across
        return np.where(uniform > absent, np.round(upper * (1 - down) + lower * down), 0.0)


def _fit_shape(y: Floats, mean: Floats, weight: Floats) -> float:
    """The negative binomial shape of highest likelihood."""

    def deviance(log_shape: float) -> float:
        shape = np.exp(log_shape)
        logs = (
            gammaln(y + shape) - gammaln(shape) + shape * np.log(shape / (shape + mean)) + y * np.log(mean / (shape + mean))
        )
        return -float((weight * logs).sum())

    return float(np.exp(minimize_scalar(deviance, bounds=(-4, 6), method="bounded").x))
