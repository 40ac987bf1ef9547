"""What the simulators share: running all people, under one or several policies, in one go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.engines import NUMPY, Engine, find_engine
from surefoot.numerics.random_streams import streams
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import Chooser, DecisionRule

NOISE_CELLS = 2**22
"""Random numbers held at once (32 MiB); people go through in blocks of this size."""

Seed = int | np.random.SeedSequence


@dataclass(frozen=True, eq=False)
class LongRun:
    """What a policy earned and did, participant by participant.

    Attributes
    ----------
    reward
        Average reward of the steps kept, (people,).
    share_treated
        Share of the steps kept with an action other than 0, (people,).
    """

    reward: NDArray[np.float64]
    share_treated: NDArray[np.float64]


class Simulator(ABC):
    """People who meet decision points one after the other.

    A subclass gives the dynamics as functions of arrays: states are (variables, *lanes), one lane per simulated course of
    events, so that any number of people and policies move forward together.

    Attributes
    ----------
    state_names
        One name for every state variable.
    action_names
        One name for every action, nothing first.
    initial_numbers
        Random numbers that the first state takes.
    step_numbers
        Random numbers that one step takes.
    critic_coef
        w*, the best linear approximation of the expected reward under a coin; (people, features) where people differ.
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...] = ("nothing", "send")
    initial_numbers: int
    step_numbers: int
    critic_coef: NDArray[np.float64]

    def __init__(self, participants: int = 50) -> None:
        if isinstance(participants, bool) or not isinstance(participants, int) or participants < 1:
            raise InputError(f"participants is {participants!r}; a simulation needs a whole number of at least 1")
        self.participants = np.arange(participants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(participants={len(self.participants)})"

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """The random numbers that drive the dynamics."""

    @abstractmethod
    def begin(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """First states (variables, *lanes) from random numbers (initial_numbers, *lanes)."""

    @abstractmethod
    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        """Next states and rewards from states, actions and random numbers (step_numbers, *lanes)."""

    @abstractmethod
    def expected_reward(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """True expected immediate reward of every action, (…, actions), at states (…, variables).

        Where people differ, the first axis of the states is people.
        """

    @abstractmethod
    def oracle_myopic(self) -> Policy | Policies:
        """The policy that takes the action with the highest expected immediate reward."""

    def visible(self, state: Array) -> Array:
        """The part of the state (variables, *lanes) that policies and logs see: all of it, unless there is more."""
        return state

    def of(self, people: slice, engine: Engine) -> Self:
        """The dynamics of some people, with arrays where the engine works; the same for all unless people differ."""
        return self

    def collect(self, policy: Policy | Policies, *, decision_points: int = 210, seed: Seed) -> Trajectories:
        """Logs of all people under a policy. With the same seed a longer study begins with the shorter one."""
        if decision_points < 1:
            raise InputError(f"decision_points is {decision_points}; a study needs at least 1")
        people, variables = len(self.participants), len(self.state_names)
        states = np.empty((people, decision_points, variables))
        actions = np.empty((people, decision_points), dtype=np.int64)
        rewards = np.empty((people, decision_points))
        probability = np.empty((people, decision_points))
        for block in self._blocks(decision_points):
            rule = policy.rules_for(self.participants[block])
            course = self._course(rule, block, decision_points, seed, NUMPY)
            for t in range(decision_points):
                states[block, t] = self.visible(course.state).T
                actions[block, t], rewards[block, t] = course.advance()
                taken = actions[block, t, None]
                probability[block, t] = np.take_along_axis(rule.probabilities(states[block, t]), taken, axis=1)[:, 0]
        return Trajectories.from_arrays(
            states,
            actions,
            rewards,
            probability=probability,
            participants=self.participants,
            state_names=self.state_names,
            actions=self.action_names,
        )

    def run(
        self,
        policies: Mapping[str, Policy | Policies],
        *,
        steps: int,
        keep: int,
        seed: Seed,
        engine: str = "numpy",
    ) -> dict[str, LongRun]:
        """Run every policy for `steps` decision points and average over the last `keep`.

        All policies meet the same random numbers, whatever the engine, and none is influenced by which others are there.
        """
        where = find_engine(engine)
        if not 1 <= keep <= steps:
            raise InputError(f"keep is {keep} of {steps} steps; keep at least 1 and at most all of them")
        people = len(self.participants)
        reward = {name: np.zeros(people) for name in policies}
        treated = {name: np.zeros(people) for name in policies}
        for block in self._blocks(steps):
            for names, rule in _by_kind(policies, self.participants[block]):
                course = self._course(rule, block, steps, seed, where)
                advance = where.repeatable(course.advance)
                for t in range(steps):
                    if t == steps - keep:
                        course.forget()
                    advance()
                earned, sent = where.to_numpy(course.earned), where.to_numpy(course.sent)
                for place, name in enumerate(names):
                    reward[name][block] = earned[place] / keep
                    treated[name][block] = sent[place] / keep
        return {name: LongRun(reward[name], treated[name]) for name in policies}

    def _blocks(self, steps: int) -> list[slice]:
        size = max(1, NOISE_CELLS // (steps * (self.step_numbers + 1)))
        return [slice(start, start + size) for start in range(0, len(self.participants), size)]

    def _course(self, rule: DecisionRule, block: slice, steps: int, seed: Seed, where: Engine) -> _Course:
        """A course of events for all lanes (*policies, people of the block), at its beginning."""
        people = range(*block.indices(len(self.participants)))
        first, numbers = [], []
        for rng in streams(seed, "dynamics", people):
            first.append(self.draw(rng, (self.initial_numbers,)))
            numbers.append(self.draw(rng, (steps, self.step_numbers)))
        uniform = np.stack([rng.random(steps) for rng in streams(seed, "actions", people)], axis=1)
        begun = self.begin(np.stack(first, axis=1))
        begun = begun.reshape(len(begun), *[1] * (len(rule.batch) - 1), -1)
        return _Course(
            self.of(block, where),
            rule.on(where).chooser(),
            state=where.to_device(np.broadcast_to(begun, (len(begun), *rule.batch)).copy()),
            driving=where.to_device(np.ascontiguousarray(np.stack(numbers).transpose(1, 2, 0))),
            uniform=where.to_device(uniform),
            time=where.to_device(np.zeros(1, dtype=np.int64)),
            earned=where.to_device(np.zeros(rule.batch)),
            sent=where.to_device(np.zeros(rule.batch)),
        )


@dataclass(frozen=True, eq=False)
class _Course:
    """All lanes on their way through time. The arrays are changed in place, so that a GPU can repeat a recorded step."""

    simulator: Simulator
    choose: Chooser
    state: Array
    driving: Array
    uniform: Array
    time: Array
    earned: Array
    sent: Array

    def advance(self) -> tuple[Array, Array]:
        """One decision point: actions and rewards of all lanes."""
        xp = array_namespace(self.state)
        action = self.choose(self.simulator.visible(self.state), xp.take(self.uniform, self.time, axis=0)[0, ...])
        numbers = xp.take(self.driving, self.time, axis=0)[0, ...]
        following, reward = self.simulator.advance(self.state, action, numbers)
        self.state[...] = following
        self.earned[...] += reward
        self.sent[...] += xp.astype(action > 0, reward.dtype)
        self.time[...] += 1
        return action, reward

    def forget(self) -> None:
        """Begin to count afresh."""
        self.earned[...] = 0.0
        self.sent[...] = 0.0


def _by_kind(
    policies: Mapping[str, Policy | Policies], participants: NDArray[Any]
) -> Iterator[tuple[list[str], DecisionRule]]:
    """Policies of one kind become one rule with a first axis over them, so that they run in one pass."""
    rules = {name: policy.rules_for(participants) for name, policy in policies.items()}
    for kind in {type(rule): None for rule in rules.values()}:
        names = [name for name, rule in rules.items() if type(rule) is kind]
        yield names, kind.stack([rules[name] for name in names])
