"""Designs for continuous and for binary outcomes: the power of the F test with a small-sample denominator, and the smallest
trial that has enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError

Matrix = NDArray[np.float64]
BASES = {"constant": 1, "linear": 2, "quadratic": 3}
"""How many coefficients a trend of each shape has: 1, day, day²."""
KEYS = ("mean", "initial", "peak_day")


@dataclass(frozen=True)
class Trend:
    """One number for every decision point, and the shape of which they are."""

    values: Matrix
    shape: str
    words: str


@dataclass(frozen=True)
class Calendar:
    """Days and decision points."""

    days: int
    decisions_per_day: int

    def __post_init__(self) -> None:
        for name in ("days", "decisions_per_day"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                raise InputError(f"{name} is {value!r}; give a whole number, at least 1")

    @property
    def day(self) -> Matrix:
        """Of every decision point, from 0."""
        return np.repeat(np.arange(float(self.days)), self.decisions_per_day)

    def expand(self, values: ArrayLike, name: str) -> Matrix:
        """A number, a number for every day, or one for every decision point → one for every decision point."""
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds a value that is not a number")
        if array.ndim == 0:
            return np.full(len(self.day), float(array))
        if len(array) == self.days:
            return np.repeat(array, self.decisions_per_day, axis=0)
        if len(array) == len(self.day):
            return array
        raise InputError(
            f"{name} has {len(array)} values; give one number, {self.days} (one for every day) or {len(self.day)} "
            "(one for every decision point)"
        )

    def basis(self, shape: str | ArrayLike) -> Matrix:
        """Z: (decision points, coefficients) for constant, linear or quadratic, or a matrix as given."""
        if not isinstance(shape, str):
            matrix = self.expand(shape, "test")
            return matrix if matrix.ndim == 2 else matrix[:, None]
        if shape not in BASES:
            raise InputError(f"'{shape}' is not a shape; choose from {list(BASES)}, or give a matrix")
        # Divided by the number of days: the same space, and sums of day⁴ stay small.
        return np.stack([(self.day / self.days) ** power for power in range(BASES[shape])], axis=1)


def trend(calendar: Calendar, name: str, given: ArrayLike | Mapping[str, float]) -> Trend:
    """A constant, values as given, or {mean, initial} (linear), {mean, initial, peak_day} (quadratic; days from 1).

    >>> trend(Calendar(3, 1), "effect", {"mean": 0.2, "initial": 0.1}).values
    array([0.1, 0.2, 0.3])
    """
    if not isinstance(given, Mapping):
        values = calendar.expand(given, name)
        return Trend(values, "constant", f"{values.mean():.3g}" if np.ptp(values) == 0 else "as given over the days")
    unknown = [key for key in given if key not in KEYS]
    if unknown or not {"mean", "initial"} <= set(given):
        raise InputError(f"{name}: a trend has mean, initial and, if quadratic, peak_day; got {sorted(given)}")
    day = np.arange(float(calendar.days))
    start = given["initial"]
    mean = given["mean"]
    peak = given.get("peak_day")
    shape = "linear" if peak is None else "quadratic"
    if calendar.days < BASES[shape]:
        raise InputError(f"{name}: {calendar.days} days are too few for a {shape} trend")
    # Whose slope is 0 on the peak day, or a straight line; scaled so that the mean is as asked.
    bend = day if peak is None else day**2 - 2 * (peak - 1) * day
    if abs(bend.mean()) < 1e-12:
        raise InputError(f"{name}: no quadratic trend with its extreme on day {peak:g} has another mean than its start")
    values = start + (mean - start) / bend.mean() * bend
    words = f"{shape}, {start:g} on day 1, mean {mean:g}" + ("" if peak is None else f", extreme on day {peak:g}")
    return Trend(np.repeat(values, calendar.decisions_per_day), shape, words)


SMALLEST = 10
"""Below so many people the formulas promise nothing."""
LARGEST = 1_000_000


@dataclass(frozen=True)
class Design:
    """What a trial tests, per participant."""

    noncentrality: Callable[[float], float]
    """Of one participant, when the effect is multiplied by this factor."""
    tested: int
    """p, the coefficients that are tested together."""
    effects: int
    """All coefficients of the effect."""
    controls: int
    """q, with the intercept."""
    level: float
    effect: float
    """The mean effect that the factor multiplies."""
    effect_words: str
    assumptions: tuple[str, ...]

    def power(self, people: int, scale: float = 1.0) -> float:
        """P(F_{p, N − p − q}(N λ) > its critical value)."""
        from scipy.stats import f, ncf

        degrees = people - self.effects - self.controls
        if degrees < 1:
            raise InputError(
                f"{people} people are too few for {self.effects} effect and {self.controls} control coefficients; "
                f"at least {self.effects + self.controls + 1} are needed"
            )
        critical = f.isf(self.level, self.tested, degrees)
        return float(ncf.sf(critical, self.tested, degrees, people * self.noncentrality(scale)))

    def people(self, power: float, scale: float = 1.0) -> int:
        """The smallest number of people, at least 10, with at least this power."""
        low = max(SMALLEST, self.effects + self.controls + 1)
        if self.power(low, scale) >= power:
            return low
        high = low
        while self.power(high, scale) < power:
            low, high = high, 2 * high
            if high > LARGEST:
                raise InputError(f"more than {LARGEST:,} people would be needed; the effect is too small, or nothing")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, scale) >= power else (middle, high)
        return high


@dataclass(frozen=True)
class SampleSize:
    """How many people, with which power.

    Attributes
    ----------
    people
        Participants.
    power
        Of the test with so many.
    design
        What the test and its non-centrality are.
    wanted_power
        None when people were given and power was asked.
    """

    people: int
    power: float
    design: Design
    wanted_power: float | None

    @property
    def sentence(self) -> str:
        """For the protocol, with every assumption."""
        aim = "" if self.wanted_power is None else f" (at least {100 * self.wanted_power:.0f} % was wanted)"
        degrees = self.people - self.design.effects - self.design.controls
        return (
            f"With {self.people} participants the trial detects {self.design.effect_words} with "
            f"{100 * self.power:.1f} % power{aim} at level {self.design.level:g} (F test with {self.design.tested} and "
            f"{degrees} degrees of freedom). Assumed: {'; '.join(self.design.assumptions)}."
        )

    def table(self, factors: Sequence[float] = (0.5, 0.75, 1.0, 1.25, 1.5), powers: Sequence[float] = (0.8, 0.9)) -> Any:
        """People needed if the effect were smaller or larger: a frame with columns effect, people_80, people_90, power.

        Effects that no trial could have or detect are left out.
        """
        rows = []
        for factor in factors:
            try:
                people = {f"people_{100 * power:g}": self.design.people(power, factor) for power in powers}
            except InputError:
                continue
            rows.append({"effect": factor * self.design.effect, **people, "power": self.design.power(self.people, factor)})
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, "pyarrow")

    def curve(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers of people, and the power with each."""
        fewest = max(SMALLEST, self.design.effects + self.design.controls + 1)
        people = np.unique(np.linspace(fewest, max(2 * self.people, fewest + 10), 60).astype(np.int64))
        return people, np.array([self.design.power(int(n)) for n in people])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "people": self.people,
            "power": self.power,
            "level": self.design.level,
            "degrees_of_freedom": [self.design.tested, self.people - self.design.effects - self.design.controls],
            "assumptions": list(self.design.assumptions),
            "sentence": self.sentence,
            "table": self.table().to_pylist(),
        }


