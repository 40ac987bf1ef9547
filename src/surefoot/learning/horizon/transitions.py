"""What a horizon learns from: decision points and their successors, which of them the critic trusts, and their moments.

Times in whole numbers count decision points; of other times (timestamps, hours) a participant's median spacing is one
decision point. Rows further apart than `max_gap` decision points are not a pair: what happened in between is not known.

A far-out state spoils its own decision point and the transition into it. With few decision points a participant's own fit
cannot judge, and a fit to everybody's is all or nothing on variables of few values: what is learned from everybody keeps a
decision point only if both keep it. For the pooled judgement everybody's values are taken from their own median, except
those of variables that take few values.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary, count_days, count_moments
from surefoot.data.trajectories import Trajectories
from surefoot.learning.baselines import Baseline, Linear
from surefoot.learning.batch import Batch, choose_block_cells, gather_rows
from surefoot.learning.critics import Critic
from surefoot.learning.penalties import FitScales, PenaltyUnits, PlacedPrior
from surefoot.learning.pooling import Block, Pooling, make_pooling
from surefoot.learning.pooling.mixed_effects import Moments, Posterior, SharedMoments, fit_mixed_effects
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk, fit_random_walk
from surefoot.learning.shared_effects import SharedColumns, SharedDesign
from surefoot.numerics.arrays import NUMPY, Array, Engine, array_namespace
from surefoot.numerics.fences import has_few_values
from surefoot.numerics.masked_quantiles import median
from surefoot.numerics.parallel import map_threads
from surefoot.policies.features import critic_features

Floats = NDArray[np.float64]
JUDGING_PENALTY = 1e-3
"""ζ of the fits that judge."""
FEW_VALUED = 0.1
"""A variable with one value in more than this share of the rows is not centred."""


class Transitions(NamedTuple):
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
        # The (lower) median of everybody's own steps.
        whose = person[:-1][same]
        counts = np.bincount(whose, minlength=len(logs.participants))
        ordered = np.append(steps[same][np.lexsort((steps[same], whose))], 0.0)
        spacing = ordered[np.cumsum(counts) - counts + np.maximum(counts - 1, 0) // 2][person[:-1]]
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


class Judgement(NamedTuple):
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

    def clear_thresholds(self) -> "Judgement":
        """The same decision points, of one fit that no limit was made for."""
        n_iter = self.n_iter.max(initial=1, keepdims=True)
        return self._replace(threshold=np.full(1, np.inf), n_iter=n_iter, converged=np.ones(1, dtype=bool))


@dataclass(frozen=True, eq=False, kw_only=True)
class HorizonTask:
    """The data and the parts of a method with which a horizon learns."""

    logs: Trajectories
    critic: Critic
    pooling: Pooling
    critic_sees: Floats
    """(state variables,): 1.0 for those that the critic sees."""
    policy_sees: Floats
    discount: Floats
    """How much every row counts, (rows,): less where it is forgotten."""
    units: PenaltyUnits
    critic_penalty: float = 1e-3
    penalize_intercept: bool = True
    centre: Floats | None = None
    """The probabilities at which actions are centred, (rows, actions − 1); None: they are not."""
    engine: Engine = NUMPY
    prior: PlacedPrior | None = None
    """Of the coefficients of the reward."""
    transitions: Transitions | None = None
    """None where only the next outcome counts."""
    baseline: Baseline = field(default_factory=Linear)
    offset: Floats | None = None
    """What is taken from every row's outcome, (rows,)."""
    start: Floats | None = None
    """Ratios of variances of a fit to similar logs, from which their search begins."""
    trusted_states: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Rows whose states are not far out, by the name of the pooling whose fits judged: the same in every round."""

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Rows whose state is known, whether or not the participant was available."""
        return np.asarray(~np.isnan(self.logs.state).any(axis=1))

    @cached_property
    def outcome(self) -> Floats:
        """Less the offset."""
        return self.logs.outcome if self.offset is None else self.logs.outcome - self.offset

    @cached_property
    def columns(self) -> SharedColumns | None:
        """Of a smooth baseline and of effects that change for everybody; None without either."""
        if not (self.baseline.curved or self.pooling.changes_together):
            return None
        return SharedColumns.of_logs(self.logs, self.baseline, self.critic_sees, changing=self.pooling.changes_together)

    @cached_property
    def seen_state(self) -> Floats:
        """As the critic sees it."""
        return self.logs.state * self.critic_sees

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """The row of the participant's next decision point, −1 where its state is not known, or there is none."""
        if self.transitions is None:
            return np.full(len(self.logs), -1)
        following = self.transitions.following
        return np.where(self.present & (following >= 0) & self.present[following], following, -1)

    @property
    def row_features(self) -> Floats:
        """x(s, a) of all rows as the critic sees it, (rows, features); 0 where a state is not known."""
        return np.asarray(critic_features(np.nan_to_num(self.seen_state), self.logs.action, self.logs.actions, self.centre))

    @property
    def pairs(self) -> NDArray[np.bool_]:
        """Rows with a known state that are followed by a decision point with a known state."""
        return self.following >= 0

    @cached_property
    def nuisances(self) -> Floats:
        """(rows, columns): nights and unavailability, each where there is any; none where only the next outcome counts."""
        columns = [] if self.transitions is None else [self.transitions.overnight, ~self.logs.available]
        return np.array([c for c in columns if c.any()], dtype=np.float64).reshape(-1, len(self.logs)).T

    @cached_property
    def scaling(self) -> FitScales:
        """The units of one fit to everybody."""
        logs = self.logs
        rows = logs.order[logs.usable[logs.order]]  # A sample of them is the same in whatever order they came.
        return self.units.measure(logs.state[rows][None], logs.outcome[rows][None], np.ones((1, len(rows))))

    @cached_property
    def penalty(self) -> Floats:
        """ζ of every feature of x(s, a), then of every nuisance column."""
        penalty = self.units.penalise_critic(
            self.scaling, self.critic_penalty, actions=self.logs.actions, intercept=self.penalize_intercept
        )
        return np.append(penalty[0], np.full(self.nuisances.shape[1], self.critic_penalty))

    @property
    def prior_variance(self) -> Floats:
        """Of the coefficients of every action before any decision point, in σ², (actions, features of each): 1/ζ, and 1/ζ_c
        for intercepts, which the penalty may leave free."""
        penalty = self.penalty[: len(self.penalty) - self.nuisances.shape[1]]
        penalty = np.where(penalty > 0, penalty, self.critic_penalty).reshape(self.logs.actions, -1)
        return np.where(penalty > 0, 1 / np.where(penalty > 0, penalty, 1.0), 0.0)

    def blocks(self) -> list[Block]:
        """People and their rows, in blocks that fit into memory."""
        return list(self.logs.blocks(choose_block_cells(self.logs)))

    def gather(self, rows: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Features, rewards (…, 1) and next states of rows (people, decision points), −1 where padded; 0 where unknown.

        The features are x(s, a) as the critic sees it, then nights and unavailability.
        """
        logs = self.logs
        engine = self.engine
        inside = rows >= 0
        after = np.where(inside, self.following[rows], -1)
        state = engine.to_device(gather_rows(self.seen_state, rows, inside & self.present[rows]))
        action = engine.to_device(np.where(inside, logs.action[rows], 0))
        centre = None if self.centre is None else engine.to_device(gather_rows(self.centre, rows, inside))
        features = critic_features(state, action, logs.actions, centre)
        if self.nuisances.shape[1]:
            nuisances = engine.to_device(np.where(inside[..., None], self.nuisances[rows], 0.0))
            features = array_namespace(features).concat([features, nuisances], axis=-1)
        reward = self.outcome[rows]
        reward = engine.to_device(np.where(inside & ~np.isnan(reward), reward, 0.0))
        return features, reward[..., None], engine.to_device(gather_rows(self.seen_state, after, after >= 0))

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

    def judge(self) -> Judgement:
        """The critic's judgement by each fit and, if it judges twice or people borrow, by the other pooling's fits too."""
        if not self.critic.weighs_rows:
            return self._trust_all(self.pooling)
        again = self.pooling.second_judge if self.critic.judges_twice or self.pooling.borrows else None
        if again is None:
            return self._judge_by(self.pooling, centred=False)
        judgements = [self._judge_by(level, centred=level.shared) for level in (self.pooling, make_pooling(again))]
        weights = np.min([judgement.weights for judgement in judgements], axis=0)
        trusted = np.all([judgement.trusted for judgement in judgements], axis=0)
        return judgements[0]._replace(weights=weights, trusted=trusted)

    def _trust_all(self, pooling: Pooling) -> Judgement:
        """The judgement of a critic that keeps every usable decision point."""
        fits = len(pooling.list_participants(self.logs))
        return Judgement(
            weights=np.where(self.logs.usable, self.discount, np.nan),
            trusted=self.present.copy(),
            threshold=np.full(fits, np.inf),
            n_iter=np.ones(fits, dtype=np.int64),
            converged=np.ones(fits, dtype=bool),
        )

    def _judge_by(self, pooling: Pooling, *, centred: bool) -> Judgement:
        """The judgement by the fits of one pooling, of values from each participant's median where they are `centred`."""
        logs = self.logs
        engine = self.engine
        states, rewards = centre_people(logs, self.outcome) if centred else (logs.state, self.outcome)
        logged = centre_people(logs, logs.outcome)[1] if centred else logs.outcome
        seen = engine.to_device(np.maximum(self.critic_sees, self.policy_sees))
        judgement = self._trust_all(pooling)
        # Row −1, which stands for padding, is one more than there are.
        weights = np.zeros(len(logs) + 1)
        known = self.trusted_states.get(pooling.name)
        trusted = np.zeros(len(logs) + 1, dtype=bool) if known is None else known

        def judge_block(block: Block) -> None:
            fits, rows = block
            present = (rows >= 0) & self.present[rows]
            usable = present & logs.usable[rows]
            state = engine.to_device(gather_rows(states, rows, present)) * seen
            action = engine.to_device(np.where(usable, logs.action[rows], 0))
            reward = engine.to_device(np.where(usable, rewards[rows], 0.0))
            row_weights = engine.to_device(usable * self.discount[rows])
            if known is None:
                trusted[rows] = engine.to_numpy(self.critic.trust_states(state, engine.to_device(present)))
            believed = engine.to_device(trusted[rows] & present)
            features = critic_features(state * engine.to_device(self.critic_sees), action, logs.actions)
            scaling = self.units.measure(state, reward, row_weights)
            penalty = self.units.penalise_critic(scaling, JUDGING_PENALTY, actions=logs.actions, intercept=True)
            batch = Batch(features, state, action, reward, row_weights, logs.actions, penalty, trusted=believed)
            if self.offset is not None:
                batch = replace(batch, logged=engine.to_device(np.where(usable, logged[rows], 0.0)))
            fit = self.critic.fit(batch)
            weights[rows] = engine.to_numpy(fit.weights)
            judgement.threshold[fits] = engine.to_numpy(fit.threshold)
            judgement.n_iter[fits] = engine.to_numpy(fit.n_iter)
            judgement.converged[fits] = engine.to_numpy(fit.converged)

        list(map_threads(judge_block, pooling.list_blocks(logs, choose_block_cells(logs))))
        self.trusted_states[pooling.name] = trusted
        return judgement._replace(weights=np.where(logs.usable, weights[:-1], np.nan), trusted=trusted[:-1])

    def find_walks(self, *weights: Floats) -> list[Walk | None]:
        """The data of the random walks of the reward and of the states; None if people do not change."""
        step = self.pooling.walk_step
        if step is None:
            return [None] * len(weights)
        blocks = TimeBlocks.of_logs(self.logs)
        by_block = [
            self.moments(*(weights_of_rows * (blocks.block == block) for weights_of_rows in weights))
            for block in range(blocks.count)
        ]
        return [Walk(blocks, moments, step) for moments in zip(*by_block, strict=True)]

    def centre_states(self, moments: Moments) -> Floats:
        """The columns in which people differ independently, and effects walk, (d, d): states are taken from their mean.

        Then an intercept is what holds at the mean state, and where a state's zero lies (°C or °F) changes nothing.
        """
        total = moments.gram.sum(axis=0)
        size = len(self.logs.state_names) + 1
        basis = np.eye(len(total))
        for start in range(0, size * self.logs.actions, size):
            basis[start, start + 1 : start + size] = -total[0, 1:size] / max(total[0, 0], 1.0)
        return basis

    def share(self, weights: Floats, moments: Moments) -> SharedDesign | None:
        """The shared columns for a fit of the reward with these weights of all rows; None without any."""
        columns = self.columns
        if columns is None:
            return None
        group = columns.group
        d = moments.gram.shape[-1]
        between = np.zeros((len(moments.gram), d, len(group)))
        gram = np.zeros((len(group), len(group)))
        cross = np.zeros((len(group), 1))
        padded = np.append(weights, 0.0)
        for people, rows in self.blocks():
            features, reward, _ = (self.engine.to_numpy(values) for values in self.gather(rows))
            state = gather_rows(self.seen_state, rows, (rows >= 0) & self.present[rows])
            values = columns.values(state, features, rows)
            counted = padded[rows]
            weighted = values * counted[..., None]
            between[people] = np.swapaxes(features, 1, 2) @ weighted
            used = counted > 0
            gram += values[used].T @ weighted[used]
            cross += weighted[used].T @ reward[used]
        current = columns.shift_people(len(moments.gram), d)
        shared = SharedMoments(between, gram, cross, group, current, columns.paces)
        return SharedDesign.of_moments(columns, shared, moments, self.centre_states(moments))

    def fit_posteriors(
        self,
        moments: Moments,
        walk: Walk | None,
        *,
        variance_left: float = 1.0,
        prior: PlacedPrior | None = None,
        design: SharedDesign | None = None,
        unshared: Moments | None = None,
        start: Floats | None = None,
    ) -> tuple[Posterior, ...]:
        """Of every response of everybody's moments; with a `walk` of everybody's last coefficients, with a `design` of
        those at everybody's next decision point."""
        basis = self.centre_states(moments)
        posteriors = []
        for response in range(moments.cross.shape[-1]):
            posterior = fit_mixed_effects(
                *(moments, self.penalty),
                response=response,
                basis=basis,
                correlated=self.pooling.correlates,
                alike=self.pooling.alike,
                variance_left=variance_left,
                prior=None if prior is None else (prior.mean, prior.scale),
                shared=None if design is None else design.moments,
                unshared=unshared,
                start=start,
            )
            posteriors.append(posterior if walk is None else fit_random_walk(posterior, walk, response))
        return tuple(posteriors)


def centre_people(logs: Trajectories, outcome: Floats) -> tuple[Floats, Floats]:
    """States and rewards of all rows, each from the participant's median, unless a variable takes few values."""
    values = np.column_stack([logs.state, outcome])
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
