"""`surefoot replay`: every draw recomputed."""

from __future__ import annotations

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database

SHOWN = 20


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
