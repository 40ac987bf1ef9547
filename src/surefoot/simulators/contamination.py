"""Outliers put into clean logs, with the truth about which decision points were touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, did_you_mean
from surefoot.numerics.random_streams import streams
from surefoot.simulators.base import Seed

MECHANISMS = ("sensor", "prompted", "careless")


@dataclass(frozen=True, eq=False)
class Contaminated:
    """Logs with outliers, and which rows have one."""

    logs: Trajectories
    touched: NDArray[np.bool_]


def contaminate(
    logs: Trajectories, *, mechanism: str, ratio: float = 0.04, strength: float = 5.0, seed: Seed
) -> Contaminated:
    """Put outliers into a share `ratio` (ψ) of each participant's decision points, `strength` (ν) times the participant's
    average size.

    `sensor`: every state variable and the reward move by ± ν × the participant's mean absolute value of it, signs at random.
    `prompted`: only decision points with an action other than 0; the reward rises by ν × the participant's mean absolute
    reward.
    `careless`: every state variable is drawn uniformly from the participant's range of it; the reward is right, ν unused.
    A participant has round(ψ · decision points) outliers, under `prompted` at most as many as there are prompted decision
    points. With one seed a larger ratio touches all that a smaller one touches, in the same way.
    """
    if mechanism not in MECHANISMS:
        raise InputError(
            f"there is no mechanism '{mechanism}'{did_you_mean(mechanism, MECHANISMS)}; choose from {list(MECHANISMS)}"
        )
    if not 0 <= ratio <= 1:
        raise InputError(f"ratio is {ratio}; it is a share of the decision points, between 0 and 1")
    if not (np.isfinite(strength) and strength >= 0):
        raise InputError(f"strength is {strength}; it must be a finite number of at least 0")
    values = np.column_stack([logs.state, logs.reward])
    moved = values.copy()
    touched = np.zeros(len(logs), dtype=bool)
    for participant_index, rng in enumerate(streams(seed, "outliers", logs.participants)):
        rows = logs.order[logs.starts[participant_index] : logs.starts[participant_index + 1]]
        shuffled = rng.permutation(len(rows))
        signs = rng.choice((-1.0, 1.0), values[rows].shape)
        candidates = shuffled[logs.action[rows[shuffled]] != 0] if mechanism == "prompted" else shuffled
        chosen = candidates[: round(ratio * len(rows))]
        if mechanism == "careless":
            answers = _uniform_over_range(logs.state[rows], rng)
            moved[rows[chosen], :-1] = answers[chosen]
        else:
            if mechanism == "prompted":
                signs[:, :-1], signs[:, -1] = 0.0, 1.0
            moved[rows[chosen]] += strength * _mean_absolute(values[rows]) * signs[chosen]
        touched[rows[chosen]] = True
    return Contaminated(logs.with_values(state=moved[:, :-1], reward=moved[:, -1]), touched)


def _mean_absolute(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every column, over what is present; 0 where nothing is."""
    return np.array([np.abs(column[~np.isnan(column)]).mean() if (~np.isnan(column)).any() else 0.0 for column in values.T])


def _uniform_over_range(state: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Values between the least and the greatest of every column; what is missing stays missing."""
    missing = np.isnan(state)
    least = np.where(missing, np.inf, state).min(axis=0, initial=np.inf)
    greatest = np.where(missing, -np.inf, state).max(axis=0, initial=-np.inf)
    least, greatest = np.where(np.isfinite(least), (least, greatest), 0.0)
    return np.where(missing, np.nan, least + (greatest - least) * rng.random(state.shape))
