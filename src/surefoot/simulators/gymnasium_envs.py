"""The simulators as Gymnasium environments: one participant, one step at a time, the same dynamics."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.numerics.arrays import NUMPY
from surefoot.simulators.chain_walk import ChainWalk
from surefoot.simulators.heartsteps import HeartSteps
from surefoot.simulators.simulator import Simulator

Observation = Any
BOUND = 1e6
"""Declared bound of a state that has none."""


class ParticipantEnv(gymnasium.Env[Observation, np.int64]):
    """One participant of any simulator.

    Observation: a dict with the `state` (missing values are 0), which of its variables are `missing`, and whether the
    participant is `available`; an unavailable participant gets action 0. Action: 0 nothing, 1 and more the others. Reward:
    the true reward; `info["reported"]` says whether logs would hold it. It never terminates.

    Parameters
    ----------
    simulator
        The people.
    participant
        The position of the participant among the simulator's.

    Examples
    --------
    >>> from surefoot.simulators import HeartSteps
    >>> env = ParticipantEnv(HeartSteps(participants=3, spread=1.0), participant=2)
    >>> first, _ = env.reset(seed=1)
    >>> int(first["available"]), first["state"].shape
    (1, (3,))
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so
    observation_space: spaces.Space[Any]
    action_space: spaces.Discrete

    def __init__(self, simulator: Simulator, participant: int = 0) -> None:
        self._simulator = simulator.of(slice(participant, participant + 1), NUMPY)
        variables = len(simulator.state_names)
        self.action_space = spaces.Discrete(len(simulator.action_names))
        self.observation_space = spaces.Dict(
            {
                "state": spaces.Box(-BOUND, BOUND, (variables,), np.float64),
                "missing": spaces.MultiBinary(variables),
                "available": spaces.Discrete(2),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = np.asarray(self._simulator.begin(self._draw(self._simulator.initial_numbers)))
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        taken = np.array([action if self._is_available() else 0])
        following, reward = self._simulator.advance(self._state, taken, self._draw(self._simulator.step_numbers))
        reported = not np.isnan(self._simulator.report(self._state, reward)[0])
        self._state = np.asarray(following)
        return self.observe(), float(reward[0]), False, False, {"reported": reported}

    def observe(self) -> Observation:
        """What is known before the next action."""
        state = self._see()
        missing = np.isnan(state)
        return {
            "state": np.where(missing, 0.0, state),
            "missing": missing.astype(np.int8),
            "available": np.int64(self._is_available()),
        }

    def _see(self) -> NDArray[np.float64]:
        return np.asarray(self._simulator.visible(self._state))[:, 0].copy()

    def _is_available(self) -> bool:
        free = self._simulator.available(self._state)
        return free is None or bool(free[0])

    def _draw(self, numbers: int) -> NDArray[np.float64]:
        return self._simulator.draw(self.np_random, (numbers,))[:, None]


class HeartStepsEnv(ParticipantEnv):
    """One participant of `HeartSteps`, where the state, the transition, the reward and their source are described.

    Observation: (weather, engagement, fatigue), float64. The model is unbounded; the declared bounds of ±100 are more than
    fifty standard deviations away. Action: 0 nothing, 1 send. Reward: steps in the following three hours. The registered
    environment is truncated after 210 steps (42 days of 5 decision points) and never terminates.
    """

    def __init__(self) -> None:
        super().__init__(HeartSteps(participants=1))
        self.observation_space = spaces.Box(-100.0, 100.0, (3,), np.float64)

    def observe(self) -> NDArray[np.float64]:
        return self._see()


class ChainWalkEnv(ParticipantEnv):
    """One chain of `ChainWalk`, where the state, the transition, the reward and their source are described.

    Observation: the position, 1 to 4. Action: 0 left, 1 right. The registered environment is truncated after 210 steps and
    never terminates.
    """

    def __init__(self) -> None:
        super().__init__(ChainWalk(participants=1))
        self.observation_space = spaces.Discrete(4, start=1)

    def observe(self) -> np.int64:
        return np.int64(self._see()[0])
