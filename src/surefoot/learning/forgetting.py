"""Forgetting: people change, so that what lies long ago says less of what they are like now."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError

FORGOTTEN = 1e-30
"""The least weight: 0 would say that a decision point cannot be used, or that a critic left it out."""


def count_back(logs: Trajectories) -> NDArray[np.int64]:
    """How many of the participant's logged decision points, available or not, come after each row.

    >>> count_back(Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.zeros((2, 3))))
    array([2, 1, 0, 2, 1, 0])
    """
    later = np.empty(len(logs), dtype=np.int64)
    later[logs.order] = np.repeat(logs.starts[1:], np.diff(logs.starts)) - 1 - np.arange(len(logs))
    return later


def discount_rows(logs: Trajectories, rate: float) -> NDArray[np.float64]:
    """ρ^k for a row that lies k decision points before the participant's last one, (rows,).

    Counted in decision points and not in days: that needs no day to be known, and a break in which nothing was logged, and
    so nothing was learned, is nobody's reason to forget.
    """
    if rate == 1:
        return np.ones(len(logs))
    return np.maximum(rate ** count_back(logs).astype(np.float64), FORGOTTEN)


def warn_of_oblivion(rate: float, features: int, people: int) -> None:
    """Warn if the people who share a fit remember fewer decision points than there are features."""
    remembered = people / (1 - rate) if rate < 1 else np.inf
    if remembered < features:
        text = (
            f"forgetting = {rate:g} leaves what about {remembered:.2g} decision points hold, fewer than the critic's "
            f"{features} features, so the penalty decides the rest; take a rate nearer to 1, or pool people"
        )
        warnings.warn(text, FitWarning, stacklevel=4)


def check_forgetting(rate: float) -> None:
    """Refuse a rate with which nothing, or more than everything, would be remembered."""
    if not 0 < rate <= 1:
        raise InputError(
            f"forgetting is {rate}; it is above 0 and at most 1: with 0.99 the decision point 100 before the participant's "
            "last one counts 0.37 times, with 1 all count alike"
        )
