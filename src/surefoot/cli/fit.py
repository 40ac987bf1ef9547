"""`surefoot fit`: from logs and a study to policies."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.progress import show_progress

SHOWN_WARNINGS = 10


@app.command()
def fit(
    logs: Annotated[
        str, typer.Argument(help="Logged decision points: .csv, .tsv, .parquet, .xlsx or a folder of .parquet; path or URL.")
    ],
    study: Annotated[Path, typer.Option(help="What the columns mean and what to fit (see `surefoot init`).")] = Path(
        "study.toml"
    ),
    out: Annotated[str, typer.Option(help="Folder (path or URL) for the results; a fit when all is done.")] = "fitted",
    engine: Annotated[
        str, typer.Option(help="auto (all cores), numpy, torch, gpu (CUDA) or dask (a cluster). Results agree to rounding.")
    ] = "auto",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; without it dask starts workers on this machine.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier fit in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON on standard output.")] = False,
) -> None:
    """Fit the study's method: one policy per participant, or one for all.

    Run the same command again after an interruption and it continues where it was.
    """
    from surefoot.data.locations import locate
    from surefoot.errors import FitWarning
    from surefoot.fitting import fit_study

    try:
        with warnings.catch_warnings(record=True) as caught, show_progress("fitting", "fitted") as progress:
            warnings.simplefilter("always", FitWarning)
            fitted = fit_study(logs, study, out, force=force, progress=progress, engine=engine, scheduler=scheduler)
    except KeyboardInterrupt:
        typer.echo("surefoot: stopped; what is fitted is kept, and the same command continues from here", err=True)
        raise
    out = str(locate(out))
    _print_warnings([str(warning.message) for warning in caught], out)
    if as_json:
        typer.echo(json.dumps({"out": out, **fitted.manifest}, ensure_ascii=False))
    else:
        _print_fit(out, fitted.manifest)


def _print_warnings(messages: list[str], out: str) -> None:
    for message in messages[:SHOWN_WARNINGS]:
        typer.echo(f"surefoot: warning: {message}", err=True)
    if len(messages) > SHOWN_WARNINGS:
        typer.echo(f"surefoot: {len(messages) - SHOWN_WARNINGS} more warnings in {out}/manifest.json", err=True)


def _print_fit(out: str, manifest: dict[str, Any]) -> None:
    """The fit in a few lines."""
    from surefoot.learning.pooling import find_pooling

    method = manifest["method"]
    used = manifest["used"]
    free = manifest["available"]
    whom = find_pooling(method["parameters"]["pooling"]).for_whom
    typer.echo(
        f"{method['name']}, one policy {whom}: {manifest['people']} people, {manifest['decision_points']:,} decision points"
    )
    share = f" ({100 * manifest['removed'] / used:.1f} %)" if used else ""
    typer.echo(
        f"  {free:,} available, {used:,} of them complete and used, {manifest['removed']:,} removed by the critic{share}"
    )
    meanings = {
        "missing": "at available decision points",
        "implausible": "values, which count as missing",
        "flagged": "by the screen",
    }
    for reason, meaning in meanings.items():
        counts = {name: count for name, count in manifest[reason].items() if count}
        if counts:
            typer.echo(f"  {reason} {meaning}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}")
    typer.echo(f"Written: {out}/ (policies, critic, weights, manifest)")
