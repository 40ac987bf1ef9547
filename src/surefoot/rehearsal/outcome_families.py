"""Families of outcomes: the distribution of an outcome given its features, for people who differ, and their choice.

Each gives the distribution F and its inverse as functions of arrays. A simulated outcome is F⁻¹(u) of a uniform number u; an
effect moves the score Φ⁻¹(u): it works alike in all families, zeros stay possible and counts stay whole.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, expit, gammaln, ndtr, ndtri
from scipy.stats import nbinom

from surefoot.errors import InputError
from surefoot.registry import Registry
from surefoot.rehearsal.components import combine
from surefoot.rehearsal.pilot_data import NO_PILOT
from surefoot.rehearsal.pooled_regression import (
    LinearFit,
    ScoreTable,
    Varying,
    fit_between,
    fit_count_step,
    fit_linear,
    fit_yes_no,
    predict,
)

Floats = NDArray[np.float64]
TAIL = 1e-12
MOST_LEVELS = 11
"""Ordered categories have at most this number of different values."""
COUNT_ROUNDS = 8
SCORES = np.linspace(-5.0, 5.0, 401)
MEANS = 120
"""Counts are looked up in a table of this number of means and those scores, since exact quantiles take far longer."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class OutcomeFamily(ABC):
    """A fitted family; `features` are arrays (*lanes), the first of which is 1."""

    name: ClassVar[str]
    formula: ClassVar[str]

    @classmethod
    @abstractmethod
    def suits(cls, values: Floats) -> bool:
        """Whether the family can produce outcomes like these."""

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
register_family = FAMILIES.register
find_family = FAMILIES.find


def _normal_below(y: Floats, level: Floats, log_noise: Varying) -> Floats:
    """Φ((y − level) / σ)."""
    return np.asarray(ndtr((y - level) / np.exp(log_noise.individual[0])))


def _measure_shape(fitted: LinearFit) -> ScoreTable:
    """The distribution of standardised residuals, centred and of spread 1."""
    seen = fitted.residual[~np.isnan(fitted.residual)]
    spread = seen.std() if len(seen) > 1 else 0.0
    return ScoreTable.of_values((seen - seen.mean()) / spread if spread > 0 else np.zeros(2))


@register_family
@dataclass(frozen=True, eq=False)
class Normal(OutcomeFamily):
    """y = xᵀwᵢ + σᵢ ε; in simulations ε has the shape of the pilot's residuals."""

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
        fitted = fit_linear(x, y, weight)
        return cls(fitted.coefficients, fitted.log_noise, _measure_shape(fitted))

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        return _normal_below(y, combine(self.coefficients.individual, features), self.log_noise)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        noise = np.exp(self.log_noise.individual[0]) * self.shape.to_values(ndtri(uniform))
        return np.asarray(combine(self.coefficients.individual, features) + noise)


@register_family
@dataclass(frozen=True, eq=False)
class LogNormal(Normal):
    """log y = xᵀwᵢ + σᵢ ε."""

    name: ClassVar[str] = "log-normal"
    formula: ClassVar[str] = "log y = xᵀwᵢ + σᵢ ε"

    @classmethod
    def suits(cls, values: Floats) -> bool:
        return bool((values > 0).all()) and len(np.unique(values)) > 2

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        return super().fit(x, np.log(np.maximum(y, TAIL)), weight, rng)

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        return super().cumulate(np.log(np.maximum(y, TAIL)), features)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        return np.asarray(np.exp(super().invert(uniform, features)))


