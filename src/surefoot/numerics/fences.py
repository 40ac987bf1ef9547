"""Skewness, and fences that reject only values that normal noise does not explain.

Arrays are (…, decision points) with `present` False on padding; every row of the leading axes is treated separately.
"""

from collections.abc import Callable

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.action_probabilities import normal_cdf
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION, median, median_in_order, quantiles, sort_present

WINDOW = 2.5
"""Skewness is measured on the values within this many scales of the centre, where no artefact lies."""
SKEWNESS_DEVIATION = 1.8
"""√n × the standard deviation of the skewness of normal values."""
SKEWNESS_TO_G = 0.9
"""For a log-normal exp(gZ), centred at its median and scaled by its MAD, g is about this many times the skewness."""
GAP = 3.0
"""A value this many times as far out as all values before it lies apart."""
SKEWNESS_Z = 2.75
"""Skewness beyond this many standard errors counts as real."""
MEDCOUPLE_POINTS = 2001


def half_normal_cdf(values: Array) -> Array:
    """Distribution function of |Z|: 2Φ(x) − 1 for x ≥ 0."""
    return 2 * normal_cdf(values) - 1


def core_skewness(scores: Array, present: Array) -> Array:
    """Skewness of the scores within the window; 0 where normal scores could be as skewed by chance.

    Artefacts lie outside the window and do not change this moment skewness. It separates log-normal from normal values much
    more reliably than the medcouple does (docs/robustness.md).
    """
    xp = array_namespace(scores)
    core = present & (xp.abs(scores) < WINDOW)
    count = xp.maximum(xp.sum(xp.astype(core, scores.dtype), axis=-1), xp.ones_like(scores[..., 0]))
    mean = xp.sum(xp.where(core, scores, 0.0), axis=-1) / count
    deviation = xp.where(core, scores - mean[..., None], 0.0)
    squares = deviation**2
    variance = xp.sum(squares, axis=-1) / count
    third = xp.sum(squares * deviation, axis=-1) / count  # `**3` would be slower: it uses logarithms
    skewness = third / xp.where(variance > 0, variance, 1.0) ** 1.5
    clear = xp.abs(skewness) * xp.sqrt(count) > SKEWNESS_Z * SKEWNESS_DEVIATION
    return xp.where(clear, skewness, 0.0)


def remove_skewness(values: Array, g: Array) -> Array:
    """log(1 + gx) / g on the long side of a skewed distribution, x on the short: log-normal tails become normal.

    The short side does not change, so that skewness never makes a fence narrower.

    >>> remove_skewness(np.array([[-1.0, np.e - 1]]), np.array([1.0]))
    array([[-1.,  1.]])
    """
    xp = array_namespace(values)
    skewed = g != 0
    if not bool(xp.any(skewed)):
        return values
    skewed_values = values[skewed]
    g = g[skewed][..., None]
    long = skewed_values * g > 0
    size = xp.where(long, xp.abs(g), 1.0)
    stretched = xp.log1p(size * xp.abs(skewed_values)) / size
    straight = values + 0.0  # a copy, in whatever library
    straight[skewed] = xp.where(long, xp.where(skewed_values > 0, stretched, -stretched), skewed_values)
    return straight


def standardise(values: Array, present: Array, in_order: Array | None = None) -> Array:
    """Values about their median in units of their scaled MAD, straightened where they are clearly skewed; `in_order` may be
    the present values in order already."""
    xp = array_namespace(values)
    count = xp.sum(present, axis=-1, dtype=xp.int64, keepdims=True)
    centre = median_in_order(sort_present(values, present) if in_order is None else in_order, count)
    deviation = xp.where(present, values - xp.where(xp.isfinite(centre), centre, 0.0)[..., None], 0.0)
    unit = MAD_TO_STANDARD_DEVIATION * median_in_order(sort_present(xp.abs(deviation), present), count)
    z = deviation / xp.where((unit > 0) & xp.isfinite(unit), unit, 1.0)[..., None]
    return remove_skewness(z, SKEWNESS_TO_G * core_skewness(z, present))


def has_few_values(values: Array, present: Array, share: float, in_order: Array | None = None) -> Array:
    """Whether one value fills more than this share of the row: sorted, it equals the entry share·n places later.

    `in_order` may be the present values in order already.
    """
    xp = array_namespace(values)
    in_order = sort_present(values, present) if in_order is None else in_order
    count = xp.sum(present, axis=-1, dtype=xp.int64, keepdims=True)
    step = xp.astype(xp.floor(share * xp.astype(count, values.dtype)), xp.int64)
    again = (in_order[..., 1:] == in_order[..., :-1]) & (in_order[..., 1:] < xp.inf)
    has_few = xp.any(again, axis=-1) | (step == 0)[..., 0]
    rows = xp.nonzero(has_few)  # The other rows have no repeated value.
    if rows[0].shape[0]:
        in_order = in_order[rows]
        position = xp.arange(in_order.shape[-1], device=device(in_order))
        later = position + step[rows]
        inside = later < count[rows]
        again = xp.take_along_axis(in_order, xp.where(inside, later, position), axis=-1)
        has_few[rows] = xp.any(inside & (again == in_order), axis=-1)
    return has_few


