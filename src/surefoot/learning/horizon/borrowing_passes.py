"""Partial pooling of decision points that are not in memory: the same steps as in memory, some people at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.horizon.horizon import HorizonTask, JointFit
from surefoot.learning.horizon.horizon_batch import Followed
from surefoot.learning.horizon.immediate import find_reward_moments, pool_partially
from surefoot.learning.horizon.judgement import FEW_VALUED, Judge, Judgement, find_medians, judge_points
from surefoot.learning.horizon.transitions import Transitions
from surefoot.learning.moments import Moments
from surefoot.learning.penalty_units import FitScales, sample_rows
from surefoot.learning.pooled_rows import PooledRows
from surefoot.numerics.arrays import Array
from surefoot.numerics.fences import has_few_values
from surefoot.numerics.streamed_arrays import Streamed, keep_rows, map_rows

MakeTask = Callable[[Trajectories, NDArray[np.float64]], HorizonTask]
"""What is learned from some people's logs, and from what every row counts."""


def borrow_by_passes(rows: PooledRows, make_task: MakeTask) -> tuple[JointFit, Streamed]:
    """What is learned of everybody before their decision rules are, and what counts of every decision point, (1, rows)."""
    judgement, kept = _judge_everybody(rows, make_task)
    pieces = []
    for logs, discount in rows.list_people():
        task = make_task(logs, discount)
        pieces.append(find_reward_moments(task, _follow(task), rows.collect(kept, logs)))
    moments = Moments(*(np.concatenate(parts) for parts in zip(*(vars(one).values() for one in pieces), strict=True)))
    penalty = task.penalise(_measure_units(rows, task), moments.gram.shape[-1])
    joint = pool_partially(
        *(moments, penalty, judgement, rows.participants),
        actions=task.logs.actions,
        correlated=task.correlated_differences,
        prior=task.prior,
    )
    return joint, kept


def _follow(task: HorizonTask) -> Followed:
    logs = task.logs
    return Followed.of_logs(logs, Transitions.without(len(logs)), task.critic_sees, task.discount, task.centre)


def _judge_everybody(rows: PooledRows, make_task: MakeTask) -> tuple[Judgement, Streamed]:
    """Everybody's own judgement, of which `kept` stays empty, and what it and that of all together leave."""
    found, medians = [], []
    for logs, discount in rows.list_people():
        task = make_task(logs, discount)
        data = _follow(task)
        seen = np.maximum(task.critic_sees, task.policy_sees)
        judge = Judge(data, task.critic, seen, task.units, task.engine)
        removes = task.critic.removal is not None
        one = judge.judge(task.pooling, logs.state, logs.reward) if removes else judge.trust_all(task.pooling)
        rows.write_column("kept", np.nan_to_num(one.kept)[None], logs)
        found.append(one)
        medians.append(find_medians(data) if removes else np.zeros((len(logs.participants), 0)))
    parts = ("threshold", "n_iter", "converged")
    whole = {name: np.concatenate([getattr(one, name) for one in found]) for name in parts}
    judgement = Judgement(np.zeros(0), np.zeros(0, dtype=bool), **whole)
    kept = rows.stream("kept")
    if removes:
        kept = keep_rows(np.minimum(kept, _judge_together(rows, task, np.concatenate(medians))))
    return judgement, kept


def _judge_together(rows: PooledRows, task: HorizonTask, medians: NDArray[np.float64]) -> Array:
    """What one fit to everybody keeps, their values taken from their own medians, (1, rows)."""
    state, reward, inside = rows.stream("state"), rows.stream("reward"), rows.mark_inside()
    known = [(state, inside[:, None, :] & ~np.isnan(state)), (reward, inside & ~np.isnan(reward))]
    few = [has_few_values(np.where(there, one, 0.0), there, FEW_VALUED).ravel() for one, there in known]
    middle = np.vstack([np.where(np.concatenate(few), 0.0, medians), np.zeros(medians.shape[1])])
    own = map_rows(lambda who: np.moveaxis(middle[who], -1, 1), rows.number_people())
    there = np.all(known[0][1], axis=1)
    usable = there & rows.stream("usable")
    arrays = (
        np.swapaxes(np.where(there[:, None, :], state - own[:, :-1, :], 0.0), 1, 2),
        np.where(usable, rows.stream("action"), 0),
        np.where(usable, reward - own[:, -1, :], 0.0),
        usable * rows.stream("discount"),
        there,
    )
    seen = np.maximum(task.critic_sees, task.policy_sees)
    found = judge_points(task.critic, *arrays, task.critic_sees, seen, actions=task.logs.actions, penalties=task.units)
    return found[1].weights


def _measure_units(rows: PooledRows, task: HorizonTask) -> FitScales:
    """As `HorizonTask.measure_units` does in memory."""
    state, reward, usable = rows.stream("state"), rows.stream("reward"), rows.stream("usable")
    if task.units_follow_moments:
        columns = np.concatenate([state * task.critic_sees[:, None], reward[:, None, :]], axis=1)
        values = np.swapaxes(np.where(usable[:, None, :], columns, 0.0), 1, 2)
        return task.units.measure_deviations(usable * 1.0, values, usable * 1.0)
    places = np.flatnonzero(np.asarray(usable)[0])
    some = places[sample_rows(len(places))]
    return task.units.measure(np.swapaxes(state.take(some), 1, 2), reward.take(some), np.ones((1, len(some))))
