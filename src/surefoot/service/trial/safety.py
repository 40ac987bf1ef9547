"""Counts for a safety board: over the whole study, nothing by arm, nothing that names a participant."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, decisions, erasures, participant_events, participants, updates
from surefoot.service.trial.point_query import PAUSED, RESUMED, WITHDRAWN
from surefoot.service.trial.trial import Trial

REASONS = 50
"""The newest that are listed."""
_newest = sa.select(sa.func.max(participant_events.c.id)).where(participant_events.c.kind.in_((PAUSED, RESUMED, WITHDRAWN)))
STATUSES = sa.select(participant_events.c.participant_id, participant_events.c.kind).where(
    participant_events.c.id.in_(_newest.group_by(participant_events.c.participant_id))
)
"""What last happened to everybody, and to the study (None)."""


def count_safety(trial: Trial, at: datetime) -> dict[str, Any]:
    """The counts at a moment."""
    day = decisions.c.received_at > at - timedelta(days=1)
    events = sa.select(participant_events.c.kind, participant_events.c.reason).where(
        participant_events.c.kind.in_((PAUSED, WITHDRAWN))
    )
    with trial.database.snapshot() as connection:

        def count(*conditions: Any, of: Any = decisions.c.id) -> int:
            return int(connection.scalar(sa.select(sa.func.count(sa.distinct(of))).where(*conditions)) or 0)

        statuses = {row.participant_id: row.kind for row in connection.execute(STATUSES)}
        study = statuses.pop(None, None)
        newest = connection.execute(events.order_by(participant_events.c.id.desc()).limit(REASONS))
        return {
            "at": at,
            "participants": count(of=participants.c.id),
            "withdrawn": sum(kind == WITHDRAWN for kind in statuses.values()),
            "paused": sum(kind == PAUSED for kind in statuses.values()),
            "erased": count(of=erasures.c.participant_id),
            "study_paused": study == PAUSED,
            "decisions": count(),
            "available": count(decisions.c.available),
            "decisions_last_day": count(day),
            "fallbacks_last_day": count(day, decisions.c.source == "fallback"),
            "most_prompts_in_a_day": _count_most_prompts(connection, at),
            "open_alerts": count(alerts.c.closed_at.is_(None), of=alerts.c.id),
            "refused_updates": count(updates.c.state == "refused", of=updates.c.id),
            "reasons": [f"{row.kind}: {row.reason}" for row in newest],
        }


def _count_most_prompts(connection: sa.Connection, at: datetime, days: int = 7) -> int:
    """The most that any one participant was sent in one of the last days, by the decision points' own time."""
    most = 0
    for back in range(days):
        end = at - timedelta(days=back)
        sent = sa.select(sa.func.count().label("number")).where(
            decisions.c.action > 0, decisions.c.decided_at <= end, decisions.c.decided_at > end - timedelta(days=1)
        )
        by_participant = sent.group_by(decisions.c.participant_id).subquery()
        most = max(most, connection.scalar(sa.select(sa.func.max(by_participant.c.number))) or 0)
    return most
