"""Power of the F test with a small-sample denominator, and the smallest trial with enough of it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError, did_you_mean
from surefoot.reports.numbers import format_estimate, format_percent, format_rows
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import WIDTH, Overview, ShownResult, align_columns, latex_table
from surefoot.sample_size.pilot import Pilot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

Matrix = NDArray[np.float64]
BASES = {"constant": 1, "linear": 2, "quadratic": 3}  # Number of coefficients of a trend of each shape: 1, day, day².
OverDays = ArrayLike | Mapping[str, float]
"""A number; one for every day or decision point; or {mean, initial, peak_day} of a linear or quadratic trend."""
SMALLEST = 10  # With fewer people the formulas promise nothing.
LARGEST = 1_000_000
SMALLEST_EFFECT = 0.005  # In standard deviations of the outcome; no trial is planned for less.


@dataclass(frozen=True)
class Design:
    """What a trial tests, per participant."""

    noncentrality: Callable[[float], float]  # Of one participant, when the effect is multiplied by this factor.
    tested: int  # p, the coefficients that are tested together.
    effects: int  # All coefficients of the effect.
    controls: int  # q, with the intercept.
    level: float
    effect: float  # The mean effect that the factor multiplies.
    effect_words: str
    assumptions: tuple[str, ...]

    @property
    def fewest(self) -> int:
        return max(SMALLEST, self.effects + self.controls + 1)

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
        low = self.fewest - 1
        high = self.fewest
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


@dataclass(frozen=True, repr=False)
class SampleSize(ShownResult):
    """The number of people and the power of a trial; with a pilot also at the cautious ends of its intervals."""

    page_title: ClassVar[str] = "Size of the trial"
    machinery = ShownResult.machinery | {"list_cells"}
    people: int
    """Participants."""
    power: float
    """Of the test with so many."""
    design: Design
    """What the test and its non-centrality are."""
    wanted_power: float | None
    """None when people were given and power was asked."""
    pilot: Pilot | None = None
    """What the pilot said, where there is one."""
    cautious: SampleSize | None = None
    """The size with every estimate of the pilot at the cautious end of its interval."""

    def _overview(self) -> Overview:
        test = f"F({self.degrees[0]}, {self.degrees[1]}) at level {self.design.level:g}"
        facts = {"effect": self.design.effect_words, "test": test}
        if self.cautious is not None:
            facts["cautious"] = f"{self.cautious.people:,} people at the cautious ends of the pilot's intervals"
        return Overview(f"Sample size: {self.people:,} people, power {format_percent(self.power)}", facts, self.list_cells())

    @property
    def degrees(self) -> tuple[int, int]:
        """Of freedom of the F test."""
        return self.design.tested, self.people - self.design.effects - self.design.controls

    @property
    def sentence(self) -> str:
        """For the protocol, with every assumption."""
        return self._write_sentences()[0]

    @property
    def pilot_lines(self) -> list[str]:
        """What the pilot said, and what it would mean at the cautious ends."""
        return self._write_sentences()[1:]

    def _write_sentences(self) -> list[str]:
        from surefoot.reports.render import write_sentences

        return write_sentences("size.txt", size=self)

    def to_frame(self, backend: str | None = None) -> Any:
        """People needed if the effect were smaller or larger, in columns effect, people_80, people_90, power.

        Effects that no trial could have or detect are left out.
        """
        rows = []
        for factor in (0.5, 0.75, 1.0, 1.25, 1.5):
            try:
                people = {f"people_{100 * power:g}": self.design.people(power, factor) for power in (0.8, 0.9)}
            except InputError:
                continue
            rows.append({"effect": factor * self.design.effect, **people, "power": self.design.power(self.people, factor)})
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = {
            "people": self.people,
            "power": self.power,
            "level": self.design.level,
            "degrees_of_freedom": list(self.degrees),
            "assumptions": list(self.design.assumptions),
            "sentence": self.sentence,
            "table": self.to_frame("pyarrow").to_pylist(),
        }
        if self.pilot is not None and self.cautious is not None:
            numbers |= {"pilot": self.pilot.to_dict(), "cautious": self.cautious.to_dict()}
        return numbers

    def list_cells(self) -> list[list[str]]:
        """The table over effect sizes, headers first."""
        headers = ["mean effect", "people for 80 %", "people for 90 %", f"power with {self.people}"]
        return [headers, *(list(row.values()) for row in format_rows(self.to_frame("pyarrow").to_pylist()))]

    def to_latex(self) -> str:
        """The table over effect sizes, for booktabs."""
        headers, *rows = self.list_cells()
        return latex_table(headers, rows)

    def print_summary(self, console: Console) -> None:
        """Print the sentence of the protocol, the pilot's estimates and the table over effect sizes."""
        lines = align_columns(self.list_cells())
        paragraphs = [textwrap.fill(text, WIDTH) for text in (self.sentence, *self.pilot_lines)]
        console.out("\n".join([*paragraphs, "", *lines]), highlight=False)

    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained page: the protocol's sentence, the curve of power, the table over effect sizes."""
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import inline_svg, render

        note = f"Dashed: {self.people} participants with {100 * self.power:.1f} % power."
        charts = [(inline_svg(self.plot(ax=new_page_figure()), f"Power by number of participants; {note}"), note)]
        return render("size.html", title=title, source=source, size=self, charts=charts)

    def plot(self, *, ax: Drawable = None) -> Axes:
        """The power by number of participants, as assumed and at the cautious ends of the pilot."""
        from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, choose_axes, label_axes

        axes = choose_axes(ax, width=5.6, height=3.4)
        fewest = self.design.fewest
        people = np.unique(np.linspace(fewest, max(2 * self.people, fewest + 10), 60).astype(np.int64)).tolist()
        axes.plot(people, [100 * self.design.power(n) for n in people], color=BLUE, linewidth=1.8, label="as assumed")
        if self.cautious is not None:
            powers = [100 * self.cautious.design.power(n) for n in people]
            axes.plot(people, powers, color=ORANGE, label="cautious ends of the pilot")
        axes.axvline(self.people, color=GREY, linewidth=0.8, linestyle="--", label="this trial")
        axes.axhline(100 * self.power, color=GREY, linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 100)
        label_axes(axes, x="participants", y="power (%)", title="Power")
        add_legend(axes)
        return axes


