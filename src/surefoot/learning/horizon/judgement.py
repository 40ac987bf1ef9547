"""Which decision points a look-ahead may learn from, by the study's critic.

A far-out state spoils its own decision point and the transition into it. With few decision points a participant's own fit
cannot judge, and a fit to everybody's is all or nothing on variables of few values: what is learned from everybody keeps a
decision point only if both keep it. For the pooled judgement everybody's values are taken from their own median, except
those of variables that take few values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.batch import Batch, choose_block_cells
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.horizon.horizon_batch import TransitionData, gather_rows
from surefoot.learning.penalty_units import PenaltyUnits
from surefoot.learning.pooling import Pooling, make_pooling
from surefoot.learning.pooling.pooling import Block
from surefoot.numerics.arrays import Array, Engine
from surefoot.numerics.fences import has_few_values
from surefoot.numerics.masked_quantiles import median
from surefoot.numerics.parallel import map_threads
from surefoot.policies.features import critic_features

JUDGING_PENALTY = 1e-3
"""ζ of the fits that judge."""
FEW_VALUED = 0.1
"""A variable with one value in more than this share of the rows is not centred."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """The critic's weights and trust of all rows."""

    weights: NDArray[np.float64]
    """How much a decision point counts for the reward, less than 1 where it is forgotten; 0 where it was left out, NaN where
    it cannot be used."""
    trusted: NDArray[np.bool_]
    """Rows whose state is known and not far out."""
    threshold: NDArray[np.float64]
    """ε of every fit."""
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]


def judge_rows(
    data: TransitionData,
    critic: Critic,
    pooling: Pooling,
    seen: NDArray[np.float64],
    *,
    penalties: PenaltyUnits,
    engine: Engine,
) -> Judgement:
    """The judgement of each fit and, for a critic that judges twice or a pooling that borrows, of the other pooling's fits
    too; `seen` marks the state variables that critic or policy look at."""
    judge = _Judge(data, critic, seen, penalties, engine)
    if not critic.weighs_rows:
        return judge.trust_all(pooling)
    again = pooling.second_judge if critic.judges_twice or pooling.borrows else None
    poolings = [pooling] if again is None else [pooling, make_pooling(again)]
    judgements = []
    for level in poolings:
        centred = level.shared and again is not None
        state, reward = centre_people(data) if centred else (data.logs.state, data.logs.reward)
        judgements.append(judge.judge(level, state, reward))
    weights = np.min([judgement.weights for judgement in judgements], axis=0)
    trusted = np.all([judgement.trusted for judgement in judgements], axis=0)
    return replace(judgements[0], weights=weights, trusted=trusted)


@dataclass(frozen=True, eq=False)
class _Judge:
    """A critic at work on logs."""

    data: TransitionData
    critic: Critic
    seen: NDArray[np.float64]
    penalties: PenaltyUnits
    engine: Engine

    def trust_all(self, pooling: Pooling) -> Judgement:
        """The judgement of a critic that keeps every usable decision point."""
        fits = len(pooling.list_participants(self.data.logs))
        return Judgement(
            weights=np.where(self.data.logs.usable, self.data.discount, np.nan),
            trusted=self.data.present.copy(),
            threshold=np.full(fits, np.inf),
            n_iter=np.ones(fits, dtype=np.int64),
            converged=np.ones(fits, dtype=bool),
        )

    def judge(self, pooling: Pooling, state: NDArray[np.float64], reward: NDArray[np.float64]) -> Judgement:
        """By the fits of one pooling to these states and rewards of all rows."""
        logs = self.data.logs
        judgement = self.trust_all(pooling)
        engine = self.engine
        # Row −1, which stands for padding, is one more than there are.
        weights = np.zeros(len(logs) + 1)
        trusted = np.zeros(len(logs) + 1, dtype=bool)

        def judge_block(block: Block) -> None:
            units, rows = block
            believed, fit = self._judge_block(state, reward, rows)
            trusted[rows] = engine.to_numpy(believed)
            weights[rows] = engine.to_numpy(fit.weights)
            judgement.threshold[units] = engine.to_numpy(fit.threshold)
            judgement.n_iter[units] = engine.to_numpy(fit.n_iter)
            judgement.converged[units] = engine.to_numpy(fit.converged)

        list(map_threads(judge_block, pooling.list_blocks(logs, choose_block_cells(logs))))
        return replace(judgement, weights=np.where(logs.usable, weights[:-1], np.nan), trusted=trusted[:-1])

    def _judge_block(
        self, states: NDArray[np.float64], rewards: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> tuple[Array, CriticFit]:
        """Whether each state may be believed, and the critic's fit to the rewards, of (units, rows), −1 where padded."""
        logs = self.data.logs
        engine = self.engine
        present = (rows >= 0) & self.data.present[rows]
        usable = present & logs.usable[rows]
        state = engine.to_device(gather_rows(states, rows, present)) * engine.to_device(self.seen)
        action = engine.to_device(np.where(usable, logs.action[rows], 0))
        reward = engine.to_device(np.where(usable, rewards[rows], 0.0))
        weights = engine.to_device(usable * self.data.discount[rows])
        trusted = self.critic.trust_states(state, engine.to_device(present))
        x = critic_features(state * engine.to_device(self.data.sees), action, logs.actions)
        scaling = self.penalties.measure(state, reward, weights)
        penalty = self.penalties.penalise_critic(scaling, JUDGING_PENALTY, actions=logs.actions, intercept=True)
        batch = Batch(x, state, action, reward, weights, logs.actions, penalty, trusted=trusted)
        return trusted, self.critic.fit(batch)


def centre_people(data: TransitionData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """States and rewards of all rows, each from the participant's median, unless a variable takes few values."""
    logs = data.logs
    values = np.column_stack([logs.state, logs.reward])
    known = ~np.isnan(values)
    few = has_few_values(np.where(known, values, 0.0).T[None], known.T[None], FEW_VALUED)[0]
    medians = np.zeros((len(logs.participants), values.shape[1]))
    for people, rows in logs.blocks():
        for j in np.flatnonzero(~few):
            present = (rows >= 0) & known[rows, j]
            medians[people, j] = median(np.where(present, values[rows, j], 0.0), present)
    medians = np.where(np.isfinite(medians), medians, 0.0)
    centred = values - medians[logs.participant_index]
    return centred[:, :-1], centred[:, -1]
