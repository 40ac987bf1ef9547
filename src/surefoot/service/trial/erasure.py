"""Erasure: contexts, states and outcomes are replaced by nothing; the row, its draw and its place in the ledger stay."""

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.access import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database, lift_time_limit, lock_content
from surefoot.service.database.ledger import COPIED_VALUES, insert_recorded
from surefoot.service.database.schema import decisions, list_erasable, outcomes, participant_events, participants, updates
from surefoot.service.trial.participants import withdraw_participant
from surefoot.service.trial.trial import Trial, read_draw_secret

ASKED = "erasure asked"
CODE_HOURS = 24
"""How long an erasure that was asked for can be confirmed."""


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


def ask_erasure(database: Database, participant_id: str, *, reason: str, by: str) -> ErasureRequest:
    """The first step: on record, and nothing is erased yet."""
    with database.transaction() as connection:
        _check_participant(connection, participant_id)
        moment = now()
        row = {"participant_id": participant_id, "kind": ASKED, "reason": reason, "happened_at": moment, "done_by": by}
        event_id = insert_recorded(connection, "participant event", row)
        record_action(connection, by, "asked to erase", participant_id, reason)
        counts = [
            int(connection.scalar(sa.select(sa.func.count()).where(*conditions)) or 0)
            for conditions in _select(participant_id, None)
        ]
    code = _make_code(database, participant_id, event_id)
    return ErasureRequest(code, counts[0], counts[1], moment + timedelta(hours=CODE_HOURS))


def confirm_erasure(database: Database, participant_id: str, code: str, *, by: str) -> Erasure:
    """The second step, by the code of the first; the participant is withdrawn as well."""
    with database.transaction() as connection:
        _check_participant(connection, participant_id)
        conditions = sa.and_(participant_events.c.participant_id == participant_id, participant_events.c.kind == ASKED)
        request = connection.execute(
            sa.select(participant_events).where(conditions).order_by(participant_events.c.id.desc())
        ).first()
        if request is None or now() - request.happened_at > timedelta(hours=CODE_HOURS):
            raise InputError(
                f"nobody asked to erase {participant_id} in the last {CODE_HOURS} hours; ask first, with --reason"
            )
        if not hmac.compare_digest(_make_code(database, participant_id, request.id).encode(), code.strip().lower().encode()):
            raise InputError(f"'{code}' is not the code that was given last for {participant_id}; nothing was erased")
        withdraw_participant(connection, participant_id, reason=request.reason, by=by)
        erased = erase_content(connection, participant_id, None, reason=request.reason, by=by)
    scrub_database(database)
    return erased


def _make_code(database: Database, participant_id: str, event_id: int) -> str:
    text = f"erase:{participant_id}:{event_id}".encode()
    return hmac.new(read_draw_secret(database), text, hashlib.sha256).hexdigest()[:8]


def _check_participant(connection: sa.Connection, participant_id: str) -> None:
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
        scrub_database(trial.database)
    return erased


def erase_content(
    connection: sa.Connection, participant_id: str | None, before: datetime | None, *, reason: str, by: str
) -> Erasure:
    """Erase a participant's content, or everybody's (None) that came before a moment; in the caller's transaction."""
    lift_time_limit(connection)
    lock_content(connection)
    points, outcome_conditions = _select(participant_id, before)
    unique = sa.literal("erased ") + sa.cast(outcomes.c.id, sa.String)
    blanks: dict[str, Any] = {**list_erasable(outcomes), "fingerprint": unique, "salt": None}
    erase_outcomes = sa.update(outcomes).where(*outcome_conditions).values(**blanks)
    erase_decisions = sa.update(decisions).where(*points).values(**list_erasable(decisions), salt=None)
    counts = {
        "outcomes": connection.execute(erase_outcomes).rowcount,
        "decisions": connection.execute(erase_decisions).rowcount,
    }
    if any(counts.values()):
        _blank_copies(connection)
        row = {"participant_id": participant_id, "received_before": before, "reason": reason, "erased_at": now()}
        insert_recorded(connection, "erasure", {**row, "done_by": by, **counts})
        words = f"{counts['decisions']} decisions, {counts['outcomes']} outcomes"
        record_action(connection, by, "erased", participant_id or "everybody", f"{words}: {reason}")
    return Erasure(**counts)


def _select(participant_id: str | None, before: datetime | None) -> tuple[list[Any], list[Any]]:
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


def scrub_database(database: Database) -> None:
    """Make the old values leave the files too, as far as the database can: SQLite's log is emptied, PostgreSQL vacuums."""
    with database.autocommit() as connection:
        if database.is_sqlite:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        else:
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql("VACUUM decisions, outcomes, updates")
            connection.exec_driver_sql("RESET statement_timeout")
