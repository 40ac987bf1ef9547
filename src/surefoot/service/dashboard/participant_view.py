"""One participant as the dashboard shows them: decision points by their own time and by arrival, and what came of each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.dashboard.wearing import find_unworn_points
from surefoot.service.database.schema import decisions, participants
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.dose_limits import DOSE

PAGE = 100
"""Decision points on one page."""
STATES = ("sent", "not sent", "available", "unavailable")
BLIND_COLUMNS = ("decision_idx", "decided_at", "received_at", "state", "reasons", "outcome_state", "unworn")
COLUMNS = (*BLIND_COLUMNS, "action_name", "probability", "source", "outcome")
"""What a download has of every decision point."""


@dataclass(frozen=True)
class Point:
    """One decision point."""

    decision_idx: int
    decided_at: datetime
    received_at: datetime
    state: str
    """`sent`, `not sent` or `unavailable`; for who is blind `available` or `unavailable`."""
    action_name: str
    probability: float | None
    source: str
    reasons: str
    outcome: float | None
    outcome_state: str
    """`known`, `reported missing`, `never came`, `awaited`, `erased`, or nothing where none can come."""
    unworn: bool = False
    """Whether the device was not worn."""

    @property
    def delay(self) -> str:
        """How long after its own time it arrived, in words."""
        seconds = (self.received_at - self.decided_at).total_seconds()
        return _describe_delay(seconds)


def _describe_delay(seconds: float) -> str:
    """A span in the unit that fits it.

    >>> [_describe_delay(seconds) for seconds in (-30, 0.4, 59, 120, 7200, 200_000)]
    ['30 s before', '0 s', '59 s', '2 min', '2.0 h', '2.3 days']
    """
    size = abs(seconds)
    after = "" if seconds > -1 else " before"
    for unit, length, digits in (("days", 86_400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if size >= (2 * length if unit == "days" else length):
            return f"{size / length:.{digits}f} {unit}{after}"
    return f"{size:.0f} s{after}"


@dataclass(frozen=True)
class ParticipantView:
    """A participant with the newest decision points first."""

    id: str
    registered_at: datetime
    points: list[Point]
    total: int
    states: Counter[str]
    outcome_states: Counter[str]
    earlier: int | None
    """The `before` of the next page; None on the last."""


def describe_participant(
    trial: Trial, participant_id: str, at: datetime, before: int | None = None, *, blind: bool = False
) -> ParticipantView:
    """One participant; `before` shows the decision points below that index, `blind` hides what was sent and what came."""
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    columns = (decisions, CURRENT.c.proximal_outcome, CURRENT.c.id.label("outcome_id"))
    query = sa.select(*columns).select_from(joined).where(decisions.c.participant_id == participant_id)
    with trial.database.snapshot() as connection:
        registered = connection.scalar(sa.select(participants.c.registered_at).where(participants.c.id == participant_id))
        if registered is None:
            raise ApiError(404, "unknown_participant", "there is no such participant")
        rows = connection.execute(query.order_by(decisions.c.decision_idx.desc())).mappings().all()
    describe = _describe_blindly if blind else _describe_point
    unworn = find_unworn_points(trial, participant_id, at)
    points = [replace(describe(trial, row, at), unworn=row["decision_idx"] in unworn) for row in rows]
    shown = [point for point in points if before is None or point.decision_idx < before][:PAGE]
    last = shown[-1].decision_idx if shown else 0
    has_earlier = any(point.decision_idx < last for point in points[-1:])
    return ParticipantView(
        participant_id,
        registered,
        shown,
        len(points),
        Counter(point.state for point in points),
        Counter(point.outcome_state for point in points if point.outcome_state),
        last if has_earlier else None,
    )


def _describe_point(trial: Trial, row: Any, at: datetime) -> Point:
    state = "unavailable" if not row["available"] else "sent" if row["action"] else "not sent"
    return Point(
        row["decision_idx"],
        row["decided_at"],
        row["received_at"],
        state,
        trial.study.actions.names[row["action"]],
        row["probability"],
        row["source"],
        "; ".join(json.loads(row["availability_reasons"]) + json.loads(row["fallback_reasons"])),
        row["proximal_outcome"],
        _describe_outcome(trial, row, at),
    )


def _describe_blindly(trial: Trial, row: Any, at: datetime) -> Point:
    """Without action, probability, source and outcome, and without dose limits, which would tell of earlier prompts."""
    stopped = any(reason.startswith(DOSE) for reason in json.loads(row["fallback_reasons"]))
    available = row["available"] or stopped
    reasons = "; ".join(json.loads(row["availability_reasons"]))
    seen = _describe_outcome(trial, {**row, "available": available}, at)
    state = "available" if available else "unavailable"
    return Point(row["decision_idx"], row["decided_at"], row["received_at"], state, "", None, "", reasons, None, seen)


def _describe_outcome(trial: Trial, row: Any, at: datetime) -> str:
    if row["salt"] is None:
        return "erased"
    if row["proximal_outcome"] is not None:
        return "known"
    if row["outcome_id"] is not None:
        return "reported missing"
    if not row["available"]:
        return ""
    closed = row["decided_at"] <= at - timedelta(hours=trial.settings.outcome_hours)
    return "never came" if closed else "awaited"
