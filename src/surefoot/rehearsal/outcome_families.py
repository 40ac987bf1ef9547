"""Families of outcomes: how an outcome is distributed, given what is known before it, for people who differ.

Each gives the distribution F and its inverse as functions of arrays. A simulated outcome is F⁻¹(u) of a uniform number u; an
effect moves the score Φ⁻¹(u): it works alike in all families, zeros stay possible and counts stay whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from surefoot.registry import Registry
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.rehearsal.pooled_regression import LinearFit, fit_between, fit_linear, fit_yes_no
from surefoot.rehearsal.state_parts import combine
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
TAIL = 1e-12
MOST_LEVELS = 11
"""More different values than this are not ordered categories but numbers."""


@dataclass(frozen=True, eq=False)
class OutcomeFamily(ABC):
    """One family, fitted; `features` are lists of arrays (*lanes), the first of which is 1."""

    name: ClassVar[str]
    formula: ClassVar[str]

    @classmethod
    @abstractmethod
    def suits(cls, values: Floats) -> bool:
        """Whether outcomes like these can come from it."""

    @classmethod
    @abstractmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        """From features (people, decision points, d) and outcomes; weight 0 where there is none."""

    @abstractmethod
    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        """F(y)."""

    @abstractmethod
    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        """F⁻¹(u)."""


FAMILIES: Registry[type[OutcomeFamily]] = Registry("outcome family")
register_family, find_family = FAMILIES.register, FAMILIES.find


@register_family
@dataclass(frozen=True, eq=False)
class Normal(OutcomeFamily):
    """y = xᵀwᵢ + σᵢ ε; ε has in simulations the shape of the pilot's residuals."""

    name: ClassVar[str] = "normal"
    formula: ClassVar[str] = "y = xᵀwᵢ + σᵢ ε"
    coefficients: Varying
    log_noise: Varying
    shape: ScoreTable

    @classmethod
    def suits(cls, values: Floats) -> bool:
        return len(np.unique(values)) > 2

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        found = fit_linear(x, cls._forward(y), weight)
        return cls(found.coefficients, found.log_noise, measure_shape(found))

    @staticmethod
    def _forward(y: Floats) -> Floats:
        return y

    @staticmethod
    def _back(y: Floats) -> Floats:
        return y

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        return cumulate_normal(self._forward(y), combine(self.coefficients.own, features), self.log_noise.own[0])

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        level = combine(self.coefficients.own, features)
        return self._back(level + np.exp(self.log_noise.own[0]) * self.shape.to_values(ndtri(uniform)))


@register_family
@dataclass(frozen=True, eq=False)
class LogNormal(Normal):
    """log y = xᵀwᵢ + σᵢ ε."""

    name: ClassVar[str] = "log-normal"
    formula: ClassVar[str] = "log y = xᵀwᵢ + σᵢ ε"

    @classmethod
    def suits(cls, values: Floats) -> bool:
        return bool((values > 0).all()) and len(np.unique(values)) > 2

    @staticmethod
    def _forward(y: Floats) -> Floats:
        return np.log(np.maximum(y, TAIL))

    @staticmethod
    def _back(y: Floats) -> Floats:
        return np.exp(y)


@register_family
@dataclass(frozen=True, eq=False)
class Hurdle(OutcomeFamily):
    """Nothing with a logistic chance; what is above 0 is log-normal."""

    name: ClassVar[str] = "hurdle"
    formula: ClassVar[str] = "logit P(y > 0) = xᵀvᵢ;  log y = xᵀwᵢ + σᵢ ε where y > 0"
    chance: Varying
    amount: Varying
    log_noise: Varying
    shape: ScoreTable

    @classmethod
    def suits(cls, values: Floats) -> bool:
        return bool((values >= 0).all() and (values == 0).any()) and len(np.unique(values)) > 2

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        above = np.where(weight > 0, y, 0.0) > 0
        found = fit_linear(x, np.log(np.where(above, y, 1.0)), weight * above)
        return cls(
            fit_yes_no(x, above.astype(np.float64), weight), found.coefficients, found.log_noise, measure_shape(found)
        )

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        some = expit(combine(self.chance.own, features))
        level = combine(self.amount.own, features)
        below = cumulate_normal(np.log(np.maximum(y, TAIL)), level, self.log_noise.own[0])
        return np.where(y < 0, 0.0, 1 - some + some * np.where(y > 0, below, 0.0))

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        some = expit(combine(self.chance.own, features))
        within = ((uniform - 1 + some) / np.maximum(some, TAIL)).clip(TAIL, 1 - TAIL)
        level = combine(self.amount.own, features)
        amount = np.exp(level + np.exp(self.log_noise.own[0]) * self.shape.to_values(ndtri(within)))
        return np.where(uniform > 1 - some, amount, 0.0)


@register_family
@dataclass(frozen=True, eq=False)
class Binary(OutcomeFamily):
    """1 with a logistic chance, else 0."""

    name: ClassVar[str] = "binary"
    formula: ClassVar[str] = "logit P(y = 1) = xᵀwᵢ"
    coefficients: Varying

    @classmethod
    def suits(cls, values: Floats) -> bool:
        return bool(np.isin(values, (0.0, 1.0)).all())

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        return cls(fit_yes_no(x, y, weight))

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        return np.where(y < 0, 0.0, np.where(y < 1, 1 - expit(combine(self.coefficients.own, features)), 1.0))

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        return np.asarray(uniform > 1 - expit(combine(self.coefficients.own, features)), dtype=np.float64)


@register_family
@dataclass(frozen=True, eq=False)
class Ordinal(OutcomeFamily):
    """Ordered answers: z = xᵀwᵢ + σᵢ ε, seen only as the level between whose cuts it lies."""

    name: ClassVar[str] = "ordinal"
    formula: ClassVar[str] = "y = level k where cₖ < xᵀwᵢ + σᵢ ε ≤ cₖ₊₁"
    coefficients: Varying
    log_noise: Varying
    levels: Floats
    cuts: Floats
    """(levels + 1,), from −∞ to ∞."""

    @classmethod
    def suits(cls, values: Floats) -> bool:
        distinct = np.unique(values)
        return 2 < len(distinct) <= MOST_LEVELS and bool((distinct == distinct.round()).all())

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        levels, counts = np.unique(y[weight > 0], return_counts=True)
        share = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
        cuts, middle = ndtri(share), ndtri((share[:-1] + share[1:]) / 2)
        place = np.searchsorted(levels, np.where(weight > 0, y, levels[0])).clip(0, len(levels) - 1)
        found = fit_between(x, cuts[place], cuts[place + 1], middle[place], weight, rng)
        return cls(found.coefficients, found.log_noise, levels, cuts)

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        cut = self.cuts[np.searchsorted(self.levels, y, side="right")]
        return cumulate_normal(cut, combine(self.coefficients.own, features), self.log_noise.own[0])

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        score = combine(self.coefficients.own, features) + np.exp(self.log_noise.own[0]) * ndtri(uniform)
        return np.asarray(self.levels[np.searchsorted(self.cuts[1:-1], score)])


def cumulate_normal(y: Floats, level: Floats, log_noise: Floats) -> Floats:
    """Φ((y − level) / σ)."""
    return np.asarray(ndtr((y - level) / np.exp(log_noise)))


def measure_shape(found: LinearFit) -> ScoreTable:
    """The distribution of standardised residuals, centred and of spread 1."""
    seen = found.residual[~np.isnan(found.residual)]
    spread = seen.std() if len(seen) > 1 else 0.0
    return ScoreTable.of_values((seen - seen.mean()) / spread if spread > 0 else np.zeros(2))
