"""`surefoot screen`: which values cannot be trusted, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, Logs, StudyFile, console, new_table, print_json, write_outputs

if TYPE_CHECKING:
    from surefoot.log_checks import Check
    from surefoot.screening.screen import ScreenTotals


@app.command()
def screen(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    html: HtmlFile = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write one row per flagged value (.csv or .parquet): row, participant, time, column, reason."
        ),
    ] = None,
) -> None:
    """Say which values look unworn, stuck, miscoded or careless, and whether that depends on the action.

    Nothing is changed: `fit`, `audit` and `evaluate` mark the same values missing when the study has a [screen] section.
    """
    from surefoot.fitting.partition import Partition
    from surefoot.log_checks import SCREEN_CHECKS, VERDICTS, list_warnings
    from surefoot.screening.page import render_page
    from surefoot.screening.screen import ScreenTotals
    from surefoot.study import Study

    described = Study.load(study).with_screen()
    partition = Partition.of(described, logs, together=False)
    totals = ScreenTotals()
    shown = None
    worst: dict[str, Check] = {}
    with _open_table(out) as write:
        for number in range(len(partition.parts)):
            read = partition.read(number)
            for check in (check_values(read, described) for check_values in SCREEN_CHECKS):
                earlier = worst.setdefault(check.name, check)
                worst[check.name] = max(earlier, check, key=lambda part: VERDICTS.index(part.verdict))
            if read.screen is None:
                continue
            totals.add(read.screen)
            write(read.screen.to_frame("pyarrow"))
            shown = shown or read.screen
    checks = list(worst.values())
    source = f"{logs.name}, as described by {study.name}"
    pages: dict[Path | None, str] = {}
    if html and shown:
        pages[html] = render_page(shown, totals, title=f"Screen of {logs.name}", source=source, checks=checks)
    with write_outputs(pages):
        if as_json:
            print_json({**totals.to_dict(), "checks": [asdict(check) for check in checks]})
        else:
            _print_totals(totals, list_warnings(checks))
    if out is not None:
        typer.echo(f"Written: {out}", err=True)


@contextmanager
def _open_table(out: Path | None) -> Iterator[Any]:
    """A function that adds rows to the file, which appears when all are there."""
    if out is None:
        yield lambda table: None
        return
    from pyarrow import csv, parquet

    from surefoot.atomic_files import atomic_write
    from surefoot.errors import InputError

    writers = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    if out.suffix.lower() not in writers:
        raise InputError(f"{out}: the flagged values are written as .csv or .parquet; name the file so")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}; make it first")
    with atomic_write(out) as temporary, ExitStack() as stack:
        opened: list[tuple[Any, Any]] = []

        def write(table: Any) -> None:
            if not opened:
                opened.append((stack.enter_context(writers[out.suffix.lower()](temporary, table.schema)), table.schema))
            writer, schema = opened[0]
            writer.write_table(table.cast(schema))

        yield write
        stack.close()


def _print_totals(totals: ScreenTotals, warnings: list[str]) -> None:
    from rich.markup import escape

    out = console()
    counts = totals.to_dict()
    for warning in warnings:
        out.print(warning, markup=False, highlight=False)
    out.print(
        f"{counts['people']} people, {counts['decision_points']} decision points: {counts['flagged_values']} values "
        f"flagged, {counts['now_missing']} of them count as missing"
    )
    if counts["counts"]:
        table = new_table("column", "reason", "after", "values", "missing", text=3)
        for row in counts["counts"]:
            after = ", ".join(f"{arm} {count:,}" for arm, count in row["after"].items())
            table.add_row(escape(row["column"]), row["reason"], escape(after), f"{row['values']:,}", f"{row['missing']:,}")
        out.print(table)
    colours = {"fine": "[green]fine[/]  ", "look": "[yellow]look[/]  ", "unsafe": "[bold red]unsafe[/]"}
    for difference in totals.treatment():
        out.print(f"{colours[difference.verdict]} {escape(difference.describe())}")
    if not counts["blind_to_treatment"]:
        from surefoot.screening.treatment import NOT_DIRT

        out.print(f"→ {NOT_DIRT}", markup=False)
