"""A course of events: simulated people on their way, who can go on under another policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.engines import NUMPY
from surefoot.numerics.random_streams import streams
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import Chooser, DecisionRule
from surefoot.simulators.dynamics import Dynamics

HELD_CELLS = 2**22
"""Random numbers held at once (32 MiB)."""

Seed = int | np.random.SeedSequence
Decides = Policy | Policies
Floats = NDArray[np.float64]
Lanes = slice | NDArray[np.int64]
EVERYBODY = slice(None)


@dataclass(frozen=True, eq=False)
class Situation:
    """What is known of everybody before a decision.

    Attributes
    ----------
    state
        (replicates, people, variables), NaN where it is missing.
    available
        (replicates, people).
    """

    state: Floats
    available: NDArray[np.bool_]


class Course:
    """People at some decision point, in one or many replicates of a study at once.

    `advance` moves everybody some decision points forward under policies, and can be called again with others. Everybody
    has random numbers of their own, in an order of their own: one piece of 210 decision points equals 42 of 5 to the bit,
    and two courses with the same seeds meet the same chance whatever their policies do.

    Parameters
    ----------
    dynamics
        Whose course it is, such as a `Simulator`.
    seed
        One seed, or a sequence with one for each replicate.
    people
        Some of the participants; all unless given.

    Attributes
    ----------
    time : (replicates, people)
        Decision points that lie behind everybody.
    states, available, actions, probability, rewards, reported
        What happened, (replicates, people, decision points, …); `reported` is the reward as logs hold it.

    Examples
    --------
    >>> import surefoot as sf
    >>> course = sf.simulators.HeartSteps(participants=2).start(seed=[1, 2, 3])
    >>> course.advance(sf.policies.coin(2), 35).advance(sf.policies.never(2), 5).rewards.shape
    (3, 2, 40)
    >>> course.logs(2)
    Trajectories(2 people, 80 decision points, state ['weather', 'engagement', 'fatigue'], actions ['nothing', 'send'])
    """

    def __init__(self, dynamics: Dynamics, seed: Seed | Sequence[Seed], people: slice = slice(None)) -> None:
        seeds = list(seed) if isinstance(seed, Sequence) else [seed]
        wanted = dynamics.people_differ_by_replicate
        if not seeds or (wanted is not None and wanted != len(seeds)):
            raise InputError(f"{len(seeds)} seeds; give one for each replicate" + (f": {wanted}" if wanted else ""))
        self.participants = dynamics.participants[people]
        self._dynamics = dynamics.of(people, NUMPY)
        ids = range(*people.indices(len(dynamics.participants)))
        self._lanes = (len(seeds), len(ids))
        self._chance = _Chance(dynamics, seeds, ids)
        self._state = np.asarray(self._dynamics.begin(self._chance.first.reshape(-1, *self._lanes)))
        self._time = np.zeros(len(seeds) * len(ids), dtype=np.int64)
        self._record = _Record(len(self._time), len(dynamics.state_names))

    @property
    def replicates(self) -> int:
        return self._lanes[0]

    @property
    def time(self) -> NDArray[np.int64]:
        return self._time.reshape(self._lanes).copy()

    @property
    def states(self) -> Floats:
        return self._shape(self._record.states)

    @property
    def available(self) -> NDArray[np.bool_]:
        return self._shape(self._record.available)

    @property
    def actions(self) -> NDArray[np.int64]:
        return self._shape(self._record.actions)

    @property
    def probability(self) -> Floats:
        return self._shape(self._record.probability)

    @property
    def rewards(self) -> Floats:
        return self._shape(self._record.rewards)

    @property
    def reported(self) -> Floats:
        return self._shape(self._record.reported)

    def _shape(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (room, lanes, …) as (replicates, people, decision points, …)."""
        reached = values[: int(self._time.max(initial=0))]
        return np.moveaxis(reached.reshape(len(reached), *self._lanes, *values.shape[2:]), 0, 2)

    def look(self) -> Situation:
        """Everybody's state and availability at their next decision point."""
        seen = np.moveaxis(np.asarray(self._dynamics.visible(self._state)), 0, -1)
        free = self._dynamics.available(self._state)
        return Situation(seen, np.ones(self._lanes, dtype=bool) if free is None else np.asarray(free, dtype=bool))

    def advance(self, policies: Decides | Sequence[Decides], decision_points: int, *, fallback: float = 0.5) -> Self:
        """Move everybody forward under a policy, or under one for each replicate.

        Parameters
        ----------
        policies
            A policy or policies for all replicates, or a sequence with one for each.
        decision_points
            How many; at least 1.
        fallback
            The probability of sending anything where a state is missing that the policy looks at.

        Returns
        -------
        Course
            The same, at a later time.
        """
        if decision_points < 1:
            raise InputError(f"decision_points is {decision_points}; a study needs at least 1")
        groups = _group_rules(policies, self.participants, self.replicates)
        self._record.reserve(int(self._time.max()) + decision_points)
        for _ in range(decision_points):
            now = self.look()
            probabilities = np.empty((*self._lanes, len(self._dynamics.action_names)))
            actions = np.empty(self._lanes, dtype=np.int64)
            uniform = self._chance.look(EVERYBODY)[1].reshape(self._lanes)
            for group in groups:
                chosen = group.decide(now.state[group.replicates], uniform[group.replicates], fallback)
                actions[group.replicates], probabilities[group.replicates] = chosen
            actions = np.where(now.available, actions, 0)
            taken = np.take_along_axis(probabilities, actions[..., None], axis=-1)[..., 0]
            self._move(now, actions, np.where(now.available, taken, 1.0), None)
        return self

    def step(self, actions: NDArray[np.int64], probability: Floats, *, active: NDArray[np.bool_] | None = None) -> Floats:
        """One decision point with actions that were drawn elsewhere, (replicates, people).

        Parameters
        ----------
        actions
            What everybody gets; who is not available gets 0 whatever stands here.
        probability
            With which it was drawn, for the logs.
        active
            Who is in the study now; all unless given. The others stay where they are, with their random numbers.

        Returns
        -------
        (replicates, people)
            The rewards, whether they are reported or not; NaN for who is not active.
        """
        self._record.reserve(int(self._time.max()) + 1)
        now = self.look()
        actions = np.where(now.available, actions, 0)
        return self._move(now, actions, np.where(now.available, probability, 1.0), active)

    def logs(self, replicate: int = 0) -> Trajectories:
        """What happened so far in one replicate, with rewards as they were reported."""
        return Trajectories.from_arrays(
            self.states[replicate],
            self.actions[replicate],
            self.reported[replicate],
            available=self.available[replicate],
            probability=self.probability[replicate],
            lengths=self.time[replicate],
            participants=self.participants,
            state_names=self._dynamics.state_names,
            actions=self._dynamics.action_names,
        )

    def _move(
        self, now: Situation, actions: NDArray[np.int64], probability: Floats, active: NDArray[np.bool_] | None
    ) -> Floats:
        """Take the next numbers, go on, and write down what happened."""
        moving: Lanes = EVERYBODY if active is None else np.flatnonzero(active)
        numbers = self._chance.look(moving)[0].reshape(-1, *self._lanes)
        following, rewards = self._dynamics.advance(self._state, actions, numbers)
        rewards = np.asarray(rewards)
        reported = np.asarray(self._dynamics.report(self._state, rewards))
        self._record.write(self._time, moving, (now.state, now.available, actions, probability, rewards, reported))
        if active is None:
            self._state = np.asarray(following)
        else:
            self._state = np.where(active, following, self._state)
            rewards = np.where(active, rewards, np.nan)
        self._chance.used[moving] += 1
        self._time[moving] += 1
        return rewards


