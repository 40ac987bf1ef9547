"""The long-run horizon: what an action does to the next outcome, and through the state to all that follow."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.errors import FitWarning, InputError
from surefoot.learning.batch import SHOWN_PEOPLE
from surefoot.learning.horizon.horizon import (
    Horizon,
    HorizonTask,
    JointFit,
    Outlook,
    estimate_variance_left,
    register_horizon,
    warn_of_few_people,
)
from surefoot.learning.horizon.look_ahead import (
    MOST_RADIUS,
    LookAhead,
    OfPosteriors,
    TransitionMoments,
    estimate_uncertainty,
    improve_policy,
    long_run_advantage,
    look_ahead,
)
from surefoot.learning.horizon.transitions import Judgement, TransitionData, find_transitions
from surefoot.learning.pooling import Block
from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.pooling.random_walk import Walk
from surefoot.numerics.parallel import map_threads

PAIRS_PER_COEFFICIENT = 5
"""With fewer consecutive decision points for each coefficient of the next state nothing is learned about what follows."""
ENOUGH_FOR_ONE = 1500
"""Consecutive decision points from which a look-ahead by itself, without other people, begins to gain on doing nothing."""
BORROWED_POINTS = 10.0
"""The logged share of an action is mixed with this many decision points of everybody's, because few do not show it."""


@register_horizon
@dataclass(frozen=True)
class LongRun(Horizon):
    """Outcomes ever after count, as one step of policy improvement on the logging policy in a linear model."""

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
        data = task.read(transitions)
        _require_transitions(task, data)
        judgement = task.judge(data)
        penalty = task.penalties((len(task.logs.state_names) + 1) * task.logs.actions + data.nuisances.shape[1])
        moved = data.pairs & judgement.trusted & judgement.trusted[transitions.following]
        weights = (np.nan_to_num(judgement.weights), moved * task.discount)
        moments = TransitionMoments(*data.moments(*weights))
        if task.critic.removal is not None:
            if task.pooling.borrows:
                model = _fit_people(task, moments, judgement, penalty, [None, None])[1]
            else:
                model = look_ahead(moments.total() if task.pooling.shared else moments, penalty, task.logs.actions)
            moved = _judge_transitions(task, data, moved, model)
            weights = (weights[0], moved * task.discount)
            moments = TransitionMoments(*data.moments(*weights))
        if task.pooling.borrows:
            outlook = _look_at_people(task, moments, judgement, penalty, task.find_walks(data, *weights))
        else:
            outlook = _look_at_fits(task, moments, judgement, penalty)
        for text in (*_doubt_amounts(task, outlook), *_doubt_model(outlook)):
            warnings.warn(text, FitWarning, stacklevel=4)
        return outlook


def _judge_transitions(
    task: HorizonTask, data: TransitionData, moved: NDArray[np.bool_], model: LookAhead
) -> NDArray[np.bool_]:
    """The transitions whose next state is not far from what the model expects of it, by the study's critic."""
    engine = task.engine
    trusted = np.append(moved, False)

    def judge(block: Block) -> None:
        people, rows = block
        features, _, following = data.gather(rows)
        coef = engine.to_device(model.coef if task.pooling.shared else model.coef[people])
        residuals = following - features @ coef[..., 1:]
        trusted[rows] = engine.to_numpy(task.critic.judge_residuals(residuals, engine.to_device(trusted[rows])))

    list(map_threads(judge, data.blocks()))
    return trusted[:-1]


def _look_at_fits(
    task: HorizonTask, moments: TransitionMoments, judgement: Judgement, penalty: NDArray[np.float64]
) -> Outlook:
    """One model of everybody, or one of each by themselves."""
    units = moments.total() if task.pooling.shared else moments
    model = look_ahead(units, penalty, task.logs.actions)
    uncertainty = estimate_uncertainty(model, moments, penalty)
    advantage = long_run_advantage(model, uncertainty, units.state.count)
    # Fits with too few transitions have no advantage: their rule stays with doing nothing.
    enough = _has_enough(task, units.state.count, model)
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
        penalty=penalty,
    )


