"""Outcomes: added, never changed. The newest by its own time counts; a retry is not doubled; a late one is marked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from secrets import token_bytes
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.evidence import SALT_BYTES
from surefoot.service.database.ledger import insert_new_recorded
from surefoot.service.database.schema import decisions, outcomes, participant_events
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import check_timestamp
from surefoot.service.trial.point_query import WITHDRAWN
from surefoot.service.trial.trial import Trial

AGREES = 1e-6
"""How far an echoed probability may be off: JSON writers round."""

_rank = sa.func.row_number().over(
    partition_by=outcomes.c.decision_id, order_by=(outcomes.c.observed_at.desc(), outcomes.c.id.desc())
)
_ranked = sa.select(outcomes, _rank.label("rank")).where(~outcomes.c.late).subquery()
IS_WITHDRAWN = sa.exists().where(
    participant_events.c.participant_id == decisions.c.participant_id, participant_events.c.kind == WITHDRAWN
)
"""Of a decision: whether its participant has left since."""
CURRENT = sa.select(_ranked).where(_ranked.c.rank == 1).subquery("current_outcomes")
"""For every decision the outcome that counts: the newest that was not late."""


def record_outcomes(trial: Trial, given: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Record outcomes in one transaction; what became of each."""
    received = now()
    for outcome in given:
        check_timestamp(outcome.timestamp, received, trial.settings.limits.future_minutes)
    known, repeated = _find_known(trial, given)
    open_for = timedelta(hours=trial.settings.outcome_hours)
    rows = []
    receipts = []
    for outcome in given:
        decision = known.get(outcome.decision_id)
        if decision is None:
            receipts.append(_receipt(outcome, "unknown_decision", None))
            continue
        refused = _find_refusal(outcome, decision)
        if refused is not None:
            receipts.append(_receipt(outcome, refused, None))
            continue
        late = outcome.timestamp - decision.decided_at > open_for
        echoed = None if outcome.action_prob is None else float(outcome.action_prob)
        agrees = None if echoed is None else abs(echoed - decision.probability) <= AGREES
        mark = fingerprint(outcome)
        status = "repeated" if mark in repeated else "late" if late else "recorded"
        receipts.append(_receipt(outcome, status, agrees))
        rows.append(
            {
                "decision_id": outcome.decision_id,
                "fingerprint": mark,
                "proximal_outcome": None if outcome.proximal_outcome is None else float(outcome.proximal_outcome),
                "observed_at": outcome.timestamp,
                "received_at": received,
                "late": late,
                "echoed_probability": echoed,
                "salt": token_bytes(SALT_BYTES),
            }
        )
    _write(trial, rows, receipts)
    return receipts


def _find_refusal(outcome: Outcome, decision: Any) -> str | None:
    """Why an outcome is not recorded; None when it is."""
    if decision.withdrawn:
        return "withdrawn"
    if decision.salt is None:
        return "erased"
    return "before_decision" if outcome.timestamp < decision.decided_at else None


def _find_known(trial: Trial, given: Sequence[Outcome]) -> tuple[dict[str, Any], set[str]]:
    """The decisions that the outcomes belong to, and which outcomes were recorded before."""
    decision_columns = (decisions.c.id, decisions.c.decided_at, decisions.c.probability, decisions.c.salt)
    columns = (*decision_columns, IS_WITHDRAWN.label("withdrawn"))
    ids = {outcome.decision_id for outcome in given}
    marks = {fingerprint(outcome) for outcome in given}
    with trial.database.autocommit() as connection:
        known = {row.id: row for row in connection.execute(sa.select(*columns).where(decisions.c.id.in_(ids)))}
        repeated = set(connection.scalars(sa.select(outcomes.c.fingerprint).where(outcomes.c.fingerprint.in_(marks))))
    return known, repeated


def _write(trial: Trial, rows: list[dict[str, Any]], receipts: list[dict[str, Any]]) -> None:
    if not rows:
        return
    with trial.database.transaction() as connection:
        new = list({row["fingerprint"]: row for row in rows}.values())
        insert_new_recorded(connection, "outcome", trial.database.insert_new(outcomes), new, "fingerprint")
        for receipt in receipts:
            if receipt["action_prob_agrees"] is False:
                raise_alert(
                    trial.database,
                    connection,
                    kind="probability",
                    occasion=f"probability:{receipt['decision_id']}",
                    message=f"a client believes another probability than decision {receipt['decision_id']} had",
                )


def fingerprint(outcome: Outcome) -> str:
    """What makes an outcome the same one when it is sent again."""
    value = None if outcome.proximal_outcome is None else float(outcome.proximal_outcome)
    parts = [outcome.decision_id, outcome.timestamp.astimezone(UTC).isoformat(), value]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _receipt(outcome: Outcome, status: str, agrees: bool | None) -> dict[str, Any]:
    return {"decision_id": outcome.decision_id, "status": status, "action_prob_agrees": agrees}
