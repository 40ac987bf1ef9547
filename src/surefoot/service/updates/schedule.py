"""The schedule: every worker checks the clock, the database decides which one of them acts; and the calendar of updates.

A clock may be wrong. The schedule remembers when it last looked: a jump, or a break of hours, is told to the team, jobs that
were claimed at a time still to come are free again, and nights without a worker are named.
"""

import calendar
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain

import sqlalchemy as sa

from surefoot.service.database.clock import JUMP, ClockWatch
from surefoot.service.database.ledger import claim_new_job, release_jobs, set_job
from surefoot.service.database.schema import LOOKED, STEADY, activations, policies, scheduled, studies
from surefoot.service.database.schema import updates as update_rows
from surefoot.service.trial.alerts import count_alert, raise_alert, raise_periodic_alerts
from surefoot.service.trial.boundaries import raise_boundary_alerts
from surefoot.service.trial.participants import finish_scrub
from surefoot.service.trial.retention import erase_by_schedule
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import updates

ATTEMPTS = 3
"""How often a night's update is tried."""
CLAIMED = timedelta(minutes=2)
"""An attempt that was claimed but has not begun after this time died before it could."""
NIGHT = "schedule, night of "
"""How the name of who started a nightly update begins; the night follows."""
GRACE = timedelta(minutes=5)
"""How long a night's update may need to begin."""
BREAK = timedelta(hours=6)
"""A schedule that did not look for longer was off, or its clock was set."""
AHEAD = timedelta(hours=1)
"""Jobs claimed by a clock further ahead are free again."""
LOOK_EVERY = timedelta(minutes=1)
"""How often the last look is written."""
NIGHTS_NAMED = 10
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
EVENTS = (
    sa.select(
        *(update_rows.c[name] for name in ("id", "state", "created_at", "started_by", "message")),
        policies.c.id.label("policy_id"),
        sa.exists().where(activations.c.policy_id == policies.c.id).label("went_live"),
    )
    .select_from(update_rows.outerjoin(policies, policies.c.update_id == update_rows.c.id))
    .order_by(update_rows.c.id)
)


def tick(trial: Trial, at: datetime, watch: ClockWatch | None = None) -> int | None:
    """Do what is due and not yet claimed; the id of the update that was started, if one was.

    Without a watch only the looks that the database remembers say whether the clock can be believed.
    """
    looked_at, steady_since = _check_clock(trial, at, watch)
    if watch is not None and not watch.is_settled:
        return None
    if claim_job(trial, f"look:{at.astimezone(UTC):%Y-%m-%dT%H}", at):
        raise_periodic_alerts(trial, at)
    if trial.settings.keep_days is not None and claim_job(trial, f"keep:{at.astimezone(UTC):%Y-%m-%d}", at):
        erase_by_schedule(trial, at, steady_since)
    if trial.settings.update_at is None and claim_job(trial, f"boundaries:{at.astimezone(UTC):%Y-%m-%d}", at):
        raise_boundary_alerts(trial, at)  # where no nightly update does
    finish_scrub(trial.database)
    updates.release_dead_update(trial)
    due = find_last_moment(trial, trial.settings.update_at, at)
    if due is None:
        return None
    if looked_at is not None:
        _report_missed_nights(trial, looked_at, due)
    # The jobs and names of a night's attempts.
    night = due.date().isoformat()
    jobs = [f"update:{night}", *(f"update:{night}:{attempt}" for attempt in range(2, ATTEMPTS + 1))]
    names = [f"{NIGHT}{night}", *(f"{NIGHT}{night}, attempt {attempt}" for attempt in range(2, ATTEMPTS + 1))]
    attempt = _count_failed_attempts(trial, night, jobs, names, at)
    if attempt is None or attempt == ATTEMPTS or not claim_job(trial, jobs[attempt], at):
        return None
    try:
        return updates.start_update(trial, names[attempt])
    except updates.UpdateRunningError:
        # That one takes the night's data; this attempt counts as failed, and the next one comes after it.
        return None


