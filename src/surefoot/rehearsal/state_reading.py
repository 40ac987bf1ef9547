"""From what simulated people show to what a trial reads: units as measured, values outside their ranges missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.study import Study

Floats = NDArray[np.float64]


class StateReading:
    """How a study reads the states of a simulator, whose columns are the study's, scaled as the study says."""

    def __init__(self, study: Study, state_names: tuple[str, ...]) -> None:
        if tuple(state_names) != study.state_names:
            raise InputError(
                f"the simulator has the states {list(state_names)}, the study {list(study.state_names)}; "
                "name the same ones in the same order"
            )
        self._derived = {name: study.state_names.index(name) for name in study.derived_states}
        kinds = [kind for name, kind in study.variable_kinds.items() for _ in study.columns_of(name)]
        self._read = [place for place in range(len(kinds)) if place not in self._derived.values()]
        self._centre, self._scale = np.array([one.centre for one in kinds]), np.array([one.scale for one in kinds])
        ranges = [one.range or (-np.inf, np.inf) for one in kinds]
        self._low, self._high = (np.array(ends) for ends in zip(*ranges, strict=True))

    def measure(self, state: Floats) -> Floats:
        """(…, variables) in the units of logs, missing where a value lies outside its range."""
        measured = state * self._scale + self._centre
        outside = (measured < self._low) | (measured > self._high)
        return np.where(outside, np.nan, measured) if outside.any() else measured

    def scale(self, measured: Floats) -> Floats:
        """As policies see it."""
        return np.asarray((measured - self._centre) / self._scale)

    def split(self, measured: Floats) -> tuple[Floats, dict[str, Floats] | None]:
        """The columns that a log holds, and the derived states; None without any."""
        derived = {name: measured[..., place] for name, place in self._derived.items()}
        return measured[..., self._read], derived or None
