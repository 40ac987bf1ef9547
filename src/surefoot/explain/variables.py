"""State variables as people think of them: a category is one variable, whatever columns it became."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import Category, Number, VariableKind, YesNo
from surefoot.data.trajectories import Trajectories

REFERENCE = "(none of these)"
"""What the reference level of a category is called where nobody says its name."""


@dataclass(frozen=True)
class Variable:
    """A state variable and where its columns are in the state."""

    name: str
    kind: VariableKind
    places: tuple[int, ...]

    def take(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its columns of the states, (rows, columns)."""
        return state[:, self.places]


def find_variables(logs: Trajectories, kinds: Mapping[str, VariableKind] | None) -> tuple[Variable, ...]:
    """The variables of a study (`study.variable_kinds`), then those that only the logs know, guessed from their values."""
    place = {name: j for j, name in enumerate(logs.state_names)}
    found = []
    for name, kind in (kinds or {}).items():
        columns = kind.state_columns(name)
        if all(column in place for column in columns):
            found.append(Variable(name, kind, tuple(place.pop(column) for column in columns)))
    groups: dict[str, list[int]] = {}
    for column, j in place.items():
        groups.setdefault(column.partition("=")[0] if "=" in column else column, []).append(j)
    for name, places in groups.items():
        found += _guess_variables(name, places, logs)
    return tuple(sorted(found, key=lambda variable: variable.places))


def _guess_variables(name: str, places: list[int], logs: Trajectories) -> list[Variable]:
    """Columns `name=level` that are 0 or 1, and never 1 together, are one category."""
    values = logs.state[logs.usable][:, places]
    binary = bool(values.size) and bool(np.isin(values, (0, 1)).all())
    levels = tuple(logs.state_names[j].removeprefix(f"{name}=") for j in places)
    if binary and levels != (name,) and values.sum(axis=1).max() <= 1:
        return [Variable(name, Category(levels=(REFERENCE, *levels)), tuple(places))]
    names = [logs.state_names[j] for j in places]
    return [
        Variable(one, YesNo() if np.isin(values[:, column], (0, 1)).all() else Number(), (j,))
        for column, (one, j) in enumerate(zip(names, places, strict=True))
    ]
