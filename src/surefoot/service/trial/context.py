"""From the context that a client sends to the state that a policy sees, by the same code that reads log files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surefoot.data.column_kinds import Cell
from surefoot.data.decision_points import join_values
from surefoot.errors import did_you_mean
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
    return contexts_to_states(study, [context], [derived])[0]


def contexts_to_states(
    study: Study, contexts: Sequence[Mapping[str, Cell]], derived: Sequence[Mapping[str, float]]
) -> list[Observation]:
    """Read several contexts at once, which costs little more than one."""
    if not contexts:
        return []
    kinds = study.state_kinds
    readable = [{name: kind.from_json(context.get(name)) for name, (_, kind) in kinds.items()} for context in contexts]
    read, outside = join_values({name: kinds[name][1].read_cells([cells[name] for cells in readable]) for name in kinds})
    names = derived[0].keys()
    state = join_states(study, read, {name: np.array([cells[name] for cells in derived]) for name in names})
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


def find_warnings(study: Study, context: Mapping[str, Cell]) -> list[str]:
    """What a client should mend in the contexts that it sends: names that the study does not take from it."""
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
