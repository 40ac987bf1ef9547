"""Simulators: what people are like, and simulations that step them through decision points."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DerivedState, Memory
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.arrays import NUMPY, Array, Engine, array_namespace, find_engine
from surefoot.numerics.random_streams import streams
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import DecisionRule, UpperConfidence

CELLS = 2**22
"""Random numbers held at once (32 MiB)."""

Seed = int | np.random.SeedSequence
Floats = NDArray[np.float64]
Key = TypeVar("Key")
EVERYBODY = slice(None)


class LongRun(NamedTuple):
    """Reward and treatment of every participant under a policy."""

    reward: Floats
    """Average reward of the last steps, (people,)."""
    share_treated: Floats
    """Share of these steps with an action other than 0, (people,)."""


class Situation(NamedTuple):
    """The information about each person before a decision."""

    state: Floats
    """(replicates, people, variables), NaN where it is missing."""
    available: NDArray[np.bool_]
    """(replicates, people)."""


class Simulator(ABC):
    """A simulator of people with consecutive decision points.

    A subclass gives the dynamics as functions of arrays, and the truth about them. States are (rows, *lanes), one lane per
    simulated participant, replicate and policy, so that all of them move forward together. People are the last axis.

    """

    participants: NDArray[Any]
    """Ids of the people; the constructor takes their number."""
    state_names: tuple[str, ...]
    """One name for every state variable."""
    action_names: tuple[str, ...] = ("nothing", "send")
    """One name for every action, nothing first."""
    initial_numbers: int
    """Random numbers of the first state."""
    step_numbers: int
    """Random numbers of a step."""
    people_differ_by_replicate: int | None = None
    """Number of replicates where each has people of its own; None where all have the same."""
    critic_coef: Floats
    """w*, the best linear approximation of the expected reward under a coin; (people, features) where people differ."""

    def __init__(self, participants: int = 50) -> None:
        if isinstance(participants, bool) or not isinstance(participants, int) or participants < 1:
            raise InputError(f"participants is {participants!r}; a simulation needs a whole number of at least 1")
        self.participants = np.arange(participants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(participants={len(self.participants)})"

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """The random numbers that drive the dynamics: drawn in pieces they are the same as at once."""

    @abstractmethod
    def begin(self, numbers: Floats) -> Floats:
        """First states (rows, *lanes) from random numbers (initial_numbers, *lanes)."""

    @abstractmethod
    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        """Next states and rewards from states, actions and random numbers (step_numbers, *lanes)."""

    def move(self, state: Array, action: Array, numbers: Array, active: NDArray[np.bool_] | None) -> tuple[Array, Array]:
        """`advance` for active lanes alone: others keep their states, with NaN rewards. None: everybody is active."""
        following, reward = self.advance(state, action, numbers)
        if active is None:
            return following, reward
        return np.where(active, following, state), np.where(active, reward, np.nan)

    def expected_reward(self, states: Floats) -> Floats:
        """True expected immediate reward of every action, (…, actions), at states (…, variables).

        Where people differ, the first axis of the states is people.
        """
        raise InputError(f"{type(self).__name__} does not know its expected reward; simulate it with run")

    def oracle_myopic(self) -> Policy | Policies:
        """The policy that takes the action with the highest expected immediate reward."""
        raise InputError(f"{type(self).__name__} does not know its best myopic policy; compare policies with run")

    def visible(self, state: Array) -> Array:
        """The variables of the state that policies and logs see, NaN where missing."""
        return state

    def available(self, state: Array) -> Array | None:
        """Who can be treated, (*lanes); None where everybody always can."""
        return None

    def report(self, state: Array, reward: Array) -> Array:
        """The reward as logs hold it, NaN where it is lost."""
        return reward

    def of(self, people: slice, engine: Engine) -> Self:
        """The simulator of some of the people, with arrays on the engine's device."""
        return self

    def start(self, *, seed: Seed | Sequence[Seed]) -> "Simulation":
        """Everybody before their first decision point, in one replicate or, with a sequence of seeds, in many at once.

        >>> import surefoot as sf
        >>> chains = sf.simulators.ChainWalk(participants=2)
        >>> pieces = chains.start(seed=1).advance(sf.policies.coin(2), 3).advance(sf.policies.coin(2), 4).logs()
        >>> (pieces.outcome == chains.collect(sf.policies.coin(2), decision_points=7, seed=1).outcome).all()
        np.True_
        """
        return Simulation(self, seed)

    def collect(self, policy: Policy | Policies, *, decision_points: int = 210, seed: Seed) -> Trajectories:
        """Logs of all people under a policy. With the same seed a longer study begins with the shorter one."""
        return self.start(seed=seed).advance(policy, decision_points).logs()

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

        All policies meet the same random numbers on every engine, and no policy influences another.
        """
        device = find_engine(engine)
        if not 1 <= keep <= steps:
            raise InputError(f"keep is {keep} of {steps} steps; keep at least 1 and at most all of them")
        people = len(self.participants)
        runs = {name: LongRun(np.zeros(people), np.zeros(people)) for name in policies}
        size = max(1, CELLS // (steps * (self.step_numbers + 1)))
        for block in (slice(start, start + size) for start in range(0, people, size)):
            rules = {name: policy.rules_for(self.participants[block]) for name, policy in policies.items()}
            for names, rule in stack_rules(rules):
                chance = _Chance(self, [seed], range(*block.indices(people)), points=steps)
                first = np.asarray(self.of(block, NUMPY).begin(chance.first))
                earned, treated = self.of(block, device)._run_block(first, rule, chance, keep, device)
                for number, name in enumerate(names):
                    runs[name].reward[block] = earned[number] / keep
                    runs[name].share_treated[block] = treated[number] / keep
        return runs

    def _run_block(
        self, first: Floats, rule: DecisionRule, chance: "_Chance", keep: int, engine: Engine
    ) -> tuple[Floats, Floats]:
        """Sums over the last `keep` steps: rewards, and decision points with a prompt; (policies, people)."""
        driving, uniform = (engine.to_device(values) for values in chance.draw_all())
        first = first.reshape(len(first), *[1] * (len(rule.batch) - 1), -1)
        state = engine.to_device(np.broadcast_to(first, (len(first), *rule.batch)).copy())
        time = engine.to_device(np.zeros(1, dtype=np.int64))
        earned = engine.to_device(np.zeros(rule.batch))
        treated = engine.to_device(np.zeros(rule.batch))
        choose = rule.map(engine.to_device).chooser()
        xp = array_namespace(state)

        def step() -> None:
            # All arrays change in place, so that a GPU can repeat a recorded step.
            action = choose(self.visible(state), xp.take(uniform, time, axis=0)[0, ...])
            free = self.available(state)
            action = action if free is None else xp.where(free, action, 0)
            following, reward = self.advance(state, action, xp.take(driving, time, axis=0)[0, ...])
            state[...] = following
            earned[...] += reward
            treated[...] += xp.astype(action > 0, reward.dtype)
            time[...] += 1

        repeated = engine.repeatable(step)
        steps = len(uniform)
        for number in range(steps):
            if number == steps - keep:
                earned[...] = 0.0
                treated[...] = 0.0
            repeated()
        return engine.to_numpy(earned), engine.to_numpy(treated)


class Simulation:
    """People at some decision point, in one or many replicates of a study at once.

    `advance` moves everybody some decision points forward under policies, and can be called again with others. Everybody
    has random numbers of their own: one piece of 210 decision points equals 42 of 5 to the bit, and two simulations with the
    same seeds meet the same chance under all policies.

    Parameters
    ----------
    simulator
        The people.
    seed
        One seed, or a sequence with one for each replicate.

    Attributes
    ----------
    time : (replicates, people)
        Decision points that everybody has passed.
    states, available, actions, probability, rewards, reported
        The history, (replicates, people, decision points, …); `reported` is the reward as logs hold it.

    Examples
    --------
    >>> import surefoot as sf
    >>> simulation = sf.simulators.HeartSteps(participants=2).start(seed=[1, 2, 3])
    >>> simulation.advance(sf.policies.coin(2), 35).advance(sf.policies.never(2), 5).rewards.shape
    (3, 2, 40)
    >>> len(simulation.logs(2))
    80
    """

    def __init__(self, simulator: Simulator, seed: Seed | Sequence[Seed]) -> None:
        seeds = list(seed) if isinstance(seed, Sequence) else [seed]
        replicates = simulator.people_differ_by_replicate
        if not seeds or (replicates is not None and replicates != len(seeds)):
            raise InputError(f"{len(seeds)} seeds; give one for each replicate" + (f": {replicates}" if replicates else ""))
        self.participants = simulator.participants
        self._simulator = simulator.of(EVERYBODY, NUMPY)
        self._shape = (len(seeds), len(self.participants))
        self._chance = _Chance(simulator, seeds, range(len(self.participants)))
        self._state = np.asarray(self._simulator.begin(self._chance.first.reshape(-1, *self._shape)))
        lanes = len(seeds) * len(self.participants)
        self._time = np.zeros(lanes, dtype=np.int64)
        # (decision points, lanes, …): values that are written together lie side by side.
        self._history: dict[str, NDArray[Any]] = {
            "states": np.empty((0, lanes, len(simulator.state_names))),
            "available": np.empty((0, lanes), dtype=bool),
            "actions": np.empty((0, lanes), dtype=np.int64),
            "probability": np.empty((0, lanes)),
            "rewards": np.empty((0, lanes)),
            "reported": np.empty((0, lanes)),
        }

    @property
    def replicates(self) -> int:
        return self._shape[0]

    @property
    def time(self) -> NDArray[np.int64]:
        return self._time.reshape(self._shape).copy()

    @property
    def states(self) -> Floats:
        return self._past("states")

    @property
    def available(self) -> NDArray[np.bool_]:
        return self._past("available")

    @property
    def actions(self) -> NDArray[np.int64]:
        return self._past("actions")

    @property
    def probability(self) -> Floats:
        return self._past("probability")

    @property
    def rewards(self) -> Floats:
        return self._past("rewards")

    @property
    def reported(self) -> Floats:
        return self._past("reported")

    def _past(self, name: str) -> NDArray[Any]:
        values = self._history[name][: int(self._time.max(initial=0))]
        return np.moveaxis(values.reshape(len(values), *self._shape, *values.shape[2:]), 0, 2)

    def look(self) -> Situation:
        """Everybody's state and availability at their next decision point."""
        seen = np.moveaxis(np.asarray(self._simulator.visible(self._state)), 0, -1)
        free = self._simulator.available(self._state)
        return Situation(seen, np.ones(self._shape, dtype=bool) if free is None else np.asarray(free, dtype=bool))

    def advance(
        self, policies: Policy | Policies | Sequence[Policy | Policies], decision_points: int, *, fallback: float = 0.5
    ) -> Self:
        """Move everybody forward under a policy, or under one for each replicate.

        `fallback` is the probability of sending anything where a state is missing that the policy looks at.
        """
        if decision_points < 1:
            raise InputError(f"decision_points is {decision_points}; a study needs at least 1")
        groups = [(replicates, rule, rule.chooser()) for replicates, rule in self._group_rules(policies)]
        self.reserve(decision_points)
        for _ in range(decision_points):
            now = self.look()
            uniform = self._chance.look(EVERYBODY)[1].reshape(self._shape)
            actions = np.empty(self._shape, dtype=np.int64)
            probabilities = np.empty((*self._shape, len(self._simulator.action_names)))
            for replicates, rule, choose in groups:
                state = now.state[replicates]
                missing = np.asarray(np.isnan(state).any(axis=-1) & rule.looks_at_states)
                state = np.nan_to_num(state) if missing.any() else state
                chosen = np.asarray(choose(np.moveaxis(state, -1, 0), uniform[replicates]))
                chances = rule.probabilities(state)
                if missing.any():
                    others = chances.shape[-1] - 1
                    spare = np.array([1 - fallback, *[fallback / others] * others])
                    drawn = np.asarray(uniform[replicates][..., None] >= np.cumsum(spare)[:-1]).sum(axis=-1)
                    chosen = np.where(missing, drawn, chosen)
                    chances = np.where(missing[..., None], spare, chances)
                actions[replicates] = chosen
                probabilities[replicates] = chances
            actions = np.where(now.available, actions, 0)
            taken = np.take_along_axis(probabilities, actions[..., None], axis=-1)[..., 0]
            self._move(now, actions, np.where(now.available, taken, 1.0), None)
        return self

    def _group_rules(
        self, policies: Policy | Policies | Sequence[Policy | Policies]
    ) -> Sequence[tuple[slice | list[int], DecisionRule]]:
        """Replicates whose policies have one kind of rule, and their rule, of batch shape (replicates, people)."""
        if not isinstance(policies, Sequence):
            return [(EVERYBODY, policies.rules_for(self.participants)[None])]
        if len(policies) != self.replicates:
            raise InputError(f"{len(policies)} policies for {self.replicates} replicates; give one for each, or one for all")
        return stack_rules({number: policy.rules_for(self.participants) for number, policy in enumerate(policies)})

    def step(self, actions: NDArray[np.int64], probability: Floats, *, active: NDArray[np.bool_] | None = None) -> Floats:
        """One decision point with given actions and their probabilities; arrays are (replicates, people).

        The action becomes 0 for people who are not available. People who are not `active` stay where they are, with their
        random numbers. Gives the rewards, reported or not; NaN for people who are not active.
        """
        self.reserve(1)
        now = self.look()
        actions = np.where(now.available, actions, 0)
        return self._move(now, actions, np.where(now.available, probability, 1.0), active)

    def logs(self, replicate: int = 0) -> Trajectories:
        """The history of one replicate, with rewards as they were reported."""
        return Trajectories.from_arrays(
            self.states[replicate],
            self.actions[replicate],
            self.reported[replicate],
            available=self.available[replicate],
            probability=self.probability[replicate],
            lengths=self.time[replicate],
            participants=self.participants,
            state_names=self._simulator.state_names,
            actions=self._simulator.action_names,
        )

    def reserve(self, points: int) -> None:
        """Make room in the history for more decision points."""
        needed = int(self._time.max(initial=0)) + points
        held = len(self._history["rewards"])
        if needed > held:
            for name, values in self._history.items():
                room = np.zeros((max(needed, 2 * held) - held, *values.shape[1:]), dtype=values.dtype)
                self._history[name] = np.concatenate([values, room])

    def _move(
        self, now: Situation, actions: NDArray[np.int64], probability: Floats, active: NDArray[np.bool_] | None
    ) -> Floats:
        """Take the next random numbers, go on, and write the history."""
        moving: slice | NDArray[np.int64] = EVERYBODY if active is None else np.flatnonzero(active)
        numbers = self._chance.look(moving)[0].reshape(-1, *self._shape)
        following, rewards = self._simulator.move(self._state, actions, numbers, active)
        rewards = np.asarray(rewards)
        reported = np.asarray(self._simulator.report(self._state, rewards))
        together = active is None and bool((self._time == self._time[0]).all())
        cells = (self._time[0], moving) if together else (self._time[moving], np.arange(len(self._time))[moving])
        step = (now.state, now.available, actions, probability, rewards, reported)
        for values, new in zip(self._history.values(), step, strict=True):
            values[cells] = new.reshape(values.shape[1:])[moving]
        self._state = np.asarray(following)
        self._chance.used[moving] += 1
        self._time[moving] += 1
        return rewards


