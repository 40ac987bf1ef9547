"""Trajectories: people × decision points, ragged, validated once, never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.column_kinds import KINDS, Category, ColumnSummary, Number, StateValues, VariableKind, YesNo
from surefoot.data.frames import arrow_table, find_positions, make_frame
from surefoot.data.log_columns import PLAIN, FileSettings, LogColumn, Problems
from surefoot.data.log_table import ColumnNames, LogFile, LogLayout, LogTable, list_files, name_file
from surefoot.data.mean_weights import LEAST_PROBABILITY, READINGS, SURE, MeanWeights, require_reading, spread_probabilities
from surefoot.data.suspect_columns import AVAILABLE_OR_NOT, find_unnamed_availability, warn_of_doubts
from surefoot.errors import InputError, did_you_mean
from surefoot.reports.numbers import format_number, format_percent
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import Overview, Shown

PADDED_TO = 16
"""A participant's decision points are padded to a multiple of this. It depends on the participant alone, so that the
rounding of a fit does not depend on who else is in the block."""
BLOCK_CELLS = 2**17
"""Padded decision points in a block: large enough for NumPy to be worth its calls, small enough for a processor's cache."""
MANY_ROWS = 10
"""More rows than that, if they are a large share too, are not slips of single rows."""
SHOWN_POINTS = 3
COLUMNS = ("time", "state", "available", "action", "probability", "outcome")
"""What every decision point has."""
Blocks = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trajectories(Shown):
    """Decision points of many people, in the order of the table they came from.

    Make one with `from_frame`, `from_file` or `from_arrays`. Missing states and outcomes are NaN: they stay missing, are
    left out of fits (`usable`) and are counted.

    Examples
    --------
    >>> import numpy as np
    >>> Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.full((2, 3), np.nan))
    Trajectories: 2 people, 6 decision points
    state    s1
    actions  nothing 0 %, send 100 % of 6 available decision points
    outcome  outcome: mean –, 6 missing
    <BLANKLINE>
    Next: .head()                       the first rows; .to_frame() gives all of them
          .describe()                   numbers about every column
          logs[logs.participant == ID]  some decision points: a mask, rows or a slice
          sf.screening.screen(logs)     values that cannot be trusted
          sf.method("hb-ts").fit(logs)  learn a policy for every participant
    """

    machinery = Shown.machinery | {
        *("blocks", "check_probabilities", "find_weight_problem", "from_arrays", "from_file", "from_frame", "mean_weights"),
        *("one_block", "order", "pad_rows", "participant_index", "position", "sorted_rows", "starts", "validated"),
    }

    participants: NDArray[Any]
    """Ids of the people, sorted, (people,)."""
    participant_index: NDArray[np.int64]
    """For each row the position of its participant in `participants`."""
    time: NDArray[Any]
    """When, (rows,): a number or a moment."""
    state: NDArray[np.float64]
    """(rows, state variables)."""
    available: NDArray[np.bool_]
    """Whether the participant could be treated, (rows,)."""
    action: NDArray[np.int64]
    """0 is "send nothing"."""
    probability: NDArray[np.float64]
    """With which the action taken was drawn; NaN where it was not logged."""
    outcome: NDArray[np.float64]
    """What is optimised, (rows,); NaN where it is missing."""
    state_names: tuple[str, ...]
    """One name for every state variable."""
    action_names: tuple[str, ...]
    """One name for every action, nothing first."""
    names: ColumnNames = field(default_factory=ColumnNames)
    """What the columns are called in the frames that come in and go out."""
    backend: str | None = None
    """The library whose frames go out: that of the frame that came in; None: pandas where it is installed, else pyarrow."""
    order: NDArray[np.int64] = field(init=False)
    """Rows sorted by participant, then time; derived."""
    starts: NDArray[np.int64] = field(init=False)
    """Where each participant begins in `order`, with the total at the end; derived."""
    sorted_rows: InitVar[NDArray[np.int64] | None] = None
    """`order`, if it is known already."""

    def __post_init__(self, sorted_rows: NDArray[np.int64] | None) -> None:
        order = np.lexsort((self.time, self.participant_index)) if sorted_rows is None else sorted_rows
        lengths = np.bincount(self.participant_index, minlength=len(self.participants))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(lengths)]))
        for column in fields(self):
            values = getattr(self, column.name)
            if isinstance(values, np.ndarray):
                # A copy that nobody can change, column after column; values of other trajectories stay as they are.
                if not (values.flags.owndata and values.flags.f_contiguous and not values.flags.writeable):
                    values = values.copy(order="F")
                    values.flags.writeable = False
                object.__setattr__(self, column.name, values)

    def __len__(self) -> int:
        return len(self.participant_index)

    def __getitem__(self, rows: Any) -> Trajectories:
        """Some decision points, and the people who have them: positions of rows, a mask or a slice.

        >>> import surefoot as sf
        >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=4, seed=0)
        >>> len(logs[logs.participant < 2])
        8
        """
        # scikit-learn's folds come as array[rows, ...].
        rows = rows[0] if isinstance(rows, tuple) and rows[1:] == (Ellipsis,) else rows
        try:
            chosen = np.arange(len(self))[rows]
        except (IndexError, TypeError, ValueError) as error:
            raise InputError(f"rows of these {len(self)} decision points cannot be chosen: {error}") from None
        if chosen.ndim != 1:
            raise InputError(f"rows have shape {np.shape(rows)}; give a list of rows, a mask or a slice")
        people, index = np.unique(self.participant_index[chosen], return_inverse=True)
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, participants=self.participants[people], participant_index=index, **columns)

    def select(self, *, participants: ArrayLike) -> Trajectories:
        """The decision points of some participants, by their ids.

        >>> import surefoot as sf
        >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=4, seed=0)
        >>> logs.select(participants=[0, 2]).participants
        array([0, 2])
        """
        return self[np.isin(self.participant_index, find_positions(self.participants, participants))]

    def __iter__(self) -> Iterator[Any]:
        raise InputError("Trajectories are not a list of rows; take a frame (logs.to_frame()), or some rows (logs[rows])")

    @property
    def shape(self) -> tuple[int, int]:
        """(decision points, state variables)."""
        return len(self), len(self.state_names)

    def _overview(self) -> Overview:
        free = self.action[self.available]
        shares = np.bincount(free, minlength=self.actions) / max(len(free), 1)
        actions = [f"{name} {format_percent(share, 0)}" for name, share in zip(self.action_names, shares, strict=True)]
        known = self.outcome[~np.isnan(self.outcome)]
        mean = format_number(float(known.mean())) if known.size else "–"
        facts = {
            "state": ", ".join(self.state_names),
            "actions": f"{', '.join(actions)} of {len(free):,} available decision points",
            "outcome": f"{self.names.outcome}: mean {mean}, {len(self) - known.size:,} missing",
        }
        return Overview(f"Trajectories: {len(self.participants):,} people, {len(self):,} decision points", facts)

    def head(self, rows: int = 5) -> Any:
        """The first decision points as a frame."""
        return self[:rows].to_frame()

    def describe(self) -> Any:
        """Numbers about every state variable and the outcome, at available decision points: a frame with a row for each."""
        values = np.column_stack([self.state, self.outcome])[self.available]
        present = [column[~np.isnan(column)] for column in values.T]
        data: dict[str, Any] = {
            "variable": [*self.state_names, self.names.outcome],
            "present": [len(column) for column in present],
            "missing": [len(values) - len(column) for column in present],
            "sd": [float(column.std(ddof=1)) if column.size > 1 else np.nan for column in present],
        }
        for name in ("mean", "min", "median", "max"):
            data[name] = [float(getattr(np, name)(column)) if column.size else np.nan for column in present]
        return make_frame(data, self.backend)

    @property
    def participant(self) -> NDArray[Any]:
        """The participant's id for every row."""
        return self.participants[self.participant_index]

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that a fit can use: available, with every state variable and the outcome present."""
        usable: NDArray[np.bool_] = self.available & ~np.isnan(self.outcome)
        for values in self.state.T:
            usable &= ~np.isnan(values)
        usable.flags.writeable = False
        return usable

    @cached_property
    def position(self) -> NDArray[np.int64]:
        """The number of every row among its participant's decision points, from 0."""
        position = np.empty(len(self), dtype=np.int64)
        position[self.order] = np.arange(len(self)) - self.starts[self.participant_index[self.order]]
        return position

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
        outcome: str,
        available: str | None = None,
        probability: str | None = None,
        probability_of: str | None = None,
        actions: int | Sequence[str] = 2,
    ) -> Trajectories:
        """Read a pandas, polars or Arrow table with one row per decision point, in any order.

        Parameters
        ----------
        frame : pandas, polars or Arrow table
        participant, time, action, outcome, available, probability : str
            The columns with these roles. Rows where the participant was not available need no action and no probability.
        probability_of : str
            What `probability` is of: `"action taken"`, or `"sending"` whether or not something was sent. It has no default,
            because a wrong one makes estimates wrong without a sign of it, and may be left out only if both are the
            same: if the probability is 0.5.
        state : list of str, or dict of kinds
            The columns of the state: a list for numbers and yes/no; for others their kinds, by name
            (`{"place": "category"}`, with the levels that occur) or with settings
            (`{"place": Category(levels=("other", "home"))}`, see `surefoot.data.column_kinds`).
        actions : int or list of str
            What can be sent: how many, or their names, the first of which means "nothing".
        """

        def read(layout: LogLayout) -> tuple[LogTable, str | None]:
            table, backend = arrow_table(frame, list(layout.columns), layout.also)
            return LogTable.of(layout.settle_missing(table), participant), backend

        return _read_roles(read, participant, time, state, action, outcome, available, probability, probability_of, actions)

    @classmethod
    @spell_out_keywords(from_frame.__func__, without=("cls", "frame"))  # type: ignore[attr-defined]
    def from_file(cls, path: str | Path, *, file: FileSettings = PLAIN, **roles: Any) -> Trajectories:
        """Read one file (.csv, .tsv, .parquet, .xlsx; text may be packed as .gz); errors name its lines.

        `file` says how it writes numbers and times; the other arguments are those of `from_frame`.
        """

        def read(layout: LogLayout) -> tuple[LogTable, str | None]:
            return LogFile(location).read(replace(layout, settings=file)), None

        with name_file(path):
            (location,) = list_files(path)
            return _read_roles(read, **roles)

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        outcome: ArrayLike,
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
        inside = np.arange(points) < np.broadcast_to(points if lengths is None else np.asarray(lengths), (people,))[:, None]
        ids = np.arange(people) if participants is None else np.asarray(participants)
        distinct, position = np.unique(ids, return_inverse=True)
        if ids.shape != (people,) or len(distinct) != people or ids.dtype.kind not in "iuU":
            raise InputError(
                f"participants must be {people} different ids (whole numbers or text), one per row of state; got {ids!r}"
            )
        if not inside.any():
            raise InputError("the arrays hold no decision point")

        def flatten(values: ArrayLike | None, default: float, name: str) -> NDArray[Any]:
            array = np.full((people, points), default) if values is None else np.asarray(values)
            if array.shape != (people, points):
                raise InputError(f"{name} has shape {array.shape}; state asks for {(people, points)}", column=name)
            return array[inside]

        return cls.validated(
            participants=distinct,
            participant_index=np.broadcast_to(position[:, None], inside.shape)[inside].astype(np.int64),
            time=flatten(np.broadcast_to(np.arange(points), inside.shape) if time is None else time, 0, "time"),
            state=cube[inside],
            available=flatten(available, 1.0, "available").astype(np.float64),
            action=flatten(action, np.nan, "action").astype(np.float64),
            probability=flatten(probability, np.nan, "probability").astype(np.float64),
            outcome=flatten(outcome, np.nan, "outcome").astype(np.float64),
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
        **others: Any,
    ) -> Trajectories:
        """Refuse what cannot be right, naming row, column and participant; settle the actions of unavailable rows."""
        participants = others["participants"]
        index = others["participant_index"]
        time = others["time"]
        declared = others["action_names"]
        names = others.setdefault("names", ColumnNames())
        problems = problems or Problems(participant=lambda row: participants[index[row]].item())

        def refuse(column: str, values: NDArray[Any], wrong: NDArray[np.bool_], reason: str, remedy: str) -> None:
            rows = np.flatnonzero(wrong)
            if rows.size:
                value = values[rows[0]]
                text = f"{value:g}" if isinstance(value, np.floating) else str(value)
                if isinstance(value, np.datetime64):
                    text = str(np.datetime_as_string(value)).removesuffix(".000000")
                problems.report(column, rows, reason.format(text), remedy)

        columns = dict(zip(others["state_names"], others["state"].T, strict=True)) | {names.outcome: others["outcome"]}
        for name, values in columns.items():
            refuse(name, values, np.isinf(values), "{} is not finite", "correct the value or leave it empty (missing)")
        free = available == 1
        given = ~np.isnan(action)
        remedy = "write 1 (available) or 0 (not available)"
        refuse(names.available, available, np.isnan(available), "the availability is missing", remedy)
        refuse(names.available, available, ~np.isin(available, (0.0, 1.0)), "availability is {}", remedy)
        remedy = "fill it in, or mark the participant as not available"
        refuse(names.action, action, free & ~given, "the action is missing at an available decision point", remedy)
        remedy = f"use 0 to {len(declared) - 1}"
        refuse(names.action, action, given & (action != np.floor(action)), "action {} is not a whole number", remedy)
        remedy = f"declare it with actions=…, which now has {list(declared)}, or correct it"
        undeclared = given & ((action < 0) | (action >= len(declared)))
        refuse(names.action, action, undeclared, "action {} was never declared", remedy)
        reason = "action {} at a decision point where the participant was not available"
        impossible = (available == 0) & given & (action != 0)
        refuse(names.action, action, impossible, reason, "correct the action or the availability")
        remedy = "log the probability of the action taken from 0 to 1 (percentages: [file] in the study), or leave it empty"
        outside = free & ((probability <= 0) | (probability > 1))
        refuse(names.probability, probability, outside, "probability {} is outside (0, 1]", remedy)
        if time.dtype.kind == "f":
            refuse(names.time, time, ~np.isfinite(time), "{} is not a time", "give every decision point a finite time")
        order = np.lexsort((time, index))
        twice = np.zeros(len(order), dtype=bool)
        twice[order[1:]] = (index[order[1:]] == index[order[:-1]]) & (time[order[1:]] == time[order[:-1]])
        remedy = "drop the duplicate or correct its time"
        if twice.sum() > max(MANY_ROWS, len(order) / 4):
            remedy = (
                "name a column that tells a participant's decision points apart (day and slot must be one number or time)"
            )
        refuse(names.time, time, twice, "a second decision point at {}", remedy)
        problems.raise_any()
        return cls(
            available=free,
            action=np.where(free, action, 0).astype(np.int64),
            probability=np.where(free, probability, 1.0),
            sorted_rows=order,
            **others,
        )

    def with_values(
        self, *, state: NDArray[np.float64] | None = None, outcome: NDArray[np.float64] | None = None
    ) -> Trajectories:
        """The same decision points with other states or outcomes, of the same shape and in the same order."""
        state = self.state if state is None else state
        outcome = self.outcome if outcome is None else outcome
        for name, old, new in (("state", self.state, state), ("outcome", self.outcome, outcome)):
            if new.shape != old.shape or np.isinf(new).any():
                raise InputError(f"{name} must be finite or missing and of shape {old.shape}", column=name)
        return replace(self, state=state, outcome=outcome, sorted_rows=self.order)

    def mean_weights(self) -> MeanWeights | None:
        """The mean weight of every action, which must be 1; None without probabilities."""
        rows = np.flatnonzero(self.available & ~np.isnan(self.probability))
        if not rows.size:
            return None
        action = self.action[rows]
        return MeanWeights.of(
            action,
            spread_probabilities(action, self.probability[rows], self.actions),
            self.participant_index[rows],
            actions=self.action_names,
            given=self.names.probability_of,
            column=self.names.probability,
        )

    def find_weight_problem(self) -> str | None:
        """Why the probabilities cannot be what they are said to be, and the likely remedy; None if they may be."""
        if self.actions == 2:
            # Every fit asks this: the variance that the probabilities imply is quick, and the spread between people can
            # only bring a mean weight nearer to 1.
            drawn = self.available & (self.probability < 1)
            taken = np.maximum(self.probability[drawn], LEAST_PROBABILITY)
            treated = self.action[drawn] > 0
            inverse = 1 / taken
            odds = taken / (1 - taken)
            if not any(
                abs(inverse @ chosen - len(taken)) > SURE * np.sqrt((inverse - 1) @ chosen + odds @ ~chosen)
                for chosen in (treated, ~treated)
            ):
                return None
        weights = self.mean_weights()
        return None if weights is None else weights.problem()

    def check_probabilities(self) -> None:
        """Refuse probabilities that cannot be those of the actions taken."""
        problem = self.find_weight_problem()
        if problem is not None:
            raise InputError(problem, column=self.names.probability)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per decision point, in the order they came: a frame of the library that the data came from."""
        names = self.names
        probability = self.probability
        if names.probability_of == "sending":
            probability = np.where(self.action == 0, 1 - probability, probability)
        data = {names.participant: self.participant, names.time: self.time}
        data |= {name: self.state[:, j] for j, name in enumerate(self.state_names)}
        data |= {names.available: self.available, names.action: self.action, names.probability: probability}
        return make_frame({**data, names.outcome: self.outcome}, backend or self.backend)

    def pad_rows(self, values: NDArray[Any], otherwise: Any = np.nan, points: int | None = None) -> NDArray[Any]:
        """Values of rows as (people, decision points, …), each participant's in the order of time."""
        lengths = np.diff(self.starts)
        present = np.arange(int(lengths.max(initial=0)) if points is None else points) < lengths[:, None]
        padded = np.full((*present.shape, *values.shape[1:]), otherwise, dtype=np.result_type(values, type(otherwise)))
        padded[present] = values[self.order]
        return padded

    def blocks(self, cells: int = BLOCK_CELLS, padded_to: int = PADDED_TO) -> Blocks:
        """Blocks of people of about the same length: their positions, and their rows in time order, −1 where padded."""
        lengths = np.diff(self.starts)
        padded = np.maximum(-(-lengths // padded_to), 1) * padded_to
        for length in np.unique(padded):
            people = np.flatnonzero(padded == length)
            size = max(1, cells // int(length))
            for chunk in np.array_split(people, -(-len(people) // size)):
                positions = np.arange(length)
                inside = positions < lengths[chunk, None]
                rows = self.order[np.where(inside, self.starts[chunk, None] + positions, 0)]
                yield chunk, np.where(inside, rows, -1)

    def one_block(self) -> Blocks:
        """Everybody's rows as one block of one unit."""
        rows = np.full((1, -(-len(self) // PADDED_TO) * PADDED_TO), -1)
        rows[0, : len(self)] = self.order
        yield np.zeros(1, dtype=np.int64), rows


def name_actions(actions: int | Sequence[str]) -> tuple[str, ...]:
    """Names of so many actions, nothing first; given names are checked."""
    if isinstance(actions, int):
        others = ["send"] if actions == 2 else [f"send {code}" for code in range(1, actions)]
        names: tuple[str, ...] = ("nothing", *others)
    else:
        names = tuple(actions)
    if isinstance(actions, str) or len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"actions must be a number of at least 2, or at least two different names; got {actions!r}")
    return names


def take_probability(
    logged: NDArray[np.float64], action: NDArray[np.float64], available: NDArray[np.float64], column: str, problems: Problems
) -> NDArray[np.float64]:
    """The probability of the action taken, from that of sending; NaN where that is impossible."""
    outside = (logged < 0) | (logged > 1)
    taken = np.where(action == 0, 1 - logged, logged)
    impossible = (taken == 0) & (available == 1)
    for wrong, reason in (
        (outside, "probability {:g} is outside [0, 1]"),
        (impossible & (action == 0), "nothing was sent although the probability of sending is {:g}"),
        (impossible & (action != 0), "something was sent although the probability of sending is {:g}"),
    ):
        rows = np.flatnonzero(wrong)
        if rows.size:
            remedy = "log the probability of sending anything, or leave it empty"
            problems.report(column, rows, reason.format(logged[rows[0]]), remedy)
    return np.where(outside | impossible, np.nan, taken)


def join_logs(first: Trajectories, later: Trajectories) -> Trajectories:
    """All decision points of both, those of the first before those of the later; none may be in both, unless the first waits
    for its outcome: then the later one counts.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> len(join_logs(logs[logs.time < 4], logs[logs.time >= 4]))
    18
    """
    for name, ours, theirs in (
        ("state variables", first.state_names, later.state_names),
        ("actions", first.action_names, later.action_names),
        ("participants", first.participants.dtype.kind, later.participants.dtype.kind),
        ("times", first.time.dtype.kind, later.time.dtype.kind),
    ):
        if ours != theirs:
            raise InputError(f"the later logs have other {name}: {theirs!r} instead of {ours!r}; fit all logs anew")
    participants = np.union1d(first.participants, later.participants)
    index = np.searchsorted(participants, np.concatenate([first.participant, later.participant]))
    times, moment = np.unique(np.concatenate([first.time, later.time]), return_inverse=True)
    points = index * len(times) + moment
    _, in_first, in_later = np.intersect1d(
        points[: len(first)], points[len(first) :], assume_unique=True, return_indices=True
    )
    waiting = first.available & np.isnan(first.outcome)
    twice = np.sort(in_later[~waiting[in_first]])
    if twice.size:
        named = [f"'{later.participant[row]}' at {later.time[row]}" for row in twice[:SHOWN_POINTS]]
        others = f" and {twice.size - SHOWN_POINTS} more" if twice.size > SHOWN_POINTS else ""
        raise InputError(
            f"{twice.size} of the later decision points were learned from already: participant {', '.join(named)}{others}; "
            "give only later ones and those that waited for their outcome, or fit all logs anew"
        )
    lasting = np.delete(np.arange(len(points)), in_first)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(later, name)])[lasting] for name in COLUMNS
    }
    return replace(first, participants=participants, participant_index=index[lasting], **columns)


def read_columns(
    table: LogTable,
    *,
    time: str,
    state: Mapping[str, tuple[str, VariableKind]],
    action: str,
    outcome: str,
    available: str | None,
    probability: str | None,
    actions: Sequence[str],
    action_values: Sequence[str] | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[np.bool_]], Problems]:
    """Columns of a table by their roles, as `Trajectories.validated` takes them; `state` gives the column and the kind of
    every state variable. Also for every variable with a plausible range the rows outside it, and the problems so far."""
    participants = table.participants
    index = table.participant_index  # So that the problems do not keep the table.
    problems = Problems(table.name_row, lambda row: participants[index[row]].item())
    columns = {name: table.column(name, problems) for name in table.table.column_names}
    matrix, outside = join_values({name: kind.read(columns[column]) for name, (column, kind) in state.items()})
    arrays = {
        "participants": participants,
        "participant_index": index,
        "state": matrix,
        "available": np.ones(len(table)) if available is None else columns[available].yes_no(),
        "action": columns[action].actions(actions, action_values),
        "probability": np.full(len(table), np.nan) if probability is None else columns[probability].numbers(),
        "outcome": columns[outcome].numbers(),
        # Last: without times nothing further can be checked, and everything reported so far is raised.
        "time": columns[time].times(),
    }
    return arrays, outside, problems


def join_values(values: Mapping[str, StateValues]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
    """(rows, state columns) of all variables and, for every variable with a plausible range, the rows outside it."""
    outside = {name: variable.implausible for name, variable in values.items() if variable.implausible is not None}
    return np.concatenate([variable.values for variable in values.values()], axis=1), outside


def _read_roles(
    read: Callable[[LogLayout], tuple[LogTable, str | None]],
    participant: str,
    time: str,
    state: Sequence[str] | Mapping[str, VariableKind | str],
    action: str,
    outcome: str,
    available: str | None = None,
    probability: str | None = None,
    probability_of: str | None = None,
    actions: int | Sequence[str] = 2,
) -> Trajectories:
    """The trajectories of a table; the arguments are those of `from_frame`, and `read` gives the table and its library."""
    action_names = name_actions(actions)
    if isinstance(state, str) or not len(state):
        raise InputError(f"state must list at least one column, for example state=['{state or 's1'}']")
    if probability_of not in (None, *READINGS):
        raise InputError(f"probability_of is {probability_of!r}; write one of {list(READINGS)}")
    if probability_of == "sending" and len(action_names) > 2:
        problem = "probability_of='sending' says nothing about which of several actions was sent"
        raise InputError(f"{problem}; give the probability of the action taken")
    given = dict(state) if isinstance(state, Mapping) else dict.fromkeys(state)
    roles = (participant, time, *state, action, outcome, available, probability)
    columns = tuple(name for name in roles if name is not None)
    levels = {name: _check_kind(name, kind) for name, kind in given.items() if kind is not None}
    repeated = [name for name in columns if columns.count(name) > 1]
    if repeated:
        raise InputError(f"column '{repeated[0]}' is named twice; every role needs a column of its own")
    also = AVAILABLE_OR_NOT if available is None else None
    table, backend = read(LogLayout(participant, time, columns, meant={**levels, action: action_names}, also=also))
    kinds = {name: (name, _choose_kind(table.column(name, Problems()), kind)) for name, kind in given.items()}
    arrays, _, problems = read_columns(
        table,
        time=time,
        state=kinds,
        action=action,
        outcome=outcome,
        available=available,
        probability=probability,
        actions=action_names,
    )
    logged = arrays["probability"]
    if probability is not None and probability_of == "sending":
        arrays["probability"] = take_probability(logged, arrays["action"], arrays["available"], probability, problems)
    elif probability is not None and probability_of is None:
        drawn = np.flatnonzero((arrays["available"] == 1) & np.isin(arrays["action"], range(len(action_names))))
        if not ((logged[drawn] < 0) | (logged[drawn] > 1)).any():  # Those are reported later.
            codes = arrays["action"][drawn].astype(np.int64)
            require_reading(codes, logged[drawn], actions=action_names, column=probability)
    unnamed = find_unnamed_availability(table.table, columns, arrays["action"])
    shown = (probability or "probability", available or "available", probability_of or "action taken")
    logs = Trajectories.validated(
        **arrays,
        state_names=tuple(column for name, (_, kind) in kinds.items() for column in kind.state_columns(name)),
        action_names=action_names,
        names=ColumnNames(participant, time, action, outcome, *shown, unnamed),
        backend=backend,
        problems=problems,
    )
    warn_of_doubts(logs.participants, len(logs), logs.names)
    return logs


def _check_kind(name: str, kind: VariableKind | str) -> tuple[str, ...]:
    """The levels of a kind of state variable; anything else is refused."""
    if isinstance(kind, str) and kind in KINDS:
        return ()
    if not isinstance(kind, VariableKind):
        near = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
        example = "Category(levels=('other', 'home'))"
        raise InputError(f"state['{name}'] is {kind!r}{near}; write one of {list(KINDS)}, or {example}", column=name)
    try:
        kind.check()
    except ValueError as error:
        raise InputError(f"state['{name}']: {error}", column=name) from error
    return kind.levels


def _choose_kind(column: LogColumn, kind: VariableKind | str | None) -> VariableKind:
    """The given kind, for a column by itself numbers or yes/no."""
    if kind is not None:
        return KINDS.find(kind).of_column(column) if isinstance(kind, str) else kind
    summary = ColumnSummary.of(column.name, column.cells, column.settings)
    if Category.recognize(summary) and not YesNo.recognize(summary):
        words = ", ".join(map(repr, summary.levels[:2]))
        remedy = f"write state={{'{column.name}': 'category', …}}"
        raise InputError(f"column '{column.name}' holds text ({words}, …); {remedy}", column=column.name)
    return YesNo.recognize(summary) or Number()
