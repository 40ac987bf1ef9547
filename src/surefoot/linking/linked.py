"""What `surefoot link` gives: the logs, counts of everything that was left out, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.linking.plan import FeatureSection, LinkPlan
from surefoot.linking.times import MINUTE, SECOND
from surefoot.reports.summaries import Overview, ShownResult, make_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable
    from surefoot.study.draft import Draft

LISTED = 200
"""Decision points without a record that a page lists."""


@dataclass(frozen=True)
class StreamCounts:
    """Rows of a stream: `rows` = `used` + all that were left out."""

    name: str
    rows: int
    used: int
    left_out: Mapping[str, int]
    """Reason → rows."""
    unreadable: Mapping[str, int]
    """Column → cells that are not numbers, which count as missing."""


@dataclass(frozen=True)
class FeatureCounts:
    """Decision points at which a state or outcome has a value, and why others have none."""

    name: str
    section: FeatureSection
    values: int
    no_window: int
    no_rows: int
    too_little: int
    late_rows: int
    """Rows of windows before decisions that arrived too late for them."""
    share: float | None
    """Mean share of the window with data; None for events."""
    reaching: int
    """Windows of an outcome that reach beyond the next decision point."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = {name: value for name, value in vars(self).items() if name != "section"}
        return {**numbers, "kind": "state" if self.section.is_state else "outcome"}


