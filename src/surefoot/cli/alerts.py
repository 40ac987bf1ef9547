"""`surefoot alerts`: messages to the trial team."""

from __future__ import annotations

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, StudyFile, need_service

alerts = typer.Typer(no_args_is_help=True, help="Messages to the trial team.")
app.add_typer(alerts, name="alerts")


@alerts.command("test")
def send_test(study: StudyFile = STUDY) -> None:
    """Send a message by every channel that the study names; exit code 1 when one does not get out."""
    need_service()
    from surefoot.errors import InputError
    from surefoot.service.database.clock import now
    from surefoot.service.messages import DeliveryError, Message, make_channels
    from surefoot.study import Study

    trial = Study.load(study).trial
    channels = [] if trial is None else make_channels(trial.alerts)
    if trial is None or not channels:
        raise InputError(f"{study}: [trial.alerts] names neither 'email' nor 'webhook'")
    text = "This is a test: messages of the trial arrive here.\n"
    message = Message(f"test-{now():%Y%m%d%H%M%S}", "test", f"[{trial.title}] test", text, now().isoformat())
    failed = False
    for channel in channels:
        try:
            channel.send(message)
        except DeliveryError as error:
            failed = True
            typer.echo(f"{channel.name}: not sent; {error}")
        else:
            typer.echo(f"{channel.name}: sent")
    if failed:
        raise typer.Exit(1)
