"""Rows of a log as arrays: the one reader behind `Trajectories.from_frame`, study files and the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import StateValues, VariableKind
from surefoot.data.column_roles import read_actions, read_times
from surefoot.data.log_columns import LogColumn
from surefoot.data.log_files import LogRows
from surefoot.data.problems import Problems


@dataclass(frozen=True, eq=False)
class DecisionPoints:
    """The columns of a log as arrays, each cell read but nothing compared with anything yet."""

    time: NDArray[Any]
    state: NDArray[np.float64]
    available: NDArray[np.float64]
    action: NDArray[np.float64]
    probability: NDArray[np.float64]
    """As logged; NaN where the log holds none."""
    reward: NDArray[np.float64]
    implausible: dict[str, NDArray[np.bool_]]
    """For every state variable with a plausible range the rows outside it, by the name of the variable."""
    problems: Problems


def read_decision_points(
    rows: LogRows,
    *,
    time: str,
    state: Mapping[str, tuple[str, VariableKind]],
    action: str,
    reward: str,
    available: str | None,
    probability: str | None,
    actions: Sequence[str],
    action_values: Sequence[str] | None = None,
) -> DecisionPoints:
    """Read every column by its role; `state` gives the column and the kind of every state variable."""
    participants, index = rows.participants, rows.participant_index  # The problems do not keep the table.
    problems = Problems(rows.place, lambda row: participants[index[row]].item())
    columns = {name: rows.column(name, problems) for name in rows.table.column_names}
    matrix, implausible = read_state(columns, state)
    return DecisionPoints(
        state=matrix,
        available=np.ones(len(rows)) if available is None else columns[available].yes_no(),
        action=read_actions(columns[action], actions, action_values),
        probability=np.full(len(rows), np.nan) if probability is None else columns[probability].numbers(),
        reward=columns[reward].numbers(),
        # Last: without times no more can be checked, and everything found so far is raised.
        time=read_times(columns[time]),
        implausible=implausible,
        problems=problems,
    )


def read_state(
    columns: Mapping[str, LogColumn], state: Mapping[str, tuple[str, VariableKind]]
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
    """(rows, state columns) and, for every variable with a plausible range, the rows that lay outside it."""
    return join_values({name: kind.read(columns[column]) for name, (column, kind) in state.items()})


def join_values(read: Mapping[str, StateValues]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
    """What `read_state` gives, from every variable's values."""
    outside = {name: one.implausible for name, one in read.items() if one.implausible is not None}
    return np.concatenate([one.values for one in read.values()], axis=1), outside
