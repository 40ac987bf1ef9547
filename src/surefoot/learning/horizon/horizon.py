"""What a horizon is: how far ahead an action's consequences are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.critics import Critic
from surefoot.learning.horizon.advantage import Advantage
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments
from surefoot.learning.horizon.transitions import DayBoundary
from surefoot.learning.horizon.uncertainty import Uncertainty
from surefoot.learning.pooling import Pooling
from surefoot.numerics.engines import Engine
from surefoot.registry import Registry


@dataclass(frozen=True, eq=False)
class HorizonTask:
    """What a horizon learns from, and with which parts."""

    logs: Trajectories
    critic: Critic
    pooling: Pooling
    critic_sees: NDArray[np.float64]
    policy_sees: NDArray[np.float64]
    critic_penalty: float
    penalize_intercept: bool
    max_gap: int
    day_boundary: DayBoundary
    engine: Engine

    def penalties(self, features: int) -> NDArray[np.float64]:
        """ζ of every feature."""
        found = np.full(features, self.critic_penalty)
        found[0] *= self.penalize_intercept
        return found


@dataclass(frozen=True, eq=False)
class Outlook:
    """What looking ahead found; the policies are learned from it."""

    judgement: Judgement
    moments: TransitionMoments
    """Of every participant."""
    model: LookAhead
    """Of every fit."""
    uncertainty: Uncertainty
    advantage: Advantage
    transitions: NDArray[np.float64]
    """How many consecutive decision points every fit learned from."""

    def weights(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of some rows, −1 where padded: 1 where a decision point counts for the reward, else 0."""
        return np.where(rows >= 0, np.nan_to_num(self.judgement.kept[rows]), 0.0)


class Horizon(ABC):
    """How far a method looks."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is optimised, as it stands in a sentence."""

    @abstractmethod
    def look(self, task: HorizonTask) -> Outlook | None:
        """What lies ahead; None where only the next outcome counts."""


class ImmediateHorizon(Horizon):
    """Only the outcome that follows a decision counts, as in the paper."""

    name: ClassVar[str] = "immediate"
    title: ClassVar[str] = "the next outcome"

    def look(self, task: HorizonTask) -> None:
        return None


HORIZONS: Registry[Any] = Registry("horizon")
register_horizon, find_horizon = HORIZONS.register, HORIZONS.find
register_horizon(ImmediateHorizon())
