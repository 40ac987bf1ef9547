"""Gymnasium environments as simulators: every participant is an environment with a seed and parameters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean
from surefoot.numerics.arrays import Array, Engine
from surefoot.policies.policies import Policies, Policy
from surefoot.simulators.simulator import Floats, LongRun, Seed, Simulator

AVAILABLE = "available"
"""The entry of a Dict observation, or of `info`, that says whether a participant can be treated."""
NUMERIC = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
SEEDS = 2**31
RETURNED = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}
"""The tuples that an environment's methods return."""


class GymnasiumPeople(Simulator):
    """People who are each a Gymnasium environment with discrete actions.

    The observation is the state, NaN where it is missing, and the reward is the outcome. The first action is taken as
    nothing. A participant is unavailable where an entry `available` of a Dict observation, or of `info`, is false. The
    outcome stays out of the logs where the reward is NaN or `info["reported"]` is false.

    A participant whose episode is terminated has left: unavailable, outcomes of 0 that no log holds, since the return of an
    episode ends there. An episode that is truncated is refused. With `restart`, either kind of end begins a new episode.

    Environments are stepped one after the other, so a simulation takes as long as they do.

    Parameters
    ----------
    environment
        The id of an environment (`CartPole-v1`, or `package.module:Name-v0`), or a function that makes one.
    participants
        Number of people. Everybody's environment is reset with a seed that follows from the simulation's.
    parameters
        Keyword arguments of the environment, one set for all or several, which people take in turn.
    state_names
        Names of the numbers in an observation, in order. A Dict observation has names; these select and order its entries.
    action_names
        Names of the actions; `0`, `1`, … unless given.
    restart
        Whether an episode that ends is followed by another one of the same participant.

    Examples
    --------
    >>> import surefoot as sf
    >>> kinds = [{"sutton_barto_reward": True}, {"sutton_barto_reward": False}]
    >>> people = GymnasiumPeople("CartPole-v1", participants=4, parameters=kinds, restart=True)
    >>> people.collect(sf.policies.coin(2), decision_points=20, seed=1).shape
    (80, 4)
    """

    initial_numbers = 1
    step_numbers = 0

    def __init__(
        self,
        environment: str | Callable[..., gymnasium.Env[Any, Any]],
        participants: int = 50,
        *,
        parameters: Sequence[Mapping[str, Any]] = (),
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        restart: bool = False,
    ) -> None:
        super().__init__(participants)
        self._environment = environment
        kinds = list(parameters) or [{}]
        self._parameters = [kinds[person % len(kinds)] for person in range(participants)]
        self._restart = restart
        example = self._make(0)
        if not isinstance(example, gymnasium.Env):
            raise InputError(f"{environment} made {example!r}, which is no gymnasium.Env")
        actions = example.action_space
        if not isinstance(actions, spaces.Discrete):
            raise InputError(f"the actions of {environment} are {actions}; a simulator needs a Discrete action space")
        self._first_action = int(actions.start)
        self.action_names = tuple(action_names or map(str, range(int(actions.n))))
        if len(self.action_names) != actions.n:
            raise InputError(f"{environment} has {actions.n} actions, but {len(self.action_names)} are named; name each")
        names = list(_list_names(example.observation_space, "state"))
        self._size = len(names)
        self._columns = list(range(self._size))
        if isinstance(example.observation_space, spaces.Dict) and state_names is not None:
            for name in state_names:
                if name not in names:
                    near = did_you_mean(name, names)
                    raise InputError(f"{environment} does not observe '{name}'{near}; its observations are {names}")
            self._columns = [names.index(name) for name in state_names]
        elif state_names is not None and len(state_names) != len(names):
            raise InputError(f"{environment} observes {len(names)} numbers, but {len(state_names)} are named; name each")
        self.state_names = tuple(state_names or names)

    def _make(self, person: int) -> gymnasium.Env[Any, Any]:
        parameters = self._parameters[person]
        try:
            if isinstance(self._environment, str):
                return gymnasium.make(self._environment, disable_env_checker=True, **parameters)
            return self._environment(**parameters)
        except Exception as error:
            raise InputError(
                f"the environment {self._environment} of participant {self.participants[person]} could not be made with "
                f"{dict(parameters)}: {error}; write package.module:Name-v0, and parameters that it takes"
            ) from error

    def _call(self, person: int, environment: gymnasium.Env[Any, Any], method: str, *action: int, **options: int) -> Any:
        """What `reset` or `step` of a participant's environment returns."""
        name = f"the environment {self._environment} of participant {self.participants[person]}"
        try:
            returned = getattr(environment, method)(*action, **options)
        except Exception as error:
            raise InputError(
                f"{name} failed in {method}: {type(error).__name__}: {error}; check it with "
                "gymnasium.utils.env_checker.check_env"
            ) from error
        expected = RETURNED[method]
        complete = isinstance(returned, tuple) and len(returned) == len(expected) and isinstance(returned[-1], Mapping)
        if not complete or (method == "step" and not isinstance(returned[1], SupportsFloat)):
            raise InputError(f"{name} returned {returned!r} from {method}; it must return ({', '.join(expected)})")
        return returned

    def of(self, people: slice, engine: Engine) -> Self:
        """The simulator of some of the people, with environments that nobody else steps."""
        selected = copy(self)
        selected.participants = self.participants[people]
        selected._parameters = self._parameters[people]
        return selected

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape)

    def begin(self, numbers: Floats) -> Floats:
        lanes = numbers.shape[1:]
        self._left = np.zeros(lanes, dtype=bool)
        self._reported = np.ones(lanes, dtype=bool)
        self._lanes = [(*lane, self._make(lane[-1])) for lane in np.ndindex(lanes)]
        state = np.empty((len(self.state_names) + 1, *lanes))
        for *lane, environment in self._lanes:
            at = tuple(lane)
            observation, info = self._call(at[-1], environment, "reset", seed=int(numbers[(0, *at)] * SEEDS))
            state[(slice(None), *at)] = self._read(environment, observation, info)
        return state

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        return self.move(state, action, numbers, np.ones(np.shape(action), dtype=bool))

    def move(self, state: Array, action: Array, numbers: Array, active: NDArray[np.bool_] | None) -> tuple[Array, Array]:
        following = np.array(state)
        rewards = np.where(self._left, 0.0, np.nan)
        self._reported[...] = False
        for *lane, environment in self._lanes:
            at = tuple(lane)
            if self._left[at] or (active is not None and not active[at]):
                continue
            code = int(action[at]) + self._first_action
            observation, reward, terminated, truncated, info = self._call(at[-1], environment, "step", code)
            rewards[at] = float(reward)
            self._reported[at] = bool(info.get("reported", True))
            if (terminated or truncated) and self._restart:
                observation, info = self._call(at[-1], environment, "reset")
            elif terminated:
                self._left[at] = True
            elif truncated:
                raise InputError(
                    f"the episode of participant {self.participants[at[-1]]} in {self._environment} was truncated before "
                    "the study ended; set parameters = [{max_episode_steps = 1000}], or restart = true"
                )
            following[(slice(None), *at)] = self._read(environment, observation, info)
        following[:-1, self._left] = np.nan
        following[-1, self._left] = 0.0
        return following, rewards

    def _read(self, environment: gymnasium.Env[Any, Any], observation: Any, info: Mapping[str, Any]) -> Floats:
        """The state variables and the availability of one participant."""
        if "action_mask" in info:
            raise InputError(
                f"{self._environment} restricts single actions (info['action_mask']); wrap it so that info['available'] is "
                "false where nothing can be sent"
            )
        in_state = isinstance(observation, Mapping) and AVAILABLE in observation
        available = observation[AVAILABLE] if in_state else info.get(AVAILABLE, True)
        try:
            numbers = np.concatenate(list(_list_numbers(environment.observation_space, observation)))
        except (KeyError, TypeError, ValueError):
            numbers = np.empty(0)
        if len(numbers) != self._size:
            raise InputError(
                f"{self._environment} observed {observation!r}, which is not of its observation space "
                f"{environment.observation_space}; check it with gymnasium.utils.env_checker.check_env"
            )
        return np.append(numbers[self._columns], float(bool(available)))

    def visible(self, state: Array) -> Array:
        return state[:-1]

    def available(self, state: Array) -> Array | None:
        return state[-1] > 0

    def report(self, state: Array, reward: Array) -> Array:
        return np.where(self._reported, reward, np.nan)

    def run(
        self, policies: Mapping[str, Policy | Policies], *, steps: int, keep: int, seed: Seed, engine: str = "numpy"
    ) -> dict[str, LongRun]:
        """Run every policy for `steps` decision points and average over the last `keep`, on the processor only."""
        if engine != "numpy":
            raise InputError(f"engine is '{engine}'; Gymnasium environments run with engine = 'numpy' only")
        if not 1 <= keep <= steps:
            raise InputError(f"keep is {keep} of {steps} steps; keep at least 1 and at most all of them")
        runs = {}
        for name, policy in policies.items():
            simulation = self.start(seed=seed).advance(policy, steps)
            treated = simulation.actions[0, :, -keep:] > 0
            runs[name] = LongRun(simulation.rewards[0, :, -keep:].mean(axis=1), treated.mean(axis=1))
        return runs


def _list_names(space: spaces.Space[Any], name: str) -> Iterator[str]:
    """Names of the numbers in an observation: of a Dict those of its entries, with positions where an entry has several."""
    if isinstance(space, spaces.Dict):
        for key, entry in space.items():
            if key != AVAILABLE:
                yield from _list_names(entry, str(key))
    elif isinstance(space, NUMERIC):
        size = int(np.prod(space.shape or (1,)))
        yield from [name] if size == 1 else [f"{name}{number + 1}" for number in range(size)]
    else:
        raise InputError(f"the observation '{name}' is {space}; a simulator needs numbers: wrap the environment")


def _list_numbers(space: spaces.Space[Any], observation: Any) -> Iterator[Floats]:
    """The numbers of an observation, entry by entry, in the order of their names."""
    if isinstance(space, spaces.Dict):
        for key, entry in space.items():
            if key != AVAILABLE:
                yield from _list_numbers(entry, observation[key])
    else:
        yield np.asarray(observation, dtype=np.float64).ravel()
