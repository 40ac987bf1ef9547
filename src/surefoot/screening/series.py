"""What a detector sees: the columns of a block of participants, side by side in time. Never the action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Role = Literal["state", "outcome", "item", "seconds", "enrolment"]


@dataclass(frozen=True)
class Column:
    """One column of the logs.

    An `item` is an answer of a questionnaire that is not part of the state, `seconds` the time that answering took and
    `enrolment` the moment from which a participant can have decision points.

    Attributes
    ----------
    name
        As in the logs.
    role
        `state`, `outcome`, `item`, `seconds` or `enrolment`.
    device
        Columns of one device are judged together.
    number
        A measured number, and not a code for yes, no or a category.
    """

    name: str
    role: Role = "state"
    device: str | None = None
    number: bool = True


@dataclass(frozen=True)
class Questionnaire:
    """Items that are answered in one go, in the order in which they are asked.

    Attributes
    ----------
    name
        What the text calls it.
    items
        Names of their columns.
    scores
        State variables computed from the items: they become missing with them.
    seconds
        The column that holds how long answering took.
    """

    name: str
    items: tuple[str, ...]
    scores: tuple[str, ...] = ()
    seconds: str | None = None


@dataclass(frozen=True)
class Layout:
    """Which columns there are.

    Attributes
    ----------
    columns
        Those that the detectors may look at.
    questionnaires
        Which items belong together.
    time
        Name of the column with the time.
    clock
        Whether times are moments in seconds, and not numbers of decision points.
    """

    columns: tuple[Column, ...]
    questionnaires: tuple[Questionnaire, ...] = ()
    time: str = "time"
    clock: bool = False

    def place(self, name: str) -> int:
        return [column.name for column in self.columns].index(name)

    def places(self, role: Role) -> list[int]:
        return [place for place, column in enumerate(self.columns) if column.role == role]

    @property
    def measured(self) -> list[int]:
        """State variables and outcomes that are numbers."""
        return [i for i, column in enumerate(self.columns) if column.number and column.role in ("state", "outcome")]


@dataclass(frozen=True, eq=False)
class Block:
    """Participants with their decision points in time order; what is padded or missing is NaN.

    >>> layout = Layout((Column("steps", "outcome"),))
    >>> block = Block.pad_rows(layout, np.array([[3.0, 4.0, 5.0]]), np.arange(3.0), np.array([[0, 1], [2, -1]]))
    >>> block.values.tolist(), block.inside.tolist()
    ([[[3.0, 4.0], [5.0, nan]]], [[True, True], [True, False]])
    """

    layout: Layout
    values: NDArray[np.float64]
    """(columns, participants, decision points)."""
    time: NDArray[np.float64]
    """(participants, decision points)."""
    rows: NDArray[np.int64]
    """(participants, decision points): where each stands in the logs, −1 where padded."""

    @classmethod
    def pad_rows(
        cls, layout: Layout, values: NDArray[np.float64], time: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> Block:
        """From values (columns, rows of the logs) and the padded rows of some participants."""
        inside = rows >= 0
        cells = np.where(inside, values[:, rows], np.nan) if len(values) else np.empty((0, *rows.shape))
        return cls(layout, cells, np.where(inside, time[rows], np.nan), rows)

    @property
    def inside(self) -> NDArray[np.bool_]:
        return self.rows >= 0

    def gaps(self) -> NDArray[np.float64]:
        """Time since the decision point before, (participants, decision points); the first is NaN."""
        return np.diff(self.time, axis=1, prepend=np.nan)

    def without(self, found: Sequence[Found]) -> Block:
        """The block with what was found missing."""
        if not found:
            return self
        values = self.values.copy()
        names = {column.name: place for place, column in enumerate(self.layout.columns)}
        for one in found:
            values[names[one.column]][one.flagged] = np.nan
        return replace(self, values=values)


@dataclass(frozen=True, eq=False)
class Found:
    """What a detector flags in one column of a block."""

    column: str
    reason: str
    score: NDArray[np.float64]
    """(participants, decision points); NaN where nothing is flagged."""

    @property
    def flagged(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.score)


def typical_gap(block: Block) -> float:
    """The median time from one decision point to the next, gaps of zero left out; 1 where nobody has another gap."""
    gaps = block.gaps()
    between = gaps[gaps > 0]
    return float(np.median(between)) if between.size else 1.0
