"""From files to policies: `surefoot init`, `import`, `screen`, `prior` and `fit`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from surefoot.atomic_files import atomic_write, new_folder
from surefoot.cli import application
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from surefoot.screening.screen import Screen

SHOWN_WARNINGS = 10
ColumnName = Annotated[str | None, typer.Option(help="Name of its column, if the guess is wrong.", show_default=False)]
importing = typer.Typer(help="Turn the file of a public study into logs and a ready study.toml.", no_args_is_help=True)
application.app.add_typer(importing, name="import")


@application.app.command()
def init(
    logs: application.Logs,
    out: Annotated[Path, typer.Option(help="The file to write.")] = application.STUDY,
    participant: ColumnName = None,
    time: ColumnName = None,
    action: ColumnName = None,
    outcome: ColumnName = None,
    available: ColumnName = None,
    probability: ColumnName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Look at the logs and write a first study.toml with comments.

    At a terminal, it asks for the words that pages use for what is sent and for the outcome. If the file is the export of a
    platform that Surefoot knows, it says which and why.
    """
    from surefoot.linking.exports import find_profile
    from surefoot.study.draft import draft_study

    application.refuse_existing(out, force=force)
    roles = {"participant": participant, "time": time, "action": action, "outcome": outcome}
    ask = (lambda question, guess: str(typer.prompt(question, default=guess))) if sys.stdin.isatty() else None
    match = find_profile(logs) if logs.exists() else None
    if match is not None:
        typer.echo(f"{logs} fits {match}.")
    try:
        draft = draft_study(logs, ask=ask, **roles, available=available, probability=probability)
    except InputError as error:
        if match is None or match.holds_decisions:
            raise
        remedy = "If it holds measurements, link it to your decision points: surefoot link init"
        raise InputError(f"{error}\n{remedy} DECISIONS --stream {logs}", row=error.row, column=error.column) from error
    words = "" if out == application.STUDY else f" --study {out}"
    answers = f"effects {logs}{words}    # did the prompts help?"
    application.write_draft(draft, out, answers, f"fit {logs}{words}        # learn when to send")