def settle(design: Design, power: float | None, people: int | None) -> SampleSize:
    """People for a power, or power for people."""
    if not 0 < design.level < 1:
        raise InputError(f"level is {design.level:g}; it lies between 0 and 1")
    if people is not None:
        if power is not None:
            raise InputError("give people (to learn the power) or power (to learn the people), not both")
        return SampleSize(int(people), design.power(int(people)), design, None)
    wanted = 0.8 if power is None else power
    if not 0 < wanted < 1:
        raise InputError(f"power is {wanted:g}; it lies between 0 and 1")
    if not design.noncentrality(1.0) > 0:
        raise InputError("the effect is nothing, and no number of people detects that; give an effect")
    needed = design.people(wanted)
    return SampleSize(needed, design.power(needed), design, wanted)


OverDays = ArrayLike | Mapping[str, float]
"""A number; one for every day or decision point; or {mean, initial, peak_day} of a linear or quadratic trend."""


SMALLEST_EFFECT = 0.005
"""In standard deviations of the outcome; no trial is planned for less."""


@dataclass(frozen=True)
class Moderator:
    """A variable that changes the effect, independent of time: by `effect` for one more of it.

    Attributes
    ----------
    name
        What the text calls it.
    effect
        By how much the effect grows for one more of it.
    sd
        Of the variable over decision points; √(share (1 − share)) for a yes/no variable.
    """

    name: str
    effect: float
    sd: float


