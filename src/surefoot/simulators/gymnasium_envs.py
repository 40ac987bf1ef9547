"""The simulators as Gymnasium environments: one participant, one step at a time, the same dynamics."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefoot.simulators.chain_walk import ChainWalk
from surefoot.simulators.heartsteps import HeartSteps


class HeartStepsEnv(gymnasium.Env[NDArray[np.float64], np.int64]):
    """One participant of `HeartSteps`, where the state, the transition, the reward and their source are described.

    Observation: (weather, engagement, fatigue), float64. The model is unbounded; the declared bounds of ±100 are more than
    fifty standard deviations away. Action: 0 nothing, 1 send. Reward: steps in the following three hours. The registered
    environment is truncated after 210 steps (42 days of 5 decision points) and never terminates.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self) -> None:
        self._model = HeartSteps(participants=1)
        self.observation_space = spaces.Box(-100.0, 100.0, (3,), np.float64)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._model.begin(self._model.draw(self.np_random, (self._model.initial_numbers,)))
        return self._state.copy(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        numbers = self._model.draw(self.np_random, (self._model.step_numbers,))
        self._state, reward = self._model.advance(self._state, np.asarray(action), numbers)
        return self._state.copy(), float(reward), False, False, {}


class ChainWalkEnv(gymnasium.Env[np.int64, np.int64]):
    """One chain of `ChainWalk`, where the state, the transition, the reward and their source are described.

    Observation: the position, 1 to 4. Action: 0 left, 1 right. The registered environment is truncated after 210 steps and
    never terminates.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self) -> None:
        self._model = ChainWalk(participants=1)
        self.observation_space = spaces.Discrete(4, start=1)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._model.begin(self._model.draw(self.np_random, (self._model.initial_numbers,)))
        return np.int64(self._state[0]), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        numbers = self._model.draw(self.np_random, (self._model.step_numbers,))
        self._state, reward = self._model.advance(self._state, np.asarray(action), numbers)
        return np.int64(self._state[0]), float(reward), False, False, {}
