"""Quantiles of ragged rows: each row of a padded array has its own set of present values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace

MAD_TO_STANDARD_DEVIATION = 1.4826
"""Makes the median absolute deviation of normal noise estimate its standard deviation."""

LONG, FEW = 4096, 8
"""From this length on, rows are sorted no further than needed, if there are at most so many places to know."""


def sort_present(values: Array, present: Array) -> Array:
    """The present values along the last axis from small to large, then +∞ for each that is not."""
    xp = array_namespace(values)
    # Sorting beats selecting here: NumPy sorts a few hundred numbers faster than it partitions them, if not asked for order
    # among equals.
    return xp.sort(xp.where(present, values, xp.inf), axis=-1, stable=False)


def quantiles(values: Array, present: Array, levels: tuple[float, ...]) -> list[Array]:
    """Linearly interpolated quantiles (NumPy's default) of the present values along the last axis.

    `present` may have ones where `values` has other axes. A row with no present value gets +∞: nothing lies above it.

    >>> import numpy as np
    >>> quantiles(np.array([[1.0, 2.0, 3.0, 99.0]]), np.array([[True, True, True, False]]), (0.5,))
    [array([2.])]
    """
    xp = array_namespace(values)
    count = xp.sum(present, axis=-1, dtype=xp.int64, keepdims=True)
    last = xp.maximum(count - 1, xp.zeros_like(count))
    float_last = xp.astype(last, values.dtype)
    # (…, levels): all of them at once, because for short rows it is calls that cost.
    position = xp.concat([float_last * level for level in levels], axis=-1)
    lower = xp.astype(xp.floor(position), xp.int64)
    places = xp.concat([lower, xp.minimum(lower + 1, last)], axis=-1)
    found = xp.take_along_axis(_order_places(values, present, places), places, axis=-1)
    low, high = found[..., : len(levels)], found[..., len(levels) :]
    part = position - xp.astype(lower, values.dtype)
    # Where nothing is present both are infinite, and their difference would be undefined.
    gap = xp.where(part > 0, high, xp.zeros_like(high)) - xp.where(part > 0, low, xp.zeros_like(low))
    results = low + part * gap
    return [results[..., place] for place in range(len(levels))]


def median_in_order(in_order: Array, count: Array) -> Array:
    """`median` of values that `sort_present` has put in order, with how many are present, (…, 1)."""
    xp = array_namespace(in_order)
    last = xp.maximum(count - 1, xp.zeros_like(count))
    low, high = (xp.take_along_axis(in_order, place, axis=-1) for place in (last // 2, (last + 1) // 2))
    return 0.5 * (low + high)[..., 0]


def _order_places(values: Array, present: Array, places: Array) -> Array:
    """`sort_present`, or, sooner for few long rows, only so far that these places hold what they would."""
    xp = array_namespace(values)
    if values.shape[-1] < LONG or prod(places.shape) > FEW or not hasattr(xp, "partition"):
        return sort_present(values, present)
    wanted = tuple({int(place) for place in xp.reshape(places, (-1,))})
    return xp.partition(xp.where(present, values, xp.inf), wanted, axis=-1)


def median(values: Array, present: Array) -> Array:
    """Median of the present values along the last axis; +∞ where there is none."""
    return quantiles(values, present, (0.5,))[0]


def scaled_mad(values: Array, present: Array, centre: Array) -> Array:
    """1.4826 × the median of |value − centre|: a standard deviation that outliers cannot move."""
    xp = array_namespace(values)
    return MAD_TO_STANDARD_DEVIATION * median(xp.abs(values - centre[..., None]), present)


def infinite_unless(present: Array, dtype: object) -> Array:
    """0 where present, +∞ where not: added to values, it takes the others to the end of every order.

    Unlike a choice between two values, arithmetic takes the same time however irregular the mask.
    """
    with np.errstate(divide="ignore"):
        return 1 / array_namespace(present).astype(present, dtype) - 1.0


@dataclass(frozen=True)
class SmallestHalf(PerParticipant):
    """Finds the ⌊(n + features + 1) / 2⌋ present rows with the smallest values (more where they tie), time and again.

    >>> import numpy as np
    >>> values, present = np.array([[5.0, 1.0, 4.0, 2.0, 3.0, 0.0]]), np.array([[True, True, True, True, True, False]])
    >>> SmallestHalf.of_present(present, 0, values.dtype).choose(values)
    array([[False,  True, False,  True,  True, False]])
    """

    absent: Array
    """`infinite_unless` present, (people, decision points)."""
    place: Array
    """Of the largest of the smallest, (people, 1)."""

    @classmethod
    def of_present(cls, present: Array, features: int, dtype: object) -> SmallestHalf:
        """For (people, decision points)."""
        xp = array_namespace(present)
        count = xp.sum(present, axis=-1, dtype=xp.int64, keepdims=True)
        place = xp.maximum(xp.minimum((count + features + 1) // 2, count) - 1, xp.zeros_like(count))
        return cls(infinite_unless(present, dtype), place)

    def choose(self, values: Array) -> Array:
        """Which of (…, people, decision points); further axes before are further sets of values."""
        xp = array_namespace(values)
        values = values + self.absent
        place = xp.broadcast_to(self.place, (*values.shape[:-1], 1))
        limit = xp.take_along_axis(xp.sort(values, axis=-1, stable=False), place, axis=-1)
        # Of nobody's rows the smallest is infinite, and none of them is chosen.
        return values <= xp.minimum(limit, xp.full_like(limit, xp.finfo(values.dtype).max))
