"""Horizons: how far ahead an action's consequences are counted. The immediate one, as in the paper, and the long run.

With partial pooling a horizon also turns everybody's moments into posteriors of their coefficients.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from surefoot.data.derived_states import DayBoundary
from surefoot.errors import FitWarning, InputError
from surefoot.learning.batch import Learnable, name_people
from surefoot.learning.critics import CriticFit
from surefoot.learning.horizon.look_ahead import (
    MOST_RADIUS,
    Advantage,
    LookAhead,
    OfPosteriors,
    PooledView,
    TransitionMoments,
    Uncertainty,
    estimate_uncertainty,
    improve_policy,
    long_run_advantage,
    look_ahead,
)
from surefoot.learning.horizon.transitions import HorizonTask, Judgement, find_transitions
from surefoot.learning.part import Part
from surefoot.learning.pooling import Block
from surefoot.learning.pooling.mixed_effects import Moments, Posterior
from surefoot.learning.pooling.random_walk import Walk
from surefoot.learning.shared_effects import SharedFit
from surefoot.numerics.arrays import Array, Engine
from surefoot.numerics.parallel import map_threads
from surefoot.registry import Registry

Floats = NDArray[np.float64]
FEW_PEOPLE = 5
PAIRS_PER_COEFFICIENT = 5
"""With fewer consecutive decision points for each coefficient of the next state nothing is learned about what follows."""
ENOUGH_FOR_ONE = 1500
"""Consecutive decision points from which a look-ahead by itself, without other people, begins to gain on doing nothing."""
MOST_ROUNDS = 3
"""Of judging decision points again without what everybody shares."""
BORROWED_POINTS = 10.0
"""The logged share of an action is mixed with this many decision points of everybody's, because few do not show it."""


@dataclass(frozen=True, eq=False)
class BatchOutlook:
    """A joint fit for the fits of one batch, in arrays of its engine."""

    critic: CriticFit
    """The model of the reward: ridge on the decision points that the critic's judgement left."""
    advantage: Advantage
    offset: Array | None = None
    """What everybody shares of the expected reward, (fits, decision points)."""


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
    anybody: "JointFit | None" = None
    """With partial pooling: one fit for people of whom nothing is known."""
    shared: SharedFit | None = None
    """With a smooth baseline, or effects that change for everybody."""
    ratios: Floats | None = None
    """Of the variances of the reward's coefficients to σ²: where the search of the next update begins."""

    def restrict(self, fits: NDArray[np.int64], rows: NDArray[np.int64], engine: Engine) -> BatchOutlook:
        """The part of the joint fit for some fits and their rows, −1 where padded."""
        judged = self.judgement
        weights = np.where(rows >= 0, np.nan_to_num(judged.weights[rows]), 0.0)
        of_fits = (self.coef, self.gram, judged.threshold, judged.n_iter, judged.converged)
        coef, gram, *limits = (engine.to_device(values[fits]) for values in of_fits)
        advantage = (engine.to_device(values[fits]) for values in vars(self.advantage).values())
        critic = CriticFit(coef, gram, engine.to_device(weights), *limits)
        offset = None
        if self.shared is not None:
            offset = engine.to_device(np.where(rows >= 0, self.shared.offset[rows], 0.0))
        return BatchOutlook(critic, Advantage(*advantage), offset)


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
        return PooledView(model, uncertainty, first / max(first[0], 1.0), len(self.moments.state.gram))


@dataclass(frozen=True)
class Horizon(Part, ABC):
    """The outcomes that a method considers; the fields of a subclass are its parameters, and each has a default."""

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


@dataclass(frozen=True, eq=False)
class RewardFit:
    """What the critic judged, and the coefficients of the reward that followed."""

    judgement: Judgement
    moments: Moments
    posterior: Posterior
    shared: SharedFit | None


def fit_reward(task: HorizonTask) -> RewardFit:
    """Judge, fit, and judge again without what everybody shares, so that a curve is not mistaken for outliers.

    Rounds end when the judgement stays, or after `MOST_ROUNDS`.
    """
    fit = _fit_judged(task, task, task.judge())
    for _ in range(MOST_ROUNDS if task.critic.weighs_rows else 0):
        if fit.shared is None:
            break
        unshared = replace(task, offset=fit.shared.offset, start=fit.posterior.ratios)
        judgement = unshared.judge()
        if np.array_equal(judgement.weights, fit.judgement.weights, equal_nan=True):
            return replace(fit, judgement=judgement)
        fit = _fit_judged(task, unshared, judgement)
    return fit


