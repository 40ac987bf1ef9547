"""`surefoot reproduce`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import print_json

if TYPE_CHECKING:
    from surefoot.experiments.paper import Settings

QUICK_REPLICATES = 3


@app.command(
    epilog="Examples:\n\n"
    "`surefoot reproduce --quick` all four experiments, 3 replicates\n\n"
    "`surefoot reproduce s2 s4 --replicates 50 --out sweeps` two of them, more precisely\n\n"
    "`surefoot reproduce s5` 200 people × 5 seeds: every critic's error when up to a third of the data is wrong\n\n"
    "`surefoot reproduce s6` 100 people × 20 studies: unworn, stuck and miscoded values, with and without the screen\n\n"
    "`surefoot reproduce s7` 20 replicates: what policies earn in the long run, and where people differ\n\n"
    "`surefoot reproduce --json | jq '.claims[] | {name, verdict}'` the verdicts alone"
)
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Any of s1 s2 s3 s4 (the paper's; all four if none is named) and s5, s6, s7 (further than the paper)."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Repetitions with fresh seeds, at least 2.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPLICATES} replicates instead.")] = False,
    participants: Annotated[int, typer.Option(help="People in a simulated study.")] = 50,
    decision_points: Annotated[int, typer.Option(help="Decision points of each.")] = 210,
    steps: Annotated[int, typer.Option(help="Decision points for which a learned policy is run.")] = 5000,
    keep: Annotated[int, typer.Option(help="How many of these, the last ones, are averaged.")] = 4000,
    ratio: Annotated[float, typer.Option(help="ψ, share of decision points with an outlier, where it is not swept.")] = 0.04,
    strength: Annotated[float, typer.Option(help="ν, strength of the outliers, where it is not swept.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Root of all random numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; 0 means one per core. Never changes a number.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")] = False,
) -> None:
    """Run the paper's four experiments and judge each of its claims, or S5, S6 and S7, which go further.

    Writes runs, tables, figures, a summary and a report to the folder. An interrupted run goes on where it stopped when the
    same command is given again.
    """
    from surefoot.experiments.paper import Settings

    paper = Settings(
        replicates=QUICK_REPLICATES if quick else replicates,
        participants=participants,
        decision_points=decision_points,
        steps=steps,
        keep=keep,
        ratio=ratio,
        strength=strength,
        seed=seed,
    )
    summary = _run_experiments(tuple(experiments or ()), paper, out, quick=quick, jobs=jobs)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, out)


def _run_experiments(names: tuple[str, ...], paper: Settings, out: Path, *, quick: bool, jobs: int) -> dict[str, Any]:
    from surefoot.errors import InputError, did_you_mean
    from surefoot.experiments.engine import run_experiment
    from surefoot.experiments.further import FURTHER
    from surefoot.experiments.paper_report import run_paper
    from surefoot.experiments.progress import choose_progress
    from surefoot.numerics.parallel import count_cores

    if jobs < 0:
        raise InputError(f"jobs is {jobs}; give a number of processes, or 0 for one per core")
    known = (*paper.experiments, *FURTHER)
    for name in names:
        if name not in known:
            raise InputError(f"there is no experiment '{name}'{did_you_mean(name, known)}; choose from {list(known)}")
    # In the paper's order whatever the order of the arguments: the files are then the same.
    wanted = tuple(dict.fromkeys(sorted(names or paper.experiments)))
    paper = replace(paper, experiments=tuple(name for name in wanted if name not in FURTHER))
    processes = jobs or count_cores()
    progress = choose_progress()
    summary: dict[str, Any] = {}
    if paper.experiments:
        paper.check()
        summary = run_paper(paper, out, jobs=processes, progress=progress)
    for experiment in (experiment for name in wanted if name in FURTHER for experiment in FURTHER[name]):
        summary[experiment.name] = run_experiment(
            experiment, paper.seed, out, quick=quick, jobs=processes, progress=progress
        )
    return summary


def _print_summary(summary: dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from surefoot.experiments.further import FURTHER
    from surefoot.reports.numbers import format_number

    console = Console()
    if "claims" in summary:
        colours = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("claim")
        table.add_column("verdict", no_wrap=True)
        for claim in summary["claims"]:
            table.add_row(claim["claim"], f"[{colours[claim['verdict']]}]{claim['verdict']}[/]")
        console.print(table)
        if summary["caution"]:
            console.print(summary["caution"], style="yellow", highlight=False)
        for line in summary["filters_above_the_robust_form"]:
            console.print(f"A filter wins: {line}", style="dim")
        console.print(f"Report: {out / 'report.html'}", highlight=False)
    for experiment in (experiment for group in FURTHER.values() for experiment in group if experiment.name in summary):
        table = Table(title=experiment.title, box=None, padding=(0, 2, 0, 0), title_justify="left")
        for column in ("", "data"):
            table.add_column(column)
        for column in ("result", "limit"):
            table.add_column(column, justify="right")
        for row in summary[experiment.name]["limits"]:
            sign = "≤" if row["at_most"] else "≥"
            limit = "–" if row["limit"] is None else f"{sign} {row['limit']:g}"
            style = "red" if row["held"] is False else None
            table.add_row(row["what"], row["data"], format_number(row["value"]), limit, style=style)
        console.print(table)
        console.print(f"Table: {out / experiment.name}.md", highlight=False)
