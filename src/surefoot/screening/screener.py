"""Runs all detectors in order: they learn patterns from a sample of participants, then flag values of everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.screening.careless import Careless
from surefoot.screening.clock import Clock
from surefoot.screening.codes import Codes
from surefoot.screening.detectors import Block, Detection, Detector, Layout
from surefoot.screening.level_shifts import LevelShifts
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.stuck import Stuck
from surefoot.screening.units import Units

DETECTORS: dict[str, type[Detector]] = {
    detector.name: detector for detector in (Clock, Codes, NotWorn, Stuck, Units, Careless, LevelShifts)
}
"""All detectors, in the order in which they look: no detector sees a value that an earlier detector marked as missing."""

SAMPLE = (10, 10)
"""Groups in the sample, and participants in a group. Groups are evenly spaced through the ids; participants with
neighbouring ids are often in one file."""

LearnedPatterns = dict[str, Any]
"""The patterns that every detector learned from the sample, by the name of the detector."""


class Flags(NamedTuple):
    """Flagged values, one entry each; `Screener` translates the codes into names."""

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
    def join(cls, pieces: Iterable[Flags]) -> Flags:
        """Join flags and sort them by row, then by detector and column."""
        joined = cls(*(np.concatenate(arrays) for arrays in zip(EMPTY, *pieces, strict=True)))
        return joined.select(np.lexsort((joined.column, joined.detector, joined.row)))

    def select(self, chosen: NDArray[Any]) -> Flags:
        return Flags(*(array[chosen] for array in self))


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
        The columns.
    detectors
        The detectors, in the order in which they run.
    outcome
        Whether flagged outcomes become missing. Otherwise they are reported and not changed.
    """

    layout: Layout
    detectors: tuple[Detector, ...] = field(default_factory=default_detectors)
    outcome: bool = True

    def __post_init__(self) -> None:
        for detector in self.detectors:
            detector.check()

    def learn(self, sample: Block) -> LearnedPatterns:
        """Learn patterns from a sample; no detector sees a value that an earlier detector marked as missing."""
        return self.learn_and_find(sample)[0]

    def find(self, block: Block, usual: LearnedPatterns) -> Flags:
        """All flags of a block."""
        return self.learn_and_find(block, usual)[1]

    def learn_and_find(self, block: Block, usual: LearnedPatterns | None = None) -> tuple[LearnedPatterns, Flags]:
        """Patterns, learned from the block unless `usual` is given, and all flags of the block."""
        flags = []
        known = dict(usual or {})
        for position, detector in enumerate(self.detectors):
            if usual is None:
                known[detector.name], candidates = detector.learn_and_find(block)
            else:
                candidates = detector.find(block, known[detector.name])
            detections = [detection for detection in candidates if detection.flagged.any()]
            for detection in detections:
                reason = detector.reasons.index(detection.reason)
                flags.append(_flags(block, self._column(detection.column), position, reason, detection))
            block = block.without(_select_marking(detector, detections))
        return known, Flags.join(flags)

    def _column(self, name: str) -> int:
        return -1 if name == self.layout.time else self.layout.position(name)

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
        """For every flag whether the value became missing; otherwise it is only reported."""
        marked = np.ones(len(flags.row), dtype=bool)
        for position, detector in enumerate(self.detectors):
            for reason in detector.reported:
                marked &= (flags.detector != position) | (flags.reason != detector.reasons.index(reason))
        if not self.outcome:
            marked &= ~np.isin(flags.column, self.layout.positions("outcome"))
        return marked


def _select_marking(detector: Detector, detections: list[Detection]) -> list[Detection]:
    return [detection for detection in detections if detection.reason not in detector.reported]


def _flags(block: Block, column: int, detector: int, reason: int, detection: Detection) -> Flags:
    cells = np.nonzero(detection.flagged)
    codes = [np.full(len(cells[0]), code, np.int16) for code in (column, detector, reason)]
    return Flags(block.rows[cells], codes[0], codes[1], codes[2], detection.score[cells])


def sample_people(people: int) -> NDArray[np.int64]:
    """Positions of the sampled participants among all `people` in the order of their ids.

    >>> len(sample_people(30)), len(sample_people(1_000_000)), sample_people(1_000_000)[[0, 9, 10, 99]]
    (30, 100, array([     0,      9, 111110, 999999]))
    """
    groups, size = SAMPLE
    if people <= groups * size:
        return np.arange(people)
    first = np.linspace(0, people - size, groups).astype(np.int64)
    return np.asarray((first[:, None] + np.arange(size)).ravel())


def sample_rows(order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The padded rows of the sampled participants: (participants, decision points)."""
    chosen = sample_people(len(starts) - 1)
    lengths = np.diff(starts)[chosen]
    point = np.arange(max(int(lengths.max(initial=0)), 1))
    inside = point < lengths[:, None]
    return np.where(inside, order[np.where(inside, starts[chosen, None] + point, 0)], -1)


def screen_columns(
    screener: Screener,
    values: NDArray[np.float64],
    time: NDArray[np.float64],
    blocks: Iterable[NDArray[np.int64]],
    usual: LearnedPatterns,
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
