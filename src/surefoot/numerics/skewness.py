"""Skewness by moments and by medians."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEDCOUPLE_POINTS = 2001


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
