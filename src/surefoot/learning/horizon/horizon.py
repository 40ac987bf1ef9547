"""What a horizon is (how far ahead an action's consequences are counted), and the immediate one, as in the paper.

With partial pooling a horizon also turns everybody's moments into posteriors of their coefficients.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.learning.batch import Learnable
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.horizon.look_ahead import (
    Advantage,
    LookAhead,
    PooledView,
    TransitionMoments,
    Uncertainty,
    estimate_uncertainty,
    look_ahead,
    posterior_advantage,
)
from surefoot.learning.horizon.transitions import Judgement, TransitionData, Transitions, judge_rows
from surefoot.learning.part import Part, make_part
from surefoot.learning.penalties import PenaltyUnits, PlacedPrior
from surefoot.learning.pooling import Pooling
from surefoot.learning.pooling.mixed_effects import Moments, Posterior, fit_mixed_effects
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk, fit_random_walk
from surefoot.numerics.arrays import Engine
from surefoot.registry import Registry

Floats = NDArray[np.float64]
FEW_PEOPLE = 5


@dataclass(frozen=True, eq=False)
class HorizonTask:
    """The data and the parts of a method with which a horizon learns."""

    logs: Trajectories
    critic: Critic
    pooling: Pooling
    critic_sees: Floats
    policy_sees: Floats
    units: PenaltyUnits
    critic_penalty: float
    penalize_intercept: bool
    discount: Floats
    """How much every row counts, (rows,): less where it is forgotten."""
    centre: Floats | None
    """The probabilities at which actions are centred, (rows, actions − 1); None: they are not."""
    engine: Engine
    prior: PlacedPrior | None = None
    """Of the coefficients of the reward."""

    def read(self, transitions: Transitions | None = None) -> TransitionData:
        """The logs as the critic sees them; with transitions, actions are not centred."""
        centre = self.centre if transitions is None else None
        return TransitionData(self.logs, self.critic_sees, self.discount, self.engine, transitions, centre)

    def judge(self, data: TransitionData) -> Judgement:
        """The critic's judgement of all rows."""
        seen = np.maximum(self.critic_sees, self.policy_sees)
        return judge_rows(data, self.critic, self.pooling, seen, self.units)

    def penalties(self, features: int) -> Floats:
        """ζ of every feature of x(s, a), then of every nuisance column."""
        logs = self.logs
        rows = logs.order[logs.usable[logs.order]]  # A sample of them is the same in whatever order they came.
        scaling = self.units.measure(logs.state[rows][None], logs.reward[rows][None], np.ones((1, len(rows))))
        penalty = self.units.penalise_critic(
            scaling, self.critic_penalty, actions=logs.actions, intercept=self.penalize_intercept
        )[0]
        return np.append(penalty, np.full(features - len(penalty), self.critic_penalty))

    def find_walks(self, data: TransitionData, *weights: Floats) -> list[Walk | None]:
        """The data of the random walks of the reward and of the states; None if people do not change."""
        step = self.pooling.walk_step
        if step is None:
            return [None] * len(weights)
        blocks = TimeBlocks.of_logs(self.logs)
        by_block = [
            data.moments(*(weights_of_rows * (blocks.block == block) for weights_of_rows in weights))
            for block in range(blocks.count)
        ]
        return [Walk(blocks, moments, step) for moments in zip(*by_block, strict=True)]

    def fit_posteriors(
        self,
        moments: Moments,
        penalty: Floats,
        walk: Walk | None,
        *,
        variance_left: float = 1.0,
        prior: PlacedPrior | None = None,
    ) -> tuple[Posterior, ...]:
        """Of every response of everybody's moments on x(s, a), and nuisances after it; with a `walk` of everybody's
        last coefficients."""
        basis = centre_states(moments, len(self.logs.state_names), self.logs.actions)
        posteriors = [
            fit_mixed_effects(
                *(moments, penalty),
                response=response,
                basis=basis,
                correlated=self.pooling.correlates,
                variance_left=variance_left,
                prior=None if prior is None else (prior.mean, prior.scale),
            )
            for response in range(moments.cross.shape[-1])
        ]
        if walk is None:
            return tuple(posteriors)
        return tuple(fit_random_walk(posterior, walk, response) for response, posterior in enumerate(posteriors))


@dataclass(frozen=True, eq=False)
class BatchOutlook:
    """A joint fit for the fits of one batch, in arrays of its engine."""

    critic: CriticFit
    """The model of the reward: ridge on the decision points that the critic's judgement left."""
    advantage: Advantage


