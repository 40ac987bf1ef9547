"""`surefoot policies`: policy versions of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, DatabaseUrl, StudyFile, open_trial

policies = typer.Typer(no_args_is_help=True, help="Policy versions of a trial.")
app.add_typer(policies, name="policies")


@policies.command("load")
def load_policies(
    folder: Annotated[Path, typer.Argument(help="What surefoot fit wrote.")],
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
) -> None:
    """Start from a pilot: a fitted folder becomes policy version 1, if it reads states as the study does."""
    trial = open_trial(study, database)
    from surefoot.service.access.staff_trail import name_operator
    from surefoot.service.updates.pilot_policies import load_pilot_policies

    loaded = load_pilot_policies(trial, folder, name_operator())
    others = "and anybody else" if loaded.serves_anybody else "(others stay in warm-up)"
    whom = "everyone" if loaded.participants is None else f"{loaded.participants:,} participants {others}"
    state = "is live" if loaded.live else "waits for an admin to activate it"
    typer.echo(f"policy {loaded.policy_id} for {whom} {state}")
