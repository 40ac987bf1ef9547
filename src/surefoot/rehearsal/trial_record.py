"""What a rehearsed trial leaves: its logs, what truly happened, who decided, and its updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.trial_rules.choices import SOURCES as DECIDERS

SOURCES = (*DECIDERS, "fixed")
"""Who decided: `fixed` in a trial that does not learn."""


@dataclass(frozen=True)
class UpdateRecord:
    """One update.

    Attributes
    ----------
    day
        The day of the trial that it followed, from 0.
    state
        `done`, `refused`, `waiting` or `failed`.
    refused_by
        The checks that did not pass.
    message
        Why it was not done.
    seconds
        How long it took.
    """

    day: int
    state: str
    refused_by: tuple[str, ...]
    message: str | None
    seconds: float


@dataclass(frozen=True, eq=False)
class TrialRecord:
    """One trial from its first day to its last.

    Attributes
    ----------
    logs
        As the trial leaves them: participant after participant; rewards that were lost, or too late, are missing.
    day
        (rows) The day of the trial, from 0.
    own_day
        (rows) The participant's own day, from 0.
    reward
        (rows) The true reward, reported or not.
    source
        (rows) Who decided: places in `SOURCES`.
    updates
        In their order.
    left
        (people) The own day after which a participant left, NaN for those who stayed.
    """

    logs: Trajectories
    day: NDArray[np.int64]
    own_day: NDArray[np.int64]
    reward: NDArray[np.float64]
    source: NDArray[np.int64]
    updates: list[UpdateRecord]
    left: NDArray[np.float64]
