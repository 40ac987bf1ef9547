"""HeartSteps: weather, engagement and treatment fatigue, and the steps walked after each decision point."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.policies import Policy
from surefoot.policies.rules import UpperConfidence
from surefoot.simulators.base import Simulator

BETA = (0.4, 0.3, 0.4, 0.7, 0.05, 0.6, 3.0, 0.25, 0.25, 0.4, 0.1, 0.5, 500.0)
"""β₁ … β₁₃."""
REWARD_NOISE = 3.0
"""Standard deviation of ϱ, in units of β₁₃ steps."""


class HeartSteps(Simulator):
    """People of the HeartSteps model; one step is one decision point, five a day.

    State S1 (weather), S2 (engagement), S3 (treatment fatigue), standard normal at first. With A the action (0 nothing,
    1 send), ξ ~ N(0, 1) and ϱ ~ N(0, 9):

        S1' = β1·S1 + ξ1
        S2' = β2·S2 + β3·A + ξ2
        S3' = β4·S3 + β5·S3·A + β6·A + ξ3
        R   = β13·[β7 + A·(β8 + β9·S1 + β10·S2) + β11·S1 − β12·S3 + ϱ]     (steps in the following three hours)

    Source: Zhu, Guo, Li, Huang, arXiv 1802.09714; the identity covariance of the first state is ours.

    >>> HeartSteps(participants=3).expected_reward(np.zeros((1, 3)))
    array([[1500., 1625.]])
    """

    state_names: ClassVar[tuple[str, ...]] = ("weather", "engagement", "fatigue")
    initial_numbers: ClassVar[int] = 3
    step_numbers: ClassVar[int] = 4
    critic_coef: ClassVar[NDArray[np.float64]] = BETA[12] * np.array(
        [BETA[6], BETA[10], 0.0, -BETA[11], BETA[7], BETA[8], BETA[9], 0.0]
    )

    @staticmethod
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    @staticmethod
    def begin(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return numbers

    @staticmethod
    def advance(state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        weather, engagement, fatigue = state[0], state[1], state[2]
        following = array_namespace(state).empty(state.shape, dtype=state.dtype, device=device(state))
        following[0] = BETA[0] * weather + numbers[0]
        following[1] = BETA[1] * engagement + BETA[2] * action + numbers[1]
        following[2] = BETA[3] * fatigue + action * (BETA[4] * fatigue + BETA[5]) + numbers[2]
        effect = action * (BETA[7] + BETA[8] * weather + BETA[9] * engagement)
        reward = BETA[12] * (BETA[6] + effect + BETA[10] * weather - BETA[11] * fatigue + REWARD_NOISE * numbers[3])
        return following, reward

    @staticmethod
    def expected_reward(states: NDArray[np.float64]) -> NDArray[np.float64]:
        nothing = BETA[12] * (BETA[6] + BETA[10] * states[:, 0] - BETA[11] * states[:, 2])
        effect = BETA[12] * (BETA[7] + BETA[8] * states[:, 0] + BETA[9] * states[:, 1])
        return np.column_stack([nothing, nothing + effect])

    def oracle_myopic(self) -> Policy:
        mean = np.array([[0.0, 0.0, 0.0, 0.0], [BETA[8], BETA[9], 0.0, BETA[7]]])
        return Policy(UpperConfidence(mean, np.zeros((2, 4, 4))), self.action_names, self.state_names)
