"""`surefoot export`: a trial as a log file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, DatabaseUrl, StudyFile, open_trial


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")] = Path("decisions.csv"),
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Every outcome ever sent, with corrections.")] = False,
    staff_actions: Annotated[bool, typer.Option("--staff-actions", help="Who did what, when and to whom.")] = False,
) -> None:
    """Write one row per decision point, and next to it the study that says how the trial chose its actions."""
    from surefoot.atomic_files import atomic_write, write_texts
    from surefoot.errors import InputError

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: the export is a .csv or .parquet file")
    trial = open_trial(study, database)
    from surefoot.service.access.staff_trail import name_operator, record_action
    from surefoot.service.operations.export import EXPORTS, write_study_text

    name = "staff-actions" if staff_actions else "outcomes" if outcomes else "decisions"
    with atomic_write(out) as temporary:
        made = EXPORTS[name](trial, temporary, out.suffix[1:])
        with trial.database.transaction() as connection:
            record_action(connection, name_operator(), "exported", f"{name}{out.suffix}", f"{made.rows} rows")
    people = f", {made.participants:,} participants" if name == "decisions" else ""
    typer.echo(f"{out}: {made.rows:,} rows{people}, SHA-256 {made.sha256}")
    if name == "decisions":
        beside = out.with_name(f"{out.stem}.study.toml")
        write_texts({beside: write_study_text(trial)})
        typer.echo(f"{beside}: the study with [collection], which says how the trial chose its actions")
