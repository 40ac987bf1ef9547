"""Quantiles of ragged rows: each row of a padded array has its own set of present values."""

from __future__ import annotations

from surefoot.numerics.arrays import Array, array_namespace

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
    positions = [xp.astype(last, values.dtype) * level for level in levels]
    below = [xp.astype(xp.floor(position), xp.int64) for position in positions]
    places = [(place, xp.minimum(place + 1, last)) for place in below]
    in_order = _order_places(values, present, xp.concat([place for pair in places for place in pair]))
    results = []
    for position, (lower, upper) in zip(positions, places, strict=True):
        low = xp.take_along_axis(in_order, lower, axis=-1)
        high = xp.take_along_axis(in_order, upper, axis=-1)
        part = position - xp.astype(lower, values.dtype)
        # Where nothing is present both are infinite, and their difference would be undefined.
        gap = xp.where(part > 0, high, xp.zeros_like(high)) - xp.where(part > 0, low, xp.zeros_like(low))
        results.append((low + part * gap)[..., 0])
    return results


def _order_places(values: Array, present: Array, places: Array) -> Array:
    """`sort_present`, or, sooner for few long rows, only so far that these places hold what they would."""
    xp = array_namespace(values)
    if values.shape[-1] < LONG or places.shape[0] > FEW or not hasattr(xp, "partition"):
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
