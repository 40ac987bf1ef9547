"""Tests whether flags depend on the treatment. If so, the action makes values go missing, and removing them causes bias."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant
from surefoot.reports.numbers import format_percent, format_signed

LEAST_DIFFERENCE = 0.01
"""A difference of less than one flagged decision point in a hundred is too small to change an effect."""
SURELY = 3.0
"""A difference is real beyond this many standard errors; the limit is strict because every nightly update tests several
detectors."""

VERDICTS = ("fine", "look", "unsafe")
GROUPS = 1000
NOT_DIRT = "values go missing after an action: this is an effect of the prompt, not dirt"


class TreatmentDifference(NamedTuple):
    """How much more often a detector flags decision points after one action than after nothing.

    Attributes
    ----------
    detector
        Name of the detector.
    action
        Name of the action.
    after_nothing
        Share of available decision points with a flag.
    after_action
        The same share after the action.
    difference
        Share after the action minus share after nothing, with an interval over participants.
    """

    detector: str
    action: str
    after_nothing: float
    after_action: float
    difference: Interval

    @property
    def verdict(self) -> str:
        """`look` where the 95 % interval excludes zero, `unsafe` where `differs`, else `fine`."""
        if self.differs:
            return "unsafe"
        return "look" if self.difference.excludes_zero else "fine"

    @property
    def differs(self) -> bool:
        """Whether the difference is real, and large enough to matter."""
        size = abs(self.difference.value)
        return size >= LEAST_DIFFERENCE and size > SURELY * self.difference.standard_error

    def describe(self) -> str:
        """One line of text."""
        interval = self.difference
        value, low, high = (format_signed(100 * share, 1) for share in (interval.value, interval.low, interval.high))
        return (
            f"{self.detector} flags {format_percent(self.after_nothing)} of decision points after nothing and "
            f"{format_percent(self.after_action)} after '{self.action}' (difference {value} points, 95 % interval {low} to "
            f"{high})"
        )

    def to_dict(self) -> dict[str, Any]:
        difference = self.difference._asdict()
        return {**self._asdict(), "difference": difference, "differs": self.differs, "verdict": self.verdict}


Counts = dict[tuple[str, str], NDArray[np.float64]]
"""(detector, action) → for every participant: flagged after the action, after the action, flagged after nothing, after
nothing."""


def count_flags(logs: Trajectories, flagged: dict[str, NDArray[np.bool_]]) -> Counts:
    """Counts for every detector (name → flagged rows of the logs) and every action other than nothing."""
    people = len(logs.participants)
    nothing = logs.available & (logs.action == 0)

    def count(group: NDArray[np.bool_]) -> NDArray[np.float64]:
        return sum_by_participant(logs.participant_index, people, group) if group.any() else np.zeros(people)

    counts: Counts = {}
    without = count(nothing)
    for code in range(1, logs.actions):
        treated = logs.available & (logs.action == code)
        given = count(treated)
        for name, rows in flagged.items():
            counted = (count(rows & treated), given, count(rows & nothing), without)
            counts[name, logs.action_names[code]] = np.stack(counted, axis=1)
    return counts


def pool_people(by_participant: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the counts of more than 1,000 participants over 1,000 groups, which give an interval in bounded memory."""
    if len(by_participant) <= GROUPS:
        return by_participant
    return np.add.reduceat(
        by_participant, np.linspace(0, len(by_participant), GROUPS, endpoint=False).astype(np.int64), axis=0
    )


def compare_actions(counts: Counts) -> tuple[TreatmentDifference, ...]:
    """Differences of the flagged shares, for detectors that flagged anything at an available decision point.

    An action that was never taken, or always, cannot be compared.
    """
    differences = []
    for (detector, action), by_participant in counts.items():
        flagged_after_action, after_action, flagged_after_nothing, after_nothing = by_participant.sum(axis=0).tolist()
        if flagged_after_action + flagged_after_nothing == 0 or after_action == 0 or after_nothing == 0:
            continue
        shares = (flagged_after_nothing / after_nothing, flagged_after_action / after_action)
        differences.append(TreatmentDifference(detector, action, *shares, difference_interval(*by_participant.T)))
    return tuple(differences)


def find_worst_verdict(differences: Iterable[TreatmentDifference]) -> str:
    """The most serious verdict: `fine`, `look` or `unsafe`."""
    return max((difference.verdict for difference in differences), key=VERDICTS.index, default="fine")
