"""`surefoot reproduce`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import print_json

if TYPE_CHECKING:
    from surefoot.experiments.progress import UnitProgress
    from surefoot.experiments.settings import Settings

QUICK_REPLICATES = 3


@app.command(
    epilog="Examples:\n\n"
    "`surefoot reproduce --quick` all four experiments, 3 replicates\n\n"
    "`surefoot reproduce s2 s4 --replicates 50 --out sweeps` two of them, more precisely\n\n"
    "`surefoot reproduce s5` 200 people × 5 seeds: every critic's error when up to a third of the data is wrong\n\n"
    "`surefoot reproduce s6` 100 people × 20 studies: unworn, stuck and miscoded values, with and without the screen\n\n"
    "`surefoot reproduce --json | jq '.claims[] | {name, verdict}'` the verdicts alone"
)
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Any of s1 s2 s3 s4 (the paper's; all four if none is named) and s5, s6 (further than the paper)."
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
    """Run the paper's four experiments and judge each of its claims, or S5 and S6, which go further.

    Writes runs, tables, figures, a summary and a report to the folder. An interrupted run goes on where it stopped when the
    same command is given again.
    """
    from surefoot.experiments.settings import Settings

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
    from surefoot.experiments.further import FURTHER, find_experiment
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
    processes, progress = jobs or count_cores(), choose_progress()
    summary: dict[str, Any] = {}
    if paper.experiments:
        paper.check()
        summary = _run_paper(paper, out, jobs=processes, progress=progress)
    for name in (name for name in wanted if name in FURTHER):
        summary[name] = find_experiment(name).run(paper.seed, out, quick=quick, jobs=processes, progress=progress)
    return summary


def _run_paper(settings: Settings, out: Path, *, jobs: int, progress: UnitProgress) -> dict[str, Any]:
    import time

    from surefoot.experiments import runner
    from surefoot.experiments.outputs import write_results

    start = time.monotonic()
    folder = runner.find_working_folder(out, settings)
    runner.prepare_folder(out, folder)
    rows = runner.run_all(settings, out, jobs=jobs, progress=progress)
    summary = write_results(rows, settings, out, time.monotonic() - start)
    runner.remove_folder(folder)
    return summary


def _print_summary(summary: dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from surefoot.experiments.further import FURTHER, find_experiment

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
    for name in (name for name in summary if name in FURTHER):
        found = find_experiment(name).tabulate(summary[name])
        table = Table(title=found.title, box=None, padding=(0, 2, 0, 0), title_justify="left")
        for place, column in enumerate(found.columns):
            table.add_column(column, justify="right" if place in found.numbers else "left")
        for held, cells in found.rows:
            table.add_row(*cells, style="red" if held is False else None)
        console.print(table)
        console.print(f"Table: {out / name}.md", highlight=False)
