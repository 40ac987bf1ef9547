"""Participants: pseudonyms, registered once."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new_recorded
from surefoot.service.database.schema import participants


def register_participant(database: Database, participant_id: str) -> dict[str, Any]:
    """Add a participant; repeating it changes nothing."""
    with database.transaction() as connection:
        row = {"id": participant_id, "registered_at": now()}
        insert_new_recorded(connection, "participant", database.insert_new(participants), [row], "id")
        since = connection.scalar(sa.select(participants.c.registered_at).where(participants.c.id == participant_id))
    return {"participant_id": participant_id, "registered_at": since}
