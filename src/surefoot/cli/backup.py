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
    opened = open_database(database)
    from surefoot.service.access.staff_trail import name_operator, record_action
    from surefoot.service.operations.backup import back_up, write_erasure_list

    counts = back_up(opened, out)
    with opened.transaction() as connection:
        record_action(connection, name_operator(), "backed up", out.name, f"{counts['decisions']} decisions")
    write_erasure_list(opened, out.parent)
    typer.echo(f"{out}: {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")


@app.command()
def restore(file: Annotated[Path, typer.Argument(help="What surefoot backup wrote.")], database: DatabaseUrl = None) -> None:
    """Fill an empty database from a backup, erase again what was erased since, then replay it."""
    need_service()
    from surefoot.service.access.staff_trail import name_operator
    from surefoot.service.database import databases
    from surefoot.service.operations import backup as backups

    opened = databases.connect(database)
    typer.echo(f"surefoot: using {opened.name}", err=True)
    restored = backups.restore(file, opened, by=name_operator())
    typer.echo(f"restored {restored.rows['decisions']:,} decisions, {restored.rows['outcomes']:,} outcomes")
    if restored.erasure_list is None:
        typer.echo(
            f"surefoot: no {backups.ERASURE_LIST} next to {file}: what was erased after it was made is back", err=True
        )
    if restored.erasure_list is not None or restored.erased.decisions:
        words = f"{restored.erased.decisions:,} decisions, {restored.erased.outcomes:,} outcomes"
        typer.echo(f"{restored.erasure_list or 'keep_days'}: erased again {words}")
    typer.echo("surefoot: repeat the withdrawals, pauses and key revocations that came after the backup", err=True)
    if restored.rows["secrets"] and not account_for(opened, []):
        raise typer.Exit(1)
