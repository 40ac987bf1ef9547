"""The trial's own log: decisions with the outcomes that count, as the study describes logs."""

import json
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.data.log_table import LogTable
from surefoot.service.database.schema import decisions
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.participants import IS_WITHDRAWN
from surefoot.service.trial.states import ORDERED, context_columns, count_times
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import finish_logs, measure_logs

_counted = (CURRENT.c.proximal_outcome, CURRENT.c.observed_at, CURRENT.c.id.label("outcome_id"))
_joined = decisions.join(ORDERED, ORDERED.c.id == decisions.c.id).outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
DECISIONS = (
    sa.select(decisions, ORDERED.c.ordered_at, *_counted)
    .select_from(_joined)
    .order_by(decisions.c.participant_id, decisions.c.decision_idx)
)
"""Every decision once, with the outcome that counts."""


def read_rows(connection: sa.Connection, *, since: datetime | None = None, without_withdrawn: bool = False) -> list[Any]:
    """Decisions whose content is there, or those since a moment, by participant and decision index."""
    wanted = DECISIONS.where(decisions.c.salt.is_not(None))
    if since is not None:
        wanted = wanted.where(decisions.c.decided_at >= since)
    if without_withdrawn:
        wanted = wanted.where(~IS_WITHDRAWN)
    return list(connection.execute(wanted).mappings())


def make_columns(study: Study, rows: list[Any]) -> dict[str, pa.Array]:
    """The columns that the study names."""
    roles = study.columns
    texts = study.actions.texts
    actions = [row["action"] if texts is None else texts[row["action"]] for row in rows]
    times = count_times(study, [row["ordered_at"] for row in rows], [row["decision_idx"] for row in rows])
    return {
        roles.participant: pa.array([row["participant_id"] for row in rows], pa.string()),
        roles.time: pa.array(times),
        str(roles.available): pa.array([row["available"] for row in rows], pa.bool_()),
        str(roles.probability): pa.array([row["probability"] for row in rows], pa.float64()),
        study.actions.column: pa.array(actions, pa.int64() if texts is None else pa.string()),
        study.reward.column: pa.array([row["proximal_outcome"] for row in rows], pa.float64()),
        **context_columns(study, [json.loads(row["context"]) for row in rows]),
    }


def measure_rows(study: Study, rows: list[Any]) -> StudyLogs:
    """The log as an update takes it; `row` counts the given rows."""
    table = LogTable.of(pa.table(make_columns(study, rows)), study.columns.participant)
    return measure_logs(study, table, _read_derived(study, rows))


def make_study_logs(study: Study, rows: list[Any]) -> StudyLogs:
    """The log as the study describes it, not screened unless it says so."""
    return finish_logs(study, measure_rows(study, rows))


def _read_derived(study: Study, rows: list[Any]) -> dict[str, NDArray[np.float64]] | None:
    """Derived states as they were when it was decided, which later outcomes do not change; None without any."""
    if not study.derived_states:
        return None
    names = study.state_names
    states = np.full((len(rows), len(names)), np.nan)
    for position, row in enumerate(rows):
        state = json.loads(row["state"])
        if len(state) == len(names):  # one recorded under an earlier study may be shorter
            states[position] = np.array(state, dtype=np.float64)
    kinds = {name: study.state[name].variable_kind for name in study.derived_states}
    return {name: states[:, names.index(name)] * kind.scale + kind.centre for name, kind in kinds.items()}
