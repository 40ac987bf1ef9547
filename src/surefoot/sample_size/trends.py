"""How something changes over the days of a study: constant, linear, quadratic, or as given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.errors import InputError

Matrix = NDArray[np.float64]
BASES = {"constant": 1, "linear": 2, "quadratic": 3}
"""How many coefficients a trend of each shape has: 1, day, day²."""
KEYS = ("mean", "initial", "peak_day")


@dataclass(frozen=True)
class Trend:
    """One number for every decision point, and the shape of which they are."""

    values: Matrix
    shape: str
    words: str


@dataclass(frozen=True)
class Calendar:
    """Days and decision points."""

    days: int
    decisions_per_day: int

    def __post_init__(self) -> None:
        for name in ("days", "decisions_per_day"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                raise InputError(f"{name} is {value!r}; give a whole number, at least 1")

    @property
    def day(self) -> Matrix:
        """Of every decision point, from 0."""
        return np.repeat(np.arange(float(self.days)), self.decisions_per_day)

    def expand(self, values: ArrayLike, name: str) -> Matrix:
        """A number, a number for every day, or one for every decision point → one for every decision point."""
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds a value that is not a number")
        if array.ndim == 0:
            return np.full(len(self.day), float(array))
        if len(array) == self.days:
            return np.repeat(array, self.decisions_per_day, axis=0)
        if len(array) == len(self.day):
            return array
        raise InputError(
            f"{name} has {len(array)} values; give one number, {self.days} (one for every day) or {len(self.day)} "
            "(one for every decision point)"
        )

    def basis(self, shape: str | ArrayLike) -> Matrix:
        """Z: (decision points, coefficients) for constant, linear or quadratic, or a matrix as given."""
        if not isinstance(shape, str):
            matrix = self.expand(shape, "test")
            return matrix if matrix.ndim == 2 else matrix[:, None]
        if shape not in BASES:
            raise InputError(f"'{shape}' is not a shape; choose from {list(BASES)}, or give a matrix")
        # Divided by the number of days: the same space, and sums of day⁴ stay small.
        return np.stack([(self.day / self.days) ** power for power in range(BASES[shape])], axis=1)


def trend(calendar: Calendar, name: str, given: ArrayLike | Mapping[str, float]) -> Trend:
    """A constant, values as given, or {mean, initial} (linear), {mean, initial, peak_day} (quadratic; days from 1).

    >>> trend(Calendar(3, 1), "effect", {"mean": 0.2, "initial": 0.1}).values
    array([0.1, 0.2, 0.3])
    """
    if not isinstance(given, Mapping):
        values = calendar.expand(given, name)
        return Trend(values, "constant", f"{values.mean():.3g}" if np.ptp(values) == 0 else "as given over the days")
    unknown = [key for key in given if key not in KEYS]
    if unknown or not {"mean", "initial"} <= set(given):
        raise InputError(f"{name}: a trend has mean, initial and, if quadratic, peak_day; got {sorted(given)}")
    day = np.arange(float(calendar.days))
    start = given["initial"]
    mean = given["mean"]
    peak = given.get("peak_day")
    shape = "linear" if peak is None else "quadratic"
    if calendar.days < BASES[shape]:
        raise InputError(f"{name}: {calendar.days} days are too few for a {shape} trend")
    # Whose slope is 0 on the peak day, or a straight line; scaled so that the mean is as asked.
    bend = day if peak is None else day**2 - 2 * (peak - 1) * day
    if abs(bend.mean()) < 1e-12:
        raise InputError(f"{name}: no quadratic trend with its extreme on day {peak:g} has another mean than its start")
    values = start + (mean - start) / bend.mean() * bend
    words = f"{shape}, {start:g} on day 1, mean {mean:g}" + ("" if peak is None else f", extreme on day {peak:g}")
    return Trend(np.repeat(values, calendar.decisions_per_day), shape, words)
