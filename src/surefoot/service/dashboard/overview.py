"""What the overview counts: contact, decisions by source, the send rate, outcomes that did not come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, decisions, outcomes, participants
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.point_query import RESUMED
from surefoot.service.trial.safety import STATUSES
from surefoot.service.trial.trial import Trial

SOURCES = ("policy", "warm-up", "fallback", "unavailable")
DAYS = 14


@dataclass(frozen=True)
class Day:
    """The decisions of one day of the study's time zone."""

    date: date
    sources: dict[str, int] = field(default_factory=dict)
    sent: int = 0

    @property
    def decisions(self) -> int:
        return sum(self.sources.values())

    @property
    def available(self) -> int:
        return self.decisions - self.sources.get("unavailable", 0)

    @property
    def send_rate(self) -> tuple[float, float, float] | None:
        """The share of available decision points with anything sent, and its 95 % interval (Wilson)."""
        from scipy.stats import binomtest

        if not self.available:
            return None
        interval = binomtest(self.sent, self.available).proportion_ci(method="wilson")
        return self.sent / self.available, float(interval.low), float(interval.high)


def list_cells(day: Day) -> list[Any]:
    """A day as a row of a table: date, sources, sums, and the send rate with its interval."""
    rate = day.send_rate or (None, None, None)
    return [day.date, *(day.sources.get(source, 0) for source in SOURCES), day.decisions, day.available, day.sent, *rate]


def count_days(trial: Trial, at: datetime, number: int = DAYS, by: str = "received_at") -> list[Day]:
    """The last days, today last; by arrival, or by the decision points' own time (`decided_at`)."""
    moment = decisions.c[by]
    days, edges = find_days(trial, at, number)
    sent = sa.func.sum(sa.case((decisions.c.action > 0, 1), else_=0))
    columns = (place_in_days(moment, edges), decisions.c.source, sa.func.count().label("number"), sent.label("sent"))
    counted = sa.select(*columns).where(moment >= edges[0], moment < edges[-1])
    with trial.database.snapshot() as connection:
        rows = connection.execute(counted.group_by("day", decisions.c.source)).all()
    rows_by_day = [[row for row in rows if row.day == position] for position in range(number)]
    return [
        Day(day, {row.source: row.number for row in day_rows}, sum(row.sent for row in day_rows))
        for day, day_rows in zip(days, rows_by_day, strict=True)
    ]


def find_days(trial: Trial, at: datetime, number: int) -> tuple[list[date], list[datetime]]:
    """The last days of the trial, today last, and the moments at which they begin, with the end of today: a day may have 23
    or 25 hours."""
    settings = trial.settings
    today = settings.find_day(at)
    days = [today - timedelta(days=back) for back in reversed(range(number))]
    return days, [datetime.combine(day, settings.day_begins, settings.zone) for day in (*days, today + timedelta(days=1))]


def place_in_days(moment: sa.Column[Any], edges: Sequence[datetime]) -> sa.Label[int]:
    """Which of the days between these edges a moment is in, as the column `day` of a query."""
    return sa.case(*((moment < end, position) for position, end in enumerate(edges[1:]))).label("day")


@dataclass(frozen=True)
class Participant:
    """One participant and when anything was last heard."""

    id: str
    registered_at: datetime
    last_contact: datetime | None
    """When anything last arrived."""
    last_decided: datetime | None
    """The newest decision point by its own time."""
    decisions: int
    missing: int
    """Available decision points whose outcome can no longer come."""
    status: str | None = None
    """`paused` or `withdrawn`; None for who takes part."""


def list_participants(trial: Trial, at: datetime) -> list[Participant]:
    """All participants, the longest silent first."""
    decision_query = sa.select(
        decisions.c.participant_id,
        sa.func.count().label("number"),
        sa.func.max(decisions.c.received_at).label("last"),
        sa.func.max(decisions.c.decided_at).label("decided"),
    ).group_by(decisions.c.participant_id)
    outcome_query = (
        sa.select(decisions.c.participant_id, sa.func.max(outcomes.c.received_at).label("last"))
        .join_from(outcomes, decisions)
        .group_by(decisions.c.participant_id)
    )
    with trial.database.snapshot() as connection:
        known = connection.execute(sa.select(participants)).all()
        decided = {row.participant_id: row for row in connection.execute(decision_query)}
        heard = {row.participant_id: row.last for row in connection.execute(outcome_query)}
        missing = _count_missing(connection, trial, at)
        statuses = {row.participant_id: row.kind for row in connection.execute(STATUSES) if row.kind != RESUMED}
    people = []
    for row in known:
        counts = decided.get(row.id)
        contacts = [moment for moment in (counts.last if counts else None, heard.get(row.id)) if moment is not None]
        last = max(contacts, default=None)
        people.append(
            Participant(
                row.id,
                row.registered_at,
                last,
                counts.decided if counts else None,
                counts.number if counts else 0,
                missing.get(row.id, 0),
                statuses.get(row.id),
            )
        )
    return sorted(people, key=lambda person: (person.last_contact or person.registered_at, person.id))


def _count_missing(connection: sa.Connection, trial: Trial, at: datetime) -> dict[str, int]:
    missing = (
        _join_outcomes(sa.select(decisions.c.participant_id, sa.func.count().label("number")))
        .where(decisions.c.salt.is_not(None), CURRENT.c.proximal_outcome.is_(None))
        .where(decisions.c.decided_at <= _find_last_closed(trial, at))
        .group_by(decisions.c.participant_id)
    )
    return {row.participant_id: row.number for row in connection.execute(missing)}


def _join_outcomes(query: Any) -> Any:
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    return query.select_from(joined).where(decisions.c.available)


def _find_last_closed(trial: Trial, at: datetime) -> datetime:
    return at - timedelta(hours=trial.settings.outcome_hours)


def count_outcomes(trial: Trial, at: datetime) -> dict[str, int]:
    """Of all available decision points: outcome known, known to be missing, still awaited, never came, erased."""
    closed = decisions.c.decided_at <= _find_last_closed(trial, at)
    state = sa.case(
        (decisions.c.salt.is_(None), "erased"),
        (CURRENT.c.proximal_outcome.is_not(None), "known"),
        (CURRENT.c.id.is_not(None), "reported missing"),
        (closed, "never came"),
        else_="awaited",
    ).label("state")
    counted = _join_outcomes(sa.select(state, sa.func.count().label("number"))).group_by(state)
    with trial.database.autocommit() as connection:
        numbers = {row.state: row.number for row in connection.execute(counted)}
        late = connection.scalar(sa.select(sa.func.count()).select_from(outcomes).where(outcomes.c.late))
    return {
        **{name: numbers.get(name, 0) for name in ("known", "reported missing", "awaited", "never came", "erased")},
        "late": late or 0,
    }


def list_alerts(trial: Trial, *, only_open: bool = False, newest: int = 200) -> Sequence[Any]:
    """Alerts, the newest first."""
    chosen = sa.select(alerts).order_by(alerts.c.id.desc()).limit(newest)
    if only_open:
        chosen = chosen.where(alerts.c.closed_at.is_(None))
    with trial.database.autocommit() as connection:
        return connection.execute(chosen).mappings().all()
