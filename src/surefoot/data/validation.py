"""What decision points must satisfy before they become `Trajectories`; what does not is reported with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_roles import ColumnNames
from surefoot.data.problems import Problems

MANY_ROWS = 10
"""More rows than that are no slips of single rows, where they are a large share too."""


def validate_values(problems: Problems, columns: Mapping[str, NDArray[np.float64]]) -> None:
    """States and rewards are finite or missing."""
    for name, values in columns.items():
        _report(
            problems, name, np.isinf(values), values, "{} is not finite", "correct the value or leave it empty (missing)"
        )


def validate_actions(
    problems: Problems,
    names: ColumnNames,
    available: NDArray[np.float64],
    action: NDArray[np.float64],
    probability: NDArray[np.float64],
    declared: tuple[str, ...],
) -> None:
    """Available decision points have a declared action; the others have none; probabilities lie in (0, 1]."""
    remedy = "write 1 (available) or 0 (not available)"
    _report(problems, names.available, np.isnan(available), available, "the availability is missing", remedy)
    _report(problems, names.available, ~np.isin(available, (0.0, 1.0)), available, "availability is {}", remedy)
    free, given = available == 1, ~np.isnan(action)
    what = "the action is missing at an available decision point"
    remedy = "fill it in, or mark the participant as not available"
    _report(problems, names.action, free & ~given, action, what, remedy)
    broken = given & (action != np.floor(action))
    remedy = f"use 0 to {len(declared) - 1}"
    _report(problems, names.action, broken, action, "action {} is not a whole number", remedy)
    undeclared = given & ((action < 0) | (action >= len(declared)))
    remedy = f"declare it with actions=…, which now has {list(declared)}, or correct it"
    _report(problems, names.action, undeclared, action, "action {} was never declared", remedy)
    what = "action {} at a decision point where the participant was not available"
    remedy = "correct the action or the availability"
    _report(problems, names.action, (available == 0) & given & (action != 0), action, what, remedy)
    outside = free & ((probability <= 0) | (probability > 1))
    remedy = "log the probability of the action taken from 0 to 1 (percentages: [file] in the study), or leave it empty"
    _report(problems, names.probability, outside, probability, "probability {} is outside (0, 1]", remedy)


def validate_times(problems: Problems, name: str, participant: NDArray[np.int64], time: NDArray[Any]) -> NDArray[np.int64]:
    """Times are finite and differ within a participant; gives the rows in the order of participant and time."""
    if time.dtype.kind == "f":
        _report(problems, name, ~np.isfinite(time), time, "{} is not a time", "give every decision point a finite time")
    order = np.lexsort((time, participant))
    twice = np.zeros(len(order), dtype=bool)
    twice[order[1:]] = (participant[order[1:]] == participant[order[:-1]]) & (time[order[1:]] == time[order[:-1]])
    remedy = "drop the duplicate or correct its time"
    if twice.sum() > max(MANY_ROWS, len(order) / 4):
        remedy = "name a column that tells a participant's decision points apart (day and slot must be one number or time)"
    _report(problems, name, twice, time, "a second decision point at {}", remedy)
    return order


def _report(problems: Problems, column: str, where: NDArray[np.bool_], values: NDArray[Any], what: str, remedy: str) -> None:
    """Report the rows where it holds; `{}` in `what` is the first row's value."""
    rows = np.flatnonzero(where)
    if rows.size:
        problems.report(column, rows, what.format(_spell(values[rows[0]])), remedy)


def _spell(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value)).removesuffix(".000000")
    return f"{value:g}" if isinstance(value, np.floating) else str(value)
