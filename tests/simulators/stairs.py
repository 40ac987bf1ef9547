"""A small Gymnasium environment for tests: stairs that tire."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Stairs(gymnasium.Env[dict[str, Any], np.int64]):
    """Action 1 earns `gain` less the tiredness, 2 twice that; both tire by 1. Nothing earns 0 and tiredness halves.

    Every third decision point is unavailable. With `patience`, the episode ends when tiredness reaches it.
    """

    def __init__(self, gain: float = 1.0, patience: float = np.inf, noise: float = 0.0) -> None:
        self.gain = gain
        self.patience = patience
        self.noise = noise
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Dict(
            {
                "tired": spaces.Box(0.0, 1e6, (1,), np.float64),
                "floors": spaces.MultiDiscrete([10, 10]),
                "available": spaces.Discrete(2),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.tired = float(self.np_random.integers(2))
        self.time = 0
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        reward = int(action) * (self.gain - self.tired) + self.noise * self.np_random.standard_normal()
        self.tired = self.tired + 1 if action else self.tired / 2
        self.time += 1
        return self.observe(), reward, self.tired >= self.patience, False, {"reported": self.time % 5 > 0}

    def observe(self) -> dict[str, Any]:
        return {
            "tired": np.array([self.tired]),
            "floors": np.array([self.time % 10, 1]),
            "available": int(self.time % 3 < 2),
        }


gymnasium.register("stairs/Stairs-v0", Stairs)
