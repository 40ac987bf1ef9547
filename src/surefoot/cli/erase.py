"""`surefoot erase`: a participant's content, in two steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database


@app.command()
def erase(
    participant: Annotated[str, typer.Argument(help="The participant's pseudonym.")],
    reason: Annotated[str | None, typer.Option(help="Why; kept on record. The first step: it prints a code.")] = None,
    confirm: Annotated[str | None, typer.Option(help="The code. The second step: it erases, for good.")] = None,
    backups: Annotated[list[Path] | None, typer.Option(help="Folders of backups, whose erasure list gets this one.")] = None,
    database: DatabaseUrl = None,
) -> None:
    """Replace a participant's contexts, states and outcomes by nothing; rows and draws stay accountable."""
    from surefoot.errors import InputError

    if (reason is None) == (confirm is None):
        raise InputError("say why with --reason to get a code, then give it with --confirm")
    opened = open_database(database)
    from surefoot.service.access.staff_trail import name_operator
    from surefoot.service.operations.backup import write_erasure_list
    from surefoot.service.trial import erasure

    if confirm is None:
        request = erasure.ask_erasure(opened, participant, reason=(reason or "").strip()[:200], by=name_operator())
        typer.echo(
            f"{participant}: {request.decisions:,} decisions and {request.outcomes:,} outcomes would lose their content "
            "for good"
        )
        typer.echo(
            f"to do it: surefoot erase {participant} --confirm {request.code} (until {request.until:%Y-%m-%d %H:%M} UTC)"
        )
        return
    erased = erasure.confirm_erasure(opened, participant, confirm, by=name_operator())
    typer.echo(f"{participant} is withdrawn; erased {erased.decisions:,} decisions and {erased.outcomes:,} outcomes")
    for folder in backups or ():
        typer.echo(f"{write_erasure_list(opened, folder)}: restore applies it to every backup in this folder")
    if not backups:
        typer.echo(
            "older backups still hold it; the next surefoot backup writes the list that restore applies, or name --backups"
        )
