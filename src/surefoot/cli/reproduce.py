"""`surefoot reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app

QUICK_REPLICATES = 3


@app.command(
    epilog="Examples:\n\n"
    "`surefoot reproduce --quick` all four experiments, 3 replicates\n\n"
    "`surefoot reproduce s2 s4 --replicates 50 --out sweeps` two of them, more precisely\n\n"
    "`surefoot reproduce --json | jq '.claims[] | {name, verdict}'` the verdicts alone"
)
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Any of s1 s2 s3 s4; all of them if none is named.")
    ] = None,
    replicates: Annotated[int, typer.Option(help="Repetitions with fresh seeds, at least 2.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPLICATES} replicates instead.")] = False,
    users: Annotated[int, typer.Option(help="People in a simulated study.")] = 50,
    tuples: Annotated[int, typer.Option(help="Decision points of each.")] = 210,
    steps: Annotated[int, typer.Option(help="Decision points for which a learned policy is run.")] = 5000,
    keep: Annotated[int, typer.Option(help="How many of these, the last ones, are averaged.")] = 4000,
    ratio: Annotated[float, typer.Option(help="ψ, share of tuples with an outlier, where it is not swept.")] = 0.04,
    strength: Annotated[float, typer.Option(help="ν, strength of the outliers, where it is not swept.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Root of all random numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core. Never changes a number.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    json_only: Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")] = False,
) -> None:
    """Run the paper's four experiments and judge each of its claims.

    Writes runs, tables, figures, a summary and a report to the folder. An interrupted run goes on where it stopped when the
    same command is given again.
    """
    import json
    import os
    import time

    from surefoot.errors import InputError
    from surefoot.experiments import running
    from surefoot.experiments.plan import EXPERIMENTS, Settings
    from surefoot.experiments.report import write_results

    settings = Settings(
        # In the paper's order whatever the order of the arguments: the files are then the same.
        experiments=tuple(dict.fromkeys(sorted(experiments or EXPERIMENTS))),
        replicates=QUICK_REPLICATES if quick else replicates,
        users=users,
        tuples=tuples,
        steps=steps,
        keep=keep,
        ratio=ratio,
        strength=strength,
        seed=seed,
    )
    if jobs < 0:
        raise InputError(f"jobs is {jobs}; give a number of processes, or 0 for one per core")
    start = time.monotonic()
    running.prepare(out, settings)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows = running.run_all(settings, out, jobs=jobs or cores, progress=running.progress_for_terminal())
    summary = write_results(rows, settings, out, time.monotonic() - start)
    running.discard_work(out, settings)
    if json_only:
        typer.echo(json.dumps(summary, ensure_ascii=False))
    else:
        _print(summary, out)


def _print(summary: dict[str, object], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("claim")
    table.add_column("verdict", no_wrap=True)
    for claim in summary["claims"]:  # type: ignore[attr-defined]
        table.add_row(claim["claim"], f"[{colours[claim['verdict']]}]{claim['verdict']}[/]")
    console = Console()
    console.print(table)
    for line in summary["filters_above_the_robust_form"]:  # type: ignore[attr-defined]
        console.print(f"A filter wins: {line}", style="dim")
    console.print(f"Report: {out / 'report.html'}", highlight=False)
