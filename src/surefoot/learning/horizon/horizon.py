"""What a horizon is: how far ahead an action's consequences are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.horizon.advantage import Advantage
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, look_ahead
from surefoot.learning.horizon.uncertainty import Uncertainty, estimate_uncertainty
from surefoot.learning.part import Part, make_part
from surefoot.learning.penalty_units import PenaltyUnits
from surefoot.learning.pooling import Partial, Pooling
from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.priors import PlacedPrior
from surefoot.numerics.arrays import Engine
from surefoot.registry import Registry


@dataclass(frozen=True, eq=False)
class HorizonTask:
    """The data and the parts of a method with which a horizon learns."""

    logs: Trajectories
    critic: Critic
    pooling: Pooling
    critic_sees: NDArray[np.float64]
    policy_sees: NDArray[np.float64]
    units: PenaltyUnits
    critic_penalty: float
    penalize_intercept: bool
    discount: NDArray[np.float64]
    """How much every row counts, (rows,): less where it is forgotten."""
    centre: NDArray[np.float64] | None
    """The probabilities at which actions are centred, (rows, actions − 1); None: they are not."""
    engine: Engine
    prior: PlacedPrior | None = None
    """Of the coefficients of the reward."""

    @property
    def correlated_differences(self) -> bool:
        return isinstance(self.pooling, Partial) and self.pooling.correlated_differences

    @property
    def random_walk(self) -> float | str | None:
        """q of everybody's coefficients, or `estimate`; None: people do not change."""
        return self.pooling.random_walk if isinstance(self.pooling, Partial) else None

    def penalties(self, features: int) -> NDArray[np.float64]:
        """ζ of every feature of x(s, a), then of every nuisance column."""
        logs = self.logs
        rows = logs.order[logs.usable[logs.order]]  # A sample of them is the same in whatever order they came.
        scaling = self.units.measure(logs.state[rows][None], logs.reward[rows][None], np.ones((1, len(rows))))
        penalty = self.units.penalise_critic(
            scaling, self.critic_penalty, actions=logs.actions, intercept=self.penalize_intercept
        )[0]
        return np.append(penalty, np.full(features - len(penalty), self.critic_penalty))


@dataclass(frozen=True, eq=False)
class JointFit:
    """What was learned of everybody before the decision rules are: by looking ahead, or by borrowing from each other."""

    judgement: Judgement
    coef: NDArray[np.float64]
    """Of the reward on x(s, a), (fits, features)."""
    gram: NDArray[np.float64]
    """XᵀUX of the decision points that count for it, (fits, features, features)."""
    advantage: Advantage
    """Of every fit."""
    posteriors: tuple[Posterior, ...] = ()
    """With partial pooling: of the reward and, looking ahead, of every next state variable."""
    anybody: JointFit | None = None
    """With partial pooling: one fit for people of whom nothing is known."""

    def restrict(self, fits: NDArray[np.int64], rows: NDArray[np.int64], engine: Engine) -> BatchOutlook:
        """The part of the joint fit for some fits and their rows, −1 where padded."""
        judged = self.judgement
        weights = np.where(rows >= 0, np.nan_to_num(judged.weights[rows]), 0.0)
        parts = (self.coef[fits], self.gram[fits], weights, judged.threshold[fits], judged.n_iter[fits])
        fit = CriticFit(*(engine.to_device(part) for part in (*parts, judged.converged[fits])))
        return BatchOutlook(fit, Advantage(*(engine.to_device(part) for part in vars(self.advantage.of(fits)).values())))

    @property
    def outlook(self) -> Outlook | None:
        """What looking ahead found; None where only the next outcome counts."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Outlook(JointFit):
    """The result of a look-ahead, from which the policies are learned."""

    moments: TransitionMoments
    """Of every participant."""
    model: LookAhead
    """Of every fit."""
    uncertainty: Uncertainty
    transitions: NDArray[np.float64]
    """How many consecutive decision points every fit learned from."""
    penalty: NDArray[np.float64]
    """ζ of every coefficient of the model."""
    population: tuple[LookAhead, Uncertainty] | None = None
    """With partial pooling: the model of β, and what is not known of it."""

    @property
    def outlook(self) -> Outlook:
        return self

    def pool(self) -> tuple[LookAhead, Uncertainty]:
        """One model of everybody, and what is not known about it."""
        if self.population is not None:
            return self.population
        if self.uncertainty.between_people:
            return self.model, self.uncertainty
        model = look_ahead(self.moments.total(), self.penalty, self.model.share.shape[1])
        return model, estimate_uncertainty(model, self.moments, self.penalty)


@dataclass(frozen=True, eq=False)
class BatchOutlook:
    """A joint fit for the fits of one batch, in arrays of its engine."""

    critic: CriticFit
    """The model of the reward: ridge on the decision points that the critic's judgement left."""
    advantage: Advantage


@dataclass(frozen=True)
class Horizon(Part, ABC):
    """How far a method looks; the fields of a subclass are its parameters, and each has a default."""

    kind: ClassVar[str] = "horizon"
    title: ClassVar[str]
    """What is optimised, as it stands in a sentence."""
    looks_ahead: ClassVar[bool] = True
    """Whether what follows the next outcome counts."""

    @abstractmethod
    def look(self, task: HorizonTask) -> JointFit | None:
        """What lies ahead; None where only the next outcome counts, and nobody borrows from others."""


HORIZONS: Registry[type[Horizon]] = Registry("horizon")
register_horizon = HORIZONS.register
"""Adds a class of horizons under its `name`, which must be free."""


def make_horizon(given: Any) -> Horizon:
    """The horizon that is meant by a name, by a mapping with `name` and parameters, or by itself.

    Parameters
    ----------
    given
        `"long-run"`, `{"name": "long-run", "max_gap": 2}` or `LongRun(max_gap=2)`.

    Returns
    -------
    Horizon

    Examples
    --------
    >>> make_horizon("long-run")
    LongRun(max_gap=1, day_boundary=None)
    """
    return make_part(HORIZONS, given)
