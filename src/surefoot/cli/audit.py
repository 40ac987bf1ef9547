"""`surefoot audit`: what a fit left out, and whether that was safe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.cli.application import app
from surefoot.cli.loaded_study import (
    AsJson,
    HtmlFile,
    LoadedStudy,
    Logs,
    StudyFile,
    console,
    new_table,
    print_json,
    write_outputs,
)

if TYPE_CHECKING:
    from surefoot.audit import Audit

STYLES = {"fine": "green", "look": "yellow", "unsafe": "bold red"}
MOST_PEOPLE = 5


@app.command()
def audit(logs: Logs, study: StudyFile = Path("study.toml"), html: HtmlFile = None, as_json: AsJson = False) -> None:
    """Say what the fit left out, and whether that was safe: fine, look or unsafe, with the reason and the remedy."""
    from surefoot.audit import audit as audit_fit
    from surefoot.audit.page import render_page

    studied = LoadedStudy.of(logs, study)
    found = audit_fit(studied.fitted(), raw_reward=studied.read.raw_reward, implausible=studied.read.implausible)
    title = f"Audit of {logs.name}"
    with write_outputs({html: render_page(found, title=title, source=studied.source)} if html else {}):
        if as_json:
            print_json(found.to_dict())
        else:
            _print_audit(found)


def _print_audit(found: Audit) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from surefoot.reports.numbers import format_interval, format_percent, format_value

    out, totals = console(), found.totals()
    out.print(
        f"{totals['people']} people, {totals['decision_points']} decision points: {totals['available']} available, "
        f"{totals['used']} used, {totals['removed']} removed by the cap ({totals['removed_above']} above the fit, "
        f"{totals['removed_below']} below)"
    )
    for what in ("missing ", "implausible "):
        counts = {name.removeprefix(what): count for name, count in totals.items() if name.startswith(what) and count}
        if counts:
            out.print(
                f"{what.strip()} by column: {', '.join(f'{name} {count}' for name, count in counts.items())}", markup=False
            )
    for check in found.checks:
        out.print(f"\n[{STYLES[check.verdict]}]{check.verdict:<6}[/] [bold]{check.name}[/]")
        out.print(Padding(Text(check.reason + (f"\n→ {check.remedy}" if check.remedy else "")), (0, 0, 0, 7)))
    out.print()
    if len(found.sensitivity) > 1:
        out.print("[bold]If the cap were elsewhere[/]")
        grid = new_table("tau", "removed", "mean effect", "95 % interval", "send rate")
        for row in found.sensitivity:
            tau = "no cap" if row.tau == float("inf") else f"{row.tau:g}"
            grid.add_row(
                tau,
                format_percent(row.removed),
                format_value(row.effect),
                format_interval(row.effect),
                format_percent(row.send_rate),
            )
        out.print(grid)
    rows = sorted(found.people("pyarrow").to_pylist(), key=lambda row: -row["removed"] / max(row["used"], 1))[:MOST_PEOPLE]
    participant = found.measures.fitted.logs_.names.participant
    out.print("[bold]Who lost most[/]")
    people = new_table("participant", "used", "removed", "above", "below", "share of reward")
    for row in rows:
        counts_of = [str(row[name]) for name in ("used", "removed", "removed_above", "removed_below")]
        people.add_row(escape(str(row[participant])), *counts_of, format_percent(row["reward_share"]))
    out.print(people)
    out.print(f"Verdict: [{STYLES[found.verdict]}]{found.verdict}[/]")
