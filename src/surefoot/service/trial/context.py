"""From the context that a client sends to the state that a policy sees, by the same code that reads log files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.columns import frame_row
from surefoot.study import StateVariable, Study
from surefoot.study.log_reader import state_matrix

if TYPE_CHECKING:
    import pyarrow as pa

Value = float | int | bool | str | None


@dataclass(frozen=True)
class Observation:
    """A context as the study sees it."""

    state: list[float | None]
    """After kinds, ranges and scaling; None where missing."""
    reasons: list[str]
    """What keeps a policy from deciding on it: variables that are missing, implausible or unknown."""


def context_to_state(study: Study, context: Mapping[str, Value]) -> Observation:
    """Read one context; nothing in it is an error here, only a reason."""
    reasons = [f"unknown: {name}" for name in context if name not in study.state]
    readable: dict[str, Value] = {}
    for name, variable in study.state.items():
        value = context.get(name)
        readable[name] = typed(variable, value)
        if value is None:
            reasons.append(f"missing: {name}")
        elif readable[name] is None:
            reasons.append(f"implausible: {name}")

    def plausible(values: NDArray[np.float64], column: str, limits: tuple[float, float] | None) -> NDArray[np.float64]:
        if limits is None or not (values[0] < limits[0] or values[0] > limits[1]):
            return values
        reasons.append(f"implausible: {_variable_of(study, column)}")
        return np.full_like(values, np.nan)

    row = state_matrix(study, arrow_columns(study, [readable]), frame_row, plausible)[0]
    return Observation([None if math.isnan(value) else float(value) for value in row], reasons)


def typed(variable: StateVariable, value: Value) -> Value:
    """The value if it is of the variable's kind, else None: numbers are JSON numbers, categories their levels as text."""
    if variable.kind == "number":
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if variable.kind == "yes/no":
        return float(value) if isinstance(value, int | float) and value in (0, 1) else None
    return value if isinstance(value, str) and value in variable.levels else None


def arrow_columns(study: Study, contexts: list[dict[str, Value]]) -> dict[str, pa.Array]:
    """Contexts of values of the right kinds as columns of a log."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name, variable in study.state.items():
        kind = pa.large_string() if variable.kind == "category" else pa.float64()
        columns[variable.column or name] = pa.array([context[name] for context in contexts], kind)
    return columns


def _variable_of(study: Study, column: str) -> str:
    return next(name for name, variable in study.state.items() if (variable.column or name) == column)
