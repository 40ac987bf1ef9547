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
    """Write the whole trial to one file, and the list of what was erased beside it, while the service goes on."""
    found = open_database(database)
    from surefoot.service.access.staff_trail import name_operator, record_action
    from surefoot.service.operations.backup import back_up
    from surefoot.service.operations.erasure_list import write_erasure_list

    counts = back_up(found, out)
    with found.transaction() as connection:
        record_action(connection, name_operator(), "backed up", out.name, f"{counts['decisions']} decisions")
    write_erasure_list(found, out.parent)
    typer.echo(f"{out}: {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")


@app.command()
def restore(file: Annotated[Path, typer.Argument(help="What surefoot backup wrote.")], database: DatabaseUrl = None) -> None:
    """Fill an empty database from a backup, erase again what was erased since, then replay it."""
    need_service()
    from surefoot.service.access.staff_trail import name_operator, record_action
    from surefoot.service.database import databases
    from surefoot.service.operations.backup import restore as fill
    from surefoot.service.operations.erasure_list import NAME, apply_erasure_list

    found = databases.connect(database)
    typer.echo(f"surefoot: using {found.name}", err=True)

    counts = fill(file, found)
    typer.echo(f"restored {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")
    with found.transaction() as connection:
        record_action(connection, name_operator(), "restored", file.name, f"{counts['decisions']} decisions")
    listed = file.parent / NAME
    if listed.exists():
        erased = apply_erasure_list(found, listed, name_operator())
        typer.echo(f"{listed}: erased again {erased.decisions:,} decisions, {erased.outcomes:,} outcomes")
    else:
        typer.echo(f"surefoot: no {NAME} beside {file}: what was erased after it was made is back", err=True)
    if counts["secrets"] and not account_for(found, []):
        raise typer.Exit(1)
