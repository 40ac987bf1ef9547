"""From contexts and records to the states that a policy sees and to the trial's own log, by the code that reads log files.

Where a day begins at a clock time (`day_boundary = "04:00"`), times are those of a wall clock in the trial's time zone.
Elsewhere they count decision points. Either way they increase with `decision_idx`: neither a client's clock that goes back
nor two decision points at the same moment change the order.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.data.column_kinds import Cell
from surefoot.data.derived_states import derive_states
from surefoot.data.log_columns import Problems
from surefoot.data.log_table import LogTable
from surefoot.data.trajectories import join_values
from surefoot.errors import did_you_mean
from surefoot.service.database.clock import EPOCH, to_microseconds
from surefoot.service.database.schema import decisions, outcomes
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import IS_WITHDRAWN
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.log_reader import finish_logs, join_states, measure_logs, transform_outcome

MINUTE = timedelta(minutes=1)
_rank = sa.type_coerce(decisions.c.decided_at, sa.BigInteger) - decisions.c.decision_idx
_latest = sa.func.max(_rank).over(partition_by=decisions.c.participant_id, order_by=decisions.c.decision_idx)
ORDERED = sa.select(decisions.c.id, (_latest + decisions.c.decision_idx).label("ordered_at")).subquery("ordered_decisions")
"""The time of every decision in microseconds since 1970: its own, or a microsecond per index after an earlier decision point
that has a later time."""
PAST = (
    sa.select(decisions.c.decision_idx, decisions.c.decided_at, decisions.c.action, outcomes.c.id, outcomes.c.outcome)
    .select_from(decisions.outerjoin(outcomes, sa.and_(outcomes.c.decision_id == decisions.c.id, ~outcomes.c.late)))
    .where(decisions.c.participant_id == sa.bindparam("participant"), decisions.c.decision_idx < sa.bindparam("before"))
    .order_by(decisions.c.decision_idx, outcomes.c.observed_at, outcomes.c.id)
)
"""A participant's earlier decisions with their outcomes, the newest last. Points come in order: none is added later."""
_recency = sa.func.row_number().over(
    partition_by=outcomes.c.decision_id, order_by=(outcomes.c.observed_at.desc(), outcomes.c.id.desc())
)
_recencyed = sa.select(outcomes, _recency.label("rank")).where(~outcomes.c.late).subquery()
CURRENT = sa.select(_recencyed).where(_recencyed.c.rank == 1).subquery("current_outcomes")
"""For every decision the outcome that counts: the newest that was not late."""
_counted = (CURRENT.c.outcome, CURRENT.c.observed_at, CURRENT.c.id.label("outcome_id"))
_joined = decisions.join(ORDERED, ORDERED.c.id == decisions.c.id).outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
DECISIONS = (
    sa.select(decisions, ORDERED.c.ordered_at, *_counted)
    .select_from(_joined)
    .order_by(decisions.c.participant_id, decisions.c.decision_idx)
)
"""Every decision once, with the outcome that counts."""


@dataclass(frozen=True)
class Observation:
    """A context as the study reads it."""

    state: list[float | None]
    """After kinds, ranges and scaling; None where missing."""
    reasons: list[str]
    """Why no policy may decide on it: variables that are missing, implausible or unknown."""


def contexts_to_states(
    study: Study, contexts: Sequence[Mapping[str, Cell]], derived: Sequence[Mapping[str, float]]
) -> list[Observation]:
    """Read contexts together, which costs little more than one; nothing in them is an error here, only a reason.

    `derived` has the derived states, which the service computes itself: one that a client sends is unknown.
    """
    if not contexts:
        return []
    kinds = study.state_kinds
    readable = [{name: kind.from_json(context.get(name)) for name, (_, kind) in kinds.items()} for context in contexts]
    read, outside = join_values({name: kinds[name][1].read_cells([cells[name] for cells in readable]) for name in kinds})
    state = join_states(study, read, {name: np.array([cells[name] for cells in derived]) for name in derived[0]})
    observations = []
    for position, (context, values, derived_values) in enumerate(zip(contexts, readable, derived, strict=True)):
        reasons = [f"unknown: {name}" for name in context if name not in kinds]
        for name in kinds:
            if context.get(name) is None:
                reasons.append(f"missing: {name}")
            elif values[name] is None:
                reasons.append(f"implausible: {name}")
        reasons += [f"implausible: {name}" for name, rows in outside.items() if rows[position]]
        reasons += [f"missing: {name}" for name, value in derived_values.items() if math.isnan(value)]
        numbers = [None if math.isnan(value) else float(value) for value in state[position]]
        observations.append(Observation(numbers, reasons))
    return observations


def context_to_state(study: Study, context: Mapping[str, Cell], derived: Mapping[str, float]) -> Observation:
    """Read one context."""
    return contexts_to_states(study, [context], [derived])[0]