def _fit_judged(task: HorizonTask, unshared: HorizonTask, judgement: Judgement) -> RewardFit:
    """The reward's coefficients by these decision points; `unshared` has outcomes without what everybody shares."""
    weights = np.nan_to_num(judgement.weights)
    (moments,) = task.moments(weights)
    (own_moments,) = (moments,) if unshared is task else unshared.moments(weights)
    design = task.share(weights, moments)
    (walk,) = task.find_walks(weights)
    limited = own_moments.total() if task.pooling.shared else own_moments
    (posterior,) = task.fit_posteriors(
        moments,
        walk,
        variance_left=estimate_variance_left(limited, judgement.threshold, task.penalty),
        prior=task.prior,
        design=design,
        unshared=own_moments,
        start=unshared.start,
    )
    posterior = posterior.admit_ignorance(task.prior_variance)
    shared = None if design is None else design.fit_rows(posterior, task.logs, task.row_features)
    return RewardFit(judgement, moments, posterior, shared)


@register_horizon
@dataclass(frozen=True)
class Immediate(Horizon):
    """Only the outcome that follows a decision counts, as in the paper."""

    name: ClassVar[str] = "immediate"
    title: ClassVar[str] = "the next outcome"
    looks_ahead: ClassVar[bool] = False

    def look(self, task: HorizonTask) -> JointFit | None:
        """With partial pooling everybody's coefficients of the reward, drawn towards those of the population."""
        if not task.pooling.borrows and task.columns is None:
            return None
        logs = task.logs
        if not logs.usable.any():
            Learnable.of_logs(logs).require(logs.names.outcome)
        fit = fit_reward(task)
        judgement = fit.judgement
        reward = fit.posterior
        count = np.full(len(reward.mean), fit.moments.count.sum())
        population = reward.population[None]
        gram = fit.moments.total().gram
        learned = {"shared": fit.shared, "ratios": reward.ratios}
        inflation = reward.inflation(float(task.scaling.reward[0]))
        if task.pooling.shared:
            covariance = inflation * reward.population_covariance[None]
            of_all = Advantage.of_coefficients(population, covariance, logs.actions, count[:1])
            return JointFit(judgement, population, gram, of_all, **learned)
        warn_of_few_people(reward, task)
        advantage = Advantage.of_coefficients(reward.mean, inflation * reward.covariance, logs.actions, count)
        covariance = inflation * reward.new_covariance[None]
        of_anybody = Advantage.of_coefficients(population, covariance, logs.actions, count[:1])
        anybody = JointFit(judgement.clear_thresholds(), population, gram, of_anybody)
        return JointFit(judgement, reward.mean, fit.moments.gram, advantage, (reward,), anybody, **learned)


@register_horizon
@dataclass(frozen=True)
class LongRun(Horizon):
    """All later outcomes count: one step of policy improvement on the logging policy in a linear model."""

    name: ClassVar[str] = "long-run"
    title: ClassVar[str] = "the long-run average outcome"
    max_gap: int = 1
    """Decision points this far apart still count as consecutive."""
    day_boundary: DayBoundary = None
    """Decision points a day, or the clock time at which a day begins (`04:00`); the transition over night then has an
    intercept of its own."""

    def check_parameters(self) -> None:
        super().check_parameters()
        if isinstance(self.max_gap, bool) or not isinstance(self.max_gap, int) or self.max_gap < 1:
            raise InputError(f"max_gap is {self.max_gap!r}; it is a whole number of decision points, at least 1")

    def look(self, task: HorizonTask) -> Outlook:
        transitions = find_transitions(task.logs, max_gap=self.max_gap, day_boundary=self.day_boundary)
        task = replace(task, transitions=transitions, centre=None)
        if task.pooling.needs_everybody:
            _require_transitions(task)
        reward = None if task.columns is None else fit_reward(task)
        judgement = task.judge() if reward is None else reward.judgement
        if reward is not None and reward.shared is not None and not task.pooling.borrows:
            # One fit to everybody is as without a curve, from outcomes without it.
            task = replace(task, offset=reward.shared.offset)
        counted = np.nan_to_num(judgement.weights)
        moved = task.pairs & judgement.trusted & judgement.trusted[transitions.following]
        moments = TransitionMoments(*task.moments(counted, moved * task.discount))
        if task.critic.removal is not None:
            if task.pooling.borrows:
                model = _fit_people(task, moments, judgement, [None, None], reward)[1]
            else:
                model = look_ahead(moments.total() if task.pooling.shared else moments, task.penalty, task.logs.actions)
            moved = _judge_transitions(task, moved, model)
            moments = TransitionMoments(*task.moments(counted, moved * task.discount))
        if task.pooling.borrows:
            walks = task.find_walks(counted, moved * task.discount)
            outlook = _look_at_people(task, moments, judgement, walks, reward)
        else:
            outlook = _look_at_fits(task, moments, judgement)
        if reward is not None:
            outlook = replace(outlook, shared=reward.shared, ratios=reward.posterior.ratios)
        for text in _list_doubts(task, outlook):
            warnings.warn(text, FitWarning, stacklevel=4)
        return outlook


