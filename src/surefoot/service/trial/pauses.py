"""Pausing and resuming a participant or the whole study; every pause stays on record with its reason."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import participants
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.standing import PAUSED, RESUMED, find_pauses
from surefoot.service.trial.trial import Trial


def set_pause(trial: Trial, participant_id: str | None, *, paused: bool, reason: str, by: str) -> dict[str, Any]:
    """Pause or resume a participant, or the study (None); repeating it changes nothing."""
    with trial.database.transaction() as connection:
        if participant_id is not None:
            known = connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id))
            if known is None:
                raise ApiError(404, "unknown_participant", "there is no such participant", "participant_id")
        before = find_pauses(connection, [] if participant_id is None else [participant_id]).get(participant_id, False)
        if before != paused:
            row = {"participant_id": participant_id, "kind": PAUSED if paused else RESUMED, "reason": reason}
            insert_recorded(connection, "participant event", {**row, "happened_at": now(), "done_by": by})
    return {"participant_id": participant_id, "paused": paused}


def is_paused(trial: Trial, participant_id: str | None) -> bool:
    """Whether this participant, or the study (None), is paused by itself."""
    with trial.database.autocommit() as connection:
        return find_pauses(connection, [] if participant_id is None else [participant_id]).get(participant_id, False)
