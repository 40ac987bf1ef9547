"""Pausing a participant or the whole study, going on, and withdrawing; each stays on record with its reason."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from surefoot.service.access.staff_trail import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import lock_content
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import participants
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.point_query import PAUSED, RESUMED, WITHDRAWN
from surefoot.service.trial.standing import find_statuses
from surefoot.service.trial.trial import Trial


def set_pause(trial: Trial, participant_id: str | None, *, paused: bool, reason: str, by: str) -> dict[str, Any]:
    """Pause or resume a participant, or the study (None); repeating it changes nothing."""
    with trial.database.transaction() as connection:
        if participant_id is not None:
            check_known(connection, participant_id)
        status = find_statuses(connection, [] if participant_id is None else [participant_id]).get(participant_id)
        if status == WITHDRAWN:
            raise ApiError(409, "withdrawn", "the participant has withdrawn", "participant_id")
        if (status == PAUSED) != paused:
            kind = PAUSED if paused else RESUMED
            row = {"participant_id": participant_id, "kind": kind, "reason": reason}
            insert_recorded(connection, "participant event", {**row, "happened_at": now(), "done_by": by})
            record_action(connection, by, kind, participant_id or "the study", reason)
    return {"participant_id": participant_id, "paused": paused}


def find_status(trial: Trial, participant_id: str | None) -> str | None:
    """`paused`, `resumed` or `withdrawn`: what last happened to this participant, or to the study (None)."""
    with trial.database.autocommit() as connection:
        return find_statuses(connection, [] if participant_id is None else [participant_id]).get(participant_id)


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
        row = {"participant_id": participant_id, "kind": WITHDRAWN, "reason": reason}
        insert_recorded(connection, "participant event", {**row, "happened_at": now(), "done_by": by})
        record_action(connection, by, WITHDRAWN, participant_id, reason)


def check_known(connection: sa.Connection, participant_id: str) -> None:
    """404 for a participant who was never registered."""
    if connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id)) is None:
        raise ApiError(404, "unknown_participant", "there is no such participant", "participant_id")
