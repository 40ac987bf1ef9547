"""`surefoot seal`: the ledger's last hash, to be kept outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database


@app.command()
def seal(
    to: Annotated[str, typer.Argument(help="A file on another machine's disk, which gets a line, or an http(s) URL.")],
    database: DatabaseUrl = None,
) -> None:
    """Write the ledger's last hash outside; exit code 1 when an earlier seal of the file no longer fits."""
    opened = open_database(database)
    from surefoot.service.operations import verification

    new = verification.make_seal(opened)
    if to.startswith(("http://", "https://")):
        verification.send_seal(new, to)
        broken = []
    else:
        path = Path(to)
        broken = verification.find_broken(opened, verification.read_seals(path)) if path.exists() else []
        verification.append_seal(new, path)
    typer.echo(f"{to}: block {new.position:,}, hash {new.hash}")
    for seal_kept in broken:
        typer.echo(
            f"the seal of {seal_kept.words} (block {seal_kept.position:,}) no longer fits: run surefoot replay --seal {to}"
        )
    if broken:
        raise typer.Exit(1)
