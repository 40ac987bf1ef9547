"""The schedule: every worker checks the clock, the database decides which one of them acts."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.schema import scheduled, studies
from surefoot.service.trial.alerts import raise_periodic_alerts
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import update_process
from surefoot.service.updates.updates import UpdateRunningError

TICK_SECONDS = 15.0
log = logging.getLogger("surefoot.service")


class Schedule:
    """A thread that checks the clock for as long as the application runs."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._stop = trial, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                tick(self._trial, now())
            except Exception as error:
                # The next tick tries again; only the kind is logged, the message may hold data.
                log.error("the schedule failed with %s", type(error).__name__)


def tick(trial: Trial, at: datetime) -> int | None:
    """Do what is due and not yet claimed; the id of the update that was started, if one was."""
    if claim_job(trial, f"look:{at.astimezone(UTC):%Y-%m-%dT%H}"):
        raise_periodic_alerts(trial, at)
    due = last_update_moment(trial, at)
    if due is None or not claim_job(trial, f"update:{due.date().isoformat()}"):
        return None
    try:
        return update_process.start_update(trial, "schedule")
    except UpdateRunningError:
        return None


def last_update_moment(trial: Trial, at: datetime) -> datetime | None:
    """The latest moment of a nightly update that has passed since the trial began; also when no worker ran then."""
    when = trial.settings.update_at
    if when is None:
        return None
    local = at.astimezone(trial.settings.zone)
    today = datetime.combine(local.date(), when, trial.settings.zone)
    due = today if today <= local else datetime.combine(local.date() - timedelta(days=1), when, trial.settings.zone)
    with trial.database.autocommit() as connection:
        began = connection.scalar(sa.select(studies.c.first_used).order_by(studies.c.first_used).limit(1))
    return due if began is not None and due >= began else None


def claim_job(trial: Trial, job: str) -> bool:
    """Claim a job for this worker; False when another one has it."""
    with trial.database.autocommit() as connection:
        if connection.scalar(sa.select(scheduled.c.job).where(scheduled.c.job == job)) is not None:
            return False
    with trial.database.transaction() as connection:
        row = {"job": job, "taken_at": now()}
        taken = trial.database.insert_new(scheduled).returning(scheduled.c.job)
        return connection.scalar(taken, row) is not None
