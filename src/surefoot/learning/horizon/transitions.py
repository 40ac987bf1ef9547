"""Which decision point follows which: the pairs from which a method learns what an action does to the next state.

Times in whole numbers count decision points; of other times (timestamps, hours) a participant's median spacing is one
decision point. Rows further apart than `max_gap` decision points are not a pair: what happened in between is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary, count_days, count_moments
from surefoot.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Transitions:
    """For every row of the logs the decision point after it."""

    following: NDArray[np.int64]
    """The row of the participant's next decision point, −1 where it is missing or there is none."""
    overnight: NDArray[np.bool_]
    """Whether a night lies in between."""

    @classmethod
    def without(cls, rows: int) -> Transitions:
        """No row is followed by another: of a look at the next outcome only."""
        return cls(np.full(rows, -1), np.zeros(rows, dtype=bool))


def find_transitions(logs: Trajectories, *, max_gap: int = 1, day_boundary: DayBoundary = None) -> Transitions:
    """The pairs of consecutive decision points.

    >>> logs = Trajectories.from_arrays(np.zeros((1, 5, 1)), np.ones((1, 5)), np.zeros((1, 5)), time=[[0, 1, 3, 4, 5]])
    >>> found = find_transitions(logs, day_boundary=5)
    >>> found.following, found.overnight
    (array([ 1, -1,  3,  4, -1]), array([False, False, False,  True, False]))
    """
    order = logs.order
    person = logs.participant_index[order]
    moment = count_moments(logs.time[order])
    same = person[1:] == person[:-1]
    steps = np.diff(moment)
    spacing = np.ones(len(steps))
    if moment.dtype.kind != "i":
        spacing = _find_median_spacing(person[:-1][same], steps[same], len(logs.participants))[person[:-1]]
    near = same & (steps <= (max_gap + 0.5) * spacing)
    overnight = np.zeros(len(steps), dtype=bool)
    if day_boundary is not None:
        days = np.diff(count_days(logs.time[order], day_boundary, logs.names.time))
        overnight = same & (days == 1)
        near |= overnight & (moment.dtype.kind == "f")
        near &= days <= 1
    transitions = Transitions(np.full(len(logs), -1), np.zeros(len(logs), dtype=bool))
    pairs = np.flatnonzero(near)
    transitions.following[order[pairs]] = order[pairs + 1]
    transitions.overnight[order[pairs]] = overnight[pairs]
    return transitions


def _find_median_spacing(person: NDArray[np.int64], steps: NDArray[np.float64], people: int) -> NDArray[np.float64]:
    """The (lower) median of everybody's own steps, by participant; 0 where there is none."""
    counts = np.bincount(person, minlength=people)
    first = np.cumsum(counts) - counts
    ordered = steps[np.lexsort((steps, person))]
    medians = np.zeros(people)
    known = np.flatnonzero(counts)
    medians[known] = ordered[first[known] + (counts[known] - 1) // 2]
    return medians