def _check_clock(trial: Trial, at: datetime, watch: ClockWatch | None) -> tuple[datetime | None, datetime]:
    """When the schedule last looked (None: never), and since when its clock has run without a jump or a long break."""
    jump = timedelta() if watch is None else watch.find_jump(at)
    is_settled = watch is None or watch.is_settled
    remembered = sa.select(scheduled.c.job, scheduled.c.taken_at).where(scheduled.c.job.in_((LOOKED, STEADY)))
    with trial.database.autocommit() as connection:
        moments = {row.job: row.taken_at for row in connection.execute(remembered)}
    looked_at = moments.get(LOOKED)
    steady_since = moments.get(STEADY, at)
    message = _describe_jump(jump, looked_at or at, at) if jump or is_settled else None
    is_recent = looked_at is not None and timedelta() <= at - looked_at < LOOK_EVERY
    if message is None and (is_recent or not is_settled):
        return looked_at, steady_since
    with trial.database.transaction() as connection:
        if message is not None:
            steady_since = at
            count_alert(connection, kind="clock", message=message, at=at)
            release_jobs(connection, scheduled.c.taken_at > at + AHEAD)
        # A look by a clock that is not believed does not count: nights since the one before it may have been missed.
        for job, moment in ((STEADY, steady_since), (LOOKED, at))[: 1 + is_settled]:
            set_job(connection, job, moment)
    return looked_at, steady_since


def _describe_jump(jump: timedelta, looked_at: datetime, at: datetime) -> str | None:
    """What is wrong with the time that has passed since the last look; None when nothing is."""
    jump = jump or at - looked_at
    moments = f"{jump / timedelta(hours=1):+,.1f} hours, to {at:%Y-%m-%d %H:%M} UTC"
    if jump != at - looked_at or at < looked_at - JUMP:
        return f"the server's clock jumped by {moments}; set it right (timedatectl)"
    if at - looked_at > BREAK:
        return f"no worker looked at the clock for {moments}: the service was off, or the clock was set"
    return None


def _report_missed_nights(trial: Trial, looked_at: datetime, due: datetime) -> None:
    """Name the nights that passed without a worker; the last one, which is `due`, is made up for."""
    first = looked_at.astimezone(trial.settings.zone).date()
    days = ((first + timedelta(days=number)) for number in range((due.date() - first).days))
    nights = [day.isoformat() for day in days if datetime.combine(day, due.timetz()) > looked_at]
    if nights:
        named = ", ".join(nights[:NIGHTS_NAMED]) + (
            f" and {len(nights) - NIGHTS_NAMED} more" if nights[NIGHTS_NAMED:] else ""
        )
        message = f"by the server's clock no worker ran in {len(nights)} nights ({named}): they had no update"
        message += f"; the night of {due.date().isoformat()} is made up for now"
        with trial.database.transaction() as connection:
            raise_alert(connection, kind="update", occasion=f"missed:{due.date().isoformat()}", message=message)


def _count_failed_attempts(trial: Trial, night: str, jobs: list[str], names: list[str], at: datetime) -> int | None:
    """How many attempts of a night have failed; None when it was learned or is under way."""
    with trial.database.autocommit() as connection:
        claims = connection.execute(sa.select(scheduled).where(scheduled.c.job.in_(jobs))).all()
        if not claims:
            return 0
        last = max(claims, key=lambda claim: jobs.index(claim.job))
        failed = jobs.index(last.job) + 1
        named = update_rows.c.started_by == names[failed - 1]
        state = connection.scalar(sa.select(update_rows.c.state).where(named).order_by(update_rows.c.id.desc()).limit(1))
    if state not in (None, "interrupted", "failed") or (state is None and at - last.taken_at < CLAIMED):
        return None
    if failed >= 2:
        message = f"the update of the night of {night} failed {failed} times; {updates.describe_live(trial)}"
        with trial.database.transaction() as connection:
            raise_alert(connection, kind="update", occasion=f"night:{night}:{failed}", message=message)
    return failed


