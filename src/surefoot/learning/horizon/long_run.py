"""The long-run horizon: what an action does to the next outcome, and through the state to all that follow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.errors import FitWarning, InputError
from surefoot.learning.batch import choose_block_cells
from surefoot.learning.diagnostics import SHOWN_PEOPLE
from surefoot.learning.horizon.advantage import Advantage, long_run_advantage
from surefoot.learning.horizon.consequences import PooledView
from surefoot.learning.horizon.horizon import Horizon, HorizonTask, JointFit, Outlook, register_horizon
from surefoot.learning.horizon.horizon_batch import HorizonBatch, TransitionData
from surefoot.learning.horizon.judgement import Judgement, judge_rows
from surefoot.learning.horizon.look_ahead import MOST_RADIUS, LookAhead, TransitionMoments, look_ahead
from surefoot.learning.horizon.posteriors import PeopleAhead, clear_thresholds, estimate_variance_left, warn_of_few_people
from surefoot.learning.horizon.transitions import find_transitions
from surefoot.learning.horizon.uncertainty import estimate_uncertainty
from surefoot.learning.moments import Moments
from surefoot.learning.pooling import Person
from surefoot.learning.pooling.pooling import Block
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk
from surefoot.numerics.parallel import map_threads

PAIRS_PER_COEFFICIENT = 5
"""With fewer consecutive decision points for each coefficient of the next state nothing is learned about what follows."""
ENOUGH_FOR_ONE = 1500
"""Consecutive decision points from which a look-ahead by itself, without other people, begins to gain on doing nothing."""


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
        data = TransitionData.of_logs(task.logs, transitions, task.critic_sees, task.discount)
        _require_transitions(task, data)
        seen = np.maximum(task.critic_sees, task.policy_sees)
        judgement = judge_rows(data, task.critic, task.pooling, seen, penalties=task.units, engine=task.engine)
        moved = data.pairs & judgement.trusted & judgement.trusted[transitions.following]
        learner = _Learner(task, data, judgement)
        moments = learner.moments(moved)
        if task.critic.removal is not None:
            moved = learner.judge_transitions(moved, learner.model(moments))
            moments = learner.moments(moved)
        if task.pooling.borrows:
            outlook = _look_at_people(task, learner, moments, judgement, learner.cut_into_blocks(moved))
        else:
            outlook = _look_at_fits(task, learner, moments, judgement)
        _warn_of_doubts(task, outlook, _has_enough(task, outlook))
        return outlook


class _Learner:
    """Passes over everybody's decision points, in blocks."""

    def __init__(self, task: HorizonTask, data: TransitionData, judgement: Judgement) -> None:
        self._task = task
        self._data = data
        self._threshold = judgement.threshold
        self._reward_weights = np.append(np.nan_to_num(judgement.weights), 0.0)
        self.penalty = task.penalties((len(task.logs.state_names) + 1) * task.logs.actions + data.nuisances.shape[1])

    def _blocks(self) -> list[Block]:
        logs = self._task.logs
        return list(Person().list_blocks(logs, choose_block_cells(logs)))

    def moments(self, moved: NDArray[np.bool_], among: NDArray[np.bool_] | None = None) -> TransitionMoments:
        """The moments of every participant from all rows and transitions, or only from those `among` some."""
        engine = self._task.engine
        state_weights = np.append(moved * self._data.discount, 0.0)
        reward_weights = self._reward_weights
        if among is not None:
            reward_weights, state_weights = (part * np.append(among, False) for part in (reward_weights, state_weights))

        def block_moments(block: Block) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
            people, rows = block
            batch = HorizonBatch.of_rows(self._data, rows, engine)
            moments_by_block = batch.moments(engine.to_device(reward_weights[rows]), engine.to_device(state_weights[rows]))
            parts = (*vars(moments_by_block.reward).values(), *vars(moments_by_block.state).values())
            return people, [engine.to_numpy(part) for part in parts]

        participants, moments_by_block = zip(*map_threads(block_moments, self._blocks()), strict=True)
        back = np.argsort(np.concatenate(participants))
        joined = [np.concatenate(parts)[back] for parts in zip(*moments_by_block, strict=True)]
        return TransitionMoments(Moments(*joined[:3]), Moments(*joined[3:]))

    def cut_into_blocks(self, moved: NDArray[np.bool_]) -> tuple[Walk | None, Walk | None]:
        """The data of random walks of the reward and of the states; None if people do not change."""
        step = self._task.random_walk
        if step is None:
            return None, None
        blocks = TimeBlocks.of_logs(self._task.logs)
        parts = [self.moments(moved, blocks.block == block) for block in range(blocks.count)]
        return Walk(blocks, tuple(moments.reward for moments in parts), step), Walk(
            blocks, tuple(moments.state for moments in parts), step
        )

    def people(self, moments: TransitionMoments, walks: tuple[Walk | None, Walk | None] = (None, None)) -> PeopleAhead:
        task = self._task
        return PeopleAhead.of_moments(
            *(moments, self.penalty, task.logs.actions),
            correlated=task.correlated_differences,
            variance_left=estimate_variance_left(moments.reward, self._threshold, self.penalty),
            walks=walks,
        )

    def model(self, moments: TransitionMoments) -> LookAhead:
        shared = self._task.pooling.shared
        if self._task.pooling.borrows:
            return self.people(moments).model
        return look_ahead(moments.total() if shared else moments, self.penalty, self._task.logs.actions)

    def judge_transitions(self, moved: NDArray[np.bool_], model: LookAhead) -> NDArray[np.bool_]:
        """The transitions whose next state is not far from what the model expects of it, by the study's critic."""
        engine = self._task.engine
        trusted = np.append(moved, False)

        def judge(block: Block) -> None:
            people, rows = block
            batch = HorizonBatch.of_rows(self._data, rows, engine)
            coef = engine.to_device(model.coef if self._task.pooling.shared else model.coef[people])
            present = engine.to_device(trusted[rows])
            trusted[rows] = engine.to_numpy(self._task.critic.judge_residuals(batch.state_residuals(coef), present))

        list(map_threads(judge, self._blocks()))
        return trusted[:-1]


