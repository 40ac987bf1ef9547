"""`surefoot serve`: running the decision service."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import STUDY, DatabaseUrl, StudyFile, need_service

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


@app.command()
def serve(
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
    host: Annotated[str, typer.Option(help="Address to listen at; keep it local behind a reverse proxy.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer.")] = 1,
    log_format: Annotated[LogFormat, typer.Option(help="Lines of the log, on standard error.")] = "text",
    log_level: Annotated[LogLevel, typer.Option(help="From which level on.")] = "info",
) -> None:
    """Run a trial: randomise, record, learn each night."""
    need_service()
    from surefoot.service.database import clock
    from surefoot.service.database.databases import DEFAULT_URL
    from surefoot.service.server import listen
    from surefoot.service.trial.trial import check_servable, open_trial
    from surefoot.study import Study

    url = database or DEFAULT_URL
    if clock.read_simulated_time() is not None:
        typer.echo(f"surefoot: {clock.VARIABLE} sets the clock: this is a simulation, not a trial", err=True)
    # Opened once here: mistakes are one line, and the tables exist before several workers start.
    loaded = Study.load(study)
    check_servable(loaded)
    trial = open_trial(loaded, url)
    typer.echo(f"surefoot: using {trial.database.name}", err=True)
    trial.close()
    os.environ["SUREFOOT_STUDY"] = str(study.resolve())
    os.environ["SUREFOOT_DATABASE"] = url
    listen("surefoot.service.app:from_environment", host, port, workers, log_format=log_format, log_level=log_level)