def _judge_transitions(task: HorizonTask, moved: NDArray[np.bool_], model: LookAhead) -> NDArray[np.bool_]:
    """The transitions whose next state is not far from what the model expects of it, by the study's critic."""
    engine = task.engine
    trusted = np.append(moved, False)

    def judge(block: Block) -> None:
        people, rows = block
        features, _, following = task.gather(rows)
        coef = engine.to_device(model.coef if task.pooling.shared else model.coef[people])
        residuals = following - features @ coef[..., 1:]
        trusted[rows] = engine.to_numpy(task.critic.judge_residuals(residuals, engine.to_device(trusted[rows])))

    list(map_threads(judge, task.blocks()))
    return trusted[:-1]


def _look_at_fits(task: HorizonTask, moments: TransitionMoments, judgement: Judgement) -> Outlook:
    """One model of everybody, or one of each by themselves."""
    units = moments.total() if task.pooling.shared else moments
    model = look_ahead(units, task.penalty, task.logs.actions)
    uncertainty = estimate_uncertainty(model, moments, task.penalty)
    advantage = long_run_advantage(model, uncertainty, units.state.count)
    # Fits with too few transitions have no advantage: their rule stays with doing nothing.
    enough = _has_enough(task, units.state.count)
    advantage = replace(
        advantage,
        mean=np.where(enough[:, None, None], advantage.mean, 0.0),
        covariance=np.where(enough[:, None, None], advantage.covariance, 0.0),
        reference=np.where(enough, advantage.reference, 0),
    )
    d = model.share.shape[1] * model.coef.shape[-1]
    return Outlook(
        judgement=judgement,
        coef=model.coef[:, :d, 0],
        gram=units.reward.gram[:, :d, :d],
        advantage=advantage,
        moments=moments,
        model=model,
        uncertainty=uncertainty,
        transitions=units.state.count,
        penalty=task.penalty,
    )


def _fit_people(
    task: HorizonTask,
    moments: TransitionMoments,
    judgement: Judgement,
    walks: list[Walk | None],
    reward: RewardFit | None,
) -> tuple[tuple[Posterior, ...], LookAhead, LookAhead]:
    """Posteriors of the reward, unless it was fitted already, and of every next state variable, and the models of everybody
    and of β."""
    if reward is None:
        variance_left = estimate_variance_left(moments.reward, judgement.threshold, task.penalty)
        of_reward = task.fit_posteriors(moments.reward, walks[0], variance_left=variance_left)
    else:
        of_reward = (reward.posterior,)
    posteriors = (*of_reward, *task.fit_posteriors(moments.state, walks[1]))
    everybody = moments.total().count_shares(task.logs.actions)
    count = moments.state.count[:, None]
    shares = [
        (count * of_person + BORROWED_POINTS * of_everybody) / (count + BORROWED_POINTS)
        for of_person, of_everybody in zip(moments.count_shares(task.logs.actions), everybody, strict=True)
    ]
    people = improve_policy(np.stack([posterior.mean for posterior in posteriors], axis=-1), *shares)
    beta = improve_policy(np.stack([posterior.population for posterior in posteriors], axis=-1)[None], *everybody)
    return posteriors, people, beta


def _look_at_people(
    task: HorizonTask,
    moments: TransitionMoments,
    judgement: Judgement,
    walks: list[Walk | None],
    reward: RewardFit | None,
) -> Outlook:
    """One model of each, from partially pooled coefficients; the reference action is everybody's, because one participant's
    decision points are too few to show it."""
    posteriors, model, beta = _fit_people(task, moments, judgement, walks, reward)
    warn_of_few_people(posteriors[0], task)
    uncertainty = OfPosteriors([posterior.covariance for posterior in posteriors], between_people=False)
    of_beta = OfPosteriors([posterior.population_covariance for posterior in posteriors], between_people=True)
    of_anybody = OfPosteriors([posterior.new_covariance for posterior in posteriors], between_people=False)
    count = moments.state.count
    total = np.full(len(count), count.sum())
    reference = long_run_advantage(beta, of_beta, total[:1]).reference
    d = model.share.shape[1] * model.coef.shape[-1]
    anybody = JointFit(
        judgement=judgement.clear_thresholds(),
        coef=beta.coef[:, :d, 0],
        gram=moments.total().reward.gram[:, :d, :d],
        advantage=replace(long_run_advantage(beta, of_anybody, total[:1]), reference=reference),
    )
    return Outlook(
        judgement=judgement,
        coef=model.coef[:, :d, 0],
        gram=moments.reward.gram[:, :d, :d],
        advantage=replace(long_run_advantage(model, uncertainty, total), reference=np.repeat(reference, len(count))),
        posteriors=posteriors,
        anybody=anybody,
        moments=moments,
        model=model,
        uncertainty=uncertainty,
        transitions=count,
        penalty=task.penalty,
        population=(beta, of_beta),
    )


