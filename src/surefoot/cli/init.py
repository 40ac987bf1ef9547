"""`surefoot init`: a first study.toml from a look at the logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app

Name = Annotated[str | None, typer.Option(help="Its column, where the guess is wrong.", show_default=False)]


@app.command()
def init(
    logs: Annotated[
        Path, typer.Argument(help="Logged decision points: .csv, .tsv, .parquet, .xlsx or a folder of .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("study.toml"),
    participant: Name = None,
    time: Name = None,
    action: Name = None,
    reward: Name = None,
    available: Name = None,
    probability: Name = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Look at the logs and write a commented first study.toml."""
    from surefoot.atomic_files import check_output, write_texts
    from surefoot.errors import InputError
    from surefoot.study.draft import draft_study

    if out.is_file() and not force:
        raise InputError(f"{out}: is already there; choose another name with --out or replace it with --force")
    check_output(out)
    roles = {"participant": participant, "time": time, "action": action, "reward": reward}
    draft = draft_study(logs, **roles, available=available, probability=probability)
    for message in draft.warnings:
        typer.echo(f"surefoot: warning: {message}", err=True)
    write_texts({out: draft.text})
    typer.echo(f"Written: {out}\nRead it, correct the guesses, then: surefoot fit {logs} --study {out}")
