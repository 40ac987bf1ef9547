"""`surefoot qualify`: installation and operation qualification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, DatabaseUrl, StudyFile, need_service

OUT = Path("qualification")


@app.command()
def qualify(
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, HTML to sign and JSON.")] = OUT,
) -> None:
    """Try what the service promises on this installation, in a scratch trial; exit code 1 when a check fails."""
    need_service()
    from surefoot.service.database.databases import DEFAULT_URL
    from surefoot.service.operations import qualification

    outcome = qualification.qualify(study, database or DEFAULT_URL)
    for check in (*outcome.installation, *outcome.operation):
        typer.echo(f"{'passed' if check.passed else 'FAILED'}  {check.name}: {check.observed}")
    page, _ = qualification.write_report(outcome, out)
    typer.echo(f"{page}: {'every check passed' if outcome.passed else 'not every check passed'}")
    if not outcome.passed:
        raise typer.Exit(1)
