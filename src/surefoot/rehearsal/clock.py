"""The time of day and the day in the study as features of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_SLOTS = 8
"""So many decision points a day have a level each; more are described by two waves."""


@dataclass(frozen=True)
class StudyClock:
    """Features of decision point t: the time of day, as levels against the first or as waves, and the day.

    >>> StudyClock(per_day=3, middle=2.0, width=2.0).features(np.array([0.0, 4.0]))
    array([[ 0. ,  1. ],
           [ 0. ,  0. ],
           [-1. , -0.5]])
    """

    per_day: int
    middle: float
    """The day that counts as 0, …"""
    width: float
    """… and how many days count as 1."""

    @classmethod
    def of_length(cls, per_day: int, points: int) -> StudyClock:
        """For a study of so many decision points."""
        days = max((points - 1) // per_day, 1)
        return cls(per_day, days / 2, max(days / 3.5, 1.0))

    @property
    def size(self) -> int:
        return 1 + (self.per_day - 1 if self.per_day <= MOST_SLOTS else 4)

    def day(self, time: Floats) -> Floats:
        """Whole days since the first decision point."""
        return np.asarray(np.floor(time / self.per_day))

    def features(self, time: Floats, slot: NDArray[np.int64] | None = None) -> Floats:
        """(size, *time); the slot follows from the time unless it is given."""
        place = np.asarray(time % self.per_day if slot is None else slot)
        if self.per_day <= MOST_SLOTS:
            parts = [(place == one).astype(np.float64) for one in range(1, self.per_day)]
        else:
            turn = 2 * np.pi * place / self.per_day
            parts = [np.cos(turn), np.sin(turn), np.cos(2 * turn), np.sin(2 * turn)]
        return np.stack([*parts, (self.day(time) - self.middle) / self.width])
