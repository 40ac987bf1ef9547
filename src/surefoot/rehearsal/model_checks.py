"""Does the model look like the pilot? Many simulated pilots are compared with the real one, number by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.policies.constant_policies import fixed
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.pilot_data import PilotData
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, label_axes, new_figure
from surefoot.reports.numbers import format_number
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import ShownResult, make_table
from surefoot.study import StudyLogs

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.console import Console

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
OUTER = 0.01
"""An observed number with less than this share of the simulated ones beyond it is outside."""
FEWEST_PILOTS = 20
BINS = 40


@dataclass(frozen=True)
class PilotCheck:
    """One number of the pilot, compared with the same number of many simulated pilots.

    Attributes
    ----------
    name
        The number.
    observed
        Its value in the pilot.
    simulated, low, high
        Median, 2.5 % and 97.5 % point over the simulated pilots.
    share_below
        The share of simulated values below the observed one.
    verdict
        `fine` where the observed value lies among the simulated ones or too near to matter, else `look`.
    """

    name: str
    observed: float
    simulated: float
    low: float
    high: float
    share_below: float
    verdict: str

    @property
    def sentence(self) -> str:
        """The difference in words; empty where there is none."""
        if self.verdict == "fine":
            return ""
        values = f"{self.name}: {format_number(self.observed)} in the pilot, {format_number(self.simulated)} simulated"
        ratio = self.simulated / self.observed if self.observed else np.nan
        return f"{values} ({100 * ratio:.0f} % of it)" if 0 < ratio < 100 else values


@dataclass(frozen=True, eq=False)
class PilotRecords:
    """Several studies in arrays (studies, people, decision points), NaN where missing or beyond the end."""

    present: Marks
    available: Marks
    reward: Floats
    states: Mapping[str, Floats]
    """By column."""
    artefacts: Mapping[str, Marks]
    slot: NDArray[np.int64]
    zero: float
    """The reward of an outcome of 0."""

    @property
    def lost(self) -> Marks:
        return self.present & np.isnan(self.reward)


@dataclass(frozen=True, eq=False)
class PilotChecks(ShownResult):
    """All comparisons of a model with its pilot.

    Attributes
    ----------
    model
        The model.
    checks
        One for every number.
    pilots
        How many were simulated.
    observed, simulated
        The records behind the numbers.
    """

    model: PilotModel
    checks: tuple[PilotCheck, ...]
    pilots: int
    observed: PilotRecords
    simulated: PilotRecords

    page_title: ClassVar[str] = "Does the model look like the pilot?"

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
        names = ("name", "observed", "simulated", "low", "high", "share_below", "verdict")
        return make_frame({name: [getattr(check, name) for check in self.checks] for name in names}, backend)

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
        charts = [_draw_values(self), _draw_days(self)]
        if self.model.anatomy.clock.per_day > 1:
            charts.insert(1, _draw_hours(self))
        family = self.model.anatomy.family
        return render("rehearsal_checks.html", title=title, source=source, checks=self, charts=charts, family=family)


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
        What `fit_pilot` gave, or another to be tried.
    logs
        The pilot.
    pilots
        How many are simulated; at least 20.
    seed
        Of the simulated pilots.
    environment
        What sending does meanwhile; by default that of the model.

    Returns
    -------
    PilotChecks
        `verdict`, `differences`, `to_frame`, `summary`, `to_html`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.mood]
    ... range = [0, 10]
    ... [reward]
    ... range = [0, 100]'''
    >>> model = sf.rehearsal.from_study(sf.Study.parse(text), participants=12, seed=1, per_day=3)
    >>> logs = model.collect(sf.policies.coin(2), decision_points=30, seed=2)
    >>> check_pilot_model(model, logs, pilots=20).pilots
    20
    """
    if pilots < FEWEST_PILOTS:
        raise InputError(
            f"pilots is {pilots}; at least {FEWEST_PILOTS} simulated pilots show where a number lies among them"
        )
    anatomy = model.anatomy
    data = PilotData.of_logs(logs, anatomy.study, anatomy.clock.per_day)
    observed = _observe(data, model)
    simulated = _simulate(model if environment is None else model.in_environment(environment), data, pilots, seed)
    statistics = list_statistics(observed, anatomy.clock.per_day)
    checks = tuple(_compare(statistic, observed, simulated) for statistic in statistics)
    return PilotChecks(model, checks, pilots, observed, simulated)


def _compare(statistic: Statistic, observed: PilotRecords, simulated: PilotRecords) -> PilotCheck:
    value = float(statistic.compute(observed)[0])
    values = statistic.compute(simulated)
    low, middle, high = np.nanquantile(values, (0.025, 0.5, 0.975)).tolist()
    below = float((values < value).mean() + 0.5 * (values == value).mean())
    allowed = statistic.tolerance * (abs(value) if statistic.relative else 1.0)
    is_fine = OUTER <= below <= 1 - OUTER or abs(middle - value) <= allowed
    return PilotCheck(statistic.name, value, middle, low, high, below, "fine" if is_fine else "look")