@importing.command("heartsteps-v1")
def heartsteps_v1(
    path: Annotated[Path, typer.Argument(help="The suggestions.csv of HeartSteps V1.")],
    out: Annotated[Path, typer.Option(help="Folder to make, with the logs and study.toml in it.")] = Path("heartsteps-v1"),
    as_csv: Annotated[bool, typer.Option("--csv", help="Write logs.csv instead of logs.parquet.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Import the HeartSteps V1 micro-randomised trial."""
    from surefoot.datasets.heartsteps_v1 import heartsteps_v1, study_text

    name = "logs.csv" if as_csv else "logs.parquet"
    with new_folder(out) as folder:
        data = heartsteps_v1(path, backend="pyarrow")
        (folder / "study.toml").write_text(study_text(), encoding="utf-8")
        _write_table(data.frame, folder / name)
    if as_json:
        application.print_json({"out": str(out), "funnel": data.funnel})
        return
    for step, count in data.funnel.items():
        typer.echo(f"{count:>7,} {step}")
    typer.echo(f"Written: {out}/{name} and {out}/study.toml\nNext: surefoot fit {out}/{name} --study {out}/study.toml")


def _write_table(table: "pa.Table", path: Path, suffix: str | None = None) -> None:
    from pyarrow import csv, parquet

    write = csv.write_csv if (suffix or path.suffix) == ".csv" else parquet.write_table
    write(table, path)


@application.app.command()
def screen(
    logs: application.Logs,
    study: application.StudyFile = application.STUDY,
    html: application.HtmlFile = None,
    as_json: application.AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write one row per flagged value (.csv or .parquet): row, participant, time, column, reason.",
            callback=application.check_writable,
        ),
    ] = None,
) -> None:
    """Report values that cannot be trusted: device not worn, sensor stuck, wrong code or unit, careless answer.

    No file is changed. If the study has a [screen] section, all other commands treat these values as missing.
    """
    from surefoot.log_checks import SCREEN_CHECKS, check_logs, list_warnings
    from surefoot.study import Study

    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{out}: the flagged values are written as .csv or .parquet; name the file so")
    described = Study.load(study).with_screen()
    read = described.read(logs)
    checks = check_logs(read, described, checks=SCREEN_CHECKS)
    screened = cast("Screen", read.screen)  # The study screens.
    if out is not None:
        with atomic_write(out) as temporary:
            _write_table(screened.to_frame("pyarrow"), temporary, out.suffix.lower())
    title = f"Screen of {logs.name}"
    page = screened.render_page(title=title, source=application.name_source(logs, study), checks=checks) if html else ""
    with application.write_outputs({html: page}):
        if as_json:
            application.print_json({**screened.to_dict(), "checks": [asdict(check) for check in checks]})
        else:
            console = application.make_console()
            for warning in list_warnings(checks):
                console.print(warning, markup=False, highlight=False)
            screened.print_summary(console)
    if out is not None:
        typer.echo(f"Written: {out}", err=True)


@application.app.command()
def prior(
    pilot: application.Logs,
    study: application.StudyFile = application.STUDY,
    out: Annotated[
        Path | None, typer.Option(help="Write the section [method.prior] to this file.", callback=application.check_writable)
    ] = None,
    as_json: application.AsJson = False,
) -> None:
    """Estimate the prior of a Bayesian method from pilot data, as the section [method.prior] of a study."""
    from surefoot.inference.pilot_priors import estimate_prior
    from surefoot.learning.penalties import write_prior

    loaded = application.LoadedStudy(pilot, study)
    method = loaded.study.method()
    if not method.rule.takes_prior:
        raise InputError(f"{study}: {loaded.study.method_name} has no prior; a method that samples from the posterior has")
    estimates = estimate_prior(loaded.read.logs, method)
    rounded = {name: {key: float(f"{value:.4g}") for key, value in row.items()} for name, row in estimates.items()}
    with application.write_outputs({out: write_prior(rounded)}):
        if as_json:
            application.print_json(estimates)
        elif out is None:
            typer.echo(write_prior(rounded), nl=False)


@application.app.command()
def fit(
    logs: Annotated[str, typer.Argument(help=f"{application.LOG_FILES}; path or URL.")],
    study: application.StudyFile = application.STUDY,
    out: Annotated[
        str, typer.Option(help="Folder for the results (path or URL); it appears when everything is done.")
    ] = "fitted",
    engine: Annotated[
        str, typer.Option(help="auto (all cores), numpy, torch, gpu (CUDA) or dask (a cluster). Results agree to rounding.")
    ] = "auto",
    scheduler: application.Scheduler = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier fit in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON on standard output.")] = False,
) -> None:
    """Fit the study's method: one policy per participant, or one for all.

    After an interruption the same command continues where it stopped.
    """
    from surefoot.data.locations import locate
    from surefoot.fitting import fit_study

    folder = str(locate(out))
    warned = application.print_fit_warnings(most=SHOWN_WARNINGS, manifest=f"{folder}/manifest.json")
    with application.explain_interruption(), warned, application.show_progress("fitting", "fitted") as progress:
        fitted = fit_study(logs, study, out, force=force, progress=progress, engine=engine, scheduler=scheduler)
    if as_json:
        application.print_json({"out": folder, **fitted.manifest})
    else:
        _print_fit(folder, fitted.manifest)


def _print_fit(folder: str, manifest: dict[str, Any]) -> None:
    from surefoot.learning.pooling import make_pooling

    method = manifest["method"]
    used = manifest["used"]
    removed = manifest["removed"]
    whom = make_pooling(method["parameters"]["pooling"]).for_whom
    size = f"{manifest['people']} people, {manifest['decision_points']:,} decision points"
    typer.echo(f"{method['name']}, {'parts chosen from the logs' if manifest['chosen'] else f'one policy {whom}'}: {size}")
    for reason in manifest["chosen"]:
        typer.echo(f"  {reason}")
    share = f" ({100 * removed / used:.1f} %)" if used else ""
    available = f"{manifest['available']:,} available, {used:,} of them complete and used"
    typer.echo(f"  {available}, {removed:,} removed by the critic{share}")
    meanings = {
        "missing": "at available decision points",
        "implausible": "values, which count as missing",
        "flagged": "by the screen",
    }
    for reason, meaning in meanings.items():
        counts = [f"{name} {count:,}" for name, count in manifest[reason].items() if count]
        if counts:
            typer.echo(f"  {reason} {meaning}: {', '.join(counts)}")
    typer.echo(f"Written: {folder}/ (policies, critic, weights, manifest)")
