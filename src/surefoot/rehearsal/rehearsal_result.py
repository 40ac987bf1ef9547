"""A rehearsal that shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from surefoot.rehearsal.protocol_table import HEADERS, tabulate
from surefoot.rehearsal.rehearsal_findings import RehearsalFindings
from surefoot.rehearsal.rehearsal_page import render_rehearsal
from surefoot.reports.summaries import ShownResult, make_table

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False)
class Rehearsal(RehearsalFindings, ShownResult):
    """What a rehearsal found, as text, as a page, and in a notebook.

    Attributes
    ----------
    plan, design, environments, answers, by_environment, overall, tuned, spread, unit, warnings, checks, effect
        As `RehearsalFindings` has them.
    manifest, notes
        As `RehearsalFindings` has them.
    """

    page_title: ClassVar[str] = "Rehearsal of a trial"

    def print_summary(self, console: Console) -> None:
        for warning in self.warnings:
            console.print(warning, markup=False)
        if self.checks is not None:
            console.print(f"The model of the pilot: {self.checks.verdict}")
            for line in self.checks.differences:
                console.print(f"  look: {line}", markup=False)
        for one, cells in zip(self.by_environment, self.answers.values(), strict=True):
            console.print(f"\n{one.environment}", markup=False, style="bold")
            table = make_table(*HEADERS[:6])
            for row in tabulate(cells):
                table.add_row(*row[:6])
            console.print(table)
            console.print(f"→ {one.sentence}", markup=False)
        for note in self.notes:
            console.print(note, markup=False)
        console.print(f"\nRecommended: {self.overall.sentence} ({self.trials} trials)", markup=False)

    def render_page(self, *, title: str, source: str) -> str:
        return render_rehearsal(self, title=title, source=source)
