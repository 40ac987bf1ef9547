"""From the context that a client sends to the state that a policy sees, by the same code that reads log files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surefoot.data.column_kinds import Cell
from surefoot.data.decision_points import read_state
from surefoot.data.log_columns import LogColumn
from surefoot.service.trial.api_errors import ApiError
from surefoot.study import Study
from surefoot.study.log_reader import join_states

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Observation:
    """A context as the study sees it."""

    state: list[float | None]
    """After kinds, ranges and scaling; None where missing."""
    reasons: list[str]
    """What keeps a policy from deciding on it: variables that are missing, implausible or unknown."""


def context_to_state(study: Study, context: Mapping[str, Cell], derived: Mapping[str, float]) -> Observation:
    """Read one context; nothing in it is an error here, only a reason.

    `derived` are the derived states, which the service keeps itself: one that a client sends is unknown.
    """
    reasons = [f"unknown: {name}" for name in context if name not in study.state_kinds]
    readable = read_values(study, context)
    for name in study.state_kinds:
        if context.get(name) in (None, *study.state[name].missing):
            reasons.append(f"missing: {name}")
        elif readable[name] is None:
            reasons.append(f"implausible: {name}")
    columns = {column: LogColumn(column, cells) for column, cells in context_columns(study, [readable]).items()}
    read, outside = read_state(columns, study.state_kinds)
    reasons += [f"implausible: {name}" for name, rows in outside.items() if rows[0]]
    reasons += [f"missing: {name}" for name, value in derived.items() if math.isnan(value)]
    state = join_states(study, read, {name: np.array([value]) for name, value in derived.items()})[0]
    return Observation([None if math.isnan(value) else float(value) for value in state], reasons)


def check_types(study: Study, context: Mapping[str, Cell]) -> None:
    """Refuse text where a number is meant, and the like."""
    for name, (_, kind) in study.state_kinds.items():
        value = context.get(name)
        if value is not None and type(value) not in kind.json_types:
            raise ApiError(422, "wrong_type", f"context.{name} is {kind.json_type}, or null", f"context.{name}")


def read_values(study: Study, context: Mapping[str, Cell]) -> dict[str, float | str | None]:
    """Every state variable's value as a cell of a log; None where it is missing or not of the variable's kind."""
    kinds = study.state_kinds
    given = {name: context.get(name) for name in kinds}
    return {
        name: None if given[name] in study.state[name].missing else kind.from_json(given[name])
        for name, (_, kind) in kinds.items()
    }


def context_columns(study: Study, contexts: list[dict[str, float | str | None]]) -> dict[str, pa.Array]:
    """Contexts of values of the right kinds as columns of a log."""
    import pyarrow as pa

    return {
        column: pa.array([context[name] for context in contexts], kind.arrow_type())
        for name, (column, kind) in study.state_kinds.items()
    }
