"""Power of the F test with a small-sample denominator, and the smallest trial with enough of it."""

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
"""Number of coefficients of a trend of each shape: 1, day, day²."""
OverDays = ArrayLike | Mapping[str, float]
"""A number; one for every day or decision point; or {mean, initial, peak_day} of a linear or quadratic trend."""


@dataclass(frozen=True)
class Trend:
    """One number for every decision point, and the shape that they have."""

    values: Matrix
    shape: str
    words: str


SMALLEST = 10
"""With fewer people the formulas promise nothing."""
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
        high = 2 * low
        while self.power(high, scale) < power:
            low = high
            high = 2 * low
            if high > LARGEST:
                raise InputError(f"more than {LARGEST:,} people would be needed; the effect is too small, or nothing")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, scale) >= power else (middle, high)
        return high

    def settle(self, power: float | None, people: int | None) -> SampleSize:
        """People for a power, or power for people."""
        if not 0 < self.level < 1:
            raise InputError(f"level is {self.level:g}; it lies between 0 and 1")
        if people is not None:
            if power is not None:
                raise InputError("give people (to learn the power) or power (to learn the people), not both")
            return SampleSize(int(people), self.power(int(people)), self, None)
        wanted = 0.8 if power is None else power
        if not 0 < wanted < 1:
            raise InputError(f"power is {wanted:g}; it lies between 0 and 1")
        if not self.noncentrality(1.0) > 0:
            raise InputError("the effect is nothing, and no number of people detects that; give an effect")
        needed = self.people(wanted)
        return SampleSize(needed, self.power(needed), self, wanted)


@dataclass(frozen=True)
class SampleSize:
    """How many people, with which power."""

    people: int
    """Participants."""
    power: float
    """Of the test with so many."""
    design: Design
    """What the test and its non-centrality are."""
    wanted_power: float | None
    """None when people were given and power was asked."""

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


SMALLEST_EFFECT = 0.005
"""In standard deviations of the outcome; no trial is planned for less."""


@dataclass(frozen=True)
class Moderator:
    """A variable that changes the effect, independent of time: by `effect` for one more of it."""

    name: str
    """What the text calls it."""
    effect: float
    """By how much the effect grows for one more of it."""
    sd: float
    """Of the variable over decision points; √(share (1 − share)) for a yes/no variable."""