@dataclass(frozen=True)
class Moderator:
    """A variable that changes the effect, independent of time: by `effect` for one more of it."""

    name: str
    """What the text calls it."""
    effect: float
    """By how much the effect grows for one more of it."""
    sd: float
    """Of the variable over decision points; √(share (1 − share)) for a yes/no variable."""


class Trend(NamedTuple):
    """One number for every decision point, and the shape that they have."""

    values: Matrix
    shape: str
    words: str


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
        shape = self.effect.shape if test is None else test
        if not isinstance(shape, str):
            matrix = self.expand(shape, "test")
            self.basis = matrix if matrix.ndim == 2 else matrix[:, None]
        elif shape in BASES:
            # Divided by the number of days: the same space, and sums of day⁴ stay small.
            day = np.repeat(np.arange(float(self.days)), self.decisions_per_day) / self.days
            self.basis = np.stack([day**power for power in range(BASES[shape])], axis=1)
        else:
            raise InputError(f"'{shape}' is not a shape; choose from {list(BASES)}, or give a matrix")
        self.information = tau * self.probability * (1 - self.probability)  # τ ρ(1 − ρ).
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

    def find_spread_covariance(self, spread: float) -> Matrix:
        """σ_b² ccᵀ with Zc = 1: the covariance that effects that differ between people add."""
        if not spread:
            return np.zeros((self.basis.shape[1],) * 2)
        combination, *_ = np.linalg.lstsq(self.basis, np.ones(len(self.basis)), rcond=None)
        if np.abs(self.basis @ combination - 1).max() > 1e-9:
            raise InputError("effect_sd needs an intercept among the tested columns; add one to `test`")
        return np.asarray(spread**2 * np.outer(combination, combination))

    def list_assumptions(self, effect: str, effect_sd: float, baseline: Trend | None = None) -> list[str]:
        """What the sentence of the protocol says about the schedule and the effect."""
        p = self.probability
        words = [
            f"{self.days} days with {self.decisions_per_day} decision points each",
            f"randomisation probability {p.min():g}" + ("" if np.ptp(p) == 0 else f" to {p.max():g}"),
            f"expected availability {self.availability.words}",
            f"{effect} {self.effect.words}",
        ]
        if baseline is not None:
            words.append(f"probability of the outcome without treatment {baseline.words}")
        differing = f"{effect}s that differ between people with standard deviation {effect_sd:.3g}"
        return [*words, differing if effect_sd else f"the same {effect} for everybody"]


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
    """Find the number of people for a power, or the power with a number of people, for a continuous outcome.

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
    probability, availability
        Of treatment: a number, or one for each day or decision point; the expected share of available decision points,
        given as `effect` is.
    sd, effect_sd
        Standard deviation of the outcome given the controls, and σ_b: how much the effect differs between people.
    moderators, test_moderators
        Variables that change the effect; tested with the effect, or alone.
    test
        Which shape of effect is tested: `constant`, `linear`, `quadratic` or a matrix; the effect's own unless given.
    controls
        q, how many coefficients the controls have, with the intercept.
    power, people, level
        Wanted power, or the number of people whose power is asked; the level of the test.

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
    size = schedule.basis.shape[1]
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
        tested=len(moderators) + (0 if test_moderators else size),
        effects=size + len(moderators),
        controls=controls + len(moderators),
        level=level,
        effect=mean,
        effect_words=f"a mean effect of {mean:.3g} (standard deviation of the outcome {sd:.3g})",
        assumptions=(
            *schedule.list_assumptions("effect", effect_sd),
            *(
                f"{moderator.name} (standard deviation {moderator.sd:g}) changes the effect by {moderator.effect:g}"
                for moderator in moderators
            ),
            f"{controls} control coefficients",
            "outcomes of one participant independent given the controls",
        ),
    )
    return design.settle(power, people)


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
    """Find the number of people, or the power, for an outcome that is 0 or 1; the effect is a log relative risk.

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
    rho = schedule.probability
    f = schedule.basis

    def find_noncentrality(scale: float) -> float:
        """βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β of one participant, with β multiplied by `scale`."""
        beta = scale * schedule.coefficients
        change = f @ beta
        if (mu * np.exp(np.maximum(change, 0)) >= 1).any():
            raise InputError("with this effect the probability of the outcome would exceed 1 under treatment; check both")
        bread = (f * (schedule.information * np.exp(rho * change) * mu)[:, None]).T @ f
        spread = schedule.information * np.exp(2 * rho * change) * mu * ((1 - rho) * np.exp(-change) + rho - mu)
        half = np.linalg.solve(bread, (f * spread[:, None]).T @ f)
        noise = np.linalg.solve(bread, half.T) + schedule.find_spread_covariance(effect_sd)
        return float(beta @ np.linalg.solve(noise, beta))

    mean = schedule.mean_effect
    design = Design(
        noncentrality=find_noncentrality,
        tested=f.shape[1],
        effects=f.shape[1],
        controls=controls,
        level=level,
        effect=mean,
        effect_words=f"a mean log relative risk of {mean:.3g} (relative risk {np.exp(mean):.3g})",
        assumptions=(
            *schedule.list_assumptions("log relative risk", effect_sd, base),
            f"{controls} control coefficients",
        ),
    )
    return design.settle(power, people)


