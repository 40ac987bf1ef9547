"""The schedule: every worker checks the clock, the database decides which one of them acts."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import scheduled, studies, updates
from surefoot.service.trial.alerts import raise_alert, raise_periodic_alerts
from surefoot.service.trial.erasure import erase_expired
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import update_process
from surefoot.service.updates.updates import UpdateRunningError, describe_live, release_dead_update

TICK_SECONDS = 15.0
ATTEMPTS = 3
"""How often a night's update is tried."""
CLAIMED = timedelta(minutes=2)
"""An attempt that was claimed but has not begun after this time died before it could."""
NIGHT = "schedule, night of "
"""How the name of who started a nightly update begins; the night follows."""
log = logging.getLogger("surefoot.service")


class Schedule:
    """A thread that checks the clock for as long as the application runs."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        # At once after a start: what a power cut interrupted is found now.
        waiting = 0.0
        while not self._stop.wait(waiting):
            waiting = TICK_SECONDS
            try:
                tick(self._trial, now())
            except Exception as error:
                # The next tick tries again; only the kind is logged, the message may hold data.
                log.error("the schedule failed with %s", type(error).__name__)


def tick(trial: Trial, at: datetime) -> int | None:
    """Do what is due and not yet claimed; the id of the update that was started, if one was."""
    if claim_job(trial, f"look:{at.astimezone(UTC):%Y-%m-%dT%H}", at):
        raise_periodic_alerts(trial, at)
    if trial.settings.keep_days is not None and claim_job(trial, f"keep:{at.astimezone(UTC):%Y-%m-%d}", at):
        erase_expired(trial, at)
    release_dead_update(trial)
    due = last_update_moment(trial, at)
    if due is None:
        return None
    night = due.date().isoformat()
    attempt = _next_attempt(trial, night, at)
    if attempt is None or not claim_job(trial, _job(night, attempt), at):
        return None
    try:
        return update_process.start_update(trial, _started_by(night, attempt))
    except UpdateRunningError:
        # That one takes the night's data; this attempt counts as failed, and the next one comes after it.
        return None


def _job(night: str, attempt: int) -> str:
    return f"update:{night}" if attempt == 1 else f"update:{night}:{attempt}"


def _started_by(night: str, attempt: int) -> str:
    return f"{NIGHT}{night}" + (f", attempt {attempt}" if attempt > 1 else "")


def read_night(started_by: str) -> date | None:
    """The night that the schedule started an update for; None for an update that somebody started.

    >>> read_night(_started_by("2026-03-02", 2)), read_night("key 0123")
    (datetime.date(2026, 3, 2), None)
    """
    return date.fromisoformat(started_by[len(NIGHT) :][:10]) if started_by.startswith(NIGHT) else None


def _next_attempt(trial: Trial, night: str, at: datetime) -> int | None:
    """The number of the attempt that is due for a night; None when it was learned, is under way, or was tried too often."""
    jobs = {_job(night, attempt): attempt for attempt in range(1, ATTEMPTS + 1)}
    with trial.database.autocommit() as connection:
        claims = connection.execute(sa.select(scheduled).where(scheduled.c.job.in_(jobs))).all()
        if not claims:
            return 1
        last = max(claims, key=lambda claim: jobs[claim.job])
        attempt = jobs[last.job]
        named = updates.c.started_by == _started_by(night, attempt)
        state = connection.scalar(sa.select(updates.c.state).where(named).order_by(updates.c.id.desc()).limit(1))
    if state is None and at - last.taken_at < CLAIMED:
        return None
    if state not in (None, "interrupted", "failed"):
        return None
    if attempt >= 2:
        _raise_night_alert(trial, night, attempt)
    return attempt + 1 if attempt < ATTEMPTS else None


def _raise_night_alert(trial: Trial, night: str, attempts: int) -> None:
    message = f"the update of the night of {night} failed {attempts} times; {describe_live(trial)}"
    with trial.database.transaction() as connection:
        raise_alert(connection, kind="update", occasion=f"night:{night}:{attempts}", message=message)


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


def claim_job(trial: Trial, job: str, at: datetime) -> bool:
    """Claim a job for this worker; False when another one has it."""
    with trial.database.autocommit() as connection:
        if connection.scalar(sa.select(scheduled.c.job).where(scheduled.c.job == job)) is not None:
            return False
    with trial.database.transaction() as connection:
        row = {"job": job, "taken_at": at}
        taken = insert_new(connection, scheduled).returning(scheduled.c.job)
        return connection.scalar(taken, row) is not None