class Schedule:
    """The decision points of a trial, with availability τ, probability ρ, effect and tested columns Z of each.

    >>> Schedule(3, 1, 0.5, {"mean": 0.2, "initial": 0.1}, 1.0).effect.values
    array([0.1, 0.2, 0.3])
    """

    def __init__(
        self,
        days: int,
        decisions_per_day: int,
        probability: ArrayLike,
        effect: OverDays,
        availability: OverDays,
        test: str | ArrayLike | None = None,
    ) -> None:
        for name, value in (("days", days), ("decisions_per_day", decisions_per_day)):
            if value != int(value) or value < 1:
                raise InputError(f"{name} is {value!r}; give a whole number, at least 1")
        self.days = int(days)
        self.decisions_per_day = int(decisions_per_day)
        self.probability = self.expand(probability, "probability")
        if not ((self.probability > 0) & (self.probability < 1)).all():
            raise InputError("a randomisation probability lies strictly between 0 and 1")
        self.effect = self.read_trend("effect", effect)
        self.availability = self.read_trend("availability", availability)
        tau = self.availability.values
        if not ((tau > 0) & (tau <= 1 + 1e-12)).all():
            raise InputError("expected availability lies above 0 and at most at 1 on every day; correct its trend")
        self.basis = self._make_basis(self.effect.shape if test is None else test)
        self.information = tau * self.probability * (1 - self.probability)
        """τ ρ(1 − ρ)."""
        weighted = tau[:, None] * self.basis
        self.coefficients = np.linalg.solve(weighted.T @ self.basis, weighted.T @ self.effect.values)
        """The effect as a combination of the tested columns: (Σ τ ZZᵀ)⁻¹ Σ τ Z d(t)."""
        self.mean_effect = float(np.average(self.effect.values, weights=tau))

    def expand(self, values: ArrayLike, name: str) -> Matrix:
        """A number, a number for every day, or one for every decision point → one for every decision point."""
        array = np.asarray(values, dtype=np.float64)
        points = self.days * self.decisions_per_day
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds a value that is not a number")
        if array.ndim == 0:
            return np.full(points, float(array))
        if len(array) == self.days:
            return np.repeat(array, self.decisions_per_day, axis=0)
        if len(array) == points:
            return array
        raise InputError(
            f"{name} has {len(array)} values; give one number, {self.days} (one for every day) or {points} "
            "(one for every decision point)"
        )

    def read_trend(self, name: str, given: OverDays) -> Trend:
        """A constant, values as given, or {mean, initial} (linear), {mean, initial, peak_day} (quadratic; days from 1)."""
        if not isinstance(given, Mapping):
            values = self.expand(given, name)
            return Trend(values, "constant", f"{values.mean():.3g}" if np.ptp(values) == 0 else "as given over the days")
        if not {"mean", "initial"} <= set(given) <= {"mean", "initial", "peak_day"}:
            raise InputError(f"{name}: a trend has mean, initial and, if quadratic, peak_day; got {sorted(given)}")
        day = np.arange(float(self.days))
        start = given["initial"]
        mean = given["mean"]
        peak = given.get("peak_day")
        shape = "linear" if peak is None else "quadratic"
        if self.days < BASES[shape]:
            raise InputError(f"{name}: {self.days} days are too few for a {shape} trend")
        # A straight line, or a parabola whose slope is 0 on the peak day; scaled so that the mean is as asked.
        bend = day if peak is None else day**2 - 2 * (peak - 1) * day
        if abs(bend.mean()) < 1e-12:
            raise InputError(f"{name}: no quadratic trend with its extreme on day {peak:g} has another mean than its start")
        values = start + (mean - start) / bend.mean() * bend
        words = f"{shape}, {start:g} on day 1, mean {mean:g}" + ("" if peak is None else f", extreme on day {peak:g}")
        return Trend(np.repeat(values, self.decisions_per_day), shape, words)

    def _make_basis(self, shape: str | ArrayLike) -> Matrix:
        """Z: (decision points, coefficients) for constant, linear or quadratic, or a matrix as given."""
        if not isinstance(shape, str):
            matrix = self.expand(shape, "test")
            return matrix if matrix.ndim == 2 else matrix[:, None]
        if shape not in BASES:
            raise InputError(f"'{shape}' is not a shape; choose from {list(BASES)}, or give a matrix")
        # Divided by the number of days: the same space, and sums of day⁴ stay small.
        day = np.repeat(np.arange(float(self.days)), self.decisions_per_day) / self.days
        return np.stack([day**power for power in range(BASES[shape])], axis=1)

    def find_spread_covariance(self, spread: float) -> Matrix:
        """σ_b² ccᵀ with Zc = 1: the covariance that effects that differ between people add."""
        if not spread:
            return np.zeros((self.basis.shape[1],) * 2)
        combination, *_ = np.linalg.lstsq(self.basis, np.ones(len(self.basis)), rcond=None)
        if np.abs(self.basis @ combination - 1).max() > 1e-9:
            raise InputError("effect_sd needs an intercept among the tested columns; add one to `test`")
        return np.asarray(spread**2 * np.outer(combination, combination))

    @property
    def assumptions(self) -> tuple[str, ...]:
        p = self.probability
        chance = f"{p[0]:g}" if np.ptp(p) == 0 else f"{p.min():g} to {p.max():g}"
        return (
            f"{self.days} days with {self.decisions_per_day} decision points each",
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
    schedule = Schedule(days, decisions_per_day, probability, effect, availability, test)
    mean = schedule.mean_effect
    average = 0.0
    if not test_moderators:
        if 0 < abs(mean) < SMALLEST_EFFECT * sd:
            # It was probably meant in standard deviations.
            reason = f"an effect of {mean:.3g} is {abs(mean) / sd:.2g} standard deviations of the outcome (sd {sd:.3g})"
            remedy = f"give it in the outcome's units, in which 0.1 standard deviations are {0.1 * sd:.3g}"
            raise InputError(f"{reason}, too small for any trial; {remedy}")
        information = (schedule.basis * schedule.information[:, None]).T @ schedule.basis
        noise = np.linalg.inv(information) + schedule.find_spread_covariance(effect_sd / sd)
        coefficients = schedule.coefficients / sd
        average = float(coefficients @ np.linalg.solve(noise, coefficients))
    # Centred, a moderator tells nothing about the average effect, nor that about the moderator.
    extra = sum(schedule.information.sum() * (moderator.sd * moderator.effect / sd) ** 2 for moderator in moderators)
    design = Design(
        noncentrality=lambda scale: scale**2 * (average + extra),
        tested=len(moderators) + (0 if test_moderators else schedule.basis.shape[1]),
        effects=schedule.basis.shape[1] + len(moderators),
        controls=controls + len(moderators),
        level=level,
        effect=mean,
        effect_words=f"a mean effect of {mean:.3g} (standard deviation of the outcome {sd:.3g})",
        assumptions=(
            *schedule.assumptions,
            f"effect {schedule.effect.words}",
            _describe_spread("effect", effect_sd),
            *(
                f"{moderator.name} (standard deviation {moderator.sd:g}) changes the effect by {moderator.effect:g}"
                for moderator in moderators
            ),
            f"{controls} control coefficients",
            "outcomes of one participant independent given the controls",
        ),
    )
    return design.settle(power, people)


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
    schedule = Schedule(days, decisions_per_day, probability, effect, availability, test)
    base = schedule.read_trend("baseline", baseline)
    mu = base.values
    if not ((mu > 0) & (mu < 1)).all():
        raise InputError("baseline is the probability of the outcome without treatment; it lies strictly between 0 and 1")
    design = Design(
        noncentrality=lambda scale: _log_linear_noncentrality(schedule, mu, effect_sd, scale),
        tested=schedule.basis.shape[1],
        effects=schedule.basis.shape[1],
        controls=controls,
        level=level,
        effect=schedule.mean_effect,
        effect_words=f"a mean log relative risk of {schedule.mean_effect:.3g} "
        f"(relative risk {np.exp(schedule.mean_effect):.3g})",
        assumptions=(
            *schedule.assumptions,
            f"log relative risk {schedule.effect.words}",
            f"probability of the outcome without treatment {base.words}",
            _describe_spread("log relative risk", effect_sd),
            f"{controls} control coefficients",
        ),
    )
    return design.settle(power, people)


def _log_linear_noncentrality(schedule: Schedule, mu: Matrix, effect_sd: float, scale: float) -> float:
    """βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β of one participant, with β multiplied by `scale`."""
    tau = schedule.availability.values
    rho = schedule.probability
    f = schedule.basis
    beta = scale * schedule.coefficients
    change = f @ beta
    if (mu * np.exp(np.maximum(change, 0)) >= 1).any():
        raise InputError("with this effect the probability of the outcome would exceed 1 under treatment; check both")
    bread = (f * (tau * np.exp(rho * change) * mu * rho * (1 - rho))[:, None]).T @ f
    spread = tau * np.exp(2 * rho * change) * mu * rho * (1 - rho) * ((1 - rho) * np.exp(-change) + rho - mu)
    half = np.linalg.solve(bread, (f * spread[:, None]).T @ f)
    noise = np.linalg.solve(bread, half.T) + schedule.find_spread_covariance(effect_sd)
    return float(beta @ np.linalg.solve(noise, beta))