def _fit_people(
    task: HorizonTask,
    moments: TransitionMoments,
    judgement: Judgement,
    penalty: NDArray[np.float64],
    walks: list[Walk | None],
) -> tuple[tuple[Posterior, ...], LookAhead, LookAhead]:
    """Posteriors of the reward and of every next state variable, and the models of everybody and of β."""
    variance_left = estimate_variance_left(moments.reward, judgement.threshold, penalty)
    posteriors = (
        *task.fit_posteriors(moments.reward, penalty, walks[0], variance_left=variance_left),
        *task.fit_posteriors(moments.state, penalty, walks[1]),
    )
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
    penalty: NDArray[np.float64],
    walks: list[Walk | None],
) -> Outlook:
    """One model of each, from partially pooled coefficients; the reference action is everybody's, because one participant's
    decision points are too few to show it."""
    posteriors, model, beta = _fit_people(task, moments, judgement, penalty, walks)
    warn_of_few_people(posteriors[0], task.logs.participants)
    uncertainty = OfPosteriors(np.stack([posterior.covariance for posterior in posteriors], axis=1), between_people=False)
    of_beta = np.stack([posterior.population_covariance for posterior in posteriors])[None]
    beta_uncertainty = OfPosteriors(of_beta, between_people=True)
    of_anybody = np.stack([posterior.new_covariance for posterior in posteriors])[None]
    count = moments.state.count
    total = np.full(len(count), count.sum())
    reference = long_run_advantage(beta, beta_uncertainty, count[:1]).reference
    advantage = long_run_advantage(model, uncertainty, total)
    advantage_of_anybody = long_run_advantage(beta, OfPosteriors(of_anybody, between_people=False), total[:1])
    d = model.share.shape[1] * model.coef.shape[-1]
    anybody = JointFit(
        judgement=judgement.clear_thresholds(),
        coef=beta.coef[:, :d, 0],
        gram=moments.total().reward.gram[:, :d, :d],
        advantage=replace(advantage_of_anybody, reference=reference),
    )
    return Outlook(
        judgement=judgement,
        coef=model.coef[:, :d, 0],
        gram=moments.reward.gram[:, :d, :d],
        advantage=replace(advantage, reference=np.repeat(reference, len(count))),
        posteriors=posteriors,
        anybody=anybody,
        moments=moments,
        model=model,
        uncertainty=uncertainty,
        transitions=count,
        penalty=penalty,
        population=(beta, beta_uncertainty),
    )


def _has_enough(task: HorizonTask, transitions: NDArray[np.float64], model: LookAhead) -> NDArray[np.bool_]:
    """Who has enough consecutive decision points to say something of what follows; who borrows has everybody's."""
    counts = transitions.sum() + 0 * transitions if task.pooling.borrows else transitions
    return np.asarray(counts >= PAIRS_PER_COEFFICIENT * model.coef.shape[1])


def _require_transitions(task: HorizonTask, data: TransitionData) -> None:
    """Reject pooled logs with too few transitions to learn from; fits by participant get a warning instead."""
    if not task.pooling.needs_everybody:
        return
    logs = task.logs
    never = [name for code, name in enumerate(logs.action_names) if not (logs.action[logs.usable] == code).any()]
    if never:
        raise InputError(
            f"action '{never[0]}' was never taken at a usable decision point, so its consequences cannot be learned; "
            "randomise it, leave it out of the actions, or use horizon = 'immediate'"
        )
    pairs = int(data.pairs.sum())
    needed = PAIRS_PER_COEFFICIENT * (len(logs.state_names) + 1) * logs.actions
    if pairs < needed:
        raise InputError(
            f"{pairs} of {len(logs)} decision points are followed by the participant's next one with a known state; a look "
            f"ahead needs at least {needed} ({PAIRS_PER_COEFFICIENT} for each coefficient). Log missed decision points "
            "(unavailable ones too), let max_gap cross gaps, or use horizon = 'immediate'"
        )


def _doubt_amounts(task: HorizonTask, outlook: Outlook) -> Iterator[str]:
    """Warnings of too few transitions."""
    enough = _has_enough(task, outlook.transitions, outlook.model)
    people = task.pooling.list_participants(task.logs)[~enough]
    if people.size:
        names = ", ".join(repr(name.item()) for name in people[:SHOWN_PEOPLE])
        others = f" and {people.size - SHOWN_PEOPLE} more" if people.size > SHOWN_PEOPLE else ""
        yield (
            f"participant {names}{others}: fewer than {PAIRS_PER_COEFFICIENT} consecutive decision points per coefficient, "
            "so the policy does nothing"
        )
    typical = float(np.median(outlook.transitions))
    if not task.pooling.needs_everybody and typical < ENOUGH_FOR_ONE:
        yield (
            f"a typical participant has {typical:.0f} consecutive decision points, too few to look ahead alone: with fewer "
            f"than about {ENOUGH_FOR_ONE:,} such a policy does not beat doing nothing. Learn one for all (pooling = 'all')"
        )


def _doubt_model(outlook: Outlook) -> Iterator[str]:
    """Warnings of states that do not react to actions, and of states that carry over for ever."""
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