@dataclass(frozen=True)
class _Setting:
    """What both kinds of outcome have in common, one value for each decision point."""

    calendar: Calendar
    probability: Matrix
    availability: Trend
    effect: Trend
    basis: Matrix

    @classmethod
    def of_design(
        cls,
        calendar: Calendar,
        probability: ArrayLike,
        effect: OverDays,
        availability: OverDays,
        test: str | ArrayLike | None,
    ) -> _Setting:
        chance = calendar.expand(probability, "probability")
        if not ((chance > 0) & (chance < 1)).all():
            raise InputError("a randomisation probability lies strictly between 0 and 1")
        change = trend(calendar, "effect", effect)
        present = trend(calendar, "availability", availability)
        if not ((present.values > 0) & (present.values <= 1 + 1e-12)).all():
            raise InputError("expected availability lies above 0 and at most at 1 on every day; correct its trend")
        return cls(calendar, chance, present, change, calendar.basis(change.shape if test is None else test))

    @property
    def coefficients(self) -> Matrix:
        """The effect as a combination of the tested columns: (Σ τ ZZᵀ)⁻¹ Σ τ Z d(t)."""
        weighted = self.availability.values[:, None] * self.basis
        return np.asarray(np.linalg.solve(weighted.T @ self.basis, weighted.T @ self.effect.values))

    @property
    def information(self) -> Matrix:
        """τ ρ(1 − ρ) of every decision point."""
        return np.asarray(self.availability.values * self.probability * (1 - self.probability))

    @property
    def mean_effect(self) -> float:
        return float(np.average(self.effect.values, weights=self.availability.values))

    def spread_covariance(self, spread: float) -> Matrix:
        """σ_b² ccᵀ with Zc = 1: what effects that differ between people add to the covariance."""
        if not spread:
            return np.zeros((self.basis.shape[1],) * 2)
        combination, *_ = np.linalg.lstsq(self.basis, np.ones(len(self.basis)), rcond=None)
        if np.abs(self.basis @ combination - 1).max() > 1e-9:
            raise InputError("effect_sd needs an intercept among the tested columns; add one to `test`")
        return np.asarray(spread**2 * np.outer(combination, combination))

    @property
    def assumptions(self) -> tuple[str, ...]:
        p = self.probability
        calendar = self.calendar
        chance = f"{p[0]:g}" if np.ptp(p) == 0 else f"{p.min():g} to {p.max():g}"
        return (
            f"{calendar.days} days with {calendar.decisions_per_day} decision points each",
            f"randomisation probability {chance}",
            f"expected availability {self.availability.words}",
        )


def continuous(
    days: int,
    decisions_per_day: int,
    *,
    effect: OverDays,
    probability: ArrayLike = 0.5,
    availability: OverDays = 1.0,
    sd: float = 1.0,
    effect_sd: float = 0.0,
    moderators: Sequence[Moderator] = (),
    test: str | ArrayLike | None = None,
    test_moderators: bool = False,
    controls: int = 3,
    power: float | None = None,
    people: int | None = None,
    level: float = 0.05,
) -> SampleSize:
    """People for a power (0.8 unless given), or the power with so many `people`, for a continuous outcome.

    With Z the tested columns, τ availability and ρ the probability: Q = Σ τ ρ(1 − ρ) ZZᵀ, d = (Σ τ ZZᵀ)⁻¹ Σ τ Z d(t) in
    units of `sd`; the test is F(p, N − p − q) with non-centrality N dᵀ(Q⁻¹ + σ_b² ccᵀ)⁻¹d, Zc = 1.

    Parameters
    ----------
    days, decisions_per_day
        Of the trial.
    effect
        A number, one for each day or decision point, or {"mean": …, "initial": …, "peak_day": …}: linear with this mean
        over the days and this value on day 1, quadratic with its extreme on that day. In the outcome's units; with sd = 1
        standardised.
    probability
        Of treatment: a number, or one for each day or decision point.
    availability
        The expected share of available decision points; given as `effect` is.
    sd
        Of the outcome given the controls.
    effect_sd
        σ_b: how much the effect differs between people, in the outcome's units.
    moderators, test_moderators
        Variables that change the effect; tested with the effect, or alone.
    test
        Which shape of effect is tested: `constant`, `linear`, `quadratic` or a matrix; the effect's own unless given.
    controls
        q, how many coefficients the controls have, with the intercept.
    power, people
        Wanted power, or the number of people whose power is asked.
    level
        Of the test.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> from surefoot.sample_size import continuous
    >>> growing = {"mean": 0.1, "initial": 0.0, "peak_day": 29}
    >>> continuous(42, 5, effect=growing, probability=0.4, availability=0.7).people
    32
    """
    if not (sd > 0 and effect_sd >= 0):
        raise InputError(f"sd is {sd:g} and effect_sd {effect_sd:g}; sd must be above 0 and effect_sd not below")
    if test_moderators and not moderators:
        raise InputError("there are no moderators to test; name them")
    setting = _Setting.of_design(Calendar(days, decisions_per_day), probability, effect, availability, test)
    mean = setting.mean_effect
    average = 0.0
    if not test_moderators:
        if 0 < abs(mean) < SMALLEST_EFFECT * sd:
            # It was probably meant in standard deviations.
            reason = f"an effect of {mean:.3g} is {abs(mean) / sd:.2g} standard deviations of the outcome (sd {sd:.3g})"
            remedy = f"give it in the outcome's units, in which 0.1 standard deviations are {0.1 * sd:.3g}"
            raise InputError(f"{reason}, too small for any trial; {remedy}")
        information = (setting.basis * setting.information[:, None]).T @ setting.basis
        noise = np.linalg.inv(information) + setting.spread_covariance(effect_sd / sd)
        coefficients = setting.coefficients / sd
        average = float(coefficients @ np.linalg.solve(noise, coefficients))
    # Centred, a moderator tells nothing about the average effect, nor that about the moderator.
    extra = sum(setting.information.sum() * (moderator.sd * moderator.effect / sd) ** 2 for moderator in moderators)
    design = Design(
        noncentrality=lambda scale: scale**2 * (average + extra),
        tested=len(moderators) + (0 if test_moderators else setting.basis.shape[1]),
        effects=setting.basis.shape[1] + len(moderators),
        controls=controls + len(moderators),
        level=level,
        effect=mean,
        effect_words=f"a mean effect of {mean:.3g} (standard deviation of the outcome {sd:.3g})",
        assumptions=(
            *setting.assumptions,
            f"effect {setting.effect.words}",
            _describe_spread("effect", effect_sd),
            *(
                f"{moderator.name} (standard deviation {moderator.sd:g}) changes the effect by {moderator.effect:g}"
                for moderator in moderators
            ),
            f"{controls} control coefficients",
            "outcomes of one participant independent given the controls",
        ),
    )
    return settle(design, power, people)