def _look_at_fits(task: HorizonTask, learner: _Learner, moments: TransitionMoments, judgement: Judgement) -> Outlook:
    """One model of everybody, or one of each by themselves."""
    model = learner.model(moments)
    uncertainty = estimate_uncertainty(model, moments, learner.penalty)
    units = moments.total() if task.pooling.shared else moments
    d = model.share.shape[1] * model.coef.shape[-1]
    outlook = Outlook(
        judgement=judgement,
        coef=model.coef[:, :d, 0],
        gram=units.reward.gram[:, :d, :d],
        advantage=long_run_advantage(model, uncertainty, units.state.count),
        moments=moments,
        model=model,
        uncertainty=uncertainty,
        transitions=units.state.count,
        penalty=learner.penalty,
    )
    return replace(outlook, advantage=_where(outlook.advantage, _has_enough(task, outlook)))


def _look_at_people(
    task: HorizonTask,
    learner: _Learner,
    moments: TransitionMoments,
    judgement: Judgement,
    walks: tuple[Walk | None, Walk | None],
) -> Outlook:
    """One model of each, from partially pooled coefficients."""
    people = learner.people(moments, walks)
    warn_of_few_people(people.posteriors[0], task.logs.participants)
    advantage, new_advantage = people.advantages(moments.state.count)
    d = people.model.share.shape[1] * people.model.coef.shape[-1]
    total = moments.total().reward.gram[:, :d, :d]
    return Outlook(
        judgement=judgement,
        coef=people.model.coef[:, :d, 0],
        gram=moments.reward.gram[:, :d, :d],
        advantage=advantage,
        posteriors=people.posteriors,
        anybody=JointFit(clear_thresholds(judgement), people.population.coef[:, :d, 0], total, new_advantage),
        moments=moments,
        model=people.model,
        uncertainty=people.uncertainty,
        transitions=moments.state.count,
        penalty=learner.penalty,
        population=(people.population, people.population_uncertainty),
    )


def _has_enough(task: HorizonTask, outlook: Outlook) -> NDArray[np.bool_]:
    """Who has enough consecutive decision points to say something of what follows; who borrows has everybody's."""
    counts = outlook.transitions.sum() + 0 * outlook.transitions if task.pooling.borrows else outlook.transitions
    return np.asarray(counts >= PAIRS_PER_COEFFICIENT * outlook.model.coef.shape[1])


def _where(advantage: Advantage, enough: NDArray[np.bool_]) -> Advantage:
    """Fits with too few transitions have no advantage: their rule stays with doing nothing."""
    return replace(
        advantage,
        mean=np.where(enough[:, None, None], advantage.mean, 0.0),
        covariance=np.where(enough[:, None, None], advantage.covariance, 0.0),
        reference=np.where(enough, advantage.reference, 0),
    )


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


def _warn_of_doubts(task: HorizonTask, outlook: Outlook, enough: NDArray[np.bool_]) -> None:
    """Warn of too few transitions, of states that do not react to actions, and of states that carry over for ever."""
    for text in (*_doubt_amounts(task, outlook, enough), *_doubt_model(outlook)):
        warnings.warn(text, FitWarning, stacklevel=5)


def _doubt_amounts(task: HorizonTask, outlook: Outlook, enough: NDArray[np.bool_]) -> Iterator[str]:
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
    view = PooledView.of_outlook(outlook)
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
