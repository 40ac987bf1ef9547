"""Participants: registered once by a pseudonym, paused, resumed, withdrawn, erased; each change is recorded with its reason.

An erasure replaces contexts, states and outcomes by nothing; the row, its draw and its place in the ledger stay.
"""

import hashlib
import hmac
import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.access import record_action
from surefoot.service.database.clock import EPOCH, now
from surefoot.service.database.databases import Database, lift_time_limit, lock_content, lock_ledger
from surefoot.service.database.ledger import COPIED_VALUES, claim_new_job, insert_new_recorded, insert_recorded, release_jobs
from surefoot.service.database.schema import (
    adverse_events,
    decisions,
    list_erasable,
    outcomes,
    participant_events,
    participants,
    scheduled,
    updates,
)
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial, read_draw_secret

PAUSED = "paused"
RESUMED = "resumed"
WITHDRAWN = "withdrawn"
STATUSES = (PAUSED, RESUMED, WITHDRAWN)
ERASURE_REQUESTED = "erasure asked"
SCRUB = "scrub"
"""The job that is claimed while files may still hold what was erased."""
CODE_HOURS = 24
"""How long an erasure that was asked for can be confirmed."""
IS_WITHDRAWN = sa.exists().where(
    participant_events.c.participant_id == decisions.c.participant_id, participant_events.c.kind == WITHDRAWN
)
"""Of a decision: whether its participant has left since."""


def register_participant(database: Database, participant_id: str, *, by: str | None = None) -> dict[str, Any]:
    """Add a participant; repeating it changes nothing. It is on the staff trail where staff (`by`) did it."""
    with database.transaction() as connection:
        insert_new_recorded(connection, "participant", [{"id": participant_id, "registered_at": now()}], "id")
        if by is not None:
            record_action(connection, by, "registered", participant_id)
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
    return {row.participant_id: row.kind for row in connection.execute(events.order_by(participant_events.c.id))}


def find_status(trial: Trial, participant_id: str | None) -> str | None:
    """The newest event of this participant, or of the study (None)."""
    with trial.database.autocommit() as connection:
        return find_statuses(connection, [participant_id]).get(participant_id)


def set_pause(trial: Trial, participant_id: str | None, *, paused: bool, reason: str, by: str) -> dict[str, Any]:
    """Pause or resume a participant, or the study (None); repeating it changes nothing."""
    with trial.database.transaction() as connection:
        if participant_id is not None:
            _check_known(connection, participant_id)
        status = find_statuses(connection, [participant_id]).get(participant_id)
        if status == WITHDRAWN:
            raise ApiError(409, "withdrawn", "the participant has withdrawn", "participant_id")
        if (status == PAUSED) != paused:
            kind = PAUSED if paused else RESUMED
            _record_event(connection, participant_id, kind, kind, reason, by)
    return {"participant_id": participant_id, "paused": paused}


def withdraw(trial: Trial, participant_id: str, *, reason: str, by: str) -> dict[str, Any]:
    """A participant leaves, for good: no more decisions, outcomes or learning. Repeating it changes nothing."""
    with trial.database.transaction() as connection:
        _check_known(connection, participant_id)
        withdraw_participant(connection, participant_id, reason=reason, by=by)
    return {"participant_id": participant_id, "withdrawn": True}


def withdraw_participant(connection: sa.Connection, participant_id: str, *, reason: str, by: str) -> None:
    """In the caller's transaction; of a participant who is known."""
    lock_content(connection)
    if find_statuses(connection, [participant_id]).get(participant_id) != WITHDRAWN:
        _record_event(connection, participant_id, WITHDRAWN, WITHDRAWN, reason, by)


def _record_event(
    connection: sa.Connection, participant_id: str | None, kind: str, action: str, reason: str, by: str
) -> tuple[int, datetime]:
    """Record an event, and the staff action that it is; the event's id and time."""
    moment = now()
    event = {"participant_id": participant_id, "kind": kind, "reason": reason, "happened_at": moment, "done_by": by}
    event_id = insert_recorded(connection, "participant event", event)
    record_action(connection, by, action, participant_id or "the study", reason)
    return event_id, moment