@dataclass(frozen=True, eq=False)
class JointFit:
    """What was learned of everybody before the decision rules are: by looking ahead, or by borrowing from each other."""

    judgement: Judgement
    coef: Floats
    """Of the reward on x(s, a), (fits, features)."""
    gram: Floats
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
        critic = CriticFit(
            coef=engine.to_device(self.coef[fits]),
            gram=engine.to_device(self.gram[fits]),
            weights=engine.to_device(np.where(rows >= 0, np.nan_to_num(judged.weights[rows]), 0.0)),
            threshold=engine.to_device(judged.threshold[fits]),
            n_iter=engine.to_device(judged.n_iter[fits]),
            converged=engine.to_device(judged.converged[fits]),
        )
        advantage = self.advantage.of(fits)
        return BatchOutlook(critic, Advantage(*(engine.to_device(part) for part in vars(advantage).values())))

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
    transitions: Floats
    """How many consecutive decision points every fit learned from."""
    penalty: Floats
    """ζ of every coefficient of the model."""
    population: tuple[LookAhead, Uncertainty] | None = None
    """With partial pooling: the model of β, and what is not known of it."""

    @property
    def outlook(self) -> Outlook:
        return self

    def pool(self) -> PooledView:
        """One model of everybody, with what is not known about it."""
        total = self.moments.total()
        if self.population is not None:
            model, uncertainty = self.population
        elif self.uncertainty.between_people:
            model = self.model
            uncertainty = self.uncertainty
        else:
            model = look_ahead(total, self.penalty, self.model.share.shape[1])
            uncertainty = estimate_uncertainty(model, self.moments, self.penalty)
        first = total.state.gram[0, 0, : model.coef.shape[-1]]
        people = len(self.moments.state.gram)
        return PooledView(model, uncertainty, np.asarray(first / max(first[0], 1.0)), people)


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
    """The horizon that is meant by a name, by a mapping with `name` and parameters, or by itself."""
    return make_part(HORIZONS, given)


@register_horizon
@dataclass(frozen=True)
class Immediate(Horizon):
    """Only the outcome that follows a decision counts, as in the paper."""

    name: ClassVar[str] = "immediate"
    title: ClassVar[str] = "the next outcome"
    looks_ahead: ClassVar[bool] = False

    def look(self, task: HorizonTask) -> JointFit | None:
        """With partial pooling everybody's coefficients of the reward, drawn towards those of the population."""
        if not task.pooling.borrows:
            return None
        logs = task.logs
        if not logs.usable.any():
            Learnable.of_logs(logs).require(logs.names.reward)
        data = task.read()
        judgement = task.judge(data)
        weights = np.nan_to_num(judgement.weights)
        (moments,) = data.moments(weights)
        (walk,) = task.find_walks(data, weights)
        penalty = task.penalties(moments.gram.shape[-1])
        variance_left = estimate_variance_left(moments, judgement.threshold, penalty)
        posteriors = task.fit_posteriors(moments, penalty, walk, variance_left=variance_left, prior=task.prior)
        reward = posteriors[0]
        warn_of_few_people(reward, logs.participants)
        count = np.full(len(reward.mean), moments.count.sum())
        advantage = posterior_advantage(reward.mean, reward.covariance, logs.actions, count)
        of_anybody = posterior_advantage(reward.population[None], reward.new_covariance[None], logs.actions, count[:1])
        cleared = judgement.clear_thresholds()
        anybody = JointFit(cleared, reward.population[None], moments.total().gram, of_anybody)
        return JointFit(judgement, reward.mean, moments.gram, advantage, posteriors, anybody)


def estimate_variance_left(moments: Moments, threshold: Floats, penalty: Floats) -> float:
    """Which share κ of the variance of normal noise a critic left, by where its limits lie among the residuals it kept.

    Noise N(0, σ²) cut at ± cσ keeps κ(c) σ² = (1 − 2cφ(c) / (2Φ(c) − 1)) σ²: ε / s² = c² / κ(c) gives c, with ε the limit of
    squared residuals and s² their variance, both of a typical participant. A cut also makes coefficients less certain than
    the rest of the noise says, by the same factor once more (Huber's E ψ² / (E ψ′)²).
    """
    d = moments.gram.shape[-1]
    coefficients = np.asarray(moments.solve(penalty)[0])[:, :, 0]
    squares = moments.squares[:, 0, 0] - (coefficients * moments.cross[:, :, 0]).sum(axis=1)
    free = moments.count - d
    informative = np.isfinite(threshold) & (free >= d) & (squares > 0)
    if not informative.any():
        return 1.0
    cut = np.linspace(0.5, 6.0, 1101)
    density = np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
    left = 1 - 2 * cut * density / erf(cut / np.sqrt(2))
    typical = np.median(threshold[informative] * free[informative] / squares[informative])
    return float(np.interp(typical, cut**2 / left, left))


def centre_states(moments: Moments, states: int, actions: int) -> Floats:
    """The columns in which people differ independently, in terms of x(s, a): states are taken from their mean.

    Then an intercept is what holds at the mean state, and where a state's zero lies (°C or °F) changes nothing.
    """
    total = np.asarray(moments.gram).sum(axis=0)
    size = states + 1
    basis = np.eye(len(total))
    for start in range(0, size * actions, size):
        basis[start, start + 1 : start + size] = -total[0, 1:size] / max(total[0, 0], 1.0)
    return basis


def warn_of_few_people(posterior: Posterior, participants: NDArray[Any]) -> None:
    """When nothing, or little, is known of how people differ."""
    present = participants[np.asarray(posterior.likelihood.moments.count) > 0]
    if present.size == 1:
        text = (
            f"participant {present[0].item()!r}: nobody else has usable decision points, so how people differ cannot be "
            "told, and the policy for anybody is theirs"
        )
    elif present.size < FEW_PEOPLE:
        text = f"how people differ rests on {present.size} people and is a guess; from about {FEW_PEOPLE} on it can be told"
    elif not np.asarray(posterior.spread).any():
        text = "people do not differ in any coefficient of the reward as far as these logs tell: everybody has the same ones"
    else:
        return
    warnings.warn(text, FitWarning, stacklevel=5)
