"""`surefoot replay`: every draw recomputed, every row compared with the ledger and with seals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database

if TYPE_CHECKING:
    from surefoot.service.database.databases import Database
    from surefoot.service.operations.verification import Seal

SHOWN = 20
Seals = Annotated[list[Path] | None, typer.Option("--seal", help="What surefoot seal wrote; may be given more than once.")]


@app.command("replay")
def replay_decisions(database: DatabaseUrl = None, seal: Seals = None) -> None:
    """Recompute every draw and compare every row with the ledger; exit code 1 when something differs.

    With --seal it also shows that nothing was changed, deleted, inserted or re-dated since.
    """
    opened = open_database(database)
    from surefoot.service.operations.verification import read_seals

    if not account_for(opened, [line for path in seal or () for line in read_seals(path)]):
        raise typer.Exit(1)


def account_for(database: Database, seals: list[Seal]) -> bool:
    """Print what differs, and whether nothing does."""
    from surefoot.service.operations.verification import verify
    from surefoot.service.trial.replay import replay

    result = replay(database)
    checked = verify(database, seals)
    points = (
        f"participant {decision.participant_id}, decision {decision.decision_idx}: {decision.what} differs "
        f"({decision.decision_id})"
        for decision in result.differences
    )
    lines = [*points, *(f"{discrepancy.where}: {discrepancy.what}" for discrepancy in checked.discrepancies)]
    for line in lines[:SHOWN]:
        typer.echo(line)
    if len(lines) > SHOWN:
        typer.echo(f"… and {len(lines) - SHOWN} more")
    typer.echo(f"{result.decisions:,} decisions replayed, {len(result.differences):,} differences")
    comparison = f", against {len(seals)} seal{'s' if len(seals) > 1 else ''}" if seals else "; no seal was compared"
    discrepancies = f"{len(checked.discrepancies):,} discrepancies"
    typer.echo(f"{checked.blocks:,} blocks with {checked.entries.total():,} entries verified, {discrepancies}{comparison}")
    if any(checked.erased.values()):
        typer.echo(
            f"erased: the content of {checked.erased['decisions']:,} decisions, {checked.erased['outcomes']:,} outcomes"
        )
    return not lines