def _describe_spread(effect: str, spread: float) -> str:
    if spread:
        return f"{effect}s that differ between people with standard deviation {spread:.3g}"
    return f"the same {effect} for everybody"


def binary(
    days: int,
    decisions_per_day: int,
    *,
    effect: OverDays,
    baseline: OverDays,
    probability: ArrayLike = 0.5,
    availability: OverDays = 1.0,
    effect_sd: float = 0.0,
    test: str | ArrayLike | None = None,
    controls: int = 3,
    power: float | None = None,
    people: int | None = None,
    level: float = 0.05,
) -> SampleSize:
    """As `continuous`, for an outcome that is 0 or 1; the effect is a log relative risk.

    M = Σ τ e^(ρfᵀβ) μ₀ ρ(1 − ρ) ffᵀ and Σ = Σ τ e^(2ρfᵀβ) μ₀ ρ(1 − ρ) [(1 − ρ) e^(−fᵀβ) + ρ − μ₀] ffᵀ; non-centrality
    N βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β.

    Parameters
    ----------
    baseline
        μ₀, the probability of 1 without treatment; given as `effect` is.
    days, decisions_per_day, effect, probability, availability, effect_sd, test, controls, power, people, level
        As in `continuous`.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> from surefoot.sample_size import binary
    >>> binary(30, 3, effect=0.2, baseline=0.3, probability=0.4, availability=0.8).people
    25
    """
    setting = _Setting.of_design(Calendar(days, decisions_per_day), probability, effect, availability, test)
    base = trend(setting.calendar, "baseline", baseline)
    mu = base.values
    if not ((mu > 0) & (mu < 1)).all():
        raise InputError("baseline is the probability of the outcome without treatment; it lies strictly between 0 and 1")
    design = Design(
        noncentrality=lambda scale: _log_linear_noncentrality(setting, mu, effect_sd, scale),
        tested=setting.basis.shape[1],
        effects=setting.basis.shape[1],
        controls=controls,
        level=level,
        effect=setting.mean_effect,
        effect_words=f"a mean log relative risk of {setting.mean_effect:.3g} "
        f"(relative risk {np.exp(setting.mean_effect):.3g})",
        assumptions=(
            *setting.assumptions,
            f"log relative risk {setting.effect.words}",
            f"probability of the outcome without treatment {base.words}",
            _describe_spread("log relative risk", effect_sd),
            f"{controls} control coefficients",
        ),
    )
    return settle(design, power, people)


def _log_linear_noncentrality(setting: _Setting, mu: Matrix, effect_sd: float, scale: float) -> float:
    """βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β of one participant, with β multiplied by `scale`."""
    tau = setting.availability.values
    rho = setting.probability
    f = setting.basis
    beta = scale * setting.coefficients
    change = f @ beta
    if (mu * np.exp(np.maximum(change, 0)) >= 1).any():
        raise InputError("with this effect the probability of the outcome would exceed 1 under treatment; check both")
    bread = (f * (tau * np.exp(rho * change) * mu * rho * (1 - rho))[:, None]).T @ f
    spread = tau * np.exp(2 * rho * change) * mu * rho * (1 - rho) * ((1 - rho) * np.exp(-change) + rho - mu)
    half = np.linalg.solve(bread, (f * spread[:, None]).T @ f)
    noise = np.linalg.solve(bread, half.T) + setting.spread_covariance(effect_sd)
    return float(beta @ np.linalg.solve(noise, beta))
