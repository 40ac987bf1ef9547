"""Screens logs before they are fitted: flags values that cannot be trusted, with reasons, and makes them missing.

All detectors run in order: they learn patterns from a sample of participants, then flag values of everybody. Flags that
depend on the action mean that the action makes values go missing, and that removing them causes bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import count_moments
from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, did_you_mean, require_known
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant
from surefoot.reports.numbers import format_percent, format_points, format_signed
from surefoot.reports.summaries import Overview, ShownResult, make_table
from surefoot.screening.careless import Careless
from surefoot.screening.clock import Clock
from surefoot.screening.codes import Codes
from surefoot.screening.detectors import Column, Detector, Floats, Layout, Mask, Questionnaire, ScreenBatch
from surefoot.screening.level_shifts import LevelShifts
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.stuck import Stuck
from surefoot.screening.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

DETECTORS: dict[str, type[Detector]] = {
    detector.name: detector for detector in (Clock, Codes, NotWorn, Stuck, Units, Careless, LevelShifts)
}
"""All detectors, in the order in which they run: no detector sees a value that an earlier detector marked as missing."""
SAMPLE = (10, 10)
"""Groups in the sample, and participants in a group. Groups are evenly spaced through the ids; participants with
neighbouring ids are often in one file."""
LearnedPatterns = dict[str, Any]
"""The patterns that every detector learned from the sample, by the name of the detector."""
LEAST_DIFFERENCE = 0.01
"""A difference of less than one flagged decision point in a hundred is too small to change an effect."""
SURELY = 3.0
"""A difference is real beyond this many standard errors; the limit is strict because every nightly update tests several
detectors."""
VERDICTS = ("fine", "look", "unsafe")
"""From the best to the worst."""
NOT_DIRT = "values go missing after an action: this is an effect of the prompt, not dirt"
NOT_AVAILABLE = "not available"
"""Name, in counts by action, of decision points at which nothing could be sent."""
SHOWN_PEOPLE = 100
"""The map shows at most this many people, those with the most flags."""
MEANINGS = {
    "no decision point": "paper",
    "as measured": "grid",
    "as measured, sent": "sky",
    "missing": "grey",
    "not worn": "orange",
    "stuck": "purple",
    "flagged otherwise": "green",
}
"""Meanings of a cell of the map, with their colours."""


class Flags(NamedTuple):
    """Flagged values, one entry each, in the order of the rows."""

    row: NDArray[np.int64]
    """In the logs, from 0."""
    column: NDArray[np.str_]
    detector: NDArray[np.str_]
    reason: NDArray[np.str_]
    score: Floats
    value: Floats
    """As it was measured; NaN for a flagged time."""
    marked: Mask
    """Whether the value became missing; otherwise it is only reported."""

    @classmethod
    def join(cls, pieces: list[Flags]) -> Flags:
        text = np.empty(0, np.str_)
        empty = cls(np.empty(0, np.int64), text, text, text, np.empty(0), np.empty(0), np.empty(0, np.bool_))
        joined = [np.concatenate(arrays) for arrays in zip(empty, *pieces, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return cls._make(array[order] for array in joined)


@dataclass(frozen=True)
class Screener:
    """The columns of a study and the detectors that look at them."""

    layout: Layout
    """The columns."""
    detectors: tuple[Detector, ...] = field(default_factory=lambda: make_detectors({}))
    """The detectors, in the order in which they run."""
    outcome: bool = True
    """Whether flagged outcomes become missing. Otherwise they are reported and not changed."""

    def __post_init__(self) -> None:
        for detector in self.detectors:
            detector.check()

    def learn_and_find(
        self, batch: ScreenBatch, usual: LearnedPatterns | None = None
    ) -> tuple[LearnedPatterns, list[Flags]]:
        """Patterns, learned from the batch unless `usual` is given, and all flags of the batch, in pieces."""
        flags = []
        patterns = dict(usual or {})
        for detector in self.detectors:
            if usual is None:
                patterns[detector.name] = detector.learn(batch)
            values = batch.values
            for column, reason, score in detector.find(batch, patterns[detector.name]):
                flagged = ~np.isnan(score)
                count = np.count_nonzero(flagged)
                if not count:
                    continue
                is_time = column == self.layout.time
                position = 0 if is_time else self.layout.position(column)
                is_outcome = not is_time and self.layout.columns[position].role == "outcome"
                is_reported = reason in detector.reported
                flags.append(
                    Flags(
                        row=batch.rows[flagged],
                        column=np.full(count, column),
                        detector=np.full(count, detector.name),
                        reason=np.full(count, reason),
                        score=score[flagged],
                        value=np.full(count, np.nan) if is_time else batch.values[position][flagged],
                        marked=np.full(count, not is_reported and (self.outcome or not is_outcome)),
                    )
                )
                if not is_reported:
                    values = values.copy() if values is batch.values else values
                    values[position][flagged] = np.nan
            batch = replace(batch, values=values)
        return patterns, flags


def make_detectors(parameters: Mapping[str, Mapping[str, Any] | bool]) -> tuple[Detector, ...]:
    """Every detector, with these parameters.

    Parameters
    ----------
    parameters
        By the name of the detector; False leaves it out.

    Returns
    -------
    tuple of Detector

    Examples
    --------
    >>> [detector.name for detector in make_detectors({"units": False, "stuck": {"threshold": 0.99}})]
    ['clock', 'codes', 'not_worn', 'stuck', 'careless', 'level_shifts']
    """
    for name in parameters:
        require_known("detector", name, DETECTORS)
    detectors = []
    for name, detector in DETECTORS.items():
        given = parameters.get(name, {})
        if given is False:
            continue
        try:
            detectors.append(detector(**({} if given is True else given)))
        except TypeError as error:
            raise InputError(f"{name}: {error}") from error
    return tuple(detectors)


def sample_people(people: int) -> NDArray[np.int64]:
    """Positions of the sampled participants among all `people` in the order of their ids.

    >>> len(sample_people(30)), len(sample_people(1_000_000)), sample_people(1_000_000)[[0, 9, 10, 99]]
    (30, 100, array([     0,      9, 111110, 999999]))
    """
    groups, size = SAMPLE
    if people <= groups * size:
        return np.arange(people)
    first = np.linspace(0, people - size, groups).astype(np.int64)
    return np.asarray((first[:, None] + np.arange(size)).ravel())


def find_worst(verdicts: Iterable[str]) -> str:
    """The most serious verdict; `fine` where there is none."""
    return max(verdicts, key=VERDICTS.index, default="fine")


class TreatmentDifference(NamedTuple):
    """How much more often a detector flags decision points after one action than after nothing."""

    detector: str
    """Name of the detector."""
    action: str
    """Name of the action."""
    after_nothing: float
    """Share of available decision points with a flag."""
    after_action: float
    """The same share after the action."""
    difference: Interval
    """Share after the action minus share after nothing, with an interval over participants."""

    @property
    def verdict(self) -> str:
        """`look` where the 95 % interval excludes zero, `unsafe` where `differs`, else `fine`."""
        if self.differs:
            return "unsafe"
        return "look" if self.difference.excludes_zero else "fine"

    @property
    def differs(self) -> bool:
        """Whether the difference is real, and large enough to matter."""
        size = abs(self.difference.value)
        return size >= LEAST_DIFFERENCE and size > SURELY * self.difference.standard_error

    def describe(self) -> str:
        """One line of text."""
        interval = self.difference
        value = format_points(self.after_nothing, self.after_action, 1)
        low, high = (format_signed(100 * share, 1) for share in (interval.low, interval.high))
        return (
            f"{self.detector} flags {format_percent(self.after_nothing)} of decision points after nothing and "
            f"{format_percent(self.after_action)} after '{self.action}' (difference {value} points, 95 % interval {low} to "
            f"{high})"
        )

    def to_dict(self) -> dict[str, Any]:
        difference = self.difference._asdict()
        return {**self._asdict(), "difference": difference, "differs": self.differs, "verdict": self.verdict}


@dataclass(frozen=True, eq=False, repr=False)
class Screen(ShownResult):
    """The flagged values of some logs, and the logs without these values."""

    page_title: ClassVar[str] = "Screen"
    logs: Trajectories
    """The logs with flagged values missing; nothing else is changed."""
    screener: Screener
    """The columns and the detectors."""
    flags: Flags
    """Row, column, detector, reason and score of every flagged value."""
    row: NDArray[np.int64]
    """For every row of the logs its position in the file, from 0."""
    usual: LearnedPatterns
    """The patterns that the detectors learned from a sample of the participants."""

    def _overview(self) -> Overview:
        rows = [[row["column"], row["reason"], f"{row['values']:,}", f"{row['missing']:,}"] for row in self.list_counts()]
        facts = {
            "flagged": f"{len(self.flags.row):,} values, {int(self.marks.sum()):,} of them now missing",
            "verdict": f"{self.verdict} (does the flagged share differ by action?)",
        }
        heading = f"Screen of {len(self.logs.participants):,} people, {len(self.logs):,} decision points"
        return Overview(heading, facts, [["column", "reason", "values", "missing"], *rows])

    @property
    def values(self) -> Floats:
        """Every flagged value as it was measured; NaN for a flagged time."""
        return self.flags.value

    @property
    def marks(self) -> Mask:
        """For every flag whether the value became missing; otherwise it is only reported."""
        return self.flags.marked

    @cached_property
    def treatment(self) -> tuple[TreatmentDifference, ...]:
        """Whether the flagged share differs by action, for detectors that flagged any available decision point.

        An action that was never taken, or always, cannot be compared.
        """
        logs = self.logs
        nothing = logs.available & (logs.action == 0)

        def count(rows: Mask) -> Floats:
            return sum_by_participant(logs.participant_index, len(logs.participants), rows)

        differences = []
        for code in range(1, logs.actions):
            treated = logs.available & (logs.action == code)
            for detector in self.screener.detectors:
                flagged = np.zeros(len(logs), dtype=bool)
                flagged[self.flags.row[(self.flags.detector == detector.name) & self.marks]] = True
                if not (flagged & (nothing | treated)).any() or not nothing.any() or not treated.any():
                    continue
                difference = difference_interval(
                    count(flagged & treated), count(treated), count(flagged & nothing), count(nothing)
                )
                shares = (float(flagged[nothing].mean()), float(flagged[treated].mean()))
                differences.append(TreatmentDifference(detector.name, logs.action_names[code], *shares, difference))
        return tuple(differences)

    @property
    def verdict(self) -> str:
        """The most serious verdict on differences by action: `fine`, `look` or `unsafe`."""
        return find_worst(difference.verdict for difference in self.treatment)

    @property
    def blind(self) -> bool:
        """False when the flagged share of some detector differs by action."""
        return self.verdict != "unsafe"

    def warnings(self) -> list[str]:
        """Warnings about detectors whose flagged share differs by action."""
        unsafe = [difference for difference in self.treatment if difference.differs]
        return [f"the screen: {difference.describe()}: {NOT_DIRT}" for difference in unsafe]

    def counts(self) -> dict[str, int]:
        """How many values were flagged for each reason."""
        return dict(sorted(Counter(self.flags.reason.tolist()).items()))

    def list_counts(self) -> list[dict[str, Any]]:
        """For every column and reason: how many values, how many of them became missing, and after which action."""
        actions = np.array([*self.logs.action_names, NOT_AVAILABLE])
        arms = actions[np.where(self.logs.available, self.logs.action, len(actions) - 1)[self.flags.row]]
        words = (self.flags.column, self.flags.reason, arms, self.marks)
        counter = Counter(zip(*(values.tolist() for values in words), strict=True))
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (column, reason, arm, is_missing), count in sorted(counter.items()):
            empty = {"column": column, "reason": reason, "values": 0, "missing": 0, "after": {}}
            row = rows.setdefault((column, reason), empty)
            row["values"] += count
            row["missing"] += count * is_missing
            row["after"][arm] = row["after"].get(arm, 0) + count
        return list(rows.values())

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per flagged value: `row` in the file, participant, time, column, reason and score."""
        flags = self.flags
        logs = self.logs
        data = {
            "row": self.row[flags.row],
            "participant": logs.participants[logs.participant_index[flags.row]],
            "time": logs.time[flags.row],
            "column": flags.column,
            "reason": flags.reason,
            "score": flags.score,
        }
        return make_frame(data, backend or logs.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "people": len(self.logs.participants),
            "decision_points": len(self.logs),
            "flagged_values": len(self.flags.row),
            "now_missing": int(self.marks.sum()),
            "counts": self.list_counts(),
            "verdict": self.verdict,
            "blind_to_treatment": self.blind,
            "treatment": [difference.to_dict() for difference in self.treatment],
        }

    def print_summary(self, console: Console) -> None:
        """Print the counts and the differences by action."""
        from rich.markup import escape

        console.print(
            f"{len(self.logs.participants)} people, {len(self.logs)} decision points: {len(self.flags.row)} values "
            f"flagged, {self.marks.sum()} of them count as missing"
        )
        counts = self.list_counts()
        if counts:
            table = make_table("column", "reason", "after", "values", "missing", text=3)
            for row in counts:
                after = escape(", ".join(f"{arm} {count:,}" for arm, count in row["after"].items()))
                table.add_row(escape(row["column"]), row["reason"], after, f"{row['values']:,}", f"{row['missing']:,}")
            console.print(table)
        colours = {"fine": "[green]fine[/]  ", "look": "[yellow]look[/]  ", "unsafe": "[bold red]unsafe[/]"}
        for difference in self.treatment:
            console.print(f"{colours[difference.verdict]} {escape(difference.describe())}")
        if not self.blind:
            console.print(f"→ {NOT_DIRT}", markup=False)

    def render_page(self, *, title: str, source: str, checks: Sequence[Any] = ()) -> str:
        """A self-contained HTML page; `checks` of the logs come first."""
        from surefoot.reports.figures import DARK, LIGHT, new_page_figure
        from surefoot.reports.render import inline_svg, render

        words = "Map of participants and decision points: worn, not worn, stuck, missing, sent"
        return render(
            "screen.html",
            title=title,
            source=source,
            totals=self.to_dict(),
            arms=[*self.logs.action_names, NOT_AVAILABLE],
            checks=checks,
            treatment=self.treatment,
            detectors=self.screener.detectors,
            charts=[
                inline_svg(self.plot(palette=palette, ax=new_page_figure()), words, raster=True) for palette in (LIGHT, DARK)
            ],
            most_people=SHOWN_PEOPLE,
            people=self._count_by_participant(),
        )

    def _count_by_participant(self) -> list[dict[str, Any]]:
        """Counts of flags by participant and reason; participants with the most flags come first."""
        logs = self.logs
        person = logs.participant_index[self.flags.row]
        total = np.bincount(person, minlength=len(logs.participants))
        points = np.diff(logs.starts)
        reasons = list(self.counts())
        return [
            {
                "participant": logs.participants[number].item(),
                "decision points": int(points[number]),
                **{reason: int((self.flags.reason[person == number] == reason).sum()) for reason in reasons},
            }
            for number in np.argsort(-total, kind="stable")[:SHOWN_PEOPLE]
            if total[number]
        ]

    def plot(self, *, palette: Mapping[str, str] | None = None, ax: Drawable = None) -> Axes:
        """Participants × decision points: worn, not worn, stuck, missing, sent. An image has the colours of day or night."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        from surefoot.reports.figures import GREY, LIGHT, add_legend, choose_axes, label_axes

        logs = self.logs
        names = list(MEANINGS)
        cells = np.where(logs.action > 0, names.index("as measured, sent"), names.index("as measured"))
        cells[np.isnan(logs.outcome) | np.isnan(logs.state).any(axis=1)] = names.index("missing")
        cells[self.flags.row[self.marks]] = names.index("flagged otherwise")
        for detector, meaning in ((Stuck.name, "stuck"), (NotWorn.name, "not worn")):
            cells[self.flags.row[(self.flags.detector == detector) & self.marks]] = names.index(meaning)
        flags = np.bincount(logs.participant_index[self.flags.row], minlength=len(logs.participants))
        shown = np.sort(np.argsort(-flags, kind="stable")[:SHOWN_PEOPLE])
        grid = np.zeros((len(shown), int(np.diff(logs.starts)[shown].max(initial=0))), dtype=np.int64)
        for line, person in enumerate(shown):
            rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
            grid[line, : len(rows)] = cells[rows]
        colours = [(palette or LIGHT)[colour] for colour in MEANINGS.values()]
        axes = choose_axes(ax, width=9.0, height=min(2.2 + 0.11 * len(shown), 12.0))
        scale: dict[str, Any] = {"cmap": ListedColormap(colours), "vmin": -0.5, "vmax": len(MEANINGS) - 0.5}
        axes.imshow(grid, **scale, aspect="auto", interpolation="nearest")
        label_axes(axes, x="decision point", y="participant", title="What was recorded")
        axes.grid(visible=False)
        step = -(-len(shown) // 25)
        axes.set_yticks(range(0, len(shown), step), [str(name) for name in logs.participants[shown[::step]]], fontsize=7)
        present = [code for code in range(1, len(MEANINGS)) if (grid == code).any()]
        handles = [Patch(facecolor=colours[code], edgecolor=GREY, label=names[code]) for code in present]
        add_legend(axes, columns=len(handles), handles=handles)
        return axes


def screen(
    logs: Trajectories,
    *,
    devices: Mapping[str, str] | None = None,
    questionnaires: Sequence[Questionnaire] = (),
    columns: Sequence[str] | None = None,
    detectors: Mapping[str, Mapping[str, Any] | bool] | None = None,
    outcome: bool = True,
    usual: LearnedPatterns | None = None,
) -> Screen:
    """Flag the values of some logs that cannot be trusted and make them missing.

    Parameters
    ----------
    logs
        Logs with values as measured: an unworn device must still read 0. `study.read` screens before scaling and transforms.
    devices
        State variable or outcome → the device it comes from. Columns of one device are judged together.
    questionnaires
        State variables that are answered in one go.
    columns
        The columns to screen; all unless given.
    detectors
        Parameters by detector; False leaves one out.
    outcome
        Whether flagged outcomes become missing. Otherwise they are reported and not changed.
    usual
        `Screen.usual` of another screen of the same columns; learned from these logs unless given.

    Returns
    -------
    Screen
        The logs with flagged values missing, and every flag with its reason.

    Examples
    --------
    >>> import surefoot as sf
    >>> clean = sf.simulators.HeartSteps(20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> worn = sf.simulators.contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=20, seed=1)
    >>> screened = screen(worn.logs)
    >>> screened.counts(), screened.blind
    ({'not worn': 1600}, True)
    """
    names = (*logs.state_names, logs.names.outcome)
    devices = devices or {}
    for argument, given_names in (("devices", devices), ("columns", columns or ())):
        for name in given_names:
            if name not in names:
                raise InputError(
                    f"{argument}: there is no column '{name}'{did_you_mean(name, names)}; the logs have {list(names)}"
                )
    values = np.vstack([logs.state.T, logs.outcome])
    targets = {name: (number,) for number, name in enumerate(names) if columns is None or name in columns}
    screened = []
    for name, (number,) in targets.items():
        is_number = not np.isin(values[number][~np.isnan(values[number])], (0.0, 1.0)).all()
        screened.append(Column(name, "outcome" if number == len(names) - 1 else "state", devices.get(name), is_number))
    layout = Layout(tuple(screened), tuple(questionnaires), time=logs.names.time, clock=logs.time.dtype.kind == "M")
    screener = Screener(layout, make_detectors(detectors or {}), outcome)
    return screen_values(logs, screener, values[[number for (number,) in targets.values()]], targets, usual=usual)


def screen_values(
    logs: Trajectories,
    screener: Screener,
    values: Floats,
    targets: Mapping[str, Sequence[int]],
    *,
    row: NDArray[np.int64] | None = None,
    usual: LearnedPatterns | None = None,
) -> Screen:
    """Screen values (columns, rows of the logs) as measured; `targets` says which values of the logs each column becomes.

    These are positions among the state variables, with the outcome after the last.
    """
    time = count_moments(logs.time).astype(np.float64)

    def pad(rows: NDArray[np.int64]) -> ScreenBatch:
        return ScreenBatch.pad_rows(screener.layout, values, time, rows)

    pieces: list[Flags] | None = None
    if usual is None:
        chosen = sample_people(len(logs.participants))
        lengths = np.diff(logs.starts)[chosen]
        point = np.arange(max(int(lengths.max(initial=0)), 1))
        inside = point < lengths[:, None]
        sample = np.where(inside, logs.order[np.where(inside, logs.starts[chosen, None] + point, 0)], -1)
        usual, pieces = screener.learn_and_find(pad(sample))
        if len(chosen) < len(logs.participants) or np.ptp(lengths):
            pieces = None
    if pieces is None:
        pieces = [piece for _, rows in logs.blocks() for piece in screener.learn_and_find(pad(rows), usual)[1]]
    flags = Flags.join(pieces)
    state = logs.state.copy()
    outcome = logs.outcome.copy()
    for column in screener.layout.columns:
        rows = flags.row[(flags.column == column.name) & flags.marked]
        for number in targets.get(column.name, ()):
            (outcome if number == state.shape[1] else state[:, number])[rows] = np.nan
    return Screen(
        logs=logs.with_values(state=state, outcome=outcome),
        screener=screener,
        flags=flags,
        row=np.arange(len(logs)) if row is None else row,
        usual=usual,
    )
