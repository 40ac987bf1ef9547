"""Everybody's decision points in files: what a pooled fit that does not follow from moments goes over again and again.

They lie in the order of participants and time, whatever parts they came in, as a fit in memory has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import PADDED_TO, Trajectories
from surefoot.learning.batch import Batch
from surefoot.numerics.arrays import Array
from surefoot.numerics.row_files import Block, Recipe, RowFile
from surefoot.numerics.streamed_arrays import Streamed


@dataclass(frozen=True, eq=False)
class PooledRows:
    """Room for the decision points of these people.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> rows = PooledRows(logs.participants, np.full(3, 6))
    >>> for part in (logs[logs.participant == 2], logs[logs.participant < 2]):
    ...     rows.write(part, np.ones(len(part)), None)
    >>> bool((rows.collect(rows.stream("reward"), logs) == logs.reward).all())
    True
    """

    participants: NDArray[Any]
    """Ids, sorted."""
    lengths: NDArray[np.int64]
    """How many decision points each of them has."""
    folder: Path | None = None
    """Where the files are; None: where the system has temporary ones."""
    part_rows: int = 2**19
    """About how many of them are read at once where people are looked at one by one."""
    _files: dict[str, RowFile] = field(default_factory=dict)
    _names: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the state variables, and of the actions."""
        return self._names[0]

    def write(self, logs: Trajectories, discount: NDArray[np.float64], centre: NDArray[np.float64] | None) -> None:
        """Put a part of the people in their place; `discount` and `centre` as in `Batch.from_rows`."""
        self._names[:] = [(logs.state_names, logs.action_names)]
        columns: dict[str, NDArray[Any]] = {
            "state": logs.state.T,
            "reward": logs.reward[None],
            "action": logs.action[None].astype(np.int16),
        }
        columns |= {"usable": logs.usable[None], "discount": discount[None]}
        for name, values in (columns if centre is None else columns | {"centre": centre.T}).items():
            self.write_column(name, values, logs)

    def write_column(self, name: str, values: NDArray[Any], logs: Trajectories) -> None:
        """The same for one value of every row of the part, or several, (values, rows)."""
        if name not in self._files:
            padded = -(-int(self.lengths.sum()) // PADDED_TO) * PADDED_TO
            self._files[name] = RowFile(len(values), padded, values.dtype, self.folder)
        self._files[name].open("r+")[:, self._place(logs)] = values[:, logs.order]

    def _place(self, logs: Trajectories) -> NDArray[np.int64] | slice:
        """Where the part's rows, in their order, are among all."""
        ends = np.cumsum(self.lengths)
        who = np.searchsorted(self.participants, logs.participants)
        first = ends[who] - self.lengths[who]
        places = np.arange(len(logs)) + np.repeat(first - logs.starts[:-1], np.diff(logs.starts))
        together = places[-1] - places[0] + 1 == len(places)
        return slice(int(places[0]), int(places[-1]) + 1) if together else places

    def list_people(self) -> Iterator[tuple[Trajectories, NDArray[np.float64]]]:
        """Some people after the other: their logs, and `discount` of every row."""
        ends, limit = np.cumsum(self.lengths), self.part_rows
        for people in np.split(np.arange(len(ends)), np.flatnonzero(np.diff((ends - self.lengths) // limit)) + 1):
            start, stop = int(ends[people[0]] - self.lengths[people[0]]), int(ends[people[-1]])
            part = {name: np.array(file.open()[:, start:stop]) for name, file in self._files.items()}
            yield self._make_logs(people, part), part["discount"][0]

    def _make_logs(self, people: NDArray[np.int64], part: dict[str, NDArray[Any]]) -> Trajectories:
        """As far as a fit needs them: when is only known by the order, and who could not be used is not available."""
        (states, actions), size, action = self.names, len(part["reward"][0]), part["action"][0].astype(np.int64)
        sending = part["centre"][0] if "centre" in part else np.full(size, np.nan)
        return Trajectories(
            participants=self.participants[people],
            participant_index=np.repeat(np.arange(len(people)), self.lengths[people]),
            time=np.arange(size),
            state=part["state"].T,
            available=part["usable"][0],
            action=action,
            probability=np.where(action == 0, 1 - sending, sending),
            reward=part["reward"][0],
            state_names=states,
            action_names=actions,
            sorted_rows=np.arange(size),
        )

    def mark_inside(self) -> Array:
        """Which rows are no padding, (1, rows)."""
        return self.number_people() < len(self.lengths)

    def number_people(self) -> Streamed:
        """The place of every row's participant, (1, rows); of padding one more than there are."""
        ends, padded = np.cumsum(self.lengths), self.stream("usable").shape

        def find(block: Block) -> NDArray[np.int64]:
            return np.searchsorted(ends, np.arange(block.start, block.stop), side="right")[None]

        return Streamed(Recipe(padded, 1, np.dtype(np.int64), find, self.folder))

    def stream(self, name: str) -> Streamed:
        """A column of all rows, (1, rows), or several, (1, values, rows)."""
        file = self._files[name]
        alone = file.shape[0] == 1 and name not in ("state", "centre")
        return Streamed(file.to_recipe((1,) if alone else (1, file.shape[0])))

    def collect(self, values: Streamed, logs: Trajectories) -> NDArray[Any]:
        """Of an array (1, rows) what belongs to a part of the people, in the order of its rows."""
        place, found = self._place(logs), np.empty(len(logs), dtype=values.dtype)
        rows = np.arange(place.start, place.stop) if isinstance(place, slice) else place
        found[logs.order] = values.take(rows)[0]
        return found

    def make_batch(self, **sees: NDArray[np.float64]) -> Batch:
        """Everybody as one unit."""
        usable = self.stream("usable")
        return Batch(
            state=_by_point(np.where(usable[:, None, :], self.stream("state"), 0.0)),
            action=np.where(usable, self.stream("action"), 0),
            reward=np.where(usable, self.stream("reward"), 0.0),
            usable=usable * 1.0,
            weights=np.where(usable, self.stream("discount"), 0.0),
            actions=len(self.names[1]),
            names=self.names,
            centre=_by_point(np.where(usable[:, None, :], self.stream("centre"), 0.0)) if "centre" in self._files else None,
            **sees,
        )


def _by_point(values: Array) -> Array:
    """(1, values, rows) as (1, rows, values)."""
    return np.swapaxes(values, 1, 2)