def _has_enough(task: HorizonTask, transitions: Floats) -> NDArray[np.bool_]:
    """Who has enough consecutive decision points to say something of what follows; who borrows has everybody's."""
    counts = transitions.sum() + 0 * transitions if task.pooling.borrows else transitions
    return np.asarray(counts >= PAIRS_PER_COEFFICIENT * len(task.penalty))


def _require_transitions(task: HorizonTask) -> None:
    """Reject pooled logs with too few transitions to learn from; fits by participant get a warning instead."""
    logs = task.logs
    never = [name for code, name in enumerate(logs.action_names) if not (logs.action[logs.usable] == code).any()]
    if never:
        raise InputError(
            f"action '{never[0]}' was never taken at a usable decision point, so its consequences cannot be learned; "
            "randomise it, leave it out of the actions, or use horizon = 'immediate'"
        )
    pairs = int(task.pairs.sum())
    needed = PAIRS_PER_COEFFICIENT * (len(logs.state_names) + 1) * logs.actions
    if pairs < needed:
        raise InputError(
            f"{pairs} of {len(logs)} decision points are followed by the participant's next one with a known state; a look "
            f"ahead needs at least {needed} ({PAIRS_PER_COEFFICIENT} for each coefficient). Log missed decision points "
            "(unavailable ones too), let max_gap cross gaps, or use horizon = 'immediate'"
        )


def _list_doubts(task: HorizonTask, outlook: Outlook) -> Iterator[str]:
    """Warnings of too few transitions, of states that do not react to actions, and of states that carry over for ever."""
    people = task.pooling.list_participants(task.logs)[~_has_enough(task, outlook.transitions)]
    if people.size:
        yield (
            f"{name_people(people)}: fewer than {PAIRS_PER_COEFFICIENT} consecutive decision points per coefficient, so the "
            "policy does nothing"
        )
    typical = float(np.median(outlook.transitions))
    if not task.pooling.needs_everybody and typical < ENOUGH_FOR_ONE:
        yield (
            f"a typical participant has {typical:.0f} consecutive decision points, too few to look ahead alone: with fewer "
            f"than about {ENOUGH_FOR_ONE:,} such a policy does not beat doing nothing. Learn one for all (pooling = 'all')"
        )
    view = outlook.pool()
    if not view.some_state_reacts:
        yield (
            "no state variable reacts to the actions, so looking ahead only adds noise to the immediate effect; add one "
            "that remembers (a derived state such as dose), or use horizon = 'immediate'"
        )
    radius = float(view.model.radius[0])
    if radius > MOST_RADIUS:
        yield (
            f"the state seems to carry over for ever (spectral radius {radius:.2f}), so its long-run worth is a guess; take "
            "out a variable that only grows, such as a count or the day in the study"
        )


def estimate_variance_left(moments: Moments, threshold: Floats, penalty: Floats) -> float:
    """Which share κ of the variance of normal noise a critic left, by where its limits lie among the residuals it kept.

    Noise N(0, σ²) cut at ± cσ keeps κ(c) σ² = (1 − 2cφ(c) / (2Φ(c) − 1)) σ²: ε / s² = c² / κ(c) gives c, with ε the limit of
    squared residuals and s² their variance, both of a typical participant. A cut also makes coefficients less certain than
    the rest of the noise says, by the same factor once more (Huber's E ψ² / (E ψ′)²).
    """
    d = moments.gram.shape[-1]
    coefficients = moments.solve(penalty)[0][:, :, 0]
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


def warn_of_few_people(posterior: Posterior, task: HorizonTask) -> None:
    """When nothing, or little, is known of how people differ."""
    if task.pooling.alike:
        return
    present = task.logs.participants[posterior.likelihood.moments.count > 0]
    if present.size == 1:
        text = (
            f"participant {present[0].item()!r}: nobody else has usable decision points, so how people differ cannot be "
            "told, and the policy for anybody is theirs"
        )
    elif present.size < FEW_PEOPLE:
        text = f"how people differ rests on {present.size} people and is a guess; from about {FEW_PEOPLE} on it can be told"
    elif not posterior.spread.any():
        text = "people do not differ in any coefficient as far as these logs tell: everybody has the same ones"
    else:
        return
    warnings.warn(text, FitWarning, stacklevel=5)
