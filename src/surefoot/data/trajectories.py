"""Trajectories: the one data container. People × decision points, ragged, validated once, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.column_kinds import VariableKind
from surefoot.data.column_roles import ColumnNames
from surefoot.data.decision_points import read_decision_points
from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.frames import arrow_table, make_frame
from surefoot.data.log_files import LogFile, LogRows, list_files, name_file
from surefoot.data.log_roles import LogRoles, name_actions
from surefoot.data.problems import Problems
from surefoot.data.row_identities import find_unnamed_availability, warn_of_doubts
from surefoot.data.validation import validate_actions, validate_times, validate_values
from surefoot.errors import InputError

PADDED_TO = 16
"""A participant's decision points are padded to a multiple of this. It depends on the participant alone, so that the
rounding of a fit does not depend on who else is in the block."""
BLOCK_CELLS = 2**17
"""Padded decision points in a block: large enough for NumPy to be worth its calls, small enough for a processor's cache."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trajectories:
    """Decision points of many people, in the order of the table they came from.

    Make one with `from_frame`, `from_csv`, `from_parquet` or `from_arrays`. Missing states and rewards are NaN: they stay
    missing, are left out of fits (`usable`) and are counted.

    Attributes
    ----------
    participants
        Ids of the people, sorted, (people,).
    participant_index
        For each row the position of its participant in `participants`.
    time
        When, (rows,): a number or a moment.
    state
        (rows, state variables).
    available
        Whether the participant could be treated, (rows,).
    action
        0 is "send nothing".
    probability
        With which the action taken was drawn; NaN where it was not logged.
    reward
        What is optimised, (rows,); NaN where it is missing.
    state_names
        One name for every state variable.
    action_names
        One name for every action, nothing first.
    names
        What the columns are called in the frames that come in and go out.
    backend
        The library whose frames go out: that of the frame that came in.
    order
        Rows sorted by participant, then time; derived.
    starts
        Where each participant begins in `order`, with the total at the end; derived.
    sorted_rows
        `order`, where it is known already.

    Examples
    --------
    >>> import numpy as np
    >>> Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.full((2, 3), np.nan))
    Trajectories(2 people, 6 decision points, state ['s1'], actions ['nothing', 'send'], 6 rewards missing)
    """

    participants: NDArray[Any]
    participant_index: NDArray[np.int64]
    time: NDArray[Any]
    state: NDArray[np.float64]
    available: NDArray[np.bool_]
    action: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    names: ColumnNames = field(default_factory=ColumnNames)
    backend: str = "pyarrow"
    order: NDArray[np.int64] = field(init=False)
    starts: NDArray[np.int64] = field(init=False)
    sorted_rows: InitVar[NDArray[np.int64] | None] = None

    def __post_init__(self, sorted_rows: NDArray[np.int64] | None) -> None:
        order = np.lexsort((self.time, self.participant_index)) if sorted_rows is None else sorted_rows
        object.__setattr__(self, "order", order)
        lengths = np.bincount(self.participant_index, minlength=len(self.participants))
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(lengths)]))
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, _freeze(value))

    def __len__(self) -> int:
        return len(self.participant_index)

    def __getitem__(self, rows: Any) -> Trajectories:
        """Some decision points, and the people who have them: places of rows, a mask or a slice.

        >>> import surefoot as sf
        >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=4, seed=0)
        >>> logs[logs.participant < 2]
        Trajectories(2 people, 8 decision points, state ['position'], actions ['left', 'right'])
        """
        # scikit-learn's folds come as array[rows, ...].
        rows = rows[0] if isinstance(rows, tuple) and rows[1:] == (Ellipsis,) else rows
        try:
            chosen = np.arange(len(self))[rows]
        except (IndexError, TypeError, ValueError) as error:
            raise InputError(f"rows of these {len(self)} decision points cannot be chosen: {error}") from None
        if chosen.ndim != 1:
            raise InputError(f"rows have shape {np.shape(rows)}; give a list of rows, a mask or a slice")
        kept, index = np.unique(self.participant_index[chosen], return_inverse=True)
        columns = ("time", "state", "available", "action", "probability", "reward")
        some = {name: getattr(self, name)[chosen] for name in columns}
        return replace(self, participants=self.participants[kept], participant_index=index, **some)

    def __iter__(self) -> Iterator[Any]:
        raise InputError("Trajectories are not a list of rows; take a frame (logs.to_frame()), or some rows (logs[rows])")

    @property
    def shape(self) -> tuple[int, int]:
        """(decision points, state variables)."""
        return len(self), len(self.state_names)

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

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that a fit can use: available, with every state variable and the reward present."""
        found: NDArray[np.bool_] = self.available & ~np.isnan(self.reward)
        for values in self.state.T:
            found &= ~np.isnan(values)
        found.flags.writeable = False
        return found

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
        state: Sequence[str] | Mapping[str, VariableKind | str],
        action: str,
        reward: str,
        available: str | None = None,
        probability: str | None = None,
        probability_of: str | None = None,
        actions: int | Sequence[str] = 2,
    ) -> Trajectories:
        """Read a pandas, polars or Arrow table with one row per decision point, in any order.

        Parameters
        ----------
        frame : pandas, polars or Arrow table
        participant, time, action, reward, available, probability : str
            The columns with these roles. Rows where the participant was not available need no action and no probability.
        probability_of : str
            What `probability` is of: `"action taken"`, or `"sending"` whether or not something was sent. It has no default,
            because a wrong one makes estimates wrong without a sign of it, and may be left out only where both are the
            same: where the probability is 0.5.
        state : list of str, or dict of kinds
            The columns of the state: a list for numbers and yes/no; for others their kinds, by name
            (`{"place": "category"}`, with the levels that occur) or with settings
            (`{"place": Category(levels=("other", "home"))}`, see `surefoot.data.column_kinds`).
        actions : int or list of str
            What can be sent: how many, or their names, the first of which means "nothing".
        """
        roles = LogRoles(
            participant=participant,
            time=time,
            action=action,
            reward=reward,
            available=available,
            probability=probability,
            probability_of=probability_of,
            state=state,
            actions=actions,
        )
        table, backend = arrow_table(frame, roles.columns, roles.layout.also)
        return cls._from_rows(LogRows.of(roles.layout.settle_missing(table), participant), roles, backend)

    @classmethod
    def from_csv(cls, path: str | Path, **roles: Any) -> Trajectories:
        """Read a file with separated columns; the arguments are those of `from_file`."""
        return cls.from_file(path, **roles)

    @classmethod
    def from_parquet(cls, path: str | Path, **roles: Any) -> Trajectories:
        """Read a Parquet file; the arguments are those of `from_file`."""
        return cls.from_file(path, **roles)

    @classmethod
    def from_file(cls, path: str | Path, *, file: FileSettings = PLAIN, **arguments: Any) -> Trajectories:
        """Read one file (.csv, .tsv, .parquet, .xlsx; text may be packed as .gz); errors name its lines.

        `file` says how it writes numbers and times; the other arguments are those of `from_frame`.
        """
        roles = LogRoles(**arguments)
        (found,) = list_files(path)
        rows = LogFile(found).rows(replace(roles.layout, settings=file))
        with name_file(path):
            return cls._from_rows(rows, roles, "pyarrow")

    @classmethod
    def _from_rows(cls, rows: LogRows, roles: LogRoles, backend: str) -> Trajectories:
        kinds = roles.kinds(rows)
        points = read_decision_points(
            rows,
            time=roles.time,
            state=kinds,
            action=roles.action,
            reward=roles.reward,
            available=roles.available,
            probability=roles.probability,
            actions=roles.action_names,
        )
        logs = cls.validated(
            participants=rows.participants,
            participant_index=rows.participant_index,
            time=points.time,
            state=points.state,
            available=points.available,
            action=points.action,
            probability=roles.read_probability(points, rows.participant_index),
            reward=points.reward,
            state_names=tuple(name for variable, (_, kind) in kinds.items() for name in kind.state_columns(variable)),
            action_names=roles.action_names,
            names=ColumnNames(
                *(roles.participant, roles.time, roles.action, roles.reward),
                *(roles.probability or "probability", roles.available or "available"),
                roles.probability_of or "action taken",
                find_unnamed_availability(rows.table, roles.columns, points.action),
            ),
            backend=backend,
            problems=points.problems,
        )
        warn_of_doubts(logs.participants, len(logs), logs.names)
        return logs

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
        number. `probability` is that of the action taken."""
        cube = np.asarray(state, dtype=np.float64)
        if cube.ndim != 3:
            raise InputError(f"state has {cube.ndim} axes; it needs three: (people, decision points, state variables)")
        people, points = cube.shape[:2]
        kept = np.arange(points) < np.broadcast_to(points if lengths is None else np.asarray(lengths), (people,))[:, None]
        distinct, position = _sort_ids(np.arange(people) if participants is None else np.asarray(participants), people)
        if not kept.any():
            raise InputError("the arrays hold no decision point")

        def flat(values: ArrayLike | None, otherwise: float, name: str) -> NDArray[Any]:
            array = np.full((people, points), otherwise) if values is None else np.asarray(values)
            if array.shape != (people, points):
                raise InputError(f"{name} has shape {array.shape}; state asks for {(people, points)}", column=name)
            return array[kept]

        return cls.validated(
            participants=distinct,
            participant_index=np.broadcast_to(position[:, None], kept.shape)[kept].astype(np.int64),
            time=flat(np.broadcast_to(np.arange(points), kept.shape) if time is None else time, 0, "time"),
            state=cube[kept],
            available=flat(available, 1.0, "available").astype(np.float64),
            action=flat(action, np.nan, "action").astype(np.float64),
            probability=flat(probability, np.nan, "probability").astype(np.float64),
            reward=flat(reward, np.nan, "reward").astype(np.float64),
            state_names=tuple(state_names or [f"s{j + 1}" for j in range(cube.shape[2])]),
            action_names=name_actions(actions),
        )

    @classmethod
    def validated(
        cls,
        *,
        available: NDArray[np.float64],
        action: NDArray[np.float64],
        probability: NDArray[np.float64],
        problems: Problems | None = None,
        **rest: Any,
    ) -> Trajectories:
        """Refuse what cannot be right, naming row, column and participant; settle what unavailable rows hold."""
        participants, index, names = rest["participants"], rest["participant_index"], rest.setdefault("names", ColumnNames())
        problems = problems or Problems(participant=lambda row: participants[index[row]].item())
        columns = dict(zip(rest["state_names"], rest["state"].T, strict=True)) | {names.reward: rest["reward"]}
        validate_values(problems, columns)
        validate_actions(problems, names, available, action, probability, rest["action_names"])
        order = validate_times(problems, names.time, index, rest["time"])
        problems.raise_any()
        free = available == 1
        return cls(
            available=free,
            action=np.where(free, action, 0).astype(np.int64),
            probability=np.where(free, probability, 1.0),
            sorted_rows=order,
            **rest,
        )

    def with_values(
        self, *, state: NDArray[np.float64] | None = None, reward: NDArray[np.float64] | None = None
    ) -> Trajectories:
        """The same decision points with other states or rewards, of the same shape and in the same order."""
        state, reward = self.state if state is None else state, self.reward if reward is None else reward
        for name, old, new in (("state", self.state, state), ("reward", self.reward, reward)):
            if new.shape != old.shape or np.isinf(new).any():
                raise InputError(f"{name} must be finite or missing and of shape {old.shape}", column=name)
        return replace(self, state=state, reward=reward, sorted_rows=self.order)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per decision point, in the order they came: a frame of the library that the data came from."""
        names = self.names
        data = {names.participant: self.participant, names.time: self.time}
        data |= {name: self.state[:, j] for j, name in enumerate(self.state_names)}
        data |= {names.available: self.available, names.action: self.action}
        sending = names.probability_of == "sending"
        probability = np.where(self.action == 0, 1 - self.probability, self.probability) if sending else self.probability
        data |= {names.probability: probability, names.reward: self.reward}
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

    def one_block(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Everybody's rows as one block of one unit."""
        rows = np.full((1, -(-len(self) // PADDED_TO) * PADDED_TO), -1)
        rows[0, : len(self)] = self.order
        yield np.zeros(1, dtype=np.int64), rows


def _freeze(values: NDArray[Any]) -> NDArray[Any]:
    """Values that nobody can change, a column's side by side, as they are read; those of other trajectories as they are."""
    if values.flags.owndata and values.flags.f_contiguous and not values.flags.writeable:
        return values
    own = values.copy(order="F")
    own.flags.writeable = False
    return own


def _sort_ids(ids: NDArray[Any], people: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The ids in order, and where each of those given stands among them."""
    distinct, position = np.unique(ids, return_inverse=True)
    if ids.shape != (people,) or len(distinct) != people or ids.dtype.kind not in "iuU":
        raise InputError(
            f"participants must be {people} different ids (whole numbers or text), one per row of state; got {ids!r}"
        )
    return distinct, position
