"""What the simulators share: running all people, under one or several policies, in one go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.engines import Engine, find_engine
from surefoot.numerics.random_streams import streams
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import Chooser, DecisionRule
from surefoot.simulators.course import Course, Seed
from surefoot.simulators.dynamics import Dynamics

NOISE_CELLS = 2**22
"""Random numbers held at once (32 MiB); people go through in blocks of this size."""


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


class Simulator(Dynamics):
    """People who meet decision points one after the other.

    A subclass gives the dynamics, and the truth about them.

    Parameters
    ----------
    participants
        How many people.

    Attributes
    ----------
    critic_coef
        w*, the best linear approximation of the expected reward under a coin; (people, features) where people differ.
    """

    critic_coef: NDArray[np.float64]

    def __init__(self, participants: int = 50) -> None:
        if isinstance(participants, bool) or not isinstance(participants, int) or participants < 1:
            raise InputError(f"participants is {participants!r}; a simulation needs a whole number of at least 1")
        self.participants = np.arange(participants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(participants={len(self.participants)})"

    @abstractmethod
    def expected_reward(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """True expected immediate reward of every action, (…, actions), at states (…, variables).

        Where people differ, the first axis of the states is people.
        """

    @abstractmethod
    def oracle_myopic(self) -> Policy | Policies:
        """The policy that takes the action with the highest expected immediate reward."""

    def start(self, *, seed: Seed | Sequence[Seed]) -> Course:
        """Everybody before their first decision point, in one replicate or, with a sequence of seeds, in many at once.

        Parameters
        ----------
        seed
            One seed, or one for each replicate.

        Returns
        -------
        Course
            What `advance` moves forward, under one policy after another.

        Examples
        --------
        >>> import surefoot as sf
        >>> chains = sf.simulators.ChainWalk(participants=2)
        >>> pieces = chains.start(seed=1).advance(sf.policies.coin(2), 3).advance(sf.policies.coin(2), 4).logs()
        >>> (pieces.reward == chains.collect(sf.policies.coin(2), decision_points=7, seed=1).reward).all()
        np.True_
        """
        return Course(self, seed)

    def collect(self, policy: Policy | Policies, *, decision_points: int = 210, seed: Seed) -> Trajectories:
        """Logs of all people under a policy. With the same seed a longer study begins with the shorter one."""
        if decision_points < 1:
            raise InputError(f"decision_points is {decision_points}; a study needs at least 1")
        parts = [Course(self, seed, block).advance(policy, decision_points) for block in self._blocks(decision_points)]

        def join(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, name)[0] for part in parts])

        return Trajectories.from_arrays(
            *(join("states"), join("actions"), join("reported")),
            available=join("available"),
            probability=join("probability"),
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
                earned = where.to_numpy(course.earned)
                sent = where.to_numpy(course.sent)
                for number, name in enumerate(names):
                    reward[name][block] = earned[number] / keep
                    treated[name][block] = sent[number] / keep
        return {name: LongRun(reward[name], treated[name]) for name in policies}

    def _blocks(self, steps: int) -> list[slice]:
        size = max(1, NOISE_CELLS // (steps * (self.step_numbers + 1)))
        return [slice(start, start + size) for start in range(0, len(self.participants), size)]

    def _course(self, rule: DecisionRule, block: slice, steps: int, seed: Seed, where: Engine) -> _Run:
        """A course of events for all lanes (*policies, people of the block), at its beginning."""
        people = range(*block.indices(len(self.participants)))
        first = []
        numbers = []
        for rng in streams(seed, "dynamics", people):
            first.append(self.draw(rng, (self.initial_numbers,)))
            numbers.append(self.draw(rng, (steps, self.step_numbers)))
        uniform = np.stack([rng.random(steps) for rng in streams(seed, "actions", people)], axis=1)
        begun = self.begin(np.stack(first, axis=1))
        begun = begun.reshape(len(begun), *[1] * (len(rule.batch) - 1), -1)
        return _Run(
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
class _Run:
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
        free = self.simulator.available(self.state)
        action = action if free is None else xp.where(free, action, 0)
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
