"""What a horizon is: how far ahead an action's consequences are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.decision_times import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.horizon.advantage import Advantage
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, look_ahead
from surefoot.learning.horizon.uncertainty import Uncertainty, estimate_uncertainty
from surefoot.learning.penalty_units import PenaltyUnits
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
    units: PenaltyUnits
    critic_penalty: float
    penalize_intercept: bool
    max_gap: int
    day_boundary: DayBoundary
    engine: Engine

    def penalties(self, features: int) -> NDArray[np.float64]:
        """ζ of every feature of x(s, a), then of every nuisance column."""
        logs, rows = self.logs, self.logs.usable
        scaling = self.units.measure(logs.state[rows][None], logs.reward[rows][None], np.ones((1, int(rows.sum()))))
        own = self.units.penalise_critic(
            scaling, self.critic_penalty, actions=logs.actions, intercept=self.penalize_intercept
        )[0]
        return np.append(own, np.full(features - len(own), self.critic_penalty))


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
    penalty: NDArray[np.float64]
    """ζ of every coefficient of the model."""

    def pool(self) -> tuple[LookAhead, Uncertainty]:
        """One model of everybody, and what is not known about it."""
        if self.uncertainty.between_people:
            return self.model, self.uncertainty
        found = look_ahead(self.moments.total(), self.penalty, self.model.share.shape[1])
        return found, estimate_uncertainty(found, self.moments, self.penalty)

    def restrict(self, fits: NDArray[np.int64], rows: NDArray[np.int64], engine: Engine) -> BatchOutlook:
        """What concerns some fits and their rows, −1 where padded."""
        judged, units = self.judgement, len(self.model.coef)
        rewards = self.moments.reward if units == len(self.moments.reward.gram) else self.moments.reward.total()
        d = self.model.share.shape[1] * self.model.coef.shape[-1]
        weights = np.where(rows >= 0, np.nan_to_num(judged.kept[rows]), 0.0)
        fit = (self.model.coef[fits, :d, 0], rewards.gram[fits, :d, :d], weights)
        parts = (*fit, judged.threshold[fits], judged.n_iter[fits], judged.converged[fits])
        advantage = Advantage(*(engine.to_device(part) for part in vars(self.advantage.of(fits)).values()))
        return BatchOutlook(CriticFit(*(engine.to_device(part) for part in parts)), advantage)


@dataclass(frozen=True, eq=False)
class BatchOutlook:
    """An outlook for the fits of one batch, in arrays of its engine."""

    critic: CriticFit
    """The model of the reward: ridge on the decision points that the critic's judgement left."""
    advantage: Advantage


class Horizon(ABC):
    """How far a method looks."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is optimised, as it stands in a sentence."""
    looks_ahead: ClassVar[bool] = True
    """Whether what follows the next outcome counts."""

    @abstractmethod
    def look(self, task: HorizonTask) -> Outlook | None:
        """What lies ahead; None where only the next outcome counts."""


class ImmediateHorizon(Horizon):
    """Only the outcome that follows a decision counts, as in the paper."""

    name: ClassVar[str] = "immediate"
    title: ClassVar[str] = "the next outcome"
    looks_ahead: ClassVar[bool] = False

    def look(self, task: HorizonTask) -> None:
        return None


HORIZONS: Registry[Any] = Registry("horizon")
register_horizon, find_horizon = HORIZONS.register, HORIZONS.find
register_horizon(ImmediateHorizon())
