"""`surefoot update`: one update of a trial's policy."""

from __future__ import annotations

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, DatabaseUrl, StudyFile, open_trial


@app.command()
def update(study: StudyFile = STUDY, database: DatabaseUrl = None) -> None:
    """Fit to all outcomes known by now and check the new policy; it goes live unless the study's activation is manual."""
    trial = open_trial(study, database)
    from surefoot.service.access.staff_trail import name_operator
    from surefoot.service.updates import updates
    from surefoot.service.updates.queries import update_status

    update_id = updates.begin_update(trial, name_operator(), by_staff=True)
    state = updates.run_update(trial, update_id)
    status = update_status(trial, update_id)
    typer.echo(f"update {update_id}: {state}" + (f" ({status['message']})" if status["message"] else ""))
    for finding in status["findings"]:
        typer.echo(f"  {'passed ' if finding['passed'] else 'REFUSED'}  {finding['check']}: {finding['message']}")
    if status["policy_id"] is not None:
        live = trial.policies.live()
        accepted = "is kept; an admin activates it" if state == "done" else "is kept, not live"
        is_live = live is not None and live[0] == status["policy_id"]
        typer.echo(f"  policy {status['policy_id']} {'is live' if is_live else accepted}")
    if state in ("failed", "refused"):
        raise typer.Exit(1)
