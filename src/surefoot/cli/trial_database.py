"""`surefoot update`, `replay`, `export`, `backup` and `restore`: working on a trial's database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.serve import STUDY, DatabaseUrl, StudyFile, need_service, open_database

if TYPE_CHECKING:
    from surefoot.service.trial.trial import Service

SHOWN = 20


def open_trial(study: Path, url: str | None) -> Service:
    """The trial of a study file."""
    need_service()
    from surefoot.service.trial.trial import open_service
    from surefoot.study import Study

    return open_service(Study.load(study), url)


@app.command()
def update(study: StudyFile = STUDY, database: DatabaseUrl = None) -> None:
    """Fit to all outcomes known by now, check the guard rails, and put the new policy live."""
    service = open_trial(study, database)
    from surefoot.service.updates import updates
    from surefoot.service.updates.queries import update_status

    update_id = updates.begin(service, "command line")
    state = updates.run(service, update_id)
    status = update_status(service, update_id)
    typer.echo(f"update {update_id}: {state}" + (f" ({status['message']})" if status["message"] else ""))
    for finding in status["findings"]:
        typer.echo(f"  {'passed ' if finding['passed'] else 'REFUSED'}  {finding['rail']}: {finding['message']}")
    if status["policy_id"] is not None:
        typer.echo(f"  policy {status['policy_id']} {'is live' if state == 'done' else 'is kept, not live'}")
    if state in ("failed", "refused"):
        raise typer.Exit(1)


@app.command("replay")
def replay_decisions(database: DatabaseUrl = None) -> None:
    """Recompute every draw from what is stored; exit code 1 when one differs."""
    found = open_database(database)
    from surefoot.service.trial.replay import replay

    result = replay(found)
    for difference in result.differences[:SHOWN]:
        point = f"participant {difference.participant_id}, decision {difference.decision_idx}"
        typer.echo(f"{point}: {difference.what} differs ({difference.decision_id})")
    if len(result.differences) > SHOWN:
        typer.echo(f"… and {len(result.differences) - SHOWN} more")
    typer.echo(f"{result.decisions:,} decisions replayed, {len(result.differences):,} differences")
    if result.differences:
        raise typer.Exit(1)


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")] = Path("decisions.csv"),
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Every outcome ever sent, with corrections.")] = False,
) -> None:
    """Write one row per decision point, for analysis and for surefoot fit with the same study."""
    from surefoot.atomic_files import atomic_write
    from surefoot.errors import InputError

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: the export is a .csv or .parquet file")
    service = open_trial(study, database)
    from surefoot.service.operations.export import export_decisions, export_outcomes

    made = (export_outcomes if outcomes else export_decisions)(service, out.suffix[1:])
    with atomic_write(out) as temporary:
        temporary.write_bytes(made.content)
    people = "" if outcomes else f", {made.participants:,} participants"
    typer.echo(f"{out}: {made.rows:,} rows{people}, SHA-256 {made.sha256}")


@app.command()
def backup(
    out: Annotated[Path, typer.Argument(help="A .zip file; it holds the study's secret, so keep it as safe as the trial.")],
    database: DatabaseUrl = None,
) -> None:
    """Write the whole trial to one file, while the service goes on."""
    found = open_database(database)
    from surefoot.service.operations.backup import back_up

    counts = back_up(found, out)
    typer.echo(f"{out}: {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")


@app.command()
def restore(file: Annotated[Path, typer.Argument(help="What surefoot backup wrote.")], database: DatabaseUrl = None) -> None:
    """Fill an empty database from a backup, then replay it."""
    found = open_database(database)
    from surefoot.service.operations.backup import restore as fill
    from surefoot.service.trial.replay import replay

    counts = fill(file, found)
    typer.echo(f"restored {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")
    result = replay(found) if counts["secrets"] else None
    if result is not None:
        typer.echo(f"{result.decisions:,} decisions replayed, {len(result.differences):,} differences")
        if result.differences:
            raise typer.Exit(1)
