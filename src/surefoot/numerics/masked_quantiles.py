"""Quantiles of ragged rows: each row of a padded array has its own set of present values."""

from __future__ import annotations

from surefoot.numerics.arrays import Array, array_namespace

MAD_TO_STANDARD_DEVIATION = 1.4826
"""Makes the median absolute deviation of normal noise estimate its standard deviation."""


def sort_present(values: Array, present: Array) -> Array:
    """The present values along the last axis from small to large, then +∞ for each that is not."""
    xp = array_namespace(values)
    # Sorting beats selecting here: NumPy sorts a few hundred numbers faster than it partitions them, if not asked for order
    # among equals.
    return xp.sort(xp.where(present, values, xp.inf), axis=-1, stable=False)


def quantiles(values: Array, present: Array, levels: tuple[float, ...]) -> list[Array]:
    """Linearly interpolated quantiles (NumPy's default) of the present values along the last axis.

    A row with no present value gets +∞: nothing lies above it.

    >>> import numpy as np
    >>> quantiles(np.array([[1.0, 2.0, 3.0, 99.0]]), np.array([[True, True, True, False]]), (0.5,))
    [array([2.])]
    """
    xp = array_namespace(values)
    in_order = sort_present(values, present)
    count = xp.sum(xp.astype(present, xp.int64), axis=-1, keepdims=True)
    last = xp.maximum(count - 1, xp.zeros_like(count))
    results = []
    for level in levels:
        position = xp.astype(last, values.dtype) * level
        below = xp.astype(xp.floor(position), xp.int64)
        low = xp.take_along_axis(in_order, below, axis=-1)
        high = xp.take_along_axis(in_order, xp.minimum(below + 1, last), axis=-1)
        part = position - xp.astype(below, values.dtype)
        # Where nothing is present both are infinite, and their difference would be undefined.
        gap = xp.where(part > 0, high, xp.zeros_like(high)) - xp.where(part > 0, low, xp.zeros_like(low))
        results.append((low + part * gap)[..., 0])
    return results


def median(values: Array, present: Array) -> Array:
    """Median of the present values along the last axis; +∞ where there is none."""
    return quantiles(values, present, (0.5,))[0]


def scaled_mad(values: Array, present: Array, centre: Array) -> Array:
    """1.4826 × the median of |value − centre|: a standard deviation that outliers cannot move."""
    xp = array_namespace(values)
    return MAD_TO_STANDARD_DEVIATION * median(xp.abs(values - centre[..., None]), present)
