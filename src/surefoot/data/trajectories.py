"""Trajectories: the one data container. People × decision points, ragged, checked once at the door, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data import columns
from surefoot.data.columns import Place, frame_row
from surefoot.data.frames import arrow_columns, make_frame
from surefoot.errors import InputError

PADDED_TO = 16
"""A participant's decision points are padded to a multiple of this. It depends on the participant alone, so that the
rounding of a fit does not depend on who else is in the block."""
BLOCK_CELLS = 2**17
"""Padded decision points in a block: large enough for NumPy to be worth its calls, small enough for a processor's cache."""


@dataclass(frozen=True)
class ColumnNames:
    """What the columns are called where the data came from, for messages and for `to_frame`."""

    participant: str = "participant"
    time: str = "time"
    action: str = "action"
    reward: str = "reward"
    probability: str = "probability"
    available: str = "available"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trajectories:
    """Decision points of many people, in the order of the table they came from.

    Make one with `from_frame`, `from_csv`, `from_parquet` or `from_arrays`. Missing states and rewards are NaN: they stay
    missing, are left out of fits (`usable`) and are counted.

    >>> import numpy as np
    >>> Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.full((2, 3), np.nan))
    Trajectories(2 people, 6 decision points, state ['s1'], actions ['nothing', 'send'], 6 rewards missing)
    """

    participants: NDArray[Any]
    """Ids of the people, sorted, (people,)."""
    participant_index: NDArray[np.int64]
    """For each row the position of its participant in `users`."""
    time: NDArray[Any]
    state: NDArray[np.float64]
    """(rows, state variables)."""
    available: NDArray[np.bool_]
    action: NDArray[np.int64]
    """0 is "send nothing"."""
    probability: NDArray[np.float64]
    """With which the action taken was drawn; NaN where it was not logged."""
    reward: NDArray[np.float64]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    names: ColumnNames = ColumnNames()
    backend: str = "pyarrow"
    """The library whose frames go out: that of the frame that came in."""
    order: NDArray[np.int64] = None  # type: ignore[assignment]
    """Rows sorted by participant, then time; derived."""
    starts: NDArray[np.int64] = None  # type: ignore[assignment]
    """Where each participant begins in `order`, with the total at the end; derived."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", np.lexsort((self.time, self.participant_index)))
        lengths = np.bincount(self.participant_index, minlength=len(self.participants))
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(lengths)]))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                own = value.copy(order="F")  # A column's values side by side, as they are read.
                own.flags.writeable = False
                object.__setattr__(self, field.name, own)

    def __len__(self) -> int:
        return len(self.participant_index)

    def __repr__(self) -> str:
        missing = int(np.isnan(self.reward).sum())
        return (
            f"Trajectories({len(self.participants)} people, {len(self)} decision points, state {list(self.state_names)}, "
            f"actions {list(self.action_names)}" + (f", {missing} rewards missing)" if missing else ")")
        )

    @property
    def participant(self) -> NDArray[Any]:
        """The participant's id for every row."""
        return self.participants[self.participant_index]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that a fit can use: available, with every state variable and the reward present."""
        return self.available & ~np.isnan(self.reward) & ~np.isnan(self.state).any(axis=1)

    @property
    def actions(self) -> int:
        return len(self.action_names)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        participant: str,
        time: str,
        state: Sequence[str],
        action: str,
        reward: str,
        available: str | None = None,
        probability: str | None = None,
        actions: int | Sequence[str] = 2,
        _place: Place = frame_row,
    ) -> Trajectories:
        """Read a pandas, polars or Arrow table with one row per decision point, in any order.

        `actions` declares what can be sent: how many, or their names, the first of which means "nothing". `probability` is
        that of the action which was taken. Rows where the participant was not available need no action and no probability.
        """
        names = ColumnNames(participant, time, action, reward, probability or "probability", available or "available")
        state = _state_names(state)
        wanted = [name for name in (participant, time, *state, action, reward, available, probability) if name is not None]
        repeated = {name for name in wanted if wanted.count(name) > 1}
        if repeated:
            raise InputError(f"column '{repeated.pop()}' is named twice; every role needs a column of its own")
        table, backend = arrow_columns(frame, wanted)
        participants, participant_index = columns.people(table[participant], participant, _place)
        action_names = _action_names(actions)

        def numbers(name: str | None, otherwise: float = np.nan) -> NDArray[np.float64]:
            return np.full(len(participant_index), otherwise) if name is None else columns.numbers(table[name], name, _place)

        return checked(
            participants=participants,
            participant_index=participant_index,
            time=columns.times(table[time], time, _place),
            state=np.column_stack([numbers(name) for name in state]),
            available=numbers(available, 1.0),
            action=columns.action_codes(table[action], action, _place, action_names),
            probability=numbers(probability),
            reward=numbers(reward),
            state_names=tuple(state),
            action_names=action_names,
            names=names,
            backend=backend,
            place=_place,
        )

    @classmethod
    def from_csv(cls, path: str | Path, **roles: Any) -> Trajectories:
        """Read a comma-separated file; the arguments are those of `from_frame`. Errors name the line of the file."""
        from surefoot.data import log_files

        path = _existing(path)
        data = log_files.read_text(path)
        return cls._from_file(path, log_files.csv_table(path, data, None), log_files.csv_place(path, data), roles)

    @classmethod
    def from_parquet(cls, path: str | Path, **roles: Any) -> Trajectories:
        """Read a Parquet file; the arguments are those of `from_frame`."""
        from surefoot.data import log_files

        path = _existing(path)
        return cls._from_file(path, log_files.parquet_table(path, None), lambda row: f"{path}: {frame_row(row)}", roles)

    @classmethod
    def _from_file(cls, path: Path, table: Any, place: Place, roles: dict[str, Any]) -> Trajectories:
        from surefoot.data.log_files import naming

        with naming(path):
            return cls.from_frame(table, **roles, _place=place)

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        *,
        available: ArrayLike | None = None,
        probability: ArrayLike | None = None,
        time: ArrayLike | None = None,
        participants: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        actions: int | Sequence[str] = 2,
    ) -> Trajectories:
        """From arrays (people, decision points, …), `state` with a third axis; `lengths` cuts ragged people to their own
        number."""
        cube = np.asarray(state, dtype=np.float64)
        if cube.ndim != 3:
            raise InputError(f"state has {cube.ndim} axes; it needs three: (people, decision points, state variables)")
        people, points = cube.shape[:2]
        kept = np.arange(points) < np.broadcast_to(points if lengths is None else np.asarray(lengths), (people,))[:, None]
        ids = np.arange(people) if participants is None else np.asarray(participants)
        distinct, position = np.unique(ids, return_inverse=True)
        if ids.shape != (people,) or len(distinct) != people or ids.dtype.kind not in "iuU":
            raise InputError(
                f"participants must be {people} different ids (whole numbers or text), one per row of state; got {ids!r}"
            )
        if not kept.any():
            raise InputError("the arrays hold no decision point")

        def flat(values: ArrayLike | None, otherwise: float, name: str) -> NDArray[Any]:
            array = np.full((people, points), otherwise) if values is None else np.asarray(values)
            if array.shape != (people, points):
                raise InputError(f"{name} has shape {array.shape}; state asks for {(people, points)}", column=name)
            return array[kept]

        return checked(
            participants=distinct,
            participant_index=np.broadcast_to(position[:, None], kept.shape)[kept].astype(np.int64),
            time=flat(np.broadcast_to(np.arange(points), kept.shape) if time is None else time, 0, "time"),
            state=cube[kept],
            available=flat(available, 1.0, "available").astype(np.float64),
            action=flat(action, np.nan, "action").astype(np.float64),
            probability=flat(probability, np.nan, "probability").astype(np.float64),
            reward=flat(reward, np.nan, "reward").astype(np.float64),
            state_names=tuple(state_names or [f"s{j + 1}" for j in range(cube.shape[2])]),
            action_names=_action_names(actions),
            names=ColumnNames(),
            backend="pyarrow",
            place=frame_row,
        )

    def with_values(
        self, *, state: NDArray[np.float64] | None = None, reward: NDArray[np.float64] | None = None
    ) -> Trajectories:
        """The same decision points with other states or rewards, of the same shape and in the same order."""
        state, reward = self.state if state is None else state, self.reward if reward is None else reward
        for name, old, new in (("state", self.state, state), ("reward", self.reward, reward)):
            if new.shape != old.shape or np.isinf(new).any():
                raise InputError(f"{name} must be finite or missing and of shape {old.shape}", column=name)
        return replace(self, state=state, reward=reward)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per decision point, in the order they came: a frame of the library that the data came from."""
        names = self.names
        data = {names.participant: self.participant, names.time: self.time}
        data |= {name: self.state[:, j] for j, name in enumerate(self.state_names)}
        data |= {names.available: self.available, names.action: self.action}
        data |= {names.probability: self.probability, names.reward: self.reward}
        return make_frame(data, backend or self.backend)

    def blocks(self, cells: int = BLOCK_CELLS) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Blocks of people of about the same length: their positions, and their rows in time order, −1 where padded."""
        lengths = np.diff(self.starts)
        padded = np.maximum(-(-lengths // PADDED_TO), 1) * PADDED_TO
        for length in np.unique(padded):
            people = np.flatnonzero(padded == length)
            size = max(1, cells // int(length))
            for chunk in np.array_split(people, -(-len(people) // size)):
                places = np.arange(length)
                inside = places < lengths[chunk, None]
                rows = self.order[np.where(inside, self.starts[chunk, None] + places, 0)]
                yield chunk, np.where(inside, rows, -1)

    def pooled(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Everybody's rows as one block of one unit."""
        rows = np.full((1, -(-len(self) // PADDED_TO) * PADDED_TO), -1)
        rows[0, : len(self)] = self.order
        yield np.zeros(1, dtype=np.int64), rows


def _existing(path: str | Path) -> Path:
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}")
    return Path(path)


def _state_names(state: Sequence[str]) -> list[str]:
    if isinstance(state, str) or not len(state):
        raise InputError(f"state must list at least one column, for example state=['{state or 's1'}']")
    return list(state)


def _action_names(actions: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(actions, int):
        others = ["send"] if actions == 2 else [f"send {code}" for code in range(1, actions)]
        names: tuple[str, ...] = ("nothing", *others)
    else:
        names = tuple(actions)
    if isinstance(actions, str) or len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"actions must be a number of at least 2, or at least two different names; got {actions!r}")
    return names


def checked(
    *,
    participants: NDArray[Any],
    participant_index: NDArray[np.int64],
    available: NDArray[np.float64],
    action: NDArray[np.float64],
    probability: NDArray[np.float64],
    place: Place,
    **rest: Any,
) -> Trajectories:
    """Refuse what cannot be right, naming the row, the column and the participant; settle what unavailable rows hold."""
    door = _Door(participants, participant_index, place, rest["names"])
    door.check_values(rest["state"], rest["state_names"], rest["reward"])
    door.check_actions(available, action, probability, rest["action_names"])
    door.check_times(rest["time"])
    free = available == 1
    return Trajectories(
        participants=participants,
        participant_index=participant_index,
        available=free,
        action=np.where(free, action, 0).astype(np.int64),
        probability=np.where(free, probability, 1.0),
        **rest,
    )


@dataclass(frozen=True, eq=False)
class _Door:
    """Where rows are looked at before they come in."""

    participants: NDArray[Any]
    participant_index: NDArray[np.int64]
    place: Place
    names: ColumnNames

    def refuse(self, where: NDArray[np.bool_], column: str, values: NDArray[Any], what: str, remedy: str) -> None:
        """An error about the first such row, if there is one; `{}` in `what` is its value."""
        rows = np.flatnonzero(where)
        if not rows.size:
            return
        row, participant = int(rows[0]), self.participants[self.participant_index[rows[0]]].item()
        more = f" (and {rows.size - 1} more rows)" if rows.size > 1 else ""
        value = f"{values[row]:g}" if isinstance(values[row], np.floating) else str(values[row])
        message = f"{self.place(row)}, column '{column}', participant {participant!r}: {what.format(value)}{more}; {remedy}"
        raise InputError(message, row=row, column=column, participant=participant)

    def check_values(self, state: NDArray[np.float64], names: tuple[str, ...], reward: NDArray[np.float64]) -> None:
        remedy = "correct the value or leave it empty (missing)"
        for j, name in enumerate(names):
            self.refuse(np.isinf(state[:, j]), name, state[:, j], "{} is not finite", remedy)
        self.refuse(np.isinf(reward), self.names.reward, reward, "{} is not finite", remedy)

    def check_actions(
        self,
        available: NDArray[np.float64],
        action: NDArray[np.float64],
        probability: NDArray[np.float64],
        declared: tuple[str, ...],
    ) -> None:
        wrong, column = ~np.isin(available, (0.0, 1.0)), self.names.available
        self.refuse(wrong, column, available, "availability is {}", "write 1 (available) or 0 (not available)")
        free, given, column = available == 1, ~np.isnan(action), self.names.action
        what = "the action is missing at an available decision point"
        self.refuse(free & ~given, column, action, what, "fill it in, or mark the participant not available")
        broken = given & (action != np.floor(action))
        self.refuse(broken, column, action, "action {} is not a whole number", f"use 0 to {len(declared) - 1}")
        undeclared = given & ((action < 0) | (action >= len(declared)))
        remedy = f"declare it with actions=…, which now has {list(declared)}, or correct it"
        self.refuse(undeclared, column, action, "action {} was never declared", remedy)
        what = "action {} at a decision point that was not available"
        self.refuse(~free & given & (action != 0), column, action, what, "correct the action or the availability")
        outside, column = free & ((probability <= 0) | (probability > 1)), self.names.probability
        remedy = "log the probability of the action taken, or leave it empty"
        self.refuse(outside, column, probability, "probability {} is outside (0, 1]", remedy)

    def check_times(self, time: NDArray[Any]) -> None:
        column, participant_index = self.names.time, self.participant_index
        if time.dtype.kind == "f":
            self.refuse(~np.isfinite(time), column, time, "{} is not a time", "give every decision point a finite time")
        order = np.lexsort((time, participant_index))
        twice = np.zeros(len(participant_index), dtype=bool)
        twice[order[1:]] = (participant_index[order[1:]] == participant_index[order[:-1]]) & (
            time[order[1:]] == time[order[:-1]]
        )
        self.refuse(twice, column, time, "a second decision point at {}", "drop the duplicate or correct its time")