OUTCOMES: dict[str, Callable[..., SampleSize]] = {"continuous": continuous, "binary": binary}


@spell_out_keywords(continuous, binary)
def size_trial(outcome: str, days: int, decisions_per_day: int, *, pilot: Pilot | None = None, **options: Any) -> SampleSize:
    """Find the size of a trial with a `continuous` or `binary` outcome; numbers that are not given come from the pilot.

    Parameters
    ----------
    outcome
        `continuous` or `binary`.
    days, decisions_per_day
        Of the trial.
    pilot
        From `estimate_nuisance`.
    **options
        Of `continuous` or `binary`.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> size_trial("continuous", 42, 5, effect=0.1, availability=0.7).people
    24
    """
    if outcome not in OUTCOMES:
        raise InputError(f"no outcome '{outcome}'{did_you_mean(outcome, OUTCOMES)}; choose from {list(OUTCOMES)}")
    find_size = OUTCOMES[outcome]
    known = inspect.signature(find_size).parameters
    for name in options:
        if name not in known:
            raise InputError(f"a {outcome} outcome has no {name}; leave it out")
    learned = {**({} if pilot is None else pilot.values), **options}
    for name, parameter in known.items():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty and name not in learned:
            raise InputError(f"a {outcome} outcome needs its {name}; give it, or a pilot")
    size = find_size(days, decisions_per_day, **learned)
    if pilot is None:
        return size
    cautious = {**pilot.cautious, **options}
    for name in ("availability", "baseline"):
        if name in pilot.estimates and name not in options and not cautious[name] > 0:
            raise InputError(
                f"the pilot's {name} is {format_estimate(pilot.estimates[name])}: at its lower end no number of people is "
                f"enough; give the {name} yourself, or a longer pilot"
            )
    return replace(size, pilot=pilot, cautious=find_size(days, decisions_per_day, **cautious))
