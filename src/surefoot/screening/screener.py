"""Runs all detectors in order: they learn patterns from a sample of participants, then flag values of everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean
from surefoot.screening.careless import Careless
from surefoot.screening.clock import Clock
from surefoot.screening.codes import Codes
from surefoot.screening.detectors import Detector, Floats, Layout, Mask, ScreenBatch
from surefoot.screening.level_shifts import LevelShifts
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.stuck import Stuck
from surefoot.screening.units import Units

DETECTORS: dict[str, type[Detector]] = {
    detector.name: detector for detector in (Clock, Codes, NotWorn, Stuck, Units, Careless, LevelShifts)
}
"""All detectors, in the order in which they run: no detector sees a value that an earlier detector marked as missing."""
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
    score: Floats

    @classmethod
    def join(cls, pieces: Iterable[Flags]) -> Flags:
        """Join flags and sort them by row, then by detector and column."""
        types = (np.int64, np.int16, np.int16, np.int16, np.float64)
        empty = [np.empty(0, kind) for kind in types]
        joined = cls._make(np.concatenate(arrays) for arrays in zip(empty, *pieces, strict=True))
        order = np.lexsort((joined.column, joined.detector, joined.row))
        return cls._make(array[order] for array in joined)


@dataclass(frozen=True)
class Screener:
    """The columns of a study and the detectors that look at them."""

    layout: Layout
    """The columns."""
    detectors: tuple[Detector, ...] = field(default_factory=lambda: make_detectors({}))
    """The detectors, in the order in which they run."""
    outcome: bool = True
    """Whether flagged outcomes become missing. Otherwise they are reported and not changed."""

    def __post_init__(self) -> None:
        for detector in self.detectors:
            detector.check()

    def learn_and_find(self, batch: ScreenBatch, usual: LearnedPatterns | None = None) -> tuple[LearnedPatterns, Flags]:
        """Patterns, learned from the batch unless `usual` is given, and all flags of the batch."""
        flags = []
        patterns = dict(usual or {})
        for number, detector in enumerate(self.detectors):
            if usual is None:
                patterns[detector.name] = detector.learn(batch)
            candidates = detector.find(batch, patterns[detector.name])
            detections = [detection for detection in candidates if detection.flagged.any()]
            for detection in detections:
                cells = np.nonzero(detection.flagged)
                is_time = detection.column == self.layout.time
                column = -1 if is_time else self.layout.position(detection.column)
                reason = detector.reasons.index(detection.reason)
                columns, detectors, reasons = (np.full(len(cells[0]), code, np.int16) for code in (column, number, reason))
                flags.append(Flags(batch.rows[cells], columns, detectors, reasons, detection.score[cells]))
            batch = batch.without([detection for detection in detections if detection.reason not in detector.reported])
        return patterns, Flags.join(flags)

    def column_names(self, flags: Flags) -> NDArray[Any]:
        return np.array([*(column.name for column in self.layout.columns), self.layout.time])[flags.column]

    def detector_names(self, flags: Flags) -> NDArray[Any]:
        return np.array([detector.name for detector in self.detectors])[flags.detector]

    def reasons(self, flags: Flags) -> NDArray[Any]:
        """The reason of every flag in words."""
        widest = max((len(detector.reasons) for detector in self.detectors), default=1)
        words = np.array([[*detector.reasons, *[""] * (widest - len(detector.reasons))] for detector in self.detectors])
        return words[flags.detector, flags.reason]

    def marks(self, flags: Flags) -> Mask:
        """For every flag whether the value became missing; otherwise it is only reported."""
        marked = np.ones(len(flags.row), dtype=bool)
        for number, detector in enumerate(self.detectors):
            for reason in detector.reported:
                marked &= (flags.detector != number) | (flags.reason != detector.reasons.index(reason))
        if not self.outcome:
            marked &= ~np.isin(flags.column, self.layout.positions("outcome"))
        return marked


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
    for name in parameters:
        if name not in DETECTORS:
            raise InputError(f"there is no detector '{name}'{did_you_mean(name, DETECTORS)}; choose from {list(DETECTORS)}")
    detectors = []
    for name, detector in DETECTORS.items():
        given = parameters.get(name, {})
        if given is False:
            continue
        try:
            detectors.append(detector(**({} if given is True else given)))
        except TypeError as error:
            raise InputError(f"{name}: {error}") from error
    return tuple(detectors)


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
