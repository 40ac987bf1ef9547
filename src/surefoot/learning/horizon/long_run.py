"""The long-run horizon: what an action does to the next outcome, and through the state to all that follow."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.batch import choose_block_cells
from surefoot.learning.horizon.advantage import Advantage, long_run_advantage
from surefoot.learning.horizon.doubts import PAIRS_PER_COEFFICIENT, refuse_hopeless, warn_of_doubts
from surefoot.learning.horizon.horizon import Horizon, HorizonTask, Outlook, register_horizon
from surefoot.learning.horizon.horizon_batch import Followed, HorizonBatch
from surefoot.learning.horizon.judgement import Judgement, judge_rows
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, look_ahead
from surefoot.learning.horizon.transitions import find_transitions
from surefoot.learning.horizon.uncertainty import estimate_uncertainty
from surefoot.learning.moments import Moments
from surefoot.learning.pooling import Block, find_pooling
from surefoot.numerics.parallel import map_threads


class LongRunHorizon(Horizon):
    """Outcomes ever after count, as one step of policy improvement on the logging policy in a linear model."""

    name: ClassVar[str] = "long-run"
    title: ClassVar[str] = "the long-run average outcome"

    def look(self, task: HorizonTask) -> Outlook:
        transitions = find_transitions(task.logs, max_gap=task.max_gap, day_boundary=task.day_boundary)
        data = Followed.of_logs(task.logs, transitions, task.critic_sees)
        refuse_hopeless(task, data)
        seen = np.maximum(task.critic_sees, task.policy_sees)
        judgement = judge_rows(data, task.critic, task.pooling, seen, penalties=task.units, engine=task.engine)
        moved = data.pairs & judgement.trusted & judgement.trusted[transitions.following]
        learner = _Learner(task, data, judgement)
        moments = learner.moments(moved)
        model = learner.model(moments)
        if task.critic.removal is not None:
            moments = learner.moments(learner.judge_transitions(moved, model))
            model = learner.model(moments)
        uncertainty = estimate_uncertainty(model, moments, learner.penalty)
        counts = moments if not task.pooling.shared else moments.total()
        advantage = long_run_advantage(model, uncertainty, counts.state.count)
        enough = counts.state.count >= PAIRS_PER_COEFFICIENT * model.coef.shape[1]
        advantage = _where(advantage, enough)
        outlook = Outlook(judgement, moments, model, uncertainty, advantage, counts.state.count, learner.penalty)
        warn_of_doubts(task, outlook, enough)
        return outlook


register_horizon(LongRunHorizon())


class _Learner:
    """Passes over everybody's decision points, in blocks."""

    def __init__(self, task: HorizonTask, data: Followed, judgement: Judgement) -> None:
        self._task, self._data = task, data
        self._kept = np.append(np.nan_to_num(judgement.kept), 0.0)
        self.penalty = task.penalties((len(task.logs.state_names) + 1) * task.logs.actions + data.nuisances.shape[1])

    def _blocks(self) -> list[Block]:
        logs = self._task.logs
        return list(find_pooling("person").list_blocks(logs, choose_block_cells(len(logs))))

    def moments(self, moved: NDArray[np.bool_]) -> TransitionMoments:
        """Of every participant, from the rows that count and the transitions that do."""
        engine, weights = self._task.engine, np.append(moved, False) * 1.0

        def block_moments(block: Block) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
            people, rows = block
            batch = HorizonBatch.of_rows(self._data, rows, engine)
            found = batch.moments(engine.to_device(self._kept[rows]), engine.to_device(weights[rows]))
            parts = (*vars(found.reward).values(), *vars(found.state).values())
            return people, [engine.to_numpy(part) for part in parts]

        who, found = zip(*map_threads(block_moments, self._blocks()), strict=True)
        back = np.argsort(np.concatenate(who))
        joined = [np.concatenate(parts)[back] for parts in zip(*found, strict=True)]
        return TransitionMoments(Moments(*joined[:3]), Moments(*joined[3:]))

    def model(self, moments: TransitionMoments) -> LookAhead:
        shared = self._task.pooling.shared
        return look_ahead(moments.total() if shared else moments, self.penalty, self._task.logs.actions)

    def judge_transitions(self, moved: NDArray[np.bool_], model: LookAhead) -> NDArray[np.bool_]:
        """The transitions whose next state is not far from what the model expects of it, by the study's critic."""
        engine, found = self._task.engine, np.append(moved, False)

        def judge(block: Block) -> None:
            people, rows = block
            batch = HorizonBatch.of_rows(self._data, rows, engine)
            coef = engine.to_device(model.coef if self._task.pooling.shared else model.coef[people])
            kept = engine.to_device(found[rows])
            found[rows] = engine.to_numpy(self._task.critic.judge_residuals(batch.state_residuals(coef), kept))

        list(map_threads(judge, self._blocks()))
        return found[:-1]


def _where(advantage: Advantage, enough: NDArray[np.bool_]) -> Advantage:
    """Fits with too few transitions have no advantage: their rule stays with doing nothing."""
    return replace(
        advantage,
        mean=np.where(enough[:, None, None], advantage.mean, 0.0),
        covariance=np.where(enough[:, None, None], advantage.covariance, 0.0),
        reference=np.where(enough, advantage.reference, 0),
    )
