"""Which decision point follows which, which of them the study's critic trusts, and their moments.

Times in whole numbers count decision points; of other times (timestamps, hours) a participant's median spacing is one
decision point. Rows further apart than `max_gap` decision points are not a pair: what happened in between is not known.

A far-out state spoils its own decision point and the transition into it. With few decision points a participant's own fit
cannot judge, and a fit to everybody's is all or nothing on variables of few values: what is learned from everybody keeps a
decision point only if both keep it. For the pooled judgement everybody's values are taken from their own median, except
those of variables that take few values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary, count_days, count_moments
from surefoot.data.trajectories import Trajectories
from surefoot.learning.batch import Batch, choose_block_cells
from surefoot.learning.critics import Critic
from surefoot.learning.penalties import PenaltyUnits
from surefoot.learning.pooling import Block, Pooling, make_pooling
from surefoot.learning.pooling.mixed_effects import Moments
from surefoot.numerics.arrays import Array, Engine, array_namespace
from surefoot.numerics.fences import has_few_values
from surefoot.numerics.masked_quantiles import median
from surefoot.numerics.parallel import map_threads
from surefoot.policies.features import critic_features

Floats = NDArray[np.float64]
JUDGING_PENALTY = 1e-3
"""ζ of the fits that judge."""
FEW_VALUED = 0.1
"""A variable with one value in more than this share of the rows is not centred."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """For every row of the logs the decision point after it."""

    following: NDArray[np.int64]
    """The row of the participant's next decision point, −1 where it is missing or there is none."""
    overnight: NDArray[np.bool_]
    """Whether a night lies in between."""


def find_transitions(logs: Trajectories, *, max_gap: int = 1, day_boundary: DayBoundary = None) -> Transitions:
    """The pairs of consecutive decision points.

    >>> logs = Trajectories.from_arrays(np.zeros((1, 5, 1)), np.ones((1, 5)), np.zeros((1, 5)), time=[[0, 1, 3, 4, 5]])
    >>> transitions = find_transitions(logs, day_boundary=5)
    >>> transitions.following, transitions.overnight
    (array([ 1, -1,  3,  4, -1]), array([False, False, False,  True, False]))
    """
    order = logs.order
    person = logs.participant_index[order]
    moment = count_moments(logs.time[order])
    same = person[1:] == person[:-1]
    steps = np.diff(moment)
    spacing = np.ones(len(steps))
    if moment.dtype.kind != "i":
        spacing = _find_median_spacing(person[:-1][same], steps[same], len(logs.participants))[person[:-1]]
    near = same & (steps <= (max_gap + 0.5) * spacing)
    overnight = np.zeros(len(steps), dtype=bool)
    if day_boundary is not None:
        days = np.diff(count_days(logs.time[order], day_boundary, logs.names.time))
        overnight = same & (days == 1)
        near |= overnight & (moment.dtype.kind == "f")
        near &= days <= 1
    transitions = Transitions(np.full(len(logs), -1), np.zeros(len(logs), dtype=bool))
    pairs = np.flatnonzero(near)
    transitions.following[order[pairs]] = order[pairs + 1]
    transitions.overnight[order[pairs]] = overnight[pairs]
    return transitions


