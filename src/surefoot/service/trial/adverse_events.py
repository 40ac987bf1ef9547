"""Adverse events: what staff record about a participant's safety. A correction is a new row; the first one stays.

Descriptions are erased when a participant's content is; that there was an event, and when, stays on record.
"""

import secrets
from datetime import datetime
from typing import Any, Literal, get_args

import sqlalchemy as sa

from surefoot.service.access import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import SALT_BYTES, insert_recorded
from surefoot.service.database.schema import adverse_events, erasures, participants
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial

Relation = Literal["related", "possibly related", "unrelated", "not known"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
"""To the study's prompts, as the person who records the event judges it."""
LONGEST = 2000
"""Characters of a description."""
ALERT = "adverse-event"


def record_event(
    trial: Trial,
    participant_id: str,
    *,
    happened_at: datetime,
    description: str,
    serious: bool,
    related: str,
    by: str,
    corrects: int | None = None,
) -> int:
    """Record an event, or a correction of one; its id. A serious event raises a red alert."""
    text = description.strip()
    moment = now()
    if not text or len(text) > LONGEST or "\0" in text:
        raise ApiError(422, "invalid", f"describe the event in at most {LONGEST:,} characters", "description")
    if related not in RELATIONS:
        raise ApiError(422, "invalid", f"whether it is related is one of: {', '.join(RELATIONS)}", "related")
    if happened_at > moment:
        raise ApiError(422, "invalid", "the event is dated in the future; check the date and time", "happened_at")
    with trial.database.transaction() as connection:
        _check_participant(connection, participant_id)
        if corrects is not None:
            chosen = sa.select(adverse_events).where(adverse_events.c.id == corrects)
            first = connection.execute(chosen).first()
            if first is None or first.participant_id != participant_id or first.corrects is not None:
                raise ApiError(404, "unknown_event", f"participant {participant_id} has no event {corrects} to correct")
        row = {
            "participant_id": participant_id,
            "corrects": corrects,
            "happened_at": happened_at,
            "serious": serious,
            "related": related,
            "description": text,
            "recorded_at": moment,
            "recorded_by": by,
            "salt": secrets.token_bytes(SALT_BYTES),
        }
        event_id: int = insert_recorded(connection, "adverse event", row)
        action = "recorded an event" if corrects is None else "corrected an event"
        record_action(connection, by, action, participant_id, f"event {event_id if corrects is None else corrects}")
        if serious:
            message = f"a serious adverse event of participant {participant_id} was recorded; see Safety"
            raise_alert(connection, kind=ALERT, occasion=f"{ALERT}:{corrects or event_id}", message=message)
    return event_id


def _check_participant(connection: sa.Connection, participant_id: str) -> None:
    if connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id)) is None:
        raise ApiError(404, "unknown_participant", f"there is no participant '{participant_id}'", "participant_id")
    erased = sa.select(erasures.c.id).where(
        erasures.c.participant_id == participant_id, erasures.c.received_before.is_(None)
    )
    if connection.scalar(erased.limit(1)) is not None:
        words = "the participant's content was erased on request; nothing is recorded about them any more"
        raise ApiError(409, "erased", words, "participant_id")


def list_events(connection: sa.Connection, since: datetime | None = None) -> list[dict[str, Any]]:
    """Every event as it stands after its corrections, the newest first; `versions` has all of them, the first one first.

    `since` leaves out events that were recorded before, unless they were corrected later.
    """
    rows = connection.execute(sa.select(adverse_events).order_by(adverse_events.c.id)).mappings().all()
    versions: dict[int, list[Any]] = {}
    for row in rows:
        versions.setdefault(row["corrects"] or row["id"], []).append(row)
    events = [{**listed[-1], "id": first, "versions": listed} for first, listed in versions.items()]
    if since is not None:
        events = [event for event in events if event["recorded_at"] >= since]
    return sorted(events, key=lambda event: (event["happened_at"], event["id"]), reverse=True)
