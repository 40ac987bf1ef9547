"""A method's fit to everybody's decision points in files, by repeated passes over them.

Nothing is fitted differently: critics and decision rules get arrays that are read block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.learning.batch import Batch, BatchFit
from surefoot.learning.critics import CriticFit
from surefoot.learning.diagnostics import NOT_CONVERGED, describe_troubles, find_troubles, warn_of_troubles
from surefoot.learning.filters import find_filter
from surefoot.learning.fitted import Fitted
from surefoot.learning.forgetting import discount_rows, warn_of_oblivion
from surefoot.learning.horizon import BatchOutlook, JointFit, find_horizon
from surefoot.learning.horizon.borrowing_passes import borrow_by_passes
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.pooled_rows import PooledRows
from surefoot.learning.pooling import find_pooling
from surefoot.numerics.arrays import keep_freed_memory
from surefoot.numerics.engines import find_engine
from surefoot.numerics.streamed_arrays import Streamed, keep_rows
from surefoot.policies.policies import Policies
from surefoot.policies.rules import DecisionRule

if TYPE_CHECKING:
    from surefoot.learning.methods.composition import Method


def can_stream(method: Method) -> bool:
    """Whether a pooled fit can go over decision points in files.

    A look ahead needs what followed each of them, a random walk when each was, and some critics take all at once.
    """
    ahead = find_horizon(method.horizon).looks_ahead
    return method.make_critic().streams and not ahead and method.random_walk is None


def clean_logs(method: Method, logs: Trajectories) -> Trajectories:
    """What the method's filter leaves."""
    return logs if method.filter is None else find_filter(method.filter).clean(logs)


def write_logs(method: Method, logs: Trajectories, rows: PooledRows) -> None:
    """Put what the method learns from of a part of the people among all."""
    cleaned = clean_logs(method, logs)
    rows.write(cleaned, discount_rows(cleaned, method.forgetting), method.list_centres(cleaned))


@dataclass(frozen=True, eq=False)
class PooledFit:
    """What a method learned from everybody's decision points, as one fit."""

    method: Method
    rows: PooledRows
    learned: BatchFit
    policies: Policies
    counts: dict[str, int]
    """How many of all decision points were used, and how many of those removed."""

    def describe_rows(self, logs: Trajectories) -> Fitted:
        """The fit with the weights and residuals of some people's decision points."""
        method, learned = self.method, self.learned
        cleaned, found = clean_logs(method, logs), learned.critic
        weights, residuals = (self.rows.collect(part, logs) for part in (found.weights, learned.residuals))
        pooling = find_pooling(method.pooling)
        return Fitted(
            *(cleaned, method.make_critic(), pooling, pooling.list_participants(logs), pooling.assign_rows(logs)),
            **method.list_seen(logs.state_names),
            critic_coef=found.coef,
            threshold=found.threshold,
            scale=learned.scale,
            n_iter=found.n_iter,
            converged=learned.converged,
            weights=np.where(cleaned.usable, weights, np.nan),
            residuals=np.where(cleaned.usable, residuals, np.nan),
            scaling=learned.scaling,
            penalty=learned.penalty,
            policies=self.policies,
            horizon=find_horizon(method.horizon),
            joint=None,
        )


