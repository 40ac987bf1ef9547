"""The audit as text: what the command line prints and what a notebook shows as `audit.summary()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from surefoot.audit.findings import AuditFindings
from surefoot.inference.intervals import describe_roughness
from surefoot.reports.numbers import format_interval, format_percent, format_value
from surefoot.reports.summaries import make_table

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {"fine": "green", "look": "yellow", "unsafe": "bold red"}
MOST_PEOPLE = 5


def print_audit(found: AuditFindings, console: Console) -> None:
    """Counts, checks, other limits, who lost most, and the verdict."""
    console.print(describe_counts(found), markup=False)
    totals = found.totals()
    for what in ("missing ", "implausible "):
        counts = {name.removeprefix(what): count for name, count in totals.items() if name.startswith(what) and count}
        if counts:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            console.print(f"{what.strip()} by column: {listed}", markup=False)
    for check in found.checks:
        console.print(f"\n[{STYLES[check.verdict]}]{check.verdict:<6}[/] [bold]{check.name}[/]")
        console.print(Padding(Text(check.reason + (f"\n→ {check.remedy}" if check.remedy else "")), (0, 0, 0, 7)))
    console.print()
    print_omissions(found.left_out, console)
    removal = found.measures.fitted.critic_.removal
    if removal is not None:
        _print_other_limits(found, removal.name, console)
        _print_people(found, console)
    console.print(f"Verdict: [{STYLES[found.verdict]}]{found.verdict}[/]")


def print_omissions(sentences: tuple[str, ...], console: Console) -> None:
    """What was left out of an analysis, where anything was."""
    if sentences:
        console.print("[bold]Left out[/]")
        for sentence in sentences:
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
        console.print()


def describe_counts(found: AuditFindings) -> str:
    """How many decision points there are, can be used, and were removed by what."""
    totals, removal = found.totals(), found.measures.fitted.critic_.removal
    people = describe_roughness(totals["people"]) or f"{totals['people']} people"
    counts = (
        f"{people}, {totals['decision_points']} decision points: {totals['available']} available, {totals['used']} used, "
    )
    if removal is None:
        return f"{counts}none removed"
    return (
        f"{counts}{totals['removed']} removed by {removal.name} ({totals['removed_above']} above the fit, "
        f"{totals['removed_below']} below), holding {format_percent(totals['reward_share'])} of the total reward"
    )


def _print_other_limits(found: AuditFindings, limit: str, console: Console) -> None:
    console.print(f"[bold]With {escape(limit)} elsewhere[/]")
    grid = make_table("tau", "removed", "mean effect", "95 % interval", "send rate")
    for row in found.sensitivity:
        tau = "without" if row.tau == float("inf") else f"{row.tau:g}"
        effect = (format_value(row.effect), format_interval(row.effect))
        grid.add_row(tau, format_percent(row.removed), *effect, format_percent(row.send_rate))
    console.print(grid)


def _print_people(found: AuditFindings, console: Console) -> None:
    participant = found.measures.fitted.logs_.names.participant
    console.print("[bold]Who lost most[/]")
    table = make_table("participant", "used", "removed", "above", "below", "share of reward")
    for row in found.list_most_removed(MOST_PEOPLE):
        counts = [str(row[name]) for name in ("used", "removed", "removed_above", "removed_below")]
        table.add_row(escape(str(row[participant])), *counts, format_percent(row["reward_share"]))
    console.print(table)