def _find_median_spacing(person: NDArray[np.int64], steps: Floats, people: int) -> Floats:
    """The (lower) median of everybody's own steps, by participant; 0 where there is none."""
    counts = np.bincount(person, minlength=people)
    first = np.cumsum(counts) - counts
    ordered = steps[np.lexsort((steps, person))]
    medians = np.zeros(people)
    known = np.flatnonzero(counts)
    medians[known] = ordered[first[known] + (counts[known] - 1) // 2]
    return medians


@dataclass(frozen=True, eq=False)
class TransitionData:
    """Decision points and their successors, as a horizon uses them."""

    logs: Trajectories
    sees: Floats
    """(state variables,): 1.0 for those that the critic sees."""
    discount: Floats
    """How much every row counts, (rows,): less where it is forgotten."""
    engine: Engine
    transitions: Transitions | None = None
    """None where only the next outcome counts."""
    centre: Floats | None = None
    """The probabilities at which actions are centred, (rows, actions − 1); None: they are not."""

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Rows whose state is known, whether or not the participant was available."""
        return np.asarray(~np.isnan(self.logs.state).any(axis=1))

    @cached_property
    def state(self) -> Floats:
        """As the critic sees it."""
        return self.logs.state * self.sees

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """The row of the participant's next decision point, −1 where its state is not known, or there is none."""
        if self.transitions is None:
            return np.full(len(self.logs), -1)
        following = self.transitions.following
        return np.where(self.present & (following >= 0) & self.present[following], following, -1)

    @property
    def pairs(self) -> NDArray[np.bool_]:
        """Rows with a known state that are followed by a decision point with a known state."""
        return self.following >= 0

    @cached_property
    def nuisances(self) -> Floats:
        """(rows, columns): nights and unavailability, each where there is any; none where only the next outcome counts."""
        if self.transitions is None:
            return np.zeros((len(self.logs), 0))
        columns = [column for column in (self.transitions.overnight, ~self.logs.available) if column.any()]
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(self.logs)).T

    def gather(self, rows: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Features, rewards (…, 1) and next states of rows (people, decision points), −1 where padded; 0 where unknown.

        The features are x(s, a) as the critic sees it, then nights and unavailability.
        """
        logs = self.logs
        engine = self.engine
        inside = rows >= 0
        after = np.where(inside, self.following[rows], -1)
        state = _gather_rows(self.state, rows, inside & self.present[rows])
        following = _gather_rows(self.state, after, after >= 0)
        action = engine.to_device(np.where(inside, logs.action[rows], 0))
        centre = None if self.centre is None else engine.to_device(_gather_rows(self.centre, rows, inside))
        features = critic_features(engine.to_device(state), action, logs.actions, centre)
        if self.nuisances.shape[1]:
            nuisances = engine.to_device(np.where(inside[..., None], self.nuisances[rows], 0.0))
            features = array_namespace(features).concat([features, nuisances], axis=-1)
        reward = logs.reward[rows]
        reward = engine.to_device(np.where(inside & ~np.isnan(reward), reward, 0.0))
        return features, reward[..., None], engine.to_device(following)

    def blocks(self) -> list[Block]:
        """People and their rows, in blocks that fit into memory."""
        return list(self.logs.blocks(choose_block_cells(self.logs)))

    def moments(self, *weights: Floats) -> list[Moments]:
        """Of every participant, on the features: of the reward and, with a second array, of the next state.

        `weights` are those of all rows, (rows,).
        """
        padded = [np.append(weights_of_rows, 0.0) for weights_of_rows in weights]

        def block_moments(block: Block) -> tuple[NDArray[np.int64], list[list[Floats]]]:
            people, rows = block
            features, *responses = self.gather(rows)
            moments = [
                Moments.of_rows(features, response, self.engine.to_device(weights_of_rows[rows]))
                for response, weights_of_rows in zip(responses, padded, strict=False)
            ]
            return people, [[self.engine.to_numpy(part) for part in vars(moment).values()] for moment in moments]

        people, by_block = zip(*map_threads(block_moments, self.blocks()), strict=True)
        back = np.argsort(np.concatenate(people))
        return [
            Moments(*(np.concatenate(parts)[back] for parts in zip(*response, strict=True)))
            for response in zip(*by_block, strict=True)
        ]


def _gather_rows(values: Floats, rows: NDArray[np.int64], known: NDArray[np.bool_]) -> Floats:
    """(people, decision points, variables), each variable's values side by side in memory, 0 where not known."""
    gathered = np.empty((len(rows), values.shape[1], rows.shape[1]))
    for j in range(values.shape[1]):
        gathered[:, j, :] = np.where(known, values[:, j][rows], 0.0)
    return np.swapaxes(gathered, 1, 2)


@dataclass(frozen=True, eq=False)
class Judgement:
    """The critic's weights and trust of all rows."""

    weights: Floats
    """How much a decision point counts for the reward, less than 1 where it is forgotten; 0 where it was left out, NaN where
    it cannot be used."""
    trusted: NDArray[np.bool_]
    """Rows whose state is known and not far out."""
    threshold: Floats
    """ε of every fit."""
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    def clear_thresholds(self) -> Judgement:
        """The same decision points, of one fit that no limit was made for."""
        n_iter = self.n_iter.max(initial=1, keepdims=True)
        return replace(self, threshold=np.full(1, np.inf), n_iter=n_iter, converged=np.ones(1, dtype=bool))


def judge_rows(data: TransitionData, critic: Critic, pooling: Pooling, seen: Floats, penalties: PenaltyUnits) -> Judgement:
    """The judgement of each fit and, for a critic that judges twice or a pooling that borrows, of the other pooling's fits
    too; `seen` marks the state variables that critic or policy look at."""
    if not critic.weighs_rows:
        return _trust_all(data, pooling)
    again = pooling.second_judge if critic.judges_twice or pooling.borrows else None
    poolings = [pooling] if again is None else [pooling, make_pooling(again)]
    judgements = []
    for level in poolings:
        values = (data.logs.state, data.logs.reward)
        if level.shared and again is not None:
            values = centre_people(data.logs)
        judgements.append(_judge(data, critic, level, seen, penalties, *values))
    weights = np.min([judgement.weights for judgement in judgements], axis=0)
    trusted = np.all([judgement.trusted for judgement in judgements], axis=0)
    return replace(judgements[0], weights=weights, trusted=trusted)


def _trust_all(data: TransitionData, pooling: Pooling) -> Judgement:
    """The judgement of a critic that keeps every usable decision point."""
    fits = len(pooling.list_participants(data.logs))
    return Judgement(
        weights=np.where(data.logs.usable, data.discount, np.nan),
        trusted=data.present.copy(),
        threshold=np.full(fits, np.inf),
        n_iter=np.ones(fits, dtype=np.int64),
        converged=np.ones(fits, dtype=bool),
    )


def _judge(
    data: TransitionData,
    critic: Critic,
    pooling: Pooling,
    seen: Floats,
    penalties: PenaltyUnits,
    states: Floats,
    rewards: Floats,
) -> Judgement:
    """The judgement by the fits of one pooling to these states and rewards of all rows."""
    logs = data.logs
    engine = data.engine
    judgement = _trust_all(data, pooling)
    # Row −1, which stands for padding, is one more than there are.
    weights = np.zeros(len(logs) + 1)
    trusted = np.zeros(len(logs) + 1, dtype=bool)

    def judge_block(block: Block) -> None:
        units, rows = block
        present = (rows >= 0) & data.present[rows]
        usable = present & logs.usable[rows]
        state = engine.to_device(_gather_rows(states, rows, present)) * engine.to_device(seen)
        action = engine.to_device(np.where(usable, logs.action[rows], 0))
        reward = engine.to_device(np.where(usable, rewards[rows], 0.0))
        row_weights = engine.to_device(usable * data.discount[rows])
        believed = critic.trust_states(state, engine.to_device(present))
        features = critic_features(state * engine.to_device(data.sees), action, logs.actions)
        scaling = penalties.measure(state, reward, row_weights)
        penalty = penalties.penalise_critic(scaling, JUDGING_PENALTY, actions=logs.actions, intercept=True)
        fit = critic.fit(Batch(features, state, action, reward, row_weights, logs.actions, penalty, trusted=believed))
        trusted[rows] = engine.to_numpy(believed)
        weights[rows] = engine.to_numpy(fit.weights)
        judgement.threshold[units] = engine.to_numpy(fit.threshold)
        judgement.n_iter[units] = engine.to_numpy(fit.n_iter)
        judgement.converged[units] = engine.to_numpy(fit.converged)

    list(map_threads(judge_block, pooling.list_blocks(logs, choose_block_cells(logs))))
    return replace(judgement, weights=np.where(logs.usable, weights[:-1], np.nan), trusted=trusted[:-1])


def centre_people(logs: Trajectories) -> tuple[Floats, Floats]:
    """States and rewards of all rows, each from the participant's median, unless a variable takes few values."""
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
