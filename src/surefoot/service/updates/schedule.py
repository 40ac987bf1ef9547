"""The schedule: every worker checks the clock, the database decides which one of them acts; and the calendar of updates."""

import calendar
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import activations, policies, scheduled, studies
from surefoot.service.database.schema import updates as update_rows
from surefoot.service.trial.alerts import raise_alert, raise_periodic_alerts
from surefoot.service.trial.participants import erase_expired
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import updates

ATTEMPTS = 3
"""How often a night's update is tried."""
CLAIMED = timedelta(minutes=2)
"""An attempt that was claimed but has not begun after this time died before it could."""
NIGHT = "schedule, night of "
"""How the name of who started a nightly update begins; the night follows."""
WORDS = {
    "queued": ("look", "waiting for its process"),
    "fitting": ("look", "fitting"),
    "checking": ("look", "checking the policy"),
    "done": ("good", "done"),
    "waiting": ("look", "not enough data yet"),
    "refused": ("bad", "refused by a policy check"),
    "failed": ("bad", "failed"),
    "interrupted": ("bad", "interrupted"),
    "inactive": ("look", "done, waits for activation"),
    "skipped": ("bad", "skipped"),
    "planned": ("", "planned"),
}
"""How every state of an update, and a night without one, is shown: its colour and its words."""
GRACE = timedelta(minutes=5)
"""How long a night's update may need to begin."""
EVENTS = (
    sa.select(
        *(update_rows.c[name] for name in ("id", "state", "created_at", "started_by", "message")),
        policies.c.id.label("policy_id"),
        sa.exists().where(activations.c.policy_id == policies.c.id).label("went_live"),
    )
    .select_from(update_rows.outerjoin(policies, policies.c.update_id == update_rows.c.id))
    .order_by(update_rows.c.id)
)


def tick(trial: Trial, at: datetime) -> int | None:
    """Do what is due and not yet claimed; the id of the update that was started, if one was."""
    if claim_job(trial, f"look:{at.astimezone(UTC):%Y-%m-%dT%H}", at):
        raise_periodic_alerts(trial, at)
    if trial.settings.keep_days is not None and claim_job(trial, f"keep:{at.astimezone(UTC):%Y-%m-%d}", at):
        erase_expired(trial, at)
    updates.release_dead_update(trial)
    due = last_update_moment(trial, at)
    if due is None:
        return None
    night = due.date().isoformat()
    attempt = _next_attempt(trial, night, at)
    if attempt is None or not claim_job(trial, _job(night, attempt), at):
        return None
    try:
        return updates.start_update(trial, _started_by(night, attempt))
    except updates.UpdateRunningError:
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
        named = update_rows.c.started_by == _started_by(night, attempt)
        state = connection.scalar(sa.select(update_rows.c.state).where(named).order_by(update_rows.c.id.desc()).limit(1))
    if state is None and at - last.taken_at < CLAIMED:
        return None
    if state not in (None, "interrupted", "failed"):
        return None
    if attempt >= 2:
        message = f"the update of the night of {night} failed {attempt} times; {updates.describe_live(trial)}"
        with trial.database.transaction() as connection:
            raise_alert(connection, kind="update", occasion=f"night:{night}:{attempt}", message=message)
    return attempt + 1 if attempt < ATTEMPTS else None


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


@dataclass(frozen=True)
class Entry:
    """One update, or a night that had none."""

    kind: str
    """One of `WORDS`."""
    at: datetime
    update_id: int | None = None
    started_by: str = ""
    reason: str = ""
    """Why it was refused, failed or waits."""

    @property
    def colour(self) -> str:
        return WORDS[self.kind][0]

    @property
    def words(self) -> str:
        return WORDS[self.kind][1]


@dataclass(frozen=True)
class CalendarDay:
    """A day of the study's time zone, and the updates of its night."""

    date: date
    in_month: bool
    is_today: bool
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class Month:
    """Weeks from Monday to Sunday."""

    first: date
    weeks: list[list[CalendarDay]]
    counts: dict[str, int]
    """How many of each kind, in words, of the days of the month itself."""

    @property
    def earlier(self) -> str:
        return f"{self.first - timedelta(days=1):%Y-%m}"

    @property
    def later(self) -> str:
        return f"{self.first + timedelta(days=31):%Y-%m}"


def find_month(trial: Trial, month: str, at: datetime) -> Month:
    """A month like `2026-03`, or the current one for an empty text."""
    zone = trial.settings.zone
    today = at.astimezone(zone).date()
    first = date.fromisoformat(f"{month}-01") if month else today.replace(day=1)
    dates = calendar.Calendar().monthdatescalendar(first.year, first.month)
    with trial.database.snapshot() as connection:
        begin, end = (datetime.combine(day, datetime.min.time(), zone) for day in (dates[0][0], dates[-1][-1]))
        around = update_rows.c.created_at.between(begin - timedelta(days=1), end + timedelta(days=2))
        rows = connection.execute(EVENTS.where(around)).mappings().all()
        began = connection.scalar(sa.select(sa.func.min(studies.c.first_used)))
    entries: dict[date, list[Entry]] = {}
    nights = [read_night(row["started_by"]) for row in rows]
    for row, night in zip(rows, nights, strict=True):
        entries.setdefault(night or row["created_at"].astimezone(zone).date(), []).append(_make_entry(row))
    weeks = []
    for days in dates:
        week = []
        for day in days:
            # An update that somebody started is not the night's.
            empty_night = [] if day in nights else _describe_empty_night(trial, day, began, at)
            week.append(CalendarDay(day, day.month == first.month, day == today, [*entries.get(day, []), *empty_night]))
        weeks.append(week)
    kinds = [entry.words for week in weeks for day in week if day.in_month for entry in day.entries]
    return Month(first, weeks, {words: kinds.count(words) for _, words in WORDS.values() if words in kinds})


def _make_entry(row: Any) -> Entry:
    inactive = row["state"] == "done" and row["policy_id"] is not None and not row["went_live"]
    kind = "inactive" if inactive else row["state"]
    return Entry(kind, row["created_at"], row["id"], row["started_by"], row["message"] or "")


def _describe_empty_night(trial: Trial, day: date, began: datetime | None, at: datetime) -> list[Entry]:
    """A night without an update: planned, skipped, or none was due."""
    when = trial.settings.update_at
    if when is None or began is None:
        return []
    due = datetime.combine(day, when, trial.settings.zone)
    if due > at - GRACE:
        tomorrow = at.astimezone(trial.settings.zone) + timedelta(days=1)
        return [Entry("planned", due)] if due <= tomorrow else []
    return [Entry("skipped", due, reason="no update began that night")] if due >= began else []
