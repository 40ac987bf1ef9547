"""Participants: registered once by a pseudonym, paused, resumed, withdrawn; each change stays on record with its reason."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from surefoot.service.access import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database, lock_content
from surefoot.service.database.ledger import insert_new_recorded, insert_recorded
from surefoot.service.database.schema import decisions, participant_events, participants
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial

PAUSED = "paused"
RESUMED = "resumed"
WITHDRAWN = "withdrawn"
STATUSES = (PAUSED, RESUMED, WITHDRAWN)
IS_WITHDRAWN = sa.exists().where(
    participant_events.c.participant_id == decisions.c.participant_id, participant_events.c.kind == WITHDRAWN
)
"""Of a decision: whether its participant has left since."""


def register_participant(database: Database, participant_id: str) -> dict[str, Any]:
    """Add a participant; repeating it changes nothing."""
    with database.transaction() as connection:
        insert_new_recorded(connection, "participant", [{"id": participant_id, "registered_at": now()}], "id")
        since = connection.scalar(sa.select(participants.c.registered_at).where(participants.c.id == participant_id))
    return {"participant_id": participant_id, "registered_at": since}


def find_statuses(connection: sa.Connection, ids: Collection[str | None] | None = None) -> dict[str | None, str]:
    """The newest event (paused, resumed, withdrawn) of these participants, or of everybody; None stands for the study."""
    events = sa.select(participant_events.c.participant_id, participant_events.c.kind).where(
        participant_events.c.kind.in_(STATUSES)
    )
    if ids is not None:
        mine = participant_events.c.participant_id.in_([name for name in ids if name is not None])
        events = events.where(sa.or_(participant_events.c.participant_id.is_(None), mine))
    rows = connection.execute(events.order_by(participant_events.c.id))
    return {row.participant_id: row.kind for row in rows}


def find_status(trial: Trial, participant_id: str | None) -> str | None:
    """The newest event of this participant, or of the study (None)."""
    with trial.database.autocommit() as connection:
        return find_statuses(connection, [participant_id]).get(participant_id)


def set_pause(trial: Trial, participant_id: str | None, *, paused: bool, reason: str, by: str) -> dict[str, Any]:
    """Pause or resume a participant, or the study (None); repeating it changes nothing."""
    with trial.database.transaction() as connection:
        if participant_id is not None:
            check_known(connection, participant_id)
        status = find_statuses(connection, [participant_id]).get(participant_id)
        if status == WITHDRAWN:
            raise ApiError(409, "withdrawn", "the participant has withdrawn", "participant_id")
        if (status == PAUSED) != paused:
            _record_event(connection, participant_id, PAUSED if paused else RESUMED, reason, by)
    return {"participant_id": participant_id, "paused": paused}


def withdraw(trial: Trial, participant_id: str, *, reason: str, by: str) -> dict[str, Any]:
    """A participant leaves, for good: no more decisions, outcomes or learning. Repeating it changes nothing."""
    with trial.database.transaction() as connection:
        check_known(connection, participant_id)
        withdraw_participant(connection, participant_id, reason=reason, by=by)
    return {"participant_id": participant_id, "withdrawn": True}


def withdraw_participant(connection: sa.Connection, participant_id: str, *, reason: str, by: str) -> None:
    """In the caller's transaction; of a participant who is known."""
    lock_content(connection)
    if find_statuses(connection, [participant_id]).get(participant_id) != WITHDRAWN:
        _record_event(connection, participant_id, WITHDRAWN, reason, by)


def _record_event(connection: sa.Connection, participant_id: str | None, kind: str, reason: str, by: str) -> None:
    event = {"participant_id": participant_id, "kind": kind, "reason": reason, "happened_at": now(), "done_by": by}
    insert_recorded(connection, "participant event", event)
    record_action(connection, by, kind, participant_id or "the study", reason)


def check_known(connection: sa.Connection, participant_id: str) -> None:
    """404 for a participant who was never registered."""
    if connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id)) is None:
        raise ApiError(404, "unknown_participant", "there is no such participant", "participant_id")