@dataclass(frozen=True, eq=False)
class BorrowingFit:
    """What a method learned of everybody together before their own decision rules, which follow from their own decision
    points."""

    method: Method
    rows: PooledRows
    joint: JointFit
    kept: Streamed
    """What counts of every decision point."""
    anybody: DecisionRule
    """Of people of whom nothing is known."""
    counts: ClassVar[dict[str, int]] = {}

    def describe_rows(self, logs: Trajectories) -> Fitted:
        """The fits of some people; warnings are those of a fit in memory, of these people."""
        method, engine, pooling = self.method, find_engine("numpy"), find_pooling(self.method.pooling)
        cleaned, joint = clean_logs(method, logs), self._restrict(logs)
        arrays, troubles, rule = method.fit_units(cleaned, joint, discount_rows(cleaned, method.forgetting), engine)
        sees = method.list_seen(logs.state_names)
        features = int((sees["critic_sees"].sum() + 1) * logs.actions)
        few = np.bincount(cleaned.participant_index[cleaned.usable], minlength=len(logs.participants)) < features
        policies = Policies(logs.participants, rule, logs.action_names, logs.state_names)
        policies = policies.with_anybody(self.anybody, instead_of=few)
        parts = (cleaned, method.make_critic(), pooling, logs.participants, pooling.assign_rows(cleaned))
        learned = {**sees, **arrays.finish(), "policies": policies, "horizon": find_horizon(method.horizon), "joint": joint}
        found = Fitted(*parts, **learned)
        texts = [*describe_troubles(logs.state_names, logs.action_names, features, pooling), NOT_CONVERGED]
        warn_of_troubles(logs.participants, np.column_stack([troubles, ~found.converged]), texts)
        return found

    def _restrict(self, logs: Trajectories) -> JointFit:
        """What concerns some people."""
        joint, judged = self.joint, self.joint.judgement
        who = np.searchsorted(self.rows.participants, logs.participants)
        limits = (judged.threshold[who], judged.n_iter[who], judged.converged[who])
        own = Judgement(self.rows.collect(self.kept, logs), np.zeros(len(logs), dtype=bool), *limits)
        return JointFit(own, joint.coef[who], joint.gram[who], joint.advantage.of(who))


def fit_pooled(method: Method, rows: PooledRows) -> PooledFit | BorrowingFit:
    """Fit a method that `can_stream`; warnings are those of a fit in memory."""
    states, actions = rows.names
    method.check_parameters()
    method.check_names(states, actions)
    sees = method.list_seen(states)
    features = int((sees["critic_sees"].sum() + 1) * len(actions))
    warn_of_oblivion(method.forgetting, features, len(rows.participants))
    keep_freed_memory()
    fit = _fit_each if find_pooling(method.pooling).borrows else _fit_together
    return fit(method, rows, rows.make_batch(**sees), features)


def _fit_together(method: Method, rows: PooledRows, batch: Batch, features: int) -> PooledFit:
    learned = _keep_results(method.fit_batch(batch))
    states, actions = rows.names
    policies, weights = Policies(None, learned.rule, actions, states), learned.critic.weights
    data = (batch.state, batch.action, batch.reward, batch.usable, weights)
    troubles = find_troubles(*data, actions=batch.actions, features=features)
    texts = [*describe_troubles(states, actions, features, find_pooling(method.pooling)), NOT_CONVERGED]
    warn_of_troubles(np.array(["everyone"]), np.column_stack([troubles, ~learned.converged]), texts)
    counts = {"used": np.sum(batch.usable), "removed": np.sum((batch.usable > 0) & (weights == 0))}
    return PooledFit(method, rows, learned, policies, {name: int(count) for name, count in counts.items()})


def _fit_each(method: Method, rows: PooledRows, batch: Batch, features: int) -> BorrowingFit:
    engine = find_engine("numpy")
    joint, kept = borrow_by_passes(rows, lambda logs, discount: method.make_horizon_task(logs, discount, engine))
    new = joint.anybody
    if new is None:
        raise ValueError("partial pooling has a policy for anybody")
    judged = new.judgement
    fit = CriticFit(new.coef, new.gram, kept, judged.threshold, judged.n_iter, judged.converged)
    rule = method.fit_batch(batch, BatchOutlook(fit, new.advantage)).rule[0]
    return BorrowingFit(method, rows, JointFit(joint.judgement, joint.coef, joint.gram, joint.advantage), kept, rule)


def _keep_results(learned: BatchFit) -> BatchFit:
    """With weights and residuals in files of their own."""
    weights, residuals = keep_rows(learned.critic.weights), keep_rows(learned.residuals)
    return replace(learned, critic=replace(learned.critic, weights=weights), residuals=residuals)