class _Chance:
    """Everybody's random numbers, drawn ahead from one stream for the dynamics and another for the actions."""

    def __init__(
        self, simulator: Simulator, seeds: Sequence[Seed], people: Iterable[int], points: int | None = None
    ) -> None:
        self._draw = simulator.draw
        self._driving = [rng for seed in seeds for rng in streams(seed, "dynamics", people)]
        self._acting = [rng for seed in seeds for rng in streams(seed, "actions", people)]
        lanes = len(self._driving)
        points = points or max(1, min(256, CELLS // (lanes * (simulator.step_numbers + 1))))
        self.first = np.stack([self._draw(rng, (simulator.initial_numbers,)) for rng in self._driving], axis=1)
        # Numbers of lanes that have not begun to move are passed to the dynamics too, and must be valid.
        self._numbers = np.full((points, simulator.step_numbers, lanes), 0.5)
        self._uniform = np.full((points, lanes), 0.5)
        self.used = np.full(lanes, points)
        """Numbers already taken by every lane, of those that are held."""

    def look(self, moving: slice | NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The next numbers of everybody, (step_numbers, lanes) and (lanes,); they count only for moving lanes."""
        empty = np.zeros(len(self.used), dtype=bool)
        empty[moving] = self.used[moving] == len(self._uniform)
        if empty.any():
            self._replenish(np.flatnonzero(empty))
        first = int(self.used[0])
        if (self.used == first).all():
            return self._numbers[first], self._uniform[first]
        points = np.minimum(self.used, len(self._uniform) - 1)
        lanes = np.arange(len(self.used))
        return self._numbers[points, :, lanes].T, self._uniform[points, lanes]

    def _replenish(self, lanes: NDArray[np.int64]) -> None:
        points, numbers = self._numbers.shape[:2]
        drawn = np.stack([self._draw(self._driving[lane], (points, numbers)) for lane in lanes.tolist()])
        self._numbers[:, :, lanes] = np.moveaxis(drawn, 0, -1)
        self._uniform[:, lanes] = np.stack([self._acting[lane].random(points) for lane in lanes.tolist()], axis=1)
        self.used[lanes] = 0

    def draw_all(self) -> tuple[Floats, Floats]:
        """All numbers at once, (points, step_numbers, lanes) and (points, lanes)."""
        self._replenish(np.arange(len(self.used)))
        return self._numbers, self._uniform


def stack_rules(rules: Mapping[Key, DecisionRule]) -> list[tuple[list[Key], DecisionRule]]:
    """Rules of one kind become one rule with a first axis over them, so that they decide in one pass."""
    groups = []
    for kind in dict.fromkeys(type(rule) for rule in rules.values()):
        keys = [key for key, rule in rules.items() if type(rule) is kind]
        groups.append((keys, kind.join([rules[key] for key in keys])))
    return groups


class WithMemory(Simulator):
    """A simulator whose states are followed by derived ones, computed as they are from logs and in a trial.

    The inner state holds the simulator's state, the derived values, their memories and the time; policies and logs see the
    first two.

    Parameters
    ----------
    simulator
        The people.
    derived
        The derived states by name.
    day_boundary
        Decision points a day, for derived states that count days.

    Examples
    --------
    >>> from surefoot.data.derived_states import Dose
    >>> from surefoot.policies import always
    >>> from surefoot.simulators import HeartSteps
    >>> logs = WithMemory(HeartSteps(participants=1), {"dose": Dose(0.5)}).collect(always(2), decision_points=3, seed=0)
    >>> logs.state[:, 3]
    array([0. , 1. , 1.5])
    """

    def __init__(
        self, simulator: Simulator, derived: Mapping[str, DerivedState], *, day_boundary: int | None = None
    ) -> None:
        for name, state in derived.items():
            if state.needs_days and day_boundary is None:
                raise InputError(f"'{name}' counts days; give day_boundary, the number of decision points a day")
        self.participants = simulator.participants
        self._simulator = simulator
        self._derived = dict(derived)
        self._per_day = day_boundary
        self.state_names = (*simulator.state_names, *derived)
        self.action_names = simulator.action_names
        self.initial_numbers = simulator.initial_numbers
        self.step_numbers = simulator.step_numbers
        coef = simulator.critic_coef
        zero = np.zeros((*coef.shape[:-1], len(derived)))
        actions = np.split(coef, len(self.action_names), axis=-1)
        self.critic_coef = np.concatenate([block for action in actions for block in (action, zero)], axis=-1)

    def __repr__(self) -> str:
        return f"WithMemory({self._simulator!r}, {list(self._derived)})"

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self._simulator.draw(rng, shape)

    def begin(self, numbers: Floats) -> Floats:
        first = self._simulator.begin(numbers)
        zero = np.zeros_like(first[0])
        return np.asarray(self._compose(first, [state.begin(zero) for state in self._derived.values()], zero))

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        xp = array_namespace(state)
        variables = len(self._simulator.state_names)
        following, reward = self._simulator.advance(state[:variables], action, numbers)
        time = state[-1]
        sent = xp.astype(action > 0, state.dtype)
        memories = []
        start = variables + len(self._derived)
        for kind in self._derived.values():
            size = len(kind.begin(0.0))
            memory = tuple(state[start + row] for row in range(size))
            memories.append(kind.advance(memory, sent, reward, xp.ones_like(reward), time))
            start += size
        return self._compose(following, memories, time + 1.0), reward

    def _compose(self, state: Array, memories: list[Memory], time: Array) -> Array:
        xp = array_namespace(state)
        day = xp.floor(time / self._per_day) if self._per_day else time
        with np.errstate(invalid="ignore"):
            values = [kind.value(memory, time, day) for kind, memory in zip(self._derived.values(), memories, strict=True)]
        return xp.stack([*state, *values, *(number for memory in memories for number in memory), time])

    def visible(self, state: Array) -> Array:
        return state[: len(self.state_names)]

    def of(self, people: slice, engine: Engine) -> Self:
        selected = copy(self)
        selected._simulator = self._simulator.of(people, engine)
        return selected

    def expected_reward(self, states: Floats) -> Floats:
        return self._simulator.expected_reward(states[..., : len(self._simulator.state_names)])

    def oracle_myopic(self) -> Policy | Policies:
        """The simulator's policy, which does not look at derived states."""
        policy = self._simulator.oracle_myopic()
        mean = policy.rule.arrays()["mean"]
        zero = np.zeros((*mean.shape[:-1], len(self._derived)))
        wide = np.concatenate([mean[..., :-1], zero, mean[..., -1:]], axis=-1)
        rule = UpperConfidence(wide, np.zeros((*wide.shape, wide.shape[-1])))
        if isinstance(policy, Policy):
            return Policy(rule, self.action_names, self.state_names)
        return Policies(policy.participants, rule, self.action_names, self.state_names)
