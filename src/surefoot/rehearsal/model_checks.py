"""Does the model look like the pilot? Many simulated pilots are compared with the real one, number by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.policies import fixed
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.pilot_data import PilotArrays
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, label_axes, new_figure
from surefoot.reports.numbers import format_number
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import ShownResult, make_table
from surefoot.study import StudyLogs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
OUTER = 0.01
"""An observed number with less than this share of the simulated ones beyond it is outside."""
FEWEST_PILOTS = 20
BINS = 40


class PilotCheck(NamedTuple):
    """One number of the pilot, compared with the same number of many simulated pilots."""

    name: str
    """The number."""
    observed: float
    """Its value in the pilot."""
    simulated: float
    """The median over the simulated pilots."""
    low: float
    """Their 2.5 % point."""
    high: float
    """Their 97.5 % point."""
    share_below: float
    """The share of simulated values below the observed one."""
    verdict: str
    """`fine` where the observed value lies among the simulated ones or too near to matter, else `look`."""

    @property
    def sentence(self) -> str:
        """The difference in words; empty where there is none."""
        if self.verdict == "fine":
            return ""
        values = f"{self.name}: {format_number(self.observed)} in the pilot, {format_number(self.simulated)} simulated"
        ratio = self.simulated / self.observed if self.observed else np.nan
        return f"{values} ({100 * ratio:.0f} % of it)" if 0 < ratio < 100 else values


class Pilots(NamedTuple):
    """The real pilot, or simulated ones: arrays (pilots, people, decision points), NaN where missing or past the end."""

    present: Marks
    slot: NDArray[np.int64]
    zero: float
    """The reward of an outcome of 0; NaN where no outcome is 0."""
    series: dict[str, dict[str, NDArray[Any]]]
    """Group of `STATISTICS` → name → values or marks."""

    @property
    def reward(self) -> Floats:
        return self.series["outcome"]["outcome"]


class Statistic(NamedTuple):
    """One number of a series, (pilots,), and how far off it may be without mattering."""

    name: str
    compute: Callable[[NDArray[Any], Pilots], Floats]
    tolerance: float
    unit: str = "absolute"
    """Of the tolerance: `absolute`, `relative` to the observed number, or in standard `deviations` of the series."""
    if_seen: bool = False
    """Whether a pilot in which the number is 0 has nothing to compare."""


def mean(values: Floats) -> Floats:
    """Over all decision points; NaN where there is none."""
    known = ~np.isnan(values)
    count = known.sum(axis=(1, 2))
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=(1, 2)) / np.maximum(count, 1), np.nan)


def _participant_means(values: Floats) -> Floats:
    known = ~np.isnan(values)
    count = known.sum(axis=-1, keepdims=True)
    return np.where(count > 1, np.where(known, values, 0.0).sum(axis=-1, keepdims=True) / np.maximum(count, 1), np.nan)


def spread_within(values: Floats) -> Floats:
    """√ of the mean variance within people."""
    return np.asarray(np.sqrt(mean((values - _participant_means(values)) ** 2)))


def spread_between(values: Floats) -> Floats:
    """Standard deviation of people's means."""
    means = _participant_means(values)
    deviations = means - mean(means)[:, None, None]
    count = (~np.isnan(means)).sum(axis=(1, 2))
    return np.asarray(np.sqrt(mean(deviations**2) * count / np.maximum(count - 1, 1)))


def autocorrelation(values: Floats) -> Floats:
    """Of deviations from people's means, from one decision point to the next."""
    deviations = values - _participant_means(values)
    before = deviations[..., :-1]
    after = deviations[..., 1:]
    both = ~np.isnan(before) & ~np.isnan(after)
    product, first, second = (np.where(both, term, 0.0).sum(axis=(1, 2)) for term in (before * after, before**2, after**2))
    return np.asarray(product / np.maximum(np.sqrt(first * second), 1e-300))


def means_by_slot(values: Floats, slot: NDArray[np.int64], slots: int) -> Floats:
    """The mean at each decision point of the day, (pilots, slots)."""
    return np.stack([mean(np.where(slot == number, values, np.nan)) for number in range(slots)], axis=1)


