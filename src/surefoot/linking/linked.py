"""What `surefoot link` gives: the logs, counts of everything that was left out, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.linking.day import Day
from surefoot.linking.plan import FeatureSection, LinkPlan
from surefoot.reports.summaries import Overview, ShownResult, make_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable
    from surefoot.study.draft import StudyDraft

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
        writers = {".csv": csv.write_csv, ".parquet": parquet.write_table}
        if path.suffix.lower() not in writers:
            raise InputError(f"{path}: linked logs are written as .parquet or .csv; name the file so")
        with atomic_write(path) as temporary:
            writers[path.suffix.lower()](self.table, temporary)

    def draft_study(self, name: str = "logs.parquet") -> StudyDraft:
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