def find_warnings(study: Study, context: Mapping[str, Cell]) -> list[str]:
    """Names in a context that the study does not take from clients, with the remedy."""
    warnings = []
    for name in sorted(context.keys() - study.state_kinds.keys()):
        if name in study.derived_states:
            problem = "is derived by the service from its own records; do not send it"
        else:
            problem = f"is not a state variable of the study{did_you_mean(name, study.state_kinds)}; it was not used"
        warnings.append(f"context.{name} {problem}")
    return warnings


def check_types(study: Study, context: Mapping[str, Cell]) -> None:
    """Refuse text where a number is meant, and the like."""
    for name, (_, kind) in study.state_kinds.items():
        value = context.get(name)
        if value is not None and type(value) not in kind.json_types:
            raise ApiError(422, "wrong_type", f"context.{name} is {kind.json_type}, or null", f"context.{name}")


def derive_now(
    study: Study,
    connection: sa.Connection,
    participant: str,
    decision_idx: int,
    decided_at: datetime,
    *,
    is_known: Callable[[int], bool] = lambda outcome_id: True,
) -> dict[str, float]:
    """Every derived state of a participant at a decision point; `is_known` leaves out outcomes that came after it."""
    if not study.derived_states:
        return {}
    past: dict[int, tuple[datetime, float, float | None]] = {}
    rows = connection.execute(PAST, {"participant": participant, "before": decision_idx})
    for index, moment, sent, outcome_id, outcome in rows:
        counts = outcome_id is not None and is_known(outcome_id)
        if counts or index not in past:
            past[index] = (moment, float(sent), outcome if counts else None)
    indices = [*past, decision_idx]
    moments = [to_microseconds(moment) for moment in (*(moment for moment, _, _ in past.values()), decided_at)]
    time = count_times(study, order_moments(moments, indices).tolist(), indices)
    action = np.array([*(sent for _, sent, _ in past.values()), np.nan])
    raw = np.array([*(outcome for _, _, outcome in past.values()), None], dtype=np.float64)
    if study.outcome.range is not None:
        raw = np.where((raw < study.outcome.range[0]) | (raw > study.outcome.range[1]), np.nan, raw)
    earned = transform_outcome(raw, study.outcome, Problems(str, lambda row: participant))
    derived = derive_states(study.derived_states, np.zeros(len(time), dtype=np.int64), time, action, earned, study.days)
    return {name: float(values[-1]) for name, values in derived.items()}


def order_moments(moments: Sequence[int], indices: Sequence[int]) -> NDArray[np.int64]:
    """`ORDERED` for the decision points of one participant, in order.

    >>> order_moments([1000, 400, 2000], [0, 1, 5])
    array([1000, 1001, 2000])
    """
    index = np.array(indices, dtype=np.int64)
    return np.asarray(np.maximum.accumulate(np.array(moments, dtype=np.int64) - index) + index)


def count_times(study: Study, ordered: Sequence[int], indices: Sequence[int]) -> NDArray[Any]:
    """Times of ordered moments: of a wall clock, or the decision points' own numbers."""
    if not study.has_clock_days:
        return np.array(indices, dtype=np.int64)
    zone = (study.trial or TrialSection()).zone
    times = [_read_wall_clock(int(moment), index, zone) for moment, index in zip(ordered, indices, strict=True)]
    return np.array(times, dtype="datetime64[us]")


def _read_wall_clock(moment: int, index: int, zone: ZoneInfo) -> datetime:
    """The time that a wall clock shows; in the hour that comes twice in autumn it stands still the second time.

    >>> str(_read_wall_clock(1774773000000000, 3, ZoneInfo("Europe/Zurich")))
    '2026-03-29 10:30:00'
    >>> str(_read_wall_clock(1792892400000000, 3, ZoneInfo("Europe/Zurich")))
    '2026-10-25 02:59:59.000003'
    """
    local = (EPOCH + timedelta(microseconds=moment)).astimezone(zone)
    if local.fold:
        set_back = local.astimezone(UTC).replace(second=0, microsecond=0)
        while (set_back - MINUTE).astimezone(zone).fold:
            set_back -= MINUTE
        # The index keeps decision points in this hour apart and in order.
        local = (set_back - timedelta(seconds=1)).astimezone(zone) + timedelta(microseconds=index % 1_000_000)
    return local.replace(tzinfo=None)


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
    columns = {
        roles.participant: pa.array([row["participant_id"] for row in rows], pa.string()),
        roles.time: pa.array(times),
        str(roles.available): pa.array([row["available"] for row in rows], pa.bool_()),
        str(roles.probability): pa.array([row["probability"] for row in rows], pa.float64()),
        study.actions.column: pa.array(actions, pa.int64() if texts is None else pa.string()),
        study.outcome.column: pa.array([row["outcome"] for row in rows], pa.float64()),
    }
    contexts = [json.loads(row["context"]) for row in rows]
    for name, (column, kind) in study.state_kinds.items():
        # Null where a value is missing or not of the variable's kind.
        values = [context.get(name) for context in contexts]
        cells = [None if value in study.state[name].missing else kind.from_json(value) for value in values]
        # The type does not depend on the cells: an export writes one piece after the other.
        columns[column] = pa.array(cells, pa.large_string() if str in kind.json_types else pa.float64())
    return columns


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
