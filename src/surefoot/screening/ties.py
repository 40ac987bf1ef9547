"""Repeated values: a continuous column has hardly any, a rounded column has many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SET_ASIDE = 5
"""The most repeated values are not counted: a code or a dead sensor must not make a continuous column look rounded."""
UNIQUE = 0.95
"""In a continuous column more than this share of the other values occur once."""


class Ties(NamedTuple):
    """Distinct values in ascending order and the number of runs of each."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    continuous: bool


def count_ties(values: NDArray[np.float64]) -> Ties:
    """Count the runs of every value of (participants, decision points), NaN where missing.

    >>> count_ties(np.array([[1.5, 1.5, 2.0, 1.5]])).counts.tolist()
    [2, 1]
    """
    distinct, counts = np.unique(_list_runs(values), return_counts=True)
    rarest = np.sort(counts)[: max(len(counts) - SET_ASIDE, 0)]
    continuous = bool(rarest.size) and bool((rarest == 1).sum() > UNIQUE * rarest.sum())
    return Ties(distinct, counts, continuous)


def any_repeats(values: NDArray[np.float64], times: int) -> bool:
    """Whether any value begins at least `times` runs. This takes less time than counting the runs of every value.

    >>> any_repeats(np.array([[1.5, 1.5, 2.0, 1.5]]), 2), any_repeats(np.array([[1.5, 1.5, 2.0, 1.5]]), 3)
    (True, False)
    """
    in_order = np.sort(_list_runs(values))
    pairs = max(len(in_order) - times + 1, 0)
    return bool((in_order[times - 1 :] == in_order[:pairs]).any())


def _list_runs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value of every run."""
    before = np.concatenate([np.full_like(values[:, :1], np.nan), values[:, :-1]], axis=1)
    return np.asarray(values[~np.isnan(values) & (values != before)])


def is_continuous(values: NDArray[np.float64]) -> bool:
    """Whether hardly any two values are the same."""
    return count_ties(values).continuous
