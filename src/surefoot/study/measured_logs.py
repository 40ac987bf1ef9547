"""Logs as they were measured: read, but neither screened nor scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_table import UnnamedAvailability
from surefoot.data.trajectories import DecisionPoints


@dataclass(frozen=True, eq=False)
class MeasuredLogs:
    """Rows of logs before screen, scaling and transform.

    Attributes
    ----------
    participants
        Sorted ids.
    participant_index
        For each row the position of its participant in `participants`.
    row
        For each row its number in the input, from 0.
    points
        Every column by its role; values outside the study's ranges are missing.
    extra
        Columns that only the screen needs.
    derived
        Derived states as they were when it was decided; None where they are computed from the rows.
    unnamed
        Columns that look like availability, where the study names none.
    """

    participants: NDArray[Any]
    participant_index: NDArray[np.int64]
    row: NDArray[np.int64]
    points: DecisionPoints
    extra: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    derived: Mapping[str, NDArray[np.float64]] | None = None
    unnamed: tuple[UnnamedAvailability, ...] = ()

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, kept: NDArray[np.bool_]) -> MeasuredLogs:
        """Some of the rows, and the people who have them."""
        people, index = np.unique(self.participant_index[kept], return_inverse=True)
        points = self.points
        columns = {
            name: getattr(points, name)[kept] for name in ("time", "state", "available", "action", "probability", "reward")
        }
        outside = {name: where[kept] for name, where in points.implausible.items()}
        return MeasuredLogs(
            self.participants[people],
            index,
            self.row[kept],
            replace(points, **columns, implausible=outside),
            {name: values[kept] for name, values in self.extra.items()},
            None if self.derived is None else {name: values[kept] for name, values in self.derived.items()},
            self.unnamed,
        )

    def with_state(self, state: NDArray[np.float64]) -> MeasuredLogs:
        """The same rows with other values of the state variables."""
        return replace(self, points=replace(self.points, state=state))