def find_last_moment(trial: Trial, when: time | None, at: datetime) -> datetime | None:
    """The latest moment with this time of day that has passed since the trial began; also when no worker ran then."""
    if when is None:
        return None
    local = at.astimezone(trial.settings.zone)
    due = datetime.combine(local.date(), when, trial.settings.zone)
    if due > local:
        due = datetime.combine(local.date() - timedelta(days=1), when, trial.settings.zone)
    with trial.database.autocommit() as connection:
        began = connection.scalar(sa.select(sa.func.min(studies.c.first_used)))
    return due if began is not None and due >= began else None


def claim_job(trial: Trial, job: str, at: datetime) -> bool:
    """Claim a job for this worker; False when another one has it."""
    with trial.database.autocommit() as connection:
        if connection.scalar(sa.select(scheduled.c.job).where(scheduled.c.job == job)) is not None:
            return False
    with trial.database.transaction() as connection:
        return claim_new_job(connection, job, at)


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


@dataclass(frozen=True)
class CalendarDay:
    """A day of the study's time zone, and the updates of its night."""

    date: date
    in_month: bool
    is_today: bool
    entries: list[Entry]


@dataclass(frozen=True)
class Month:
    """Weeks from Monday to Sunday."""

    first: date
    weeks: list[list[CalendarDay]]
    counts: dict[str, int]
    """How many of each kind, in words, of the days of the month itself."""
    earlier: str
    later: str


def find_month(trial: Trial, month: str, at: datetime) -> Month:
    """A month like `2026-03`, or the current one for an empty text."""
    zone = trial.settings.zone
    local = at.astimezone(zone)
    first = date.fromisoformat(f"{month}-01") if month else local.date().replace(day=1)
    dates = calendar.Calendar().monthdatescalendar(first.year, first.month)
    with trial.database.snapshot() as connection:
        begin, end = (datetime.combine(day, datetime.min.time(), zone) for day in (dates[0][0], dates[-1][-1]))
        around = update_rows.c.created_at.between(begin - timedelta(days=1), end + timedelta(days=2))
        rows = connection.execute(EVENTS.where(around)).all()
        began = connection.scalar(sa.select(sa.func.min(studies.c.first_used)))
    entries: dict[date, list[Entry]] = defaultdict(list)
    nights = set()
    for row in rows:
        day = row.created_at.astimezone(zone).date()
        if row.started_by.startswith(NIGHT):
            day = date.fromisoformat(row.started_by.removeprefix(NIGHT)[:10])
            nights.add(day)
        inactive = row.state == "done" and row.policy_id is not None and not row.went_live
        kind = "inactive" if inactive else row.state
        entries[day].append(Entry(kind, row.created_at, row.id, row.started_by, row.message or ""))
    when = trial.settings.update_at
    if when is not None and began is not None:
        # An update that somebody started is not the night's.
        for day in set(chain(*dates)) - nights:
            due = datetime.combine(day, when, zone)
            if at - GRACE < due <= local + timedelta(days=1):
                entries[day].append(Entry("planned", due))
            elif began <= due <= at - GRACE:
                entries[day].append(Entry("skipped", due, reason="no update began that night"))
    weeks = [
        [CalendarDay(day, day.month == first.month, day == local.date(), entries[day]) for day in week] for week in dates
    ]
    counts = Counter(WORDS[entry.kind][1] for day in chain(*weeks) if day.in_month for entry in day.entries)
    ordered = {words: counts[words] for _, words in WORDS.values() if words in counts}
    return Month(first, weeks, ordered, f"{first - timedelta(days=1):%Y-%m}", f"{first + timedelta(days=31):%Y-%m}")