@register_family
@dataclass(frozen=True, eq=False)
class Hurdle(OutcomeFamily):
    """Zero with a logistic chance; positive outcomes are log-normal."""

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
        positive = np.where(weight > 0, y, 0.0) > 0
        amount = LogNormal.fit(x, np.where(positive, y, 1.0), weight * positive, rng)
        chance = fit_yes_no(x, positive.astype(np.float64), weight)
        return cls(chance, amount.coefficients, amount.log_noise, amount.shape)

    @property
    def _amount(self) -> LogNormal:
        return LogNormal(self.amount, self.log_noise, self.shape)

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        chance = expit(combine(self.chance.individual, features))
        below = np.where(y > 0, self._amount.cumulate(y, features), 0.0)
        return np.where(y < 0, 0.0, 1 - chance + chance * below)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        chance = expit(combine(self.chance.individual, features))
        within = ((uniform - 1 + chance) / np.maximum(chance, TAIL)).clip(TAIL, 1 - TAIL)
        return np.where(uniform > 1 - chance, self._amount.invert(within, features), 0.0)


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
        return np.where(y < 0, 0.0, np.where(y < 1, 1 - expit(combine(self.coefficients.individual, features)), 1.0))

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        return np.asarray(uniform > 1 - expit(combine(self.coefficients.individual, features)), dtype=np.float64)


@register_family
@dataclass(frozen=True, eq=False)
class Ordinal(OutcomeFamily):
    """Ordered answers: the level whose cuts enclose z = xᵀwᵢ + σᵢ ε."""

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
        cuts = ndtri(share)
        middle = ndtri((share[:-1] + share[1:]) / 2)
        level = np.searchsorted(levels, np.where(weight > 0, y, levels[0])).clip(0, len(levels) - 1)
        fitted = fit_between(x, cuts[level], cuts[level + 1], middle[level], weight, rng)
        return cls(fitted.coefficients, fitted.log_noise, levels, cuts)

    def cumulate(self, y: Floats, features: list[Floats]) -> Floats:
        cut = self.cuts[np.searchsorted(self.levels, y, side="right")]
        return _normal_below(cut, combine(self.coefficients.individual, features), self.log_noise)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        score = combine(self.coefficients.individual, features) + np.exp(self.log_noise.individual[0]) * ndtri(uniform)
        return np.asarray(self.levels[np.searchsorted(self.cuts[1:-1], score)])


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
        counts = bool((values >= 0).all() and (values == values.round()).all())
        return counts and bool((values == 0).any()) and len(np.unique(values)) > 2

    @classmethod
    def fit(cls, x: Floats, y: Floats, weight: Floats, rng: np.random.Generator) -> Self:
        """By EM: the probability that each zero is a structural one, then a regression for either component."""
        seen = weight > 0
        zero = seen & (y == 0)
        structural = np.where(zero, 0.5, 0.0)
        shape = 1.0
        log_mean = np.full(y.shape, np.log(y[seen & (y > 0)].mean()))
        absence = fit_yes_no(x, structural, weight, rounds=1)
        for _ in range(COUNT_ROUNDS):
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
        absent = expit(combine(self.absence.individual, features))
        mean = np.exp(combine(self.mean.individual, features).clip(-20, 20))
        below = betainc(self.shape, np.maximum(np.floor(y), 0.0) + 1, self.shape / (self.shape + mean))
        return np.where(y < 0, 0.0, absent + (1 - absent) * below)

    def invert(self, uniform: Floats, features: list[Floats]) -> Floats:
        """By bilinear interpolation in the table."""
        absent = expit(combine(self.absence.individual, features))
        within = ((uniform - absent) / np.maximum(1 - absent, TAIL)).clip(TAIL, 1 - TAIL)
        step = (self.means[-1] - self.means[0]) / (MEANS - 1)
        row = ((combine(self.mean.individual, features) - self.means[0]) / step).clip(0, MEANS - 1.001)
        column = ((ndtri(within) - SCORES[0]) / (SCORES[1] - SCORES[0])).clip(0, len(SCORES) - 1.001)
        above = row.astype(np.int64)
        left = column.astype(np.int64)
        down = row - above
        across = column - left
        upper = self.table[above, left] * (1 - across) + self.table[above, left + 1] * across
        lower = self.table[above + 1, left] * (1 - across) + self.table[above + 1, left + 1] * across
        return np.where(uniform > absent, np.round(upper * (1 - down) + lower * down), 0.0)


