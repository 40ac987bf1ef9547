"""The immediate horizon: only the outcome that follows a decision counts, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.batch import choose_block_cells
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.horizon.horizon import Horizon, HorizonTask, JointFit, register_horizon
from surefoot.learning.horizon.horizon_batch import HorizonBatch, TransitionData
from surefoot.learning.horizon.judgement import judge_rows
from surefoot.learning.horizon.posteriors import (
    clear_thresholds,
    estimate_variance_left,
    fit_posteriors,
    immediate_advantages,
    warn_of_few_people,
)
from surefoot.learning.horizon.transitions import Transitions
from surefoot.learning.moments import Moments
from surefoot.learning.pooling.pooling import Block
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk
from surefoot.numerics.parallel import map_threads


@register_horizon
@dataclass(frozen=True)
class Immediate(Horizon):
    """Only the outcome that follows a decision counts, as in the paper."""

    name: ClassVar[str] = "immediate"
    title: ClassVar[str] = "the next outcome"
    looks_ahead: ClassVar[bool] = False

    def look(self, task: HorizonTask) -> JointFit | None:
        return _fit_partially_pooled(task) if task.pooling.borrows else None


def _fit_partially_pooled(task: HorizonTask) -> JointFit:
    """Everybody's coefficients of the reward, drawn towards those of the population."""
    logs = task.logs
    if not logs.usable.any():
        Learnable.of_logs(logs).require(logs.names.reward)
    data = TransitionData.of_logs(logs, Transitions.without(len(logs)), task.critic_sees, task.discount, task.centre)
    seen = np.maximum(task.critic_sees, task.policy_sees)
    judgement = judge_rows(data, task.critic, task.pooling, seen, penalties=task.units, engine=task.engine)
    weights = np.nan_to_num(judgement.weights)
    moments = _find_reward_moments(task, data, weights)
    penalty = task.penalties(moments.gram.shape[-1])
    posteriors = fit_posteriors(
        moments,
        penalty,
        states=len(logs.state_names),
        actions=logs.actions,
        correlated=task.correlated_differences,
        variance_left=estimate_variance_left(moments, judgement.threshold, penalty),
        prior=task.prior,
        walk=_cut_into_blocks(task, data, weights),
    )
    reward = posteriors[0]
    warn_of_few_people(reward, logs.participants)
    advantage, advantage_of_anybody = immediate_advantages(reward, moments, logs.actions)
    total = moments.total().gram
    anybody = JointFit(clear_thresholds(judgement), reward.population[None], total, advantage_of_anybody)
    return JointFit(judgement, reward.mean, moments.gram, advantage, posteriors, anybody)


def _cut_into_blocks(task: HorizonTask, data: TransitionData, weights: NDArray[np.float64]) -> Walk | None:
    """The data of a random walk; None if people do not change."""
    if task.random_walk is None:
        return None
    blocks = TimeBlocks.of_logs(task.logs)
    moments = (_find_reward_moments(task, data, weights * (blocks.block == block)) for block in range(blocks.count))
    return Walk(blocks, tuple(moments), task.random_walk)


def _find_reward_moments(task: HorizonTask, data: TransitionData, weights: NDArray[np.float64]) -> Moments:
    """The moments of the reward of every participant; `weights` are those of all rows."""
    engine = task.engine
    weights = np.append(weights, 0.0)
    size = (len(task.logs.state_names) + 1) * task.logs.actions

    def block_moments(block: Block) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
        people, rows = block
        batch = HorizonBatch.of_rows(data, rows, engine)
        features = batch.features[..., :size]  # Nuisances are for what follows.
        moments = Moments.of_rows(features, batch.reward[..., None], engine.to_device(weights[rows]))
        return people, [engine.to_numpy(part) for part in vars(moments).values()]

    blocks = task.pooling.list_blocks(task.logs, choose_block_cells(task.logs))
    participants, moments = zip(*map_threads(block_moments, blocks), strict=True)
    back = np.argsort(np.concatenate(participants))
    return Moments(*(np.concatenate(parts)[back] for parts in zip(*moments, strict=True)))
