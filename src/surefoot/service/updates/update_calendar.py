"""The calendar of updates: what became of every night of a month, and when the next update is planned."""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import activations, policies, studies, updates
from surefoot.service.trial.trial import Trial
from surefoot.service.updates.schedule import read_night

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
"""So long a night's update may need to begin."""
EVENTS = (
    sa.select(
        *(updates.c[name] for name in ("id", "state", "created_at", "started_by", "message")),
        policies.c.id.label("policy_id"),
        sa.exists().where(activations.c.policy_id == policies.c.id).label("went_live"),
    )
    .select_from(updates.outerjoin(policies, policies.c.update_id == updates.c.id))
    .order_by(updates.c.id)
)


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
        around = updates.c.created_at.between(begin - timedelta(days=1), end + timedelta(days=2))
        rows = connection.execute(EVENTS.where(around)).mappings().all()
        began = connection.scalar(sa.select(sa.func.min(studies.c.first_used)))
    entries: dict[date, list[Entry]] = {}
    nights = [read_night(row["started_by"]) for row in rows]
    for row, night in zip(rows, nights, strict=True):
        entries.setdefault(night or row["created_at"].astimezone(zone).date(), []).append(_describe_update(row))
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


def _describe_update(row: Any) -> Entry:
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