def _check_known(connection: sa.Connection, participant_id: str) -> None:
    if connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id)) is None:
        raise ApiError(404, "unknown_participant", "there is no such participant", "participant_id")


@dataclass(frozen=True)
class ErasureRequest:
    """What would be erased, and the code that confirms it."""

    code: str
    decisions: int
    outcomes: int
    until: datetime


@dataclass(frozen=True)
class Erasure:
    """What was erased."""

    decisions: int
    outcomes: int
    adverse_events: int = 0
    """Events whose description was erased."""
    is_scrubbed: bool = field(default=True, compare=False)
    """Whether the database's files hold nothing of it any more."""


def ask_erasure(database: Database, participant_id: str, *, reason: str, by: str) -> ErasureRequest:
    """The first step: on record, and nothing is erased yet."""
    with database.transaction() as connection:
        _check_named(connection, participant_id)
        event_id, moment = _record_event(connection, participant_id, ERASURE_REQUESTED, "asked to erase", reason, by)
        decision_count, outcome_count = (
            int(connection.scalar(sa.select(sa.func.count()).where(*conditions)) or 0)
            for conditions in _select_content(participant_id, None)
        )
    code = _make_code(database, participant_id, event_id)
    return ErasureRequest(code, decision_count, outcome_count, moment + timedelta(hours=CODE_HOURS))


def confirm_erasure(database: Database, participant_id: str, code: str, *, by: str) -> Erasure:
    """The second step, by the code of the first; the participant is withdrawn as well."""
    events = participant_events.c
    requests = sa.select(participant_events).where(events.participant_id == participant_id, events.kind == ERASURE_REQUESTED)
    with database.transaction() as connection:
        _check_named(connection, participant_id)
        request = connection.execute(requests.order_by(events.id.desc())).first()
        if request is None or now() - request.happened_at > timedelta(hours=CODE_HOURS):
            words = f"nobody asked to erase {participant_id} in the last {CODE_HOURS} hours; ask first, with --reason"
            raise InputError(words)
        if not hmac.compare_digest(_make_code(database, participant_id, request.id).encode(), code.strip().lower().encode()):
            raise InputError(f"'{code}' is not the code that was given last for {participant_id}; nothing was erased")
        withdraw_participant(connection, participant_id, reason=request.reason, by=by)
        erased = erase_content(connection, participant_id, None, reason=request.reason, by=by)
    return replace(erased, is_scrubbed=scrub_database(database))


def _make_code(database: Database, participant_id: str, event_id: int) -> str:
    text = f"erase:{participant_id}:{event_id}".encode()
    return hmac.new(read_draw_secret(database), text, hashlib.sha256).hexdigest()[:8]


def _check_named(connection: sa.Connection, participant_id: str) -> None:
    if connection.scalar(sa.select(participants.c.id).where(participants.c.id == participant_id)) is None:
        raise InputError(f"there is no participant '{participant_id}'")


def erase_expired(trial: Trial, at: datetime) -> Erasure | None:
    """Erase what came more than `keep_days` ago; None where everything is kept."""
    days = trial.settings.keep_days
    if days is None:
        return None
    with trial.database.transaction() as connection:
        reason = f"kept for {days:g} days"
        erased = erase_content(connection, None, at - timedelta(days=days), reason=reason, by="schedule")
    if erased.decisions or erased.outcomes:
        return replace(erased, is_scrubbed=scrub_database(trial.database))
    return erased


