"""Which column of a frame plays which role, and what its actions are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import KINDS, Category, Number, VariableKind, YesNo
from surefoot.data.column_roles import take_probability
from surefoot.data.column_summaries import ColumnSummary
from surefoot.data.decision_points import DecisionPoints
from surefoot.data.log_files import LogLayout, LogRows
from surefoot.data.mean_weights import READINGS, require_reading
from surefoot.data.problems import Problems
from surefoot.data.row_identities import AVAILABLE_OR_NOT
from surefoot.errors import InputError, did_you_mean


@dataclass(frozen=True)
class LogRoles:
    """The arguments of `Trajectories.from_frame`, checked."""

    participant: str
    time: str
    action: str
    reward: str
    available: str | None = None
    probability: str | None = None
    probability_of: str | None = None
    state: Sequence[str] | Mapping[str, VariableKind | str] = ()
    actions: int | Sequence[str] = 2

    def __post_init__(self) -> None:
        if isinstance(self.state, str) or not len(self.state):
            raise InputError(f"state must list at least one column, for example state=['{self.state or 's1'}']")
        if self.probability_of not in (None, *READINGS):
            raise InputError(f"probability_of is {self.probability_of!r}; write one of {list(READINGS)}")
        if self.probability_of == "sending" and len(self.action_names) > 2:
            raise InputError(
                "probability_of='sending' says nothing about which of several actions was sent; give the probability of the "
                "action taken"
            )
        for name, kind in self.state.items() if isinstance(self.state, Mapping) else ():
            _check_kind(name, kind)
        repeated = [name for name in self.columns if self.columns.count(name) > 1]
        if repeated:
            raise InputError(f"column '{repeated[0]}' is named twice; every role needs a column of its own")

    @property
    def columns(self) -> list[str]:
        roles = (self.participant, self.time, *self.state, self.action, self.reward, self.available, self.probability)
        return [name for name in roles if name is not None]

    @property
    def action_names(self) -> tuple[str, ...]:
        return name_actions(self.actions)

    @property
    def layout(self) -> LogLayout:
        kinds = self.state.items() if isinstance(self.state, Mapping) else ()
        levels = {name: kind.levels for name, kind in kinds if not isinstance(kind, str)}
        meant = {self.action: self.action_names, **levels}
        also = AVAILABLE_OR_NOT if self.available is None else None
        return LogLayout(self.participant, self.time, tuple(self.columns), meant=meant, also=also)

    def kinds(self, rows: LogRows) -> dict[str, tuple[str, VariableKind]]:
        """The column and the kind of every state variable; without kinds of their own columns are numbers or yes/no."""
        if not isinstance(self.state, Mapping):
            return {name: (name, _guess_kind(rows, name)) for name in self.state}
        return {
            name: (name, KINDS[kind].of_column(rows.column(name, Problems())) if isinstance(kind, str) else kind)
            for name, kind in self.state.items()
        }

    def read_probability(self, points: DecisionPoints, person: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the action taken."""
        logged, action = points.probability, points.action
        if self.probability is None or self.probability_of == "action taken":
            return logged
        if self.probability_of == "sending":
            return take_probability(logged, action, points.available, self.probability, points.problems)
        drawn = np.flatnonzero((points.available == 1) & np.isin(action, range(len(self.action_names))))
        rows = (action[drawn].astype(np.int64), logged[drawn], person[drawn])
        if ((logged[drawn] < 0) | (logged[drawn] > 1)).any():
            return logged  # Whatever it is of, these are reported.
        require_reading(*rows, actions=self.action_names, column=self.probability)
        return logged


def _check_kind(name: str, kind: VariableKind | str) -> None:
    """Refuse what is not a kind of state variable."""
    if isinstance(kind, str) and kind in KINDS:
        return
    if not isinstance(kind, VariableKind):
        near = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
        example = "Category(levels=('other', 'home'))"
        raise InputError(f"state['{name}'] is {kind!r}{near}; write one of {list(KINDS)}, or {example}", column=name)
    try:
        kind.check()
    except ValueError as error:
        raise InputError(f"state['{name}']: {error}", column=name) from error


def _guess_kind(rows: LogRows, name: str) -> VariableKind:
    summary = ColumnSummary.of(name, rows.column(name, Problems()).cells, rows.settings)
    if Category.recognize(summary) and not YesNo.recognize(summary):
        words = ", ".join(map(repr, summary.levels[:2]))
        raise InputError(f"column '{name}' holds text ({words}, …); write state={{'{name}': 'category', …}}", column=name)
    return YesNo.recognize(summary) or Number()


def name_actions(actions: int | Sequence[str]) -> tuple[str, ...]:
    """Names of so many actions, nothing first; names that are given are checked."""
    if isinstance(actions, int):
        others = ["send"] if actions == 2 else [f"send {code}" for code in range(1, actions)]
        names: tuple[str, ...] = ("nothing", *others)
    else:
        names = tuple(actions)
    if isinstance(actions, str) or len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"actions must be a number of at least 2, or at least two different names; got {actions!r}")
    return names