@dataclass(frozen=True)
class Day:
    """One participant's day, to draw: moments in UTC."""

    participant: str
    date: date
    zone: str
    decisions: tuple[int, ...]
    features: Mapping[str, tuple[list[tuple[int, float, bool]], list[tuple[int, int]]]] = field(default_factory=dict)
    """Feature → rows (time, value, worn), and windows (begin, end)."""

    @property
    def limits(self) -> tuple[int, int]:
        """Midnight to midnight on the participant's clock."""
        zone = ZoneInfo(self.zone)
        midnight = datetime(self.date.year, self.date.month, self.date.day, tzinfo=zone)
        following = datetime.fromordinal(self.date.toordinal() + 1).replace(tzinfo=zone)
        return int(midnight.timestamp()) * SECOND, int(following.timestamp()) * SECOND

    def draw(self, plan: LinkPlan, ax: Drawable) -> Axes:
        """A line per feature: rows with data as a band, rows not worn in grey, the windows as bars above it."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        from surefoot.reports.figures import BLUE, GREY, INK, ORANGE, SKY, add_legend, choose_axes, label_axes

        axes = choose_axes(ax, width=9.0, height=1.8 + 0.7 * len(self.features))
        begin, end = self.limits
        for height, (name, (rows, windows)) in enumerate(self.features.items()):
            feature = plan.features[name]
            length = (plan.row_minutes_of(feature) or 3) * MINUTE
            for worn, colour in ((True, SKY), (False, GREY)):
                spans = [(time - begin, length) for time, _, was_worn in rows if was_worn == worn]
                axes.broken_barh(spans, (height - 0.1, 0.3), color=colour, linewidth=0)
            # Bars of neighbouring windows stand at two heights, so that overlaps can be seen.
            for number, (opens, closes) in enumerate(windows):
                if opens is None:
                    continue
                level = height - 0.2 - 0.12 * (number % 2)
                colour = BLUE if feature.is_state else ORANGE
                axes.plot([opens - begin, closes - begin], [level, level], color=colour, linewidth=3, solid_capstyle="butt")
        for decision in self.decisions:
            axes.axvline(decision - begin, color=INK, linewidth=1, linestyle="--")
        axes.set_xlim(0, end - begin)
        axes.set_ylim(len(self.features) - 0.4, -0.6)
        axes.set_yticks(range(len(self.features)), list(self.features))
        hours = range(0, round((end - begin) / MINUTE / 60) + 1, 3)
        moments = [
            datetime.fromtimestamp(begin / SECOND + 3600 * hour, UTC).astimezone(ZoneInfo(self.zone)) for hour in hours
        ]
        axes.set_xticks([hour * 60 * MINUTE for hour in hours], [f"{moment:%H:%M}" for moment in moments])
        label_axes(axes, x=f"{self.date}, {self.zone}", y="", title=f"A day of participant {self.participant}")
        handles = [
            Patch(color=SKY, label="rows with data"),
            Patch(color=GREY, label="not worn"),
            Line2D([], [], color=BLUE, linewidth=3, label="window of a state"),
            Line2D([], [], color=ORANGE, linewidth=3, label="window of an outcome"),
            Line2D([], [], color=INK, linewidth=1, linestyle="--", label="decision point"),
        ]
        add_legend(axes, columns=len(handles), handles=handles)
        return axes


@dataclass(frozen=True, eq=False, repr=False)
class Linked(ShownResult):
    """Decision points with their states and outcomes.

    Attributes
    ----------
    table
        The decisions as they were, in their order, with a column for every state and outcome and columns that say how much
        of each window has data.
    plan
        The plan that was followed.
    streams
        Rows read, used and left out, by reason.
    features
        Decision points with a value, and without one by reason.
    unrecorded
        Expected decision points without a record: participant and local time.
    participants
        How many there are.
    day
        A participant's day, to draw.
    """

    page_title = "Raw files linked to decision points"
    table: pa.Table
    plan: LinkPlan
    streams: tuple[StreamCounts, ...]
    features: tuple[FeatureCounts, ...]
    unrecorded: pa.Table
    participants: int
    day: Day | None

    def write(self, path: str | Path) -> None:
        """Write the logs as .parquet or .csv; the file appears when it is whole."""
        from pyarrow import csv, parquet

        path = Path(path)
        check_log_name(path)
        with atomic_write(path) as temporary:
            (csv.write_csv if path.suffix.lower() == ".csv" else parquet.write_table)(self.table, temporary)

    def draft_study(self, name: str = "logs.parquet") -> Draft:
        """A first `study.toml` for the logs in a file of this name: the plan's states, and its first outcome.

        Columns about windows after the decision are no states, so the draft does not see them.
        """
        import tempfile

        from surefoot.study.draft import draft_study

        outcome = next(iter(self.plan.outcomes), None)
        given = set(self.plan.features) - {outcome}
        hidden = set(self.coverage_columns) | (given - set(self.plan.states))
        hidden |= {str(self.plan.decisions.zone_column)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            shown = self.table.select([column for column in self.table.column_names if column not in hidden])
            replace(self, table=shown).write(path)
            return draft_study(path, outcome=outcome)

    @property
    def coverage_columns(self) -> list[str]:
        """Columns that say how much of a window has data."""
        endings = ("rows", "minutes", "share", "worn_minutes")
        names = {f"{feature}_{ending}" for feature in self.plan.features for ending in endings}
        return [column for column in self.table.column_names if column in names]

    def to_frame(self, backend: str | None = None) -> Any:
        """The logs as a table of pandas, polars or pyarrow."""
        from surefoot.data.frames import make_frame

        return make_frame({name: self.table[name] for name in self.table.column_names}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "participants": self.participants,
            "decision_points": self.table.num_rows,
            "columns": self.table.column_names,
            "streams": [vars(stream) for stream in self.streams],
            "features": [feature.to_dict() for feature in self.features],
            "unrecorded": self.unrecorded.to_pylist(),
        }

    def _overview(self) -> Overview:
        facts = {
            "participants": f"{self.participants:,}",
            "decision points": f"{self.table.num_rows:,}",
            "without a record": f"{self.unrecorded.num_rows:,}",
        }
        rows = [[row.name, f"{row.values:,}", "" if row.share is None else f"{row.share:.0%}"] for row in self.features]
        return Overview("Decision points from raw files", facts, [["feature", "values", "covered"], *rows])

    def list_left_out(self) -> list[tuple[str, str, int]]:
        """Stream, reason and number of rows that were left out, or of cells that cannot be read."""
        rows = [(stream.name, reason, count) for stream in self.streams for reason, count in stream.left_out.items()]
        for stream in self.streams:
            for column, count in stream.unreadable.items():
                rows.append((stream.name, f"'{column}' is not a number; the cell counts as missing", count))
        return rows

    def print_summary(self, console: Console) -> None:
        """Print what became of the rows, and how complete the features are."""
        console.print(f"{self.participants:,} people, {self.table.num_rows:,} decision points")
        table = make_table("stream", "rows", "used")
        for stream in self.streams:
            table.add_row(stream.name, f"{stream.rows:,}", f"{stream.used:,}")
        console.print(table)
        for name, reason, count in self.list_left_out():
            console.print(f"  {name}: {count:,} × {reason}", markup=False, highlight=False)
        table = make_table("feature", "values", "no window", "no data", "too little", "late rows", "covered")
        for row in self.features:
            share = "" if row.share is None else f"{100 * row.share:.0f} %"
            counts = (row.values, row.no_window, row.no_rows, row.too_little, row.late_rows)
            table.add_row(row.name, *(f"{count:,}" for count in counts), share)
        console.print(table)
        for row in self.features:
            if row.reaching:
                words = f"{row.reaching:,} windows of '{row.name}' reach beyond the next decision point"
                console.print(words, markup=False, highlight=False)
        if self.plan.decisions.expected:
            console.print(f"{self.unrecorded.num_rows:,} expected decision points have no record")

    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained HTML page."""
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import inline_svg, render

        words = "One participant's day: rows, windows before and after each decision point"
        chart = "" if self.day is None else inline_svg(self.plot(ax=new_page_figure()), words)
        return render("link.html", title=title, source=source, linked=self, chart=chart, most=LISTED)

    def plot(self, *, ax: Drawable = None) -> Axes:
        """One participant's day: the rows of every feature, its windows, and the decision points."""
        if self.day is None:
            raise InputError("there are no decision points to draw")
        return self.day.draw(self.plan, ax)


def check_log_name(path: Path) -> None:
    """Refuse a file name of another kind than .csv and .parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: linked logs are written as .parquet or .csv; name the file so")