def erase_content(
    connection: sa.Connection, participant_id: str | None, before: datetime | None, *, reason: str, by: str
) -> Erasure:
    """Erase a participant's content, or everybody's (None) that came before a moment; in the caller's transaction."""
    lift_time_limit(connection)
    lock_content(connection)
    # What others record from now on comes after the erasure, in the ledger too: nothing slips in while it runs.
    lock_ledger(connection)
    points, outcome_conditions = _select_content(participant_id, before)
    unique = sa.literal("erased ") + sa.cast(outcomes.c.id, sa.String)
    blanks: dict[str, Any] = {**list_erasable(outcomes), "fingerprint": unique, "salt": None}
    outcome_count = connection.execute(sa.update(outcomes).where(*outcome_conditions).values(**blanks)).rowcount
    erase_decisions = sa.update(decisions).where(*points).values(**list_erasable(decisions), salt=None)
    decision_count = connection.execute(erase_decisions).rowcount
    event_count = 0
    if participant_id is not None and before is None:
        # Only on request: the law lets no schedule shorten the record of a trial's safety.
        described = (adverse_events.c.participant_id == participant_id, adverse_events.c.salt.is_not(None))
        erase_events = sa.update(adverse_events).where(*described).values(**list_erasable(adverse_events), salt=None)
        event_count = connection.execute(erase_events).rowcount
    if decision_count or outcome_count or event_count:
        _blank_copies(connection)
        row = {"participant_id": participant_id, "received_before": before, "reason": reason, "erased_at": now()}
        counts = {"decisions": decision_count, "outcomes": outcome_count, "adverse_events": event_count}
        insert_recorded(connection, "erasure", {**row, "done_by": by, **counts})
        words = f"{decision_count} decisions, {outcome_count} outcomes, {event_count} adverse events: {reason}"
        record_action(connection, by, "erased", participant_id or "everybody", words)
        claim_new_job(connection, SCRUB, EPOCH)
    return Erasure(decision_count, outcome_count, event_count)


def _select_content(participant_id: str | None, before: datetime | None) -> tuple[list[Any], list[Any]]:
    """Conditions on the decisions and on the outcomes that hold something."""
    conditions: list[Any] = []
    if participant_id is not None:
        conditions.append(decisions.c.participant_id == participant_id)
    if before is not None:
        conditions.append(decisions.c.received_at < before)
    belong = outcomes.c.decision_id.in_(sa.select(decisions.c.id).where(*conditions))
    return [decisions.c.salt.is_not(None), *conditions], [outcomes.c.salt.is_not(None), belong]


def _blank_copies(connection: sa.Connection) -> None:
    """Take the values of erased decision points out of the results of updates, which list outliers."""
    erased = sa.select(decisions.c.participant_id, decisions.c.decision_idx).where(decisions.c.salt.is_(None))
    points = {tuple(row) for row in connection.execute(erased)}
    for update_id, text in connection.execute(sa.select(updates.c.id, updates.c.result)).all():
        result = json.loads(text)
        for row in [*result.get("removed_rows", []), *result.get("implausible_rows", [])]:
            if (row["participant_id"], row["decision_idx"]) in points:
                row.update({name: None for name in COPIED_VALUES if name in row})
        new = json.dumps(result)
        if new != text:
            connection.execute(sa.update(updates).where(updates.c.id == update_id).values(result=new))


def scrub_database(database: Database) -> bool:
    """Make the old values leave the files too; False when a reader keeps SQLite from emptying its log (WAL).

    SQLite overwrites what is erased (`secure_delete`), but its log holds the old pages until it is emptied. PostgreSQL
    vacuums. The service tries again until it succeeds, also after a crash.
    """
    with database.autocommit() as connection:
        if database.is_sqlite:
            is_busy = bool(connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar())
        else:
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql("VACUUM decisions, outcomes, adverse_events, updates")
            connection.exec_driver_sql("RESET statement_timeout")
            is_busy = False
    if is_busy:
        return False
    with database.transaction() as connection:
        release_jobs(connection, scheduled.c.job == SCRUB)
    return True


def finish_scrub(database: Database) -> None:
    """Empty the files of what was erased, where that is still to be done."""
    with database.autocommit() as connection:
        is_pending = connection.scalar(sa.select(scheduled.c.job).where(scheduled.c.job == SCRUB)) is not None
    if is_pending:
        scrub_database(database)
