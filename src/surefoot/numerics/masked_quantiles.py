"""Quantiles of ragged rows: each row of a padded array has its own set of present values."""

from dataclasses import dataclass
from math import prod

import numpy as np

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace

MAD_TO_STANDARD_DEVIATION = 1.4826
"""Makes the median absolute deviation of normal noise estimate its standard deviation."""

LONG = 4096
"""Rows of at least this length are only partitioned, if `FEW` or fewer positions are needed."""
FEW = 8


def sort_present(values: Array, present: Array) -> Array:
    """The present values along the last axis from small to large, then +∞ for each that is not."""
    xp = array_namespace(values)
    # NumPy sorts faster if not asked for order among equals.
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
    # (…, levels): all levels at once, because for short rows the calls take most of the time.
    position = xp.concat([float_last * level for level in levels], axis=-1)
    lower = xp.astype(xp.floor(position), xp.int64)
    positions = xp.concat([lower, xp.minimum(lower + 1, last)], axis=-1)
    marked = xp.where(present, values, xp.inf)
    if values.shape[-1] < LONG or prod(positions.shape) > FEW or not hasattr(xp, "partition"):
        # Sorting beats selecting: NumPy sorts a few hundred numbers faster than it partitions them.
        in_order = xp.sort(marked, axis=-1, stable=False)
    else:
        in_order = xp.partition(marked, tuple({int(index) for index in xp.reshape(positions, (-1,))}), axis=-1)
    order_statistics = xp.take_along_axis(in_order, positions, axis=-1)
    low = order_statistics[..., : len(levels)]
    high = order_statistics[..., len(levels) :]
    part = position - xp.astype(lower, values.dtype)
    # Rows without present values have two infinities, whose difference would be undefined.
    gap = xp.where(part > 0, high, xp.zeros_like(high)) - xp.where(part > 0, low, xp.zeros_like(low))
    results = low + part * gap
    return [results[..., level_index] for level_index in range(len(levels))]


def median_in_order(in_order: Array, count: Array) -> Array:
    """`median` of values that `sort_present` has put in order, with how many are present, (…, 1)."""
    xp = array_namespace(in_order)
    last = xp.maximum(count - 1, xp.zeros_like(count))
    low, high = (xp.take_along_axis(in_order, position, axis=-1) for position in (last // 2, (last + 1) // 2))
    return 0.5 * (low + high)[..., 0]


def median(values: Array, present: Array) -> Array:
    """Median of the present values along the last axis; +∞ where there is none."""
    return quantiles(values, present, (0.5,))[0]


def scaled_mad(values: Array, present: Array, centre: Array) -> Array:
    """1.4826 × the median of |value − centre|: a standard deviation that outliers cannot move."""
    xp = array_namespace(values)
    return MAD_TO_STANDARD_DEVIATION * median(xp.abs(values - centre[..., None]), present)


def infinite_unless(present: Array, dtype: object) -> Array:
    """0 where present, +∞ where not; added to values, it sorts absent values to the end.

    Unlike `where`, arithmetic takes the same time for every mask.
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
    position: Array
    """Position, in order, of the largest value of the smallest half, (people, 1)."""

    @classmethod
    def of_present(cls, present: Array, features: int, dtype: object) -> "SmallestHalf":
        """For (people, decision points)."""
        xp = array_namespace(present)
        count = xp.sum(present, axis=-1, dtype=xp.int64, keepdims=True)
        position = xp.maximum(xp.minimum((count + features + 1) // 2, count) - 1, xp.zeros_like(count))
        return cls(infinite_unless(present, dtype), position)

    def choose(self, values: Array) -> Array:
        """Which of (…, people, decision points); further axes before are further sets of values."""
        xp = array_namespace(values)
        values = values + self.absent
        position = xp.broadcast_to(self.position, (*values.shape[:-1], 1))
        limit = xp.take_along_axis(xp.sort(values, axis=-1, stable=False), position, axis=-1)
        # A participant without rows has an infinite limit, and no row is chosen.
        return values <= xp.minimum(limit, xp.full_like(limit, xp.finfo(values.dtype).max))
