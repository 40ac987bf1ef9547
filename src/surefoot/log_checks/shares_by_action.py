"""How often something happens after one action and after nothing, and whether chance explains the difference."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant


class ShareDifference(NamedTuple):
    """The share of decision points after an action, less that after nothing.

    Attributes
    ----------
    interval
        The difference, with a 95 % interval over people.
    p_value
        Of randomisation: how often chance alone gives a difference as large.
    """

    interval: Interval
    p_value: float

    def describe(self) -> str:
        """In percentage points: `+8.2, 95 % interval 4 to 16 percentage points`."""
        value, low, high = (f"{100 * share:+.1f}".replace("-", "−") for share in self.interval[:1] + self.interval[2:])
        return f"{value} percentage points, 95 % interval {low.removeprefix('+')} to {high.removeprefix('+')}"


def compare_shares(
    logs: Trajectories, happened: NDArray[np.bool_], treated: NDArray[np.bool_], nothing: NDArray[np.bool_]
) -> ShareDifference:
    """How often it happened at the treated rows, less how often at those with nothing.

    Where it ignores the action, Σ d (happened − mean) has mean 0 and variance Σ var(d) (happened − mean)², however it
    clusters in people or time, and however a policy chose p from what came before: d = 1{A = a} − p for two actions and
    1{A = a}/p(A) − 1{A = 0}/p(A) for several. Without logged probabilities p is the share of treated rows.
    """
    people = len(logs.participants)
    counts = [
        sum_by_participant(logs.participant_index, people, rows)
        for rows in (happened & treated, treated, happened & nothing, nothing)
    ]
    compared = treated | nothing
    sent = treated[compared]
    taken = logs.probability[compared]
    if np.isnan(taken).any():
        design = sent - sent.mean()
        variance = np.full(len(sent), sent.mean() * (1 - sent.mean()))
    elif logs.actions == 2:
        design = np.where(sent, 1 - taken, taken - 1)
        variance = taken * (1 - taken)
    else:
        design = np.where(sent, 1.0, -1.0) / taken
        variance = design**2
    centred = happened[compared] - happened[compared].mean()
    surprise = abs(design @ centred)
    spread = np.sqrt(variance @ centred**2)
    p_value = 2 * ndtr(-surprise / spread) if spread > 0 else 1.0
    return ShareDifference(difference_interval(*counts), float(p_value))
