"""`surefoot rehearse`: the whole trial, simulated, before the first participant."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, StudyFile, console, print_json, write_outputs

if TYPE_CHECKING:
    from surefoot.rehearsal import Rehearsal

EXAMPLES = """**Examples**

    surefoot rehearse pilot.csv --trials 100 --html rehearsal.html

    surefoot rehearse pilot.csv --plan rehearsal.toml --trials 1000

    surefoot rehearse --plan rehearsal.toml --json    # without a pilot: from the study's ranges
"""


@app.command(epilog=EXAMPLES)
def rehearse(
    pilot: Annotated[Path | None, typer.Argument(help="Logs of a pilot; without one: the study's ranges.")] = None,
    study: StudyFile = Path("study.toml"),
    plan: Annotated[Path | None, typer.Option(help="Design, candidates, environments (docs/rehearsal.md).")] = None,
    trials: Annotated[int | None, typer.Option(help="Simulated trials of each environment, instead of the plan's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for finished blocks, answers and manifest.")] = Path("rehearsal"),
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core. Never changes a number.")] = 0,
    engine: Annotated[str, typer.Option(help="`processes` on this machine, or `dask` (a cluster).")] = "processes",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; without it dask starts workers on this machine.")
    ] = None,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Simulate the trial with every candidate in several environments, and say which is safely better than a coin.

    Run the same command again after an interruption and it goes on where it was; with more --trials it adds to those it has.
    """
    where = {"jobs": jobs, "engine": engine, "scheduler": scheduler}
    rehearsal = _run(pilot, study, plan, trials=trials, folder=out, **where)
    rehearsal.save(out)
    name = pilot.name if pilot is not None else "no pilot"
    source = f"{name}, as described by {study.name}" + (f", planned by {plan.name}" if plan is not None else "")
    with write_outputs({html: rehearsal.to_html(source=source)} if html is not None else {}):
        if as_json:
            print_json(rehearsal.to_dict())
        else:
            rehearsal.print_summary(console())
    typer.echo(f"Written: {out}/ (answers.json, table.md, manifest.json)", err=True)


def _run(pilot: Path | None, study: Path, plan: Path | None, **how: Any) -> Rehearsal:
    """The rehearsal; Ctrl-C keeps what is done, and what rests on too little is said on standard error."""
    from surefoot.errors import FitWarning
    from surefoot.experiments.progress import choose_progress
    from surefoot.rehearsal import rehearse

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FitWarning)
            rehearsal = rehearse(pilot, study, plan, progress=choose_progress("rehearse"), **how)
    except KeyboardInterrupt:
        typer.echo("surefoot: stopped; finished blocks are kept, and the same command continues from here", err=True)
        raise
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        typer.echo(f"surefoot: warning: {message}", err=True)
    return rehearsal
