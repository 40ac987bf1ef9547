"""`surefoot backup` and `surefoot restore`: a trial in one file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.replay import account_for
from surefoot.cli.trial_options import DatabaseUrl, need_service, open_database


@app.command()
def backup(
    out: Annotated[Path, typer.Argument(help="A .zip file; it holds the study's secret, so keep it as safe as the trial.")],
    database: DatabaseUrl = None,
) -> None:
    """Write the whole trial to one file, while the service goes on."""
    found = open_database(database)
    from surefoot.service.operations.backup import back_up

    counts = back_up(found, out)
    typer.echo(f"{out}: {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")


@app.command()
def restore(file: Annotated[Path, typer.Argument(help="What surefoot backup wrote.")], database: DatabaseUrl = None) -> None:
    """Fill an empty database from a backup, then replay it."""
    need_service()
    from surefoot.service.database import databases
    from surefoot.service.operations.backup import restore as fill

    found = databases.connect(database)
    typer.echo(f"surefoot: using {found.name}", err=True)

    counts = fill(file, found)
    typer.echo(f"restored {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")
    if counts["secrets"] and not account_for(found, []):
        raise typer.Exit(1)
