"""The long-run horizon: what an action does to the next outcome, and through the state to all that follow."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.batch import choose_block_cells
from surefoot.learning.horizon.advantage import Advantage, long_run_advantage
from surefoot.learning.horizon.doubts import PAIRS_PER_COEFFICIENT, refuse_hopeless, warn_of_doubts
from surefoot.learning.horizon.horizon import Horizon, HorizonTask, JointFit, Outlook, register_horizon
from surefoot.learning.horizon.horizon_batch import HorizonBatch, TransitionData
from surefoot.learning.horizon.judgement import Judgement, judge_rows
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, look_ahead
from surefoot.learning.horizon.posteriors import PeopleAhead, clear_thresholds, estimate_variance_left, warn_of_few_people
from surefoot.learning.horizon.transitions import find_transitions
from surefoot.learning.horizon.uncertainty import estimate_uncertainty
from surefoot.learning.moments import Moments
from surefoot.learning.pooling import Block, TimeBlocks, Walk, find_pooling
from surefoot.numerics.parallel import map_threads


class LongRunHorizon(Horizon):
    """Outcomes ever after count, as one step of policy improvement on the logging policy in a linear model."""

    name: ClassVar[str] = "long-run"
    title: ClassVar[str] = "the long-run average outcome"

    def look(self, task: HorizonTask) -> Outlook:
        transitions = find_transitions(task.logs, max_gap=task.max_gap, day_boundary=task.day_boundary)
        data = TransitionData.of_logs(task.logs, transitions, task.critic_sees, task.discount)
        refuse_hopeless(task, data)
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
        warn_of_doubts(task, outlook, _has_enough(task, outlook))
        return outlook


register_horizon(LongRunHorizon())


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
        return list(find_pooling("person").list_blocks(logs, choose_block_cells(logs)))

    def moments(self, moved: NDArray[np.bool_], among: NDArray[np.bool_] | None = None) -> TransitionMoments:
        """Of every participant, from the rows that count and the transitions that do, all or `among` some."""
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
        """What random walks of the reward and of the states are fitted from; None where people do not change."""
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
