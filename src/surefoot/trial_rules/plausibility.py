"""Plausibility limits from the data seen so far, for variables that the study gives no range.

A value further from the median than `plausible_widths` times the spread of the middle 90 % counts as missing in an update,
and is named in its result: one broken sensor cannot take a policy over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.study import Study
from surefoot.study.measured_logs import MeasuredLogs

ENOUGH = 20
"""Fewer values set no limits."""


@dataclass(frozen=True)
class ImplausibleValue:
    """A value that counts as missing."""

    row: int
    """Its row's number in the input."""
    variable: str
    value: float
    limits: tuple[float, float]


def find_limits(values: NDArray[np.float64], widths: float) -> tuple[float, float] | None:
    """The limits of a variable without a range, from its values; None where they say nothing.

    >>> find_limits(np.arange(101.0), 10)
    (-850.0, 950.0)
    """
    known = values[~np.isnan(values)]
    if len(known) < ENOUGH:
        return None
    low, middle, high = np.quantile(known, (0.05, 0.5, 0.95))
    # A variable that hardly ever moves says nothing about what is far.
    return (float(middle - widths * (high - low)), float(middle + widths * (high - low))) if high > low else None


def blank_implausible(study: Study, measured: MeasuredLogs, widths: float) -> tuple[MeasuredLogs, list[ImplausibleValue]]:
    """The logs with implausible values made missing, and what was blanked, row by row."""
    state = measured.points.state
    blanked = []
    next_column = 0
    for name, (_, kind) in study.state_kinds.items():
        column = next_column
        values = state[:, column]
        next_column += len(study.columns_of(name))
        limits = find_limits(values, widths) if "range" in kind.takes and kind.range is None else None
        rows = np.flatnonzero((values < limits[0]) | (values > limits[1])) if limits is not None else ()
        if limits is None or not len(rows):
            continue
        state = state.copy() if state is measured.points.state else state
        state[rows, column] = np.nan
        blanked += [ImplausibleValue(int(measured.row[row]), name, float(values[row]), limits) for row in rows]
    return measured.with_state(state), sorted(blanked, key=lambda one: one.row)
