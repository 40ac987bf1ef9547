"""Times of decision points as numbers, and the days that they belong to."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError

DayBoundary = int | str | None
"""Decision points a day, for times that count them; the clock time at which a day begins, for timestamps."""
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
DAY_SECONDS = 86_400.0


def count_days(time: NDArray[Any], boundary: int | str, column: str) -> NDArray[np.int64]:
    """The day of every time, counted from an arbitrary one."""
    moment = count_moments(time)
    if isinstance(boundary, int):
        if moment.dtype.kind != "i":
            raise InputError(
                f"day_boundary is {boundary} decision points a day, but column '{column}' holds times that do not count "
                "them; write the clock time at which a day begins, for example day_boundary = '04:00'",
                column=column,
            )
        return moment // boundary
    if time.dtype.kind != "M":
        raise InputError(
            f"day_boundary is the clock time {boundary}, but column '{column}' holds no timestamps; write how many decision "
            "points there are a day, for example day_boundary = 5",
            column=column,
        )
    found = CLOCK.fullmatch(boundary)
    if found is None:
        raise InputError(f"day_boundary is '{boundary}'; write a clock time like '04:00', or decision points a day")
    begins = 3600 * int(found[1]) + 60 * int(found[2])
    return np.floor((moment - begins) / DAY_SECONDS).astype(np.int64)


def count_moments(time: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as they are, timestamps in seconds."""
    if time.dtype.kind == "M":
        return np.asarray(time.astype("datetime64[us]").astype(np.int64) / 1e6)
    return time.astype(np.int64 if time.dtype.kind in "iu" else np.float64)
