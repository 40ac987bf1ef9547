"""S7, people who differ: one policy each, one for all, or what lies between, when the truth differs from person to person.

Every participant of HeartSteps has coefficients of their own, `spread` times as different as at spread 1. Of every fit two
things are measured: how far its coefficients of the reward are from everybody's truth, and what its policy earns each
participant in the long run beside never prompting, under the same random numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.experiments.s7 import EVALUATED, RunLength
from surefoot.learning.methods import Method, method
from surefoot.policies import coin, never
from surefoot.simulators import HeartSteps

SPREADS = (0.0, 0.5, 1.0, 2.0)
POINTS = (42, 105, 210)
HARMED = 20.0
"""A participant is harmed who loses more than so many steps a decision point beside never prompting."""
FITS: dict[str, dict[str, Any]] = {
    "person": {"pooling": "person", "caution": 0.0},
    "all": {"pooling": "all"},
    "partial": {"pooling": "partial"},
    "partial, κ = 0.5": {"pooling": "partial", "caution": 0.5},
    "partial, κ = 0": {"pooling": "partial", "caution": 0.0},
}
"""`hb-ahead` with these; one each without caution, for with it such a policy does nothing."""


class PeopleRow(NamedTuple):
    """One fit of one replicate."""

    spread: float
    decision_points: int
    fit: str
    coefficient_error: float
    """Root mean square over people of the distance of their reward's coefficients from the truth."""
    difference: float
    """What its policy earns more than never, mean over people."""
    harmed: float
    """Share of people who lose more than 20 steps."""


class PeopleSummary(NamedTuple):
    """One fit over the replicates."""

    spread: float
    decision_points: int
    fit: str
    coefficient_error: float
    difference: float
    standard_error: float
    """Of the difference."""
    harmed: float


def run_people(
    replicate: int, course: RunLength, spreads: Iterable[float] = SPREADS, points: Iterable[int] = POINTS
) -> list[PeopleRow]:
    """One replicate of every spread; a smaller study is the beginning of a larger one."""
    rows = []
    for spread in spreads:
        drawn = np.random.SeedSequence(course.seed, spawn_key=(7, replicate, 3))
        simulator = HeartSteps(participants=EVALUATED, spread=spread, seed=drawn)
        truth = np.broadcast_to(simulator.critic_coef, (EVALUATED, 8))
        for size in points:
            dynamics = np.random.SeedSequence(course.seed, spawn_key=(7, replicate, 4))
            logs = simulator.collect(coin(2), decision_points=size, seed=dynamics)
            fits = {name: _fit(method("hb-ahead", **given), logs) for name, given in FITS.items()}
            deciding = {"never": never(2), **{name: fitted.policies_ for name, fitted in fits.items()}}
            numbers = np.random.SeedSequence(course.seed, spawn_key=(7, replicate, 5))
            runs = simulator.run(deciding, steps=course.steps, keep=course.keep, seed=numbers)
            for name, fitted in fits.items():
                error = float(np.sqrt(((fitted.critic_coef_ - truth) ** 2).sum(axis=1).mean()))
                gained: NDArray[np.float64] = runs[name].reward - runs["never"].reward
                rows.append(PeopleRow(spread, size, name, error, float(gained.mean()), float((gained < -HARMED).mean())))
    return rows


def _fit(chosen: Method, logs: Trajectories) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return chosen.fit(logs)


def summarise_people(replicates: list[list[Any]]) -> list[PeopleSummary]:
    """Means over the replicates, in the order of the first."""
    found: dict[tuple[float, int, str], list[PeopleRow]] = {}
    for rows in replicates:
        for row in (PeopleRow(*values) for values in rows):
            found.setdefault(row[:3], []).append(row)
    summaries = []
    for key, same in found.items():
        error, gain, harmed = np.array([row[3:] for row in same]).T
        spread = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
        summaries.append(PeopleSummary(*key, float(error.mean()), float(gain.mean()), spread, float(harmed.mean())))
    return summaries