def _observe(data: PilotData, model: PilotModel) -> PilotRecords:
    names = data.study.state_names
    present = data.present[None]
    return PilotRecords(
        present=present,
        available=data.available[None] & present,
        reward=data.reward[None],
        states={name: data.state[None, ..., names.index(name)] for name in _list_columns(model)},
        artefacts={f"{device}: {reason}": marks[None] for (device, reason), (marks, _) in data.flagged.items()},
        slot=data.slot[None],
        zero=_zero_reward(model),
    )


def _zero_reward(model: PilotModel) -> float:
    """The reward of an outcome of 0; NaN where no outcome is 0."""
    return float(model.to_reward(np.zeros(1))[0]) if model.anatomy.limits[0] <= 0 else np.nan


def _list_columns(model: PilotModel) -> list[str]:
    """The state's columns that move by themselves."""
    anatomy = model.anatomy
    moving = [name for name in anatomy.states if anatomy.states[name].moves]
    return [column for name in moving for column in anatomy.study.columns_of(name)]


def _simulate(model: PilotModel, data: PilotData, pilots: int, seed: int) -> PilotRecords:
    """Pilots of as many new people, each as long as one of the real people's."""
    people, points = data.present.shape
    root = np.random.SeedSequence(seed)
    course = model.showing_marks().draw_people(people, seed=root.spawn(pilots)).start(seed=root.spawn(pilots))
    actions = len(model.action_names) - 1
    course.advance(fixed([1 - model.anatomy.sends, *[model.anatomy.sends / actions] * actions]), points)
    present = np.broadcast_to(data.present, (pilots, people, points))
    names = (*data.study.state_names, *(f"{part.device}: {part.reason}" for part in model.anatomy.artefacts))

    def column(name: str) -> Floats:
        return np.where(present, course.states[..., names.index(name)], np.nan)

    return PilotRecords(
        present=present,
        available=course.available & present,
        reward=np.where(present, course.reported, np.nan),
        states={name: column(name) for name in _list_columns(model)},
        artefacts={name: column(name) == 1 for name in names[len(data.study.state_names) :]},
        slot=np.broadcast_to(np.arange(points) % model.anatomy.clock.per_day, present.shape),
        zero=_zero_reward(model),
    )


# Statistics: of arrays (studies, people, decision points), one number per study


@dataclass(frozen=True)
class Statistic:
    """One number of a study, and how far off it may be without mattering."""

    name: str
    compute: Callable[[PilotRecords], Floats]
    """(studies,)."""
    tolerance: float
    relative: bool = True
    """Whether the tolerance is a share of the observed number."""


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
    product, first, second = (np.where(both, part, 0.0).sum(axis=(1, 2)) for part in (before * after, before**2, after**2))
    return np.asarray(product / np.maximum(np.sqrt(first * second), 1e-300))


def time_of_day(values: Floats, slot: NDArray[np.int64]) -> Floats:
    """Standard deviation of the means of the day's decision points."""
    means = np.array([mean(np.where(slot == number, values, np.nan)) for number in range(int(slot.max()) + 1)])
    return np.asarray(np.sqrt(mean(((means - means.mean(axis=0)) ** 2).T[:, None])))


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


def list_statistics(pilot: PilotRecords, per_day: int) -> list[Statistic]:
    """Those that say something about this pilot."""
    statistics = _list_outcome_statistics(pilot, per_day)
    for name in pilot.states:
        statistics += _list_state_statistics(name, pilot)
    if not pilot.available[pilot.present].all():
        statistics += [
            Statistic("availability: share", lambda study: share(study.available, study.present), 0.02, relative=False),
            Statistic("availability: length of gaps", lambda study: run_length(study.present & ~study.available), 0.15),
        ]
    statistics.append(Statistic("complete decision points: share", _complete, 0.03, relative=False))
    for name in pilot.artefacts:
        statistics += _list_artefact_statistics(name)
    return statistics


def _list_artefact_statistics(name: str) -> list[Statistic]:
    return [
        Statistic(f"{name}: share", lambda study: share(study.artefacts[name], study.present), 0.02, relative=False),
        Statistic(f"{name}: length of runs", lambda study: run_length(study.artefacts[name]), 0.25),
    ]


def _list_outcome_statistics(pilot: PilotRecords, per_day: int) -> list[Statistic]:
    deviation = float(np.nanstd(pilot.reward))
    statistics = [
        Statistic("outcome: mean", lambda study: mean(study.reward), 0.05 * deviation, relative=False),
        Statistic("outcome: spread within people", lambda study: spread_within(study.reward), 0.1),
        Statistic("outcome: spread between people", lambda study: spread_between(study.reward), 0.2),
        Statistic("outcome: autocorrelation", lambda study: autocorrelation(study.reward), 0.05, relative=False),
        Statistic("outcome: change over the study", lambda study: trend(study.reward), 0.1 * deviation, relative=False),
    ]
    if (pilot.reward == pilot.zero).any():
        zeros = Statistic(
            "outcome: zeros", lambda study: share(study.reward == study.zero, ~np.isnan(study.reward)), 0.02, relative=False
        )
        statistics.insert(1, zeros)
    if per_day > 1:
        by_slot = Statistic(
            "outcome: time of day", lambda study: time_of_day(study.reward, study.slot), 0.05 * deviation, relative=False
        )
        statistics.append(by_slot)
    if pilot.lost.any():
        statistics += [
            Statistic("outcome: missing", lambda study: share(study.lost, study.present), 0.02, relative=False),
            Statistic("outcome: length of missing runs", lambda study: run_length(study.lost), 0.25),
        ]
    return statistics


