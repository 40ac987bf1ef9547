"""Derived states in a trial: kept by the service for every participant, from its own records, never from the client."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import sqlalchemy as sa

from surefoot.data.derived_states import derive_states
from surefoot.data.problems import Problems
from surefoot.service.database.schema import decisions, outcomes, to_microseconds
from surefoot.service.trial.decision_clock import count_times, order_moments
from surefoot.study import Study
from surefoot.study.log_reader import transform_reward

_newest = (
    sa.select(outcomes.c.proximal_outcome)
    .where(outcomes.c.decision_id == decisions.c.id, ~outcomes.c.late, outcomes.c.received_at <= sa.bindparam("known_at"))
    .order_by(outcomes.c.observed_at.desc(), outcomes.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
PAST = (
    sa.select(decisions.c.decision_idx, decisions.c.decided_at, decisions.c.action, _newest.label("outcome"))
    .where(
        decisions.c.participant_id == sa.bindparam("participant"),
        decisions.c.decision_idx < sa.bindparam("before"),
        decisions.c.received_at <= sa.bindparam("known_at"),
    )
    .order_by(decisions.c.decision_idx)
)
"""A participant's earlier decisions with the outcome of each that counted at a moment."""


def derive_now(
    study: Study,
    connection: sa.Connection,
    participant: str,
    decision_idx: int,
    *,
    decided_at: datetime,
    known_at: datetime,
) -> dict[str, float]:
    """Every derived state of a participant at a decision point, from what had been recorded by `known_at`."""
    if not study.derived_states:
        return {}
    given = {"participant": participant, "before": decision_idx, "known_at": known_at}
    past = connection.execute(PAST, given).all()
    indices = [*(row.decision_idx for row in past), decision_idx]
    moments = [to_microseconds(moment) for moment in (*(row.decided_at for row in past), decided_at)]
    time = count_times(study, order_moments(moments, indices).tolist(), indices)
    action = np.array([*(float(row.action) for row in past), np.nan])
    raw = np.array([*(np.nan if row.outcome is None else row.outcome for row in past), np.nan], dtype=np.float64)
    if study.reward.range is not None:
        raw = np.where((raw < study.reward.range[0]) | (raw > study.reward.range[1]), np.nan, raw)
    earned = transform_reward(raw, study.reward, Problems(str, lambda row: participant))
    derived = derive_states(study.derived_states, np.zeros(len(time), dtype=np.int64), time, action, earned, study.days)
    return {name: float(values[-1]) for name, values in derived.items()}