def time_of_day(values: Floats, slot: NDArray[np.int64]) -> Floats:
    """Standard deviation of the means of the day's decision points."""
    means = means_by_slot(values, slot, int(slot.max()) + 1)
    return np.asarray(np.sqrt(mean(((means - means.mean(axis=1, keepdims=True)) ** 2)[:, None])))


def trend(values: Floats) -> Floats:
    """The mean of the last third of the decision points less that of the first."""
    third = max(1, values.shape[-1] // 3)
    return mean(values[..., -third:]) - mean(values[..., :third])


def share(marks: Marks, among: Marks) -> Floats:
    """Of decision points."""
    return np.asarray((marks & among).sum(axis=(1, 2)) / np.maximum(among.sum(axis=(1, 2)), 1))


def run_length(marks: Marks) -> Floats:
    """The mean length of runs; 0 without any."""
    begins = marks.copy()
    begins[..., 1:] &= ~marks[..., :-1]
    return np.asarray(marks.sum(axis=(1, 2)) / np.maximum(begins.sum(axis=(1, 2)), 1))


WITHIN = Statistic("spread within people", lambda values, _: spread_within(values), 0.1, "relative")
MISSING = (
    Statistic("missing", lambda values, pilots: share(np.isnan(values), pilots.present), 0.02, if_seen=True),
    Statistic(
        "length of missing runs",
        lambda values, pilots: run_length(pilots.present & np.isnan(values)),
        0.25,
        "relative",
        if_seen=True,
    ),
)
STATISTICS: dict[str, tuple[Statistic, ...]] = {
    "outcome": (
        Statistic("mean", lambda values, _: mean(values), 0.05, "deviations"),
        Statistic("zeros", lambda values, pilots: share(values == pilots.zero, ~np.isnan(values)), 0.02, if_seen=True),
        WITHIN,
        Statistic("spread between people", lambda values, _: spread_between(values), 0.2, "relative"),
        Statistic("autocorrelation", lambda values, _: autocorrelation(values), 0.05),
        Statistic("change over the study", lambda values, _: trend(values), 0.1, "deviations"),
        Statistic("time of day", lambda values, pilots: time_of_day(values, pilots.slot), 0.05, "deviations", if_seen=True),
        *MISSING,
    ),
    "state": (
        Statistic("mean", lambda values, _: mean(values), 0.1, "deviations"),
        WITHIN,
        Statistic("spread between people", lambda values, _: spread_between(values), 0.1, "deviations"),
        Statistic("autocorrelation", lambda values, _: autocorrelation(values), 0.1),
        *MISSING,
    ),
    "availability": (
        Statistic("share", lambda marks, pilots: share(marks, pilots.present), 0.02),
        Statistic("length of gaps", lambda marks, pilots: run_length(pilots.present & ~marks), 0.15, "relative"),
    ),
    "complete": (Statistic("share", lambda marks, pilots: share(marks, pilots.present), 0.03),),
    "artefact": (
        Statistic("share", lambda marks, pilots: share(marks, pilots.present), 0.02),
        Statistic("length of runs", lambda marks, _: run_length(marks), 0.25, "relative"),
    ),
}
"""By group of series; a series that does not vary in the pilot is left out."""


def compare_pilots(observed: Pilots, simulated: Pilots) -> tuple[PilotCheck, ...]:
    """Every number of the pilot with that of the simulated ones."""
    checks = []
    for group, statistics in STATISTICS.items():
        for name, series in observed.series[group].items():
            deviation = float(np.nanstd(series[observed.present]))
            if group in ("state", "availability") and not deviation > 0:
                continue
            for statistic in statistics:
                value = float(statistic.compute(series, observed)[0])
                if statistic.if_seen and value == 0:
                    continue
                values = statistic.compute(simulated.series[group][name], simulated)
                low, middle, high = np.nanquantile(values, (0.025, 0.5, 0.975)).tolist()
                below = float((values < value).mean() + 0.5 * (values == value).mean())
                unit = {"absolute": 1.0, "relative": abs(value), "deviations": deviation}[statistic.unit]
                is_fine = OUTER <= below <= 1 - OUTER or abs(middle - value) <= statistic.tolerance * unit
                verdict = "fine" if is_fine else "look"
                checks.append(PilotCheck(f"{name}: {statistic.name}", value, middle, low, high, below, verdict))
    return tuple(checks)


@dataclass(frozen=True, eq=False, repr=False)
class PilotChecks(ShownResult):
    """All comparisons of a model with its pilot."""

    model: PilotModel
    """The model."""
    checks: tuple[PilotCheck, ...]
    """One for every number."""
    pilots: int
    """The number of simulated pilots."""
    observed: Pilots
    """The real pilot."""
    simulated: Pilots
    """The simulated ones."""

    page_title: ClassVar[str] = "Does the model look like the pilot?"

    def __repr__(self) -> str:
        return f"PilotChecks({len(self.checks)} numbers, {self.pilots} simulated pilots, verdict: {self.verdict})"

    @property
    def verdict(self) -> str:
        """`fine` where every check is, else `look`."""
        return "fine" if all(check.verdict == "fine" for check in self.checks) else "look"

    @property
    def differences(self) -> tuple[str, ...]:
        """One sentence for every number that differs from the pilot."""
        return tuple(check.sentence for check in self.checks if check.sentence)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per check."""
        columns = zip(*self.checks, strict=True)
        return make_frame(dict(zip(PilotCheck._fields, map(list, columns), strict=True)), backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "verdict": self.verdict,
            "differences": list(self.differences),
            "pilots": self.pilots,
            "checks": [check._asdict() for check in self.checks],
        }

    def print_summary(self, console: Console) -> None:
        table = make_table("", "pilot", "simulated", "95 % of simulated", "")
        for check in self.checks:
            span = f"{format_number(check.low)} to {format_number(check.high)}"
            table.add_row(check.name, format_number(check.observed), format_number(check.simulated), span, check.verdict)
        console.print(table)
        for sentence in self.differences:
            console.print(f"look: {sentence}", markup=False)
        console.print(f"Verdict: {self.verdict} ({self.pilots} simulated pilots)")

    def render_page(self, *, title: str, source: str) -> str:
        charts = [(inline_svg(figure, note), note) for figure, note in self._draw_charts()]
        return render("rehearsal_checks.html", title=title, source=source, checks=self, charts=charts)

    def plot(self) -> Figure:
        """The distribution of outcomes in the pilot, with the band of 95 % of the simulated ones."""
        return self._draw_charts()[0][0]

    def _draw_charts(self) -> list[tuple[Figure, str]]:
        observed = self.observed.reward
        per_day = self.model.clock.per_day
        edges = np.linspace(np.nanmin(observed), np.nanmax(observed), BINS + 1)
        pieces = np.array_split(np.arange(observed.shape[-1]), min(14, observed.shape[-1]))
        unit = self.model.unit

        def shares(pilots: Pilots) -> Floats:
            counts = np.array([np.histogram(rewards[~np.isnan(rewards)], edges)[0] for rewards in pilots.reward])
            return np.asarray(100 * counts / (~np.isnan(pilots.reward)).sum(axis=(1, 2))[:, None])

        def by_slot(pilots: Pilots) -> Floats:
            return means_by_slot(pilots.reward, pilots.slot, per_day)

        def by_day(pilots: Pilots) -> Floats:
            return np.stack([mean(pilots.reward[..., piece]) for piece in pieces], axis=1)

        draw = partial(_draw_band, self)
        days = np.array([piece.mean() for piece in pieces]) / per_day
        middles = (edges[1:] + edges[:-1]) / 2
        frequency = "% of decision points"
        charts = [draw("Outcomes", middles, shares, unit, frequency, "The frequency of outcomes of each size.")]
        if per_day > 1:
            slots = np.arange(1.0, per_day + 1)
            note = "The mean outcome at each decision point of the day."
            charts.append(draw("Time of day", slots, by_slot, "decision point of the day", f"mean {unit}", note))
        note = "The mean outcome over the days of the study."
        return [*charts, draw("Over the study", days, by_day, "day", f"mean {unit}", note)]


def _draw_band(
    checks: PilotChecks, title: str, at: Floats, compute: Callable[[Pilots], Floats], x: str, y: str, note: str
) -> tuple[Figure, str]:
    """A curve of the pilot, and the band of 95 % of the simulated ones."""
    figure, axes = new_figure(width=5.6, height=3.4)
    low, middle, high = np.nanquantile(compute(checks.simulated), (0.025, 0.5, 0.975), axis=0)
    axes.fill_between(at, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % of simulated pilots")
    axes.plot(at, middle, color=GREY, linewidth=1.0, label="median")
    axes.plot(at, compute(checks.observed)[0], color=ORANGE, marker="o", markersize=3, linewidth=1.6, label="pilot")
    label_axes(axes, x=x, y=y, title=title)
    add_legend(figure, axes)
    return figure, note


def check_pilot_model(
    model: PilotModel,
    logs: StudyLogs | Trajectories,
    *,
    pilots: int = 100,
    seed: int = 0,
    environment: Environment | None = None,
) -> PilotChecks:
    """Simulate pilots of new people as long as the real one, and compare.

    Parameters
    ----------
    model
        The result of `fit_pilot`, or another model to be tried.
    logs
        The pilot.
    pilots, seed
        The number of simulated pilots, at least 20, and their seed.
    environment
        The effects of sending in the simulated pilots; by default those of the model.

    Returns
    -------
    PilotChecks
        `verdict`, `differences`, `to_frame`, `summary`, `to_html`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.mood]\\nrange = [0, 10]\\n[reward]\\nrange = [0, 100]'
    >>> model = sf.rehearsal.from_study(sf.Study.parse(text), participants=12, seed=1, per_day=3)
    >>> logs = model.collect(sf.policies.coin(2), decision_points=30, seed=2)
    >>> check_pilot_model(model, logs, pilots=20).pilots
    20
    """
    if pilots < FEWEST_PILOTS:
        raise InputError(
            f"pilots is {pilots}; at least {FEWEST_PILOTS} simulated pilots show where a number lies among them"
        )
    study = model.study
    data = PilotArrays.of_logs(logs, study, model.clock.per_day)
    moving = [name for (kind, name), component in model.components.items() if kind == "state" and component.moves]
    columns = {column: study.state_names.index(column) for name in moving for column in study.columns_of(name)}
    zero = float(model.to_reward(np.zeros(1))[0]) if model.limits[0] <= 0 else np.nan

    def gather(
        present: Marks, available: Marks, reward: Floats, state: Floats, artefacts: dict[str, Marks], slot: Any
    ) -> Pilots:
        states = {name: state[..., number] for name, number in columns.items()}
        complete = present & np.logical_and.reduce([~np.isnan(values) for values in (reward, *states.values())])
        series: dict[str, dict[str, NDArray[Any]]] = {
            "outcome": {"outcome": reward},
            "state": states,
            "availability": {"availability": available},
            "complete": {"complete decision points": complete},
            "artefact": artefacts,
        }
        return Pilots(present, slot, zero, series)

    marked = {
        f"{device}: {reason}": np.any([~np.isnan(values) for values in flagged.values()], axis=0)[None]
        for (device, reason), flagged in data.flagged.items()
    }
    observed = gather(data.present[None], data.available[None], data.reward[None], data.state[None], marked, data.slot[None])
    acting = replace(model if environment is None else model.in_environment(environment), show_marks=True)
    people, points = data.present.shape
    root = np.random.SeedSequence(seed)
    simulation = acting.draw_people(people, seed=root.spawn(pilots)).start(seed=root.spawn(pilots))
    others = len(model.action_names) - 1
    simulation.advance(fixed([1 - model.sends, *[model.sends / others] * others]), points)
    present = np.broadcast_to(data.present, (pilots, people, points))
    state = np.where(present[..., None], simulation.states, np.nan)
    on = state[..., len(study.state_names) :] == 1
    simulated = gather(
        present,
        simulation.available & present,
        np.where(present, simulation.reported, np.nan),
        state,
        {artefact.name: on[..., number] for number, artefact in enumerate(model.artefacts)},
        np.broadcast_to(np.arange(points) % model.clock.per_day, present.shape),
    )
    return PilotChecks(model, compare_pilots(observed, simulated), pilots, observed, simulated)