def _list_state_statistics(name: str, pilot: PilotRecords) -> list[Statistic]:
    deviation = float(np.nanstd(pilot.states[name]))
    if not deviation > 0:
        return []

    def values(study: PilotRecords) -> Floats:
        return study.states[name]

    def missing(study: PilotRecords) -> Marks:
        return study.present & np.isnan(values(study))

    statistics = [
        Statistic(f"{name}: mean", lambda study: mean(values(study)), 0.1 * deviation, relative=False),
        Statistic(f"{name}: spread within people", lambda study: spread_within(values(study)), 0.1),
        Statistic(
            f"{name}: spread between people", lambda study: spread_between(values(study)), 0.1 * deviation, relative=False
        ),
        Statistic(f"{name}: autocorrelation", lambda study: autocorrelation(values(study)), 0.1, relative=False),
    ]
    if missing(pilot).any():
        statistics += [
            Statistic(f"{name}: missing", lambda study: share(missing(study), study.present), 0.02, relative=False),
            Statistic(f"{name}: length of missing runs", lambda study: run_length(missing(study)), 0.25),
        ]
    return statistics


def _complete(study: PilotRecords) -> Floats:
    complete = study.present & ~np.isnan(study.reward)
    for values in study.states.values():
        complete = complete & ~np.isnan(values)
    return share(complete, study.present)


# Figures


def _unit(checks: PilotChecks) -> str:
    study = checks.model.anatomy.study
    return str(study.reward_unit) if checks.model.anatomy.reward is not None else study.reward.column


def _draw_values(checks: PilotChecks) -> tuple[Markup, str]:
    """The distribution of rewards."""
    figure, axes = new_figure(width=5.6, height=3.4)
    observed = checks.observed.reward
    edges = np.linspace(np.nanmin(observed), np.nanmax(observed), BINS + 1)

    def count_shares(rewards: Floats) -> Floats:
        known = rewards[~np.isnan(rewards)]
        return np.asarray(100 * np.histogram(known, edges)[0] / len(known))

    low, high = np.quantile([count_shares(rewards) for rewards in checks.simulated.reward], (0.025, 0.975), axis=0)
    middle = (edges[1:] + edges[:-1]) / 2
    axes.fill_between(middle, low, high, color=BLUE, alpha=0.25, linewidth=0, step="mid", label="95 % of simulated pilots")
    axes.step(middle, count_shares(observed), color=ORANGE, where="mid", linewidth=1.6, label="pilot")
    label_axes(axes, x=_unit(checks), y="% of decision points", title="Outcomes")
    add_legend(figure, axes)
    note = "How often outcomes of each size came."
    return inline_svg(figure, note), note


def _draw_hours(checks: PilotChecks) -> tuple[Markup, str]:
    slots = np.arange(checks.model.anatomy.clock.per_day)

    def average(study: PilotRecords) -> Floats:
        return np.stack([mean(np.where(study.slot == slot, study.reward, np.nan)) for slot in slots], axis=1)

    figure, axes = new_figure(width=5.6, height=3.4)
    _draw_band(axes, slots + 1, average(checks.simulated), average(checks.observed)[0])
    axes.set_xticks((slots + 1)[:: max(1, len(slots) // 8)])
    label_axes(axes, x="decision point of the day", y=f"mean {_unit(checks)}", title="Time of day")
    add_legend(figure, axes)
    note = "The mean outcome at each decision point of the day."
    return inline_svg(figure, note), note


def _draw_days(checks: PilotChecks) -> tuple[Markup, str]:
    points = checks.observed.reward.shape[-1]
    pieces = np.array_split(np.arange(points), min(14, points))

    def average(rewards: Floats) -> Floats:
        return np.stack([mean(rewards[..., piece]) for piece in pieces], axis=1)

    figure, axes = new_figure(width=5.6, height=3.4)
    days = np.array([piece.mean() for piece in pieces]) / checks.model.anatomy.clock.per_day
    _draw_band(axes, days, average(checks.simulated.reward), average(checks.observed.reward)[0])
    label_axes(axes, x="day", y=f"mean {_unit(checks)}", title="Over the study")
    add_legend(figure, axes)
    note = "The mean outcome over the days of the study."
    return inline_svg(figure, note), note


def _draw_band(axes: Any, x: NDArray[Any], simulated: Floats, observed: Floats) -> None:
    low, middle, high = np.nanquantile(simulated, (0.025, 0.5, 0.975), axis=0)
    axes.fill_between(x, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % of simulated pilots")
    axes.plot(x, middle, color=GREY, linewidth=1.0, label="median")
    axes.plot(x, observed, color=ORANGE, marker="o", markersize=3, linewidth=1.6, label="pilot")
