"""`surefoot import`: public studies as logs and a ready study.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app

importing = typer.Typer(help="Turn the file of a public study into logs and a ready study.toml.", no_args_is_help=True)
app.add_typer(importing, name="import")


@importing.command("heartsteps-v1")
def heartsteps_v1(
    path: Annotated[Path, typer.Argument(help="The suggestions.csv of HeartSteps V1.")],
    out: Annotated[Path, typer.Option(help="Folder to make, with the logs and study.toml in it.")] = Path("heartsteps-v1"),
    as_csv: Annotated[bool, typer.Option("--csv", help="Write logs.csv instead of logs.parquet.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Import the HeartSteps V1 micro-randomised trial."""
    from surefoot.atomic_files import new_folder
    from surefoot.datasets.heartsteps_v1 import heartsteps_v1, study_text

    with new_folder(out) as folder:
        data = heartsteps_v1(path)
        (folder / "study.toml").write_text(study_text(), encoding="utf-8")
        if as_csv:
            from pyarrow import csv

            csv.write_csv(data.frame, folder / "logs.csv")
        else:
            from pyarrow import parquet

            parquet.write_table(data.frame, folder / "logs.parquet")
    if as_json:
        typer.echo(json.dumps({"out": str(out), "funnel": data.funnel}))
        return
    for step, count in data.funnel.items():
        typer.echo(f"{count:>7,} {step}")
    logs = "logs.csv" if as_csv else "logs.parquet"
    typer.echo(f"Written: {out}/{logs} and {out}/study.toml\nNext: surefoot fit {out}/{logs} --study {out}/study.toml")