def _fit_shape(y: Floats, mean: Floats, weight: Floats) -> float:
    """The negative binomial shape of highest likelihood."""

    def deviance(log_shape: float) -> float:
        shape = np.exp(log_shape)
        logs = gammaln(y + shape) - gammaln(shape) + shape * np.log(shape / (shape + mean))
        logs = logs + y * np.log(mean / (shape + mean))
        return -float((weight * logs).sum())

    return float(np.exp(minimize_scalar(deviance, bounds=(-4, 6), method="bounded").x))


@dataclass(frozen=True)
class FamilyChoice:
    """The family, and the likelihood of held-out outcomes under each that suits."""

    name: str
    """Of the family."""
    log_likelihood: dict[str, float]
    """Mean log probability of an outcome as it was recorded, on days held out (five folds of everybody's days), by
    family. Empty where the family was named."""


def choose_family(
    x: Floats, y: Floats, weight: Floats, day: Floats, named: str | None, rng: np.random.Generator
) -> FamilyChoice:
    """The family with the highest likelihood of held-out days, unless one is named.

    An outcome counts as recorded, up to half a step (or a thousandth of the spread), so that families with piles and without
    are on one scale.
    """
    known = y[weight > 0]
    names = [name for name in FAMILIES if find_family(name).suits(known)]
    if named is not None:
        if not find_family(named).suits(known):
            raise InputError(f"the pilot's outcomes cannot be '{named}'; choose from {names}")
        return FamilyChoice(named, {})
    if not names:
        values = " and ".join(f"{value:g}" for value in np.unique(known))
        raise InputError(f"the pilot's outcome has only the values {values}, and no family suits it; code it as 0 and 1")
    if len(names) == 1:
        return FamilyChoice(names[0], {})
    if len(np.unique(day[weight > 0])) < 2:
        raise InputError(
            "the pilot's outcomes lie on one day, and families of outcomes are compared on days held out; give a longer "
            f'pilot, name one of {names} in the plan ([people] outcome = "{names[0]}"), or {NO_PILOT}'
        )
    half = (find_step(known) or 1e-3 * float(known.std())) / 2
    likelihoods = {name: _score_family(find_family(name), x, y, weight, day, half, rng) for name in names}
    return FamilyChoice(max(likelihoods, key=likelihoods.__getitem__), likelihoods)


def _score_family(
    kind: type[OutcomeFamily], x: Floats, y: Floats, weight: Floats, day: Floats, half: float, rng: np.random.Generator
) -> float:
    features = [x[..., j].T for j in range(x.shape[-1])]
    outcome = np.where(weight > 0, y, np.nanmean(y[weight > 0])).T
    total = 0.0
    for fold in range(FOLDS):
        held_out = (weight > 0) & (day % FOLDS == fold)
        learned = (weight > 0) & ~held_out
        if kind.suits(y[learned]) and held_out.any():
            fitted = kind.fit(x, y, np.where(learned, weight, 0.0), rng)
            likelihood = fitted.cumulate(outcome + half, features) - fitted.cumulate(outcome - half, features)
            total += float(np.log(np.maximum(likelihood, TAIL))[held_out.T].sum())
        else:
            # The other days lack what the family needs, so it says nothing about these.
            total += float(np.log(TAIL)) * int(held_out.sum())
    return total / float(weight.sum())


def find_step(values: Floats) -> float:
    """The step to which outcomes were recorded; 0 where they have none that matters."""
    gaps = np.diff(np.unique(values))
    least = float(gaps.min())
    even = np.abs(gaps / least - np.round(gaps / least)).max() < 1e-6
    return least if even and least > 1e-3 * float(np.ptp(values)) / max(len(gaps), 1) else 0.0
