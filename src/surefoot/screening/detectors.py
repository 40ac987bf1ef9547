"""The interface of detectors: the values that a detector sees, and the detections that it returns.

A detector never sees the action. Adding one takes one file and one line in `screen.DETECTORS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Role = Literal["state", "outcome", "item", "seconds", "enrolment"]
SET_ASIDE = 5
"""The most repeated values are not counted: a code or a dead sensor must not make a continuous column look rounded."""
UNIQUE = 0.95
"""In a continuous column more than this share of the other values occur once."""


@dataclass(frozen=True)
class Column:
    """One column of the logs.

    An `item` is an answer of a questionnaire that is not part of the state, `seconds` the time that answering took and
    `enrolment` the moment from which a participant can have decision points.
    """

    name: str
    """As in the logs."""
    role: Role = "state"
    """`state`, `outcome`, `item`, `seconds` or `enrolment`."""
    device: str | None = None
    """Columns of one device are judged together."""
    number: bool = True
    """Whether the column holds a measured number, not a code for yes, no or a category."""


@dataclass(frozen=True)
class Questionnaire:
    """Items of one questionnaire, in the order in which they are asked."""

    name: str
    """Name of the questionnaire in messages."""
    items: tuple[str, ...]
    """Names of their columns."""
    scores: tuple[str, ...] = ()
    """State variables computed from the items: they become missing with them."""
    seconds: str | None = None
    """The column that holds how long answering took."""


@dataclass(frozen=True)
class Layout:
    """The columns of the logs."""

    columns: tuple[Column, ...]
    """The columns that the detectors see."""
    questionnaires: tuple[Questionnaire, ...] = ()
    """Groups of items that are answered together."""
    time: str = "time"
    """Name of the column with the time."""
    clock: bool = False
    """Whether times are moments in seconds rather than numbers of decision points."""

    def position(self, name: str) -> int:
        return [column.name for column in self.columns].index(name)

    def positions(self, role: Role) -> list[int]:
        return [position for position, column in enumerate(self.columns) if column.role == role]

    @property
    def measured(self) -> list[int]:
        """State variables and outcomes that are numbers."""
        return [i for i, column in enumerate(self.columns) if column.number and column.role in ("state", "outcome")]


@dataclass(frozen=True, eq=False)
class ScreenBatch:
    """Participants with their decision points in time order, without actions; padded and missing values are NaN.

    >>> layout = Layout((Column("steps", "outcome"),))
    >>> batch = ScreenBatch.pad_rows(layout, np.array([[3.0, 4.0, 5.0]]), np.arange(3.0), np.array([[0, 1], [2, -1]]))
    >>> batch.values.tolist(), batch.inside.tolist()
    ([[[3.0, 4.0], [5.0, nan]]], [[True, True], [True, False]])
    """

    layout: Layout
    values: Floats
    """(columns, participants, decision points)."""
    time: Floats
    """(participants, decision points)."""
    rows: NDArray[np.int64]
    """(participants, decision points): row of each decision point in the logs, −1 where padded."""

    @classmethod
    def pad_rows(cls, layout: Layout, values: Floats, time: Floats, rows: NDArray[np.int64]) -> "ScreenBatch":
        """From values (columns, rows of the logs) and padded rows of participants."""
        inside = rows >= 0
        cells = np.where(inside, values[:, rows], np.nan) if len(values) else np.empty((0, *rows.shape))
        return cls(layout, cells, np.where(inside, time[rows], np.nan), rows)

    @property
    def inside(self) -> Mask:
        return self.rows >= 0

    def column(self, name: str) -> Floats:
        """(participants, decision points)."""
        return np.asarray(self.values[self.layout.position(name)])

    def gaps(self) -> Floats:
        """Time since the previous decision point, (participants, decision points); the first is NaN."""
        return np.diff(self.time, axis=1, prepend=np.nan)

    @property
    def typical_gap(self) -> float:
        """The median positive gap between decision points; 1 if no gap is positive."""
        gaps = self.gaps()
        between = gaps[gaps > 0]
        return float(np.median(between)) if between.size else 1.0


class Detection(NamedTuple):
    """The values of one column that a detector flags: those with a score, (participants, decision points)."""

    column: str
    reason: str
    score: Floats

    @property
    def flagged(self) -> Mask:
        return ~np.isnan(self.score)


class Detector(ABC):
    """Finds one kind of value that cannot be trusted.

    A subclass is a frozen dataclass: its fields are the parameters that `[screen.NAME]` of a study sets. Whether it flags a
    decision point may depend on nothing after the state of the next decision point, except on what `learn` returns for the
    population.
    """

    name: ClassVar[str]
    reasons: ClassVar[tuple[str, ...]]
    """The reasons that the detector gives for its flags; no other detector gives them."""
    reported: ClassVar[tuple[str, ...]] = ()
    """Values flagged for these reasons are reported and not marked as missing."""
    reference: ClassVar[str]

    def describe(self) -> str:
        """What the detector flags, in words for a reader of the page."""
        return f"Values that look wrong: {', '.join(self.reasons)}."

    @abstractmethod
    def check(self) -> None:
        """Raise `InputError` for parameters that make no sense."""

    def learn(self, sample: ScreenBatch) -> Any:
        """Learn the patterns of the population from a sample of participants."""
        return None

    @abstractmethod
    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        """Flag values of a batch, given the patterns that `learn` returned."""


class Ties(NamedTuple):
    """Distinct values in ascending order, the number of runs of each, and whether hardly any two values are the same."""

    values: Floats
    counts: NDArray[np.int64]
    continuous: bool


def count_ties(values: Floats) -> Ties:
    """Count the runs of every value of (participants, decision points), NaN where missing.

    >>> count_ties(np.array([[1.5, 1.5, 2.0, 1.5]])).counts.tolist()
    [2, 1]
    """
    before = np.concatenate([np.full_like(values[:, :1], np.nan), values[:, :-1]], axis=1)
    distinct, counts = np.unique(values[~np.isnan(values) & (values != before)], return_counts=True)
    rarest = np.sort(counts)[: max(len(counts) - SET_ASIDE, 0)]
    continuous = bool(rarest.size) and bool((rarest == 1).sum() > UNIQUE * rarest.sum())
    return Ties(distinct, counts, continuous)