class _Chance:
    """Everybody's random numbers, drawn ahead from a stream of their own for the dynamics and another for the actions."""

    def __init__(self, dynamics: Dynamics, seeds: Sequence[Seed], people: Iterable[int]) -> None:
        self._draw = dynamics.draw
        self._driving = [rng for seed in seeds for rng in streams(seed, "dynamics", people)]
        self._acting = [rng for seed in seeds for rng in streams(seed, "actions", people)]
        lanes = len(self._driving)
        points = max(1, min(256, HELD_CELLS // (lanes * (dynamics.step_numbers + 1))))
        self.first = np.stack([self._draw(rng, (dynamics.initial_numbers,)) for rng in self._driving], axis=1)
        self._numbers = np.empty((points, dynamics.step_numbers, lanes))
        self._uniform = np.empty((points, lanes))
        self.used = np.full(lanes, points)
        """How many of the numbers that are held were taken, by lane."""

    def look(self, moving: Lanes) -> tuple[Floats, Floats]:
        """The next numbers of everybody, (step_numbers, lanes) and (lanes,); they count only for who is moving."""
        self._replenish(moving)
        first = int(self.used[0])
        if (self.used == first).all():
            return self._numbers[first], self._uniform[first]
        everybody = np.arange(len(self.used))
        places = np.minimum(self.used, len(self._uniform) - 1)
        return self._numbers[places, :, everybody].T, self._uniform[places, everybody]

    def _replenish(self, moving: Lanes) -> None:
        points, numbers = self._numbers.shape[:2]
        wanting = np.zeros(len(self.used), dtype=bool)
        wanting[moving] = self.used[moving] == points
        lanes = np.flatnonzero(wanting)
        if lanes.size:
            drawn = np.stack([self._draw(self._driving[lane], (points, numbers)) for lane in lanes.tolist()])
            self._numbers[:, :, lanes] = np.moveaxis(drawn, 0, -1)
            self._uniform[:, lanes] = np.stack([self._acting[lane].random(points) for lane in lanes.tolist()], axis=1)
            self.used[lanes] = 0


class _Record:
    """What happened, (decision points, lanes, …), in arrays that grow: what is written at once lies side by side."""

    def __init__(self, lanes: int, variables: int) -> None:
        self.states = np.empty((0, lanes, variables))
        self.available = np.empty((0, lanes), dtype=bool)
        self.actions = np.empty((0, lanes), dtype=np.int64)
        self.probability = np.empty((0, lanes))
        self.rewards = np.empty((0, lanes))
        self.reported = np.empty((0, lanes))

    def reserve(self, points: int) -> None:
        held = len(self.rewards)
        if points > held:
            added = max(points, 2 * held) - held
            for name, values in vars(self).items():
                setattr(self, name, np.concatenate([values, np.zeros((added, *values.shape[1:]), dtype=values.dtype)]))

    def write(self, time: NDArray[np.int64], moving: Lanes, found: tuple[NDArray[Any], ...]) -> None:
        """What happened to those who move, at the time that each of them has reached."""
        together = isinstance(moving, slice) and bool((time == time[0]).all())
        places = (time[0], moving) if together else (time[moving], np.arange(len(time))[moving])
        for values, new in zip(vars(self).values(), found, strict=True):
            values[places] = new.reshape(values.shape[1:])[moving]


@dataclass(frozen=True, eq=False)
class _Group:
    """Some replicates whose policies have the same kind of rule."""

    replicates: NDArray[np.int64] | slice
    rule: DecisionRule
    """Of batch shape (replicates, people)."""
    choose: Chooser

    def decide(self, state: Floats, uniform: Floats, fallback: float) -> tuple[NDArray[np.int64], Floats]:
        """Actions (replicates, people) and the probabilities of all, with the fallback where a state is missing."""
        unknown = np.isnan(state) if self.rule.looks_at_states else np.zeros_like(state, dtype=bool)
        missing = np.asarray(unknown.any(axis=-1))
        filled = np.nan_to_num(state) if missing.any() else state
        actions = np.asarray(self.choose(np.moveaxis(filled, -1, 0), uniform))
        probabilities = self.rule.probabilities(filled)
        if not missing.any():
            return actions, probabilities
        others = probabilities.shape[-1] - 1
        spare = np.array([1 - fallback, *[fallback / others] * others])
        drawn = np.asarray(uniform[..., None] >= np.cumsum(spare)[:-1]).sum(axis=-1)
        return np.where(missing, drawn, actions), np.where(missing[..., None], spare, probabilities)


def _group_rules(policies: Decides | Sequence[Decides], participants: NDArray[Any], replicates: int) -> list[_Group]:
    """The policies of all replicates, those of one kind as one rule."""
    if not isinstance(policies, Sequence):
        rule = policies.rules_for(participants)[None]
        return [_Group(slice(None), rule, rule.chooser())]
    if len(policies) != replicates:
        raise InputError(f"{len(policies)} policies for {replicates} replicates; give one for each, or one for all")
    rules = [policy.rules_for(participants) for policy in policies]
    groups = []
    for kind in {type(rule): None for rule in rules}:
        which = [number for number, rule in enumerate(rules) if type(rule) is kind]
        stacked = kind.stack([rules[number] for number in which])
        groups.append(_Group(np.array(which), stacked, stacked.chooser()))
    return groups
