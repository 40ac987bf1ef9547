"""Outcomes: added, never changed. The newest by its own time counts; a retry is not doubled; a late one is marked."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from secrets import token_bytes
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import SALT_BYTES, insert_new_recorded
from surefoot.service.database.schema import decisions, outcomes
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import check_timestamp
from surefoot.service.trial.participants import IS_WITHDRAWN
from surefoot.service.trial.trial import Trial

AGREES = 1e-6
"""How far an echoed probability may be off: JSON writers round."""

_rank = sa.func.row_number().over(
    partition_by=outcomes.c.decision_id, order_by=(outcomes.c.observed_at.desc(), outcomes.c.id.desc())
)
_ranked = sa.select(outcomes, _rank.label("rank")).where(~outcomes.c.late).subquery()
CURRENT = sa.select(_ranked).where(_ranked.c.rank == 1).subquery("current_outcomes")
"""For every decision the outcome that counts: the newest that was not late."""


def record_outcomes(trial: Trial, given: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Record outcomes in one transaction; a receipt for each."""
    received = now()
    for outcome in given:
        check_timestamp(outcome.timestamp, received, trial.settings.limits.future_minutes)
    columns = (decisions.c.id, decisions.c.decided_at, decisions.c.probability, decisions.c.salt)
    query = sa.select(*columns, IS_WITHDRAWN.label("withdrawn"))
    marks = [fingerprint(outcome) for outcome in given]
    with trial.database.autocommit() as connection:
        ids = {outcome.decision_id for outcome in given}
        known = {row.id: row for row in connection.execute(query.where(decisions.c.id.in_(ids)))}
        repeated = set(connection.scalars(sa.select(outcomes.c.fingerprint).where(outcomes.c.fingerprint.in_(marks))))
    rows = {}
    receipts = []
    for outcome, mark in zip(given, marks, strict=True):
        decision: Any = known.get(outcome.decision_id)
        status = _find_refusal(outcome, decision)
        agrees = None
        if status is None:
            late = outcome.timestamp - decision.decided_at > timedelta(hours=trial.settings.outcome_hours)
            status = "repeated" if mark in repeated else "late" if late else "recorded"
            echoed = None if outcome.action_prob is None else float(outcome.action_prob)
            agrees = None if echoed is None else abs(echoed - decision.probability) <= AGREES
            rows[mark] = {
                "decision_id": outcome.decision_id,
                "fingerprint": mark,
                "proximal_outcome": None if outcome.proximal_outcome is None else float(outcome.proximal_outcome),
                "observed_at": outcome.timestamp,
                "received_at": received,
                "late": late,
                "echoed_probability": echoed,
                "salt": token_bytes(SALT_BYTES),
            }
        receipts.append({"decision_id": outcome.decision_id, "status": status, "action_prob_agrees": agrees})
    if rows:
        disagreeing = [receipt["decision_id"] for receipt in receipts if receipt["action_prob_agrees"] is False]
        with trial.database.transaction() as connection:
            insert_new_recorded(connection, "outcome", list(rows.values()), "fingerprint")
            for decision_id in disagreeing:
                message = f"a client believes another probability than decision {decision_id} had"
                raise_alert(connection, kind="probability", occasion=f"probability:{decision_id}", message=message)
    return receipts


def _find_refusal(outcome: Outcome, decision: Any) -> str | None:
    """Why an outcome is not recorded; None when it is."""
    if decision is None:
        return "unknown_decision"
    if decision.withdrawn:
        return "withdrawn"
    if decision.salt is None:
        return "erased"
    return "before_decision" if outcome.timestamp < decision.decided_at else None


def fingerprint(outcome: Outcome) -> str:
    """The same for an outcome that is sent again."""
    value = None if outcome.proximal_outcome is None else float(outcome.proximal_outcome)
    fields = [outcome.decision_id, outcome.timestamp.astimezone(UTC).isoformat(), value]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