def adaptive_fence(scores: Array, present: Array, start: float, end: float, cdf: Callable[[Array], Array]) -> Array:
    """Reject as many of the largest scores as their tail exceeds what `cdf` expects (Gervini and Yohai, 2002).

    With the scores in order, d = max over s₍ᵢ₎ ≥ start of F(s₍ᵢ₎) − (i − 1)/n, and the ⌊n d⌋ largest lie beyond the fence,
    as does everything beyond `end`. No score below `start` is rejected, and hardly any score of clean data is.

    >>> scores = np.array([[0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2.9, 3.0, 3.1]])
    >>> adaptive_fence(scores, scores > 0, 2.5, 3.5, half_normal_cdf)  # three of ten are two too many
    array([2.95])
    """
    xp = array_namespace(scores)
    in_order = sort_present(scores, present)
    count = xp.sum(xp.astype(present, xp.int64), axis=-1, keepdims=True)
    n = xp.astype(xp.maximum(count, xp.ones_like(count)), scores.dtype)
    # Only the tails matter, from the beginning of the longest one.
    begin = int(xp.min(xp.sum(xp.astype(in_order < start, xp.int64), axis=-1)))
    largest = in_order[..., min(begin, in_order.shape[-1] - 1) :]
    earlier = xp.arange(in_order.shape[-1], device=device(in_order))[-largest.shape[-1] :]
    tail = xp.isfinite(largest) & (largest >= start)
    excess = xp.max(xp.where(tail, cdf(largest) - earlier / n, 0.0), axis=-1, keepdims=True)
    excess = xp.maximum(excess, xp.zeros_like(excess))  # Below zero where a whole tail is shorter than expected.
    # A hair more than n d: whole numbers must not fall short by rounding.
    rejected = xp.astype(xp.floor(n * excess + 1e-9), xp.int64)
    last = xp.maximum(count - rejected - 1, xp.zeros_like(count))
    largest_inside = xp.take_along_axis(in_order, last, axis=-1)
    following = xp.take_along_axis(in_order, xp.minimum(last + 1, xp.maximum(count - 1, xp.zeros_like(count))), axis=-1)
    fence = xp.where(rejected > 0, 0.5 * (largest_inside + following), largest_inside)
    return xp.clip(fence, start, end)[..., 0]


def gap_fence(values: Array, present: Array) -> tuple[Array, Array]:
    """|x − median| and its fence, assuming only that artefacts lie apart from other values: (…, decision points) and (…,).

    Going outwards from the half of the values next to the median, the fence is GAP times the last deviation before a gap: a
    next one further out than that. A usual deviation (the MAD; where half of the values are the same, a small deviation of
    the others, their first decile) counts as the least. Yes or no, weekdays, many zeros and a long tail: all have no gap.

    >>> gap_fence(np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 9.0]]), np.ones((1, 10), dtype=bool))
    (array([[0., 0., 0., 0., 0., 0., 1., 1., 2., 9.]]), array([6.]))
    """
    xp = array_namespace(values)
    centre = median(values, present)
    size = xp.where(present, xp.abs(values - xp.where(xp.isfinite(centre), centre, 0.0)[..., None]), 0.0)
    unit = median(size, present)
    (otherwise,) = quantiles(size, present & (size > 0), (0.1,))
    unit = xp.where((unit > 0) & xp.isfinite(unit), unit, xp.where(xp.isfinite(otherwise), otherwise, 1.0))[..., None]
    in_order = sort_present(size, present)
    count = xp.sum(xp.astype(present, xp.int64), axis=-1, keepdims=True)
    next_position = xp.arange(in_order.shape[-1], device=device(in_order)) + 1
    following = xp.concat([in_order[..., 1:], xp.full_like(in_order[..., :1], xp.inf)], axis=-1)
    reach = GAP * xp.maximum(in_order, unit)
    gap = (following > reach) & (2 * next_position >= count)
    return size, xp.min(xp.where(gap, reach, xp.inf), axis=-1)


def skewness(values: NDArray[np.float64]) -> float:
    """The moment coefficient E(x − μ)³ / σ³; a single outlier can change it arbitrarily."""
    spread = values.std() if len(values) else 0.0
    return float(((values - values.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0


def medcouple(values: NDArray[np.float64]) -> float:
    """Median of ((x − m) − (m − y)) / (x − y) over x ≥ m ≥ y, m the median: a robust skewness in [−1, 1].

    More than 2,001 values are represented by 2,001 evenly spaced order statistics.

    >>> medcouple(np.array([1.0, 2.0, 3.0])), medcouple(np.array([0.0, 1.0, 5.0]))
    (0.0, 0.3)
    """
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    if len(ordered) > MEDCOUPLE_POINTS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MEDCOUPLE_POINTS).round().astype(np.int64)]
    centred = ordered - np.median(ordered)
    above = centred[centred >= 0]
    below = centred[centred <= 0]
    width = above[:, None] - below
    inside = width > 0
    # Pairs of values that both are the median get the sign of their order, as Brys, Hubert and Struyf define it.
    tied = int((centred == 0).sum())
    positions = np.arange(tied)
    kernel = np.divide(above[:, None] + below, width, out=np.zeros_like(width), where=inside)
    kernel[:tied, kernel.shape[1] - tied :] = np.sign(np.add.outer(positions, positions) - tied + 1)
    return float(np.median(kernel))
