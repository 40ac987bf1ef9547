"""Screens logs before they are fitted: flags values that cannot be trusted, with reasons, and makes them missing.

Flags that depend on the action mean that the action makes values go missing, and that removing them causes bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant
from surefoot.reports.numbers import format_percent, format_signed
from surefoot.reports.summaries import ShownResult, make_table
from surefoot.screening.detectors import Column, Floats, Layout, Mask, Questionnaire, ScreenBatch
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.screener import Flags, LearnedPatterns, Screener, make_detectors, sample_people
from surefoot.screening.stuck import Stuck

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

LEAST_DIFFERENCE = 0.01
"""A difference of less than one flagged decision point in a hundred is too small to change an effect."""
SURELY = 3.0
"""A difference is real beyond this many standard errors; the limit is strict because every nightly update tests several
detectors."""
VERDICTS = ("fine", "look", "unsafe")
NOT_DIRT = "values go missing after an action: this is an effect of the prompt, not dirt"
NOT_AVAILABLE = "not available"
"""Name, in counts by action, of decision points at which nothing could be sent."""
SHOWN_PEOPLE = 100
"""The map shows at most this many people, those with the most flags."""
MEANINGS = (
    ("no decision point", "paper"),
    ("as measured", "grid"),
    ("as measured, sent", "sky"),
    ("missing", "grey"),
    ("not worn", "orange"),
    ("stuck", "purple"),
    ("flagged otherwise", "green"),
)
"""Meanings of a cell of the map, with their colours; later meanings take precedence."""


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
        value, low, high = (format_signed(100 * share, 1) for share in (interval.value, interval.low, interval.high))
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
    values: Floats
    """Every flagged value as it was measured; NaN for a flagged time."""

    def __repr__(self) -> str:
        return f"Screen({len(self.flags.row)} flags in {len(self.logs)} decision points: {self.counts()})"

    @cached_property
    def marks(self) -> Mask:
        """For every flag whether the value became missing; otherwise it is only reported."""
        return self.screener.marks(self.flags)

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
            for number, detector in enumerate(self.screener.detectors):
                flagged = np.zeros(len(logs), dtype=bool)
                flagged[self.flags.row[(self.flags.detector == number) & self.marks]] = True
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
        return max((difference.verdict for difference in self.treatment), key=VERDICTS.index, default="fine")

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
        reasons, numbers = np.unique(self.screener.reasons(self.flags), return_counts=True)
        return {str(reason): int(number) for reason, number in zip(reasons, numbers, strict=True)}

    def list_counts(self) -> list[dict[str, Any]]:
        """For every column and reason: how many values, how many of them became missing, and after which action."""
        actions = np.array([*self.logs.action_names, NOT_AVAILABLE])
        arms = actions[np.where(self.logs.available, self.logs.action, len(actions) - 1)[self.flags.row]]
        words = (self.screener.column_names(self.flags), self.screener.reasons(self.flags), arms, self.marks)
        counter = Counter(zip(*(values.tolist() for values in words), strict=True))
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (column, reason, arm, is_missing), count in sorted(counter.items()):
            empty = {"column": column, "reason": reason, "values": 0, "missing": 0, "after": {}}
            row = rows.setdefault((column, reason), empty)
            row["values"] += count
            row["missing"] += count * is_missing
            row["after"][arm] = row["after"].get(arm, 0) + count
        return list(rows.values())

    def missing(self) -> dict[str, NDArray[np.int64]]:
        """For every column with a flag: how many values became missing, per participant of `logs.participants`."""
        missing = {}
        columns = self.screener.column_names(self.flags)
        for column in dict.fromkeys(columns[self.marks].tolist()):
            rows = self.flags.row[(columns == column) & self.marks]
            missing[column] = np.bincount(self.logs.participant_index[rows], minlength=len(self.logs.participants))
        return missing

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per flagged value: `row` in the file, participant, time, column, reason and score."""
        flags = self.flags
        logs = self.logs
        data = {
            "row": self.row[flags.row],
            "participant": logs.participants[logs.participant_index[flags.row]],
            "time": logs.time[flags.row],
            "column": self.screener.column_names(flags),
            "reason": self.screener.reasons(flags),
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
        from markupsafe import Markup

        from surefoot.reports.figures import DARK, LIGHT
        from surefoot.reports.render import inline_svg, render

        people = len(self.logs.participants)
        shown = f"the {SHOWN_PEOPLE} of {people} people with most flags" if people > SHOWN_PEOPLE else f"all {people} people"
        note = f"Each row is a participant, each cell a decision point; {shown}. Long coloured stretches are worth a call."
        words = "Map of participants and decision points: worn, not worn, stuck, missing, sent"
        day, night = (inline_svg(self.plot(palette), words, raster=True) for palette in (LIGHT, DARK))
        chart = Markup('<span class="day">{}</span><span class="night">{}</span>').format(day, night)
        return render(
            "screen.html",
            title=title,
            source=source,
            totals=self.to_dict(),
            checks=checks,
            treatment=self.treatment,
            detectors=self.screener.detectors,
            chart=(chart, note),
            people=self._count_by_participant(),
        )

    def _count_by_participant(self) -> list[dict[str, Any]]:
        """Counts of flags by participant and reason; participants with the most flags come first."""
        logs = self.logs
        reasons = self.screener.reasons(self.flags)
        counts = {
            reason: np.bincount(logs.participant_index[self.flags.row[reasons == reason]], minlength=len(logs.participants))
            for reason in self.counts()
        }
        total = sum(counts.values(), np.zeros(len(logs.participants), dtype=np.int64))
        points = np.diff(logs.starts)
        return [
            {
                "participant": logs.participants[person].item(),
                "decision points": int(points[person]),
                **{reason: int(by_person[person]) for reason, by_person in counts.items()},
            }
            for person in np.argsort(-total, kind="stable")[:SHOWN_PEOPLE]
            if total[person]
        ]

    def map_cells(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Ids of the people shown, and the meaning of each decision point: positions in `MEANINGS`, (people, time)."""
        logs = self.logs
        cells = np.where(logs.action > 0, 2, 1)
        cells[np.isnan(logs.reward) | np.isnan(logs.state).any(axis=1)] = 3
        names = self.screener.detector_names(self.flags)
        for code, chosen in (
            (6, ~np.isin(names, (NotWorn.name, Stuck.name))),
            (5, names == Stuck.name),
            (4, names == NotWorn.name),
        ):
            cells[self.flags.row[chosen & self.marks]] = code
        flags = np.bincount(logs.participant_index[self.flags.row], minlength=len(logs.participants))
        shown = np.sort(np.argsort(-flags, kind="stable")[:SHOWN_PEOPLE])
        longest = int(np.diff(logs.starts)[shown].max(initial=0))
        grid = np.zeros((len(shown), longest), dtype=np.int64)
        for line, person in enumerate(shown):
            rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
            grid[line, : len(rows)] = cells[rows]
        return logs.participants[shown], grid

    def plot(self, palette: Mapping[str, str] | None = None) -> Figure:
        """Participants × decision points: worn, not worn, stuck, missing, sent. An image has the colours of day or night."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        from surefoot.reports.figures import GREY, LEGEND, LIGHT, label_axes, new_figure

        people, grid = self.map_cells()
        colours = [(palette or LIGHT)[colour] for _, colour in MEANINGS]
        figure, axes = new_figure(width=9.0, height=min(2.2 + 0.11 * len(people), 12.0))
        scale = {"cmap": ListedColormap(colours), "vmin": -0.5, "vmax": len(MEANINGS) - 0.5}
        axes.imshow(grid, **scale, aspect="auto", interpolation="nearest")
        label_axes(axes, x="decision point", y="participant", title="What was recorded")
        axes.grid(visible=False)
        step = -(-len(people) // 25)
        axes.set_yticks(range(0, len(people), step), [str(name) for name in people[::step]], fontsize=7)
        present = [code for code in range(1, len(MEANINGS)) if (grid == code).any()]
        handles = [Patch(facecolor=colours[code], edgecolor=GREY, label=MEANINGS[code][0]) for code in present]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), **LEGEND)
        return figure


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
        State variable or reward → the device it comes from. Columns of one device are judged together.
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
    names = (*logs.state_names, logs.names.reward)
    devices = devices or {}
    for argument, given_names in (("devices", devices), ("columns", columns or ())):
        for name in given_names:
            if name not in names:
                raise InputError(
                    f"{argument}: there is no column '{name}'{did_you_mean(name, names)}; the logs have {list(names)}"
                )
    values = np.vstack([logs.state.T, logs.reward])
    yes_no = [bool(np.isin(column[~np.isnan(column)], (0.0, 1.0)).all()) for column in values]
    targets = {name: (number,) for number, name in enumerate(names) if columns is None or name in columns}
    layout = Layout(
        columns=tuple(
            Column(name, "outcome" if number == len(names) - 1 else "state", devices.get(name), number=not yes_no[number])
            for name, (number,) in targets.items()
        ),
        questionnaires=tuple(questionnaires),
        time=logs.names.time,
        clock=logs.time.dtype.kind == "M",
    )
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

    These are positions among the state variables, with the reward after the last.
    """
    time = as_seconds(logs.time)

    def pad(rows: NDArray[np.int64]) -> ScreenBatch:
        return ScreenBatch.pad_rows(screener.layout, values, time, rows)

    flags: Flags | None = None
    if usual is None:
        chosen = sample_people(len(logs.participants))
        lengths = np.diff(logs.starts)[chosen]
        point = np.arange(max(int(lengths.max(initial=0)), 1))
        inside = point < lengths[:, None]
        sample = np.where(inside, logs.order[np.where(inside, logs.starts[chosen, None] + point, 0)], -1)
        usual, flags = screener.learn_and_find(pad(sample))
        if len(chosen) < len(logs.participants) or np.ptp(lengths):
            flags = None
    if flags is None:
        flags = Flags.join(screener.learn_and_find(pad(rows), usual)[1] for _, rows in logs.blocks())
    marked = screener.marks(flags)
    columns = screener.column_names(flags)
    state = logs.state.copy()
    reward = logs.reward.copy()
    for name in dict.fromkeys(columns[marked].tolist()):
        rows = flags.row[marked & (columns == name)]
        for number in targets.get(name, ()):
            (reward if number == state.shape[1] else state[:, number])[rows] = np.nan
    return Screen(
        logs=logs.with_values(state=state, reward=reward),
        screener=screener,
        flags=flags,
        row=np.arange(len(logs)) if row is None else row,
        usual=usual,
        values=np.where(flags.column < 0, np.nan, values[flags.column, flags.row]),
    )


def as_seconds(time: NDArray[Any]) -> Floats:
    """Moments as seconds since 1970; numbers as they are."""
    if time.dtype.kind == "M":
        return np.asarray(time.astype("M8[us]").astype(np.int64) / 1e6)
    return time.astype(np.float64)
