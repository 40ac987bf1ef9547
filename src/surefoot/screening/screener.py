"""All detectors one after the other: learn what is usual from a sample of participants, then go through everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.screening.detectors import Detector
from surefoot.screening.registry import DETECTORS
from surefoot.screening.series import Block, Found, Layout

SAMPLE = (10, 10)
"""So many groups of so many participants, evenly spaced through the ids, tell what is usual. Groups, because people whose
ids follow each other are often in one file."""

Usual = dict[str, Any]
"""What every detector learned, by its name."""


class Flags(NamedTuple):
    """Flagged values, one entry for each; names are given by `Screener.names`."""

    row: NDArray[np.int64]
    """In the logs, from 0."""
    column: NDArray[np.int16]
    """Position among the columns; −1 is the time."""
    detector: NDArray[np.int16]
    """Position among the detectors."""
    reason: NDArray[np.int16]
    """Position among the reasons of the detector."""
    score: NDArray[np.float64]

    @classmethod
    def join(cls, parts: Iterable[Flags]) -> Flags:
        """In the order of the rows, then of the detectors and columns."""
        joined = cls(*(np.concatenate(one) for one in zip(EMPTY, *parts, strict=True)))
        return joined.select(np.lexsort((joined.column, joined.detector, joined.row)))

    def select(self, chosen: NDArray[Any]) -> Flags:
        return Flags(*(one[chosen] for one in self))


NO_CODES = np.empty(0, np.int16)
EMPTY = Flags(np.empty(0, np.int64), NO_CODES, NO_CODES, NO_CODES, np.empty(0, np.float64))


def default_detectors() -> tuple[Detector, ...]:
    """Every detector with its default parameters."""
    return tuple(detector() for detector in DETECTORS.values())


@dataclass(frozen=True)
class Screener:
    """The columns of a study and the detectors that look at them.

    Attributes
    ----------
    layout
        Which columns there are.
    detectors
        Those that look, in this order.
    outcome
        Whether flagged outcomes become missing. Otherwise they are reported, and stay.
    """

    layout: Layout
    detectors: tuple[Detector, ...] = field(default_factory=default_detectors)
    outcome: bool = True

    def __post_init__(self) -> None:
        for detector in self.detectors:
            detector.check()

    def learn(self, sample: Block) -> Usual:
        """What is usual; a detector does not see what those before it flag in the sample."""
        return self.learn_and_find(sample)[0]

    def find(self, block: Block, usual: Usual) -> Flags:
        """All flags of a block."""
        return self.learn_and_find(block, usual)[1]

    def learn_and_find(self, block: Block, usual: Usual | None = None) -> tuple[Usual, Flags]:
        """What is usual, learned from the block unless it is given, and all flags of the block."""
        parts, known = [], dict(usual or {})
        for place, detector in enumerate(self.detectors):
            if usual is None:
                known[detector.name], every = detector.learn_and_find(block)
            else:
                every = detector.find(block, known[detector.name])
            found = [one for one in every if one.flagged.any()]
            for one in found:
                reason = detector.reasons.index(one.reason)
                parts.append(_flags(block, self._column(one.column), place, reason, one))
            block = block.without(_select_marking(detector, found))
        return known, Flags.join(parts)

    def _column(self, name: str) -> int:
        return -1 if name == self.layout.time else self.layout.place(name)

    def column_names(self, flags: Flags) -> NDArray[Any]:
        return np.array([*(column.name for column in self.layout.columns), self.layout.time])[flags.column]

    def detector_names(self, flags: Flags) -> NDArray[Any]:
        return np.array([detector.name for detector in self.detectors])[flags.detector]

    def reasons(self, flags: Flags) -> NDArray[Any]:
        """The reason of every flag in words."""
        widest = max((len(detector.reasons) for detector in self.detectors), default=1)
        words = np.array([[*detector.reasons, *[""] * (widest - len(detector.reasons))] for detector in self.detectors])
        return words[flags.detector, flags.reason]

    def marks(self, flags: Flags) -> NDArray[np.bool_]:
        """Whether the value became missing, or is only reported."""
        marked = np.ones(len(flags.row), dtype=bool)
        for place, detector in enumerate(self.detectors):
            for reason in detector.reported:
                marked &= (flags.detector != place) | (flags.reason != detector.reasons.index(reason))
        if not self.outcome:
            marked &= ~np.isin(flags.column, self.layout.places("outcome"))
        return marked


def _select_marking(detector: Detector, found: list[Found]) -> list[Found]:
    return [one for one in found if one.reason not in detector.reported]


def _flags(block: Block, column: int, detector: int, reason: int, found: Found) -> Flags:
    where = np.nonzero(found.flagged)
    codes = [np.full(len(where[0]), code, np.int16) for code in (column, detector, reason)]
    return Flags(block.rows[where], codes[0], codes[1], codes[2], found.score[where])


def sample_people(people: int) -> NDArray[np.int64]:
    """Positions, among so many participants in the order of their ids, of those who tell what is usual.

    >>> len(sample_people(30)), len(sample_people(1_000_000)), sample_people(1_000_000)[[0, 9, 10, 99]]
    (30, 100, array([     0,      9, 111110, 999999]))
    """
    groups, size = SAMPLE
    if people <= groups * size:
        return np.arange(people)
    first = np.linspace(0, people - size, groups).astype(np.int64)
    return np.asarray((first[:, None] + np.arange(size)).ravel())


def sample_rows(order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The padded rows of the participants who tell what is usual: (participants, decision points)."""
    chosen = sample_people(len(starts) - 1)
    lengths = np.diff(starts)[chosen]
    place = np.arange(max(int(lengths.max(initial=0)), 1))
    inside = place < lengths[:, None]
    return np.where(inside, order[np.where(inside, starts[chosen, None] + place, 0)], -1)


def screen_columns(
    screener: Screener,
    values: NDArray[np.float64],
    time: NDArray[np.float64],
    blocks: Iterable[NDArray[np.int64]],
    usual: Usual,
) -> Flags:
    """Flags of values (columns, rows), block by block; `blocks` are padded rows of participants."""
    return Flags.join(screener.find(Block.pad_rows(screener.layout, values, time, rows), usual) for rows in blocks)


def make_detectors(parameters: Mapping[str, Mapping[str, Any] | bool]) -> tuple[Detector, ...]:
    """Every detector, with these parameters.

    Parameters
    ----------
    parameters
        By the name of the detector; False leaves it out.

    Returns
    -------
    tuple of Detector

    Examples
    --------
    >>> [detector.name for detector in make_detectors({"units": False, "stuck": {"threshold": 0.99}})]
    ['clock', 'codes', 'not_worn', 'stuck', 'careless', 'level_shifts']
    """
    from surefoot.errors import did_you_mean

    for name in parameters:
        if name not in DETECTORS:
            raise InputError(f"there is no detector '{name}'{did_you_mean(name, DETECTORS)}; choose from {list(DETECTORS)}")
    chosen = {name: parameters.get(name, True) for name in DETECTORS}
    made = []
    for name, given in chosen.items():
        if given is False:
            continue
        try:
            made.append(DETECTORS[name](**({} if given is True else given)))
        except TypeError as error:
            raise InputError(f"{name}: {error}") from error
    return tuple(made)
