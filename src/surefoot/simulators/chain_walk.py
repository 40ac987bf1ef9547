"""Chain walk: the four-state chain of least-squares policy iteration (Lagoudakis and Parr, 2003)."""

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.policies.policies import Policy
from surefoot.policies.rules import UpperConfidence
from surefoot.simulators.simulator import Simulator

SUCCESS = 0.9
REWARD = 100.0
"""For reaching one of the two states in the middle."""


class ChainWalk(Simulator):
    """Four states in a row, 1 to 4; action 0 goes left, action 1 right.

    A move succeeds with probability 0.9 and goes the other way otherwise; nobody leaves the ends. The reward belongs to the
    state that is reached: 0, 100, 100, 0. The first state is uniform (ours: the source is silent). Right, right, left, left
    is best and earns 90 a step; a coin earns 50.

    The expected reward is not linear in [1, s, a, a·s]; `critic_coef` is its least-squares fit under a coin, which visits
    the four states equally often.

    Parameters
    ----------
    participants
        Number of people.

    Examples
    --------
    >>> ChainWalk(participants=3).expected_reward(np.array([[1.0], [4.0]]))
    array([[10., 90.],
           [90., 10.]])
    """

    state_names = ("position",)
    action_names = ("left", "right")
    initial_numbers = 1
    step_numbers = 1
    # Going left, (10, 10, 90, 90) in states 1 … 4 has mean 50 and slope 32; going right mirrors it.
    critic_coef = np.array([-30.0, 32.0, 160.0, -64.0])

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.random(shape)

    def begin(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.floor(4 * numbers) + 1

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        xp = array_namespace(state)
        right = (action > 0) == (numbers[0] < SUCCESS)
        following = state + xp.where(right, 1.0, -1.0)
        following = xp.where(following < 1.0, 1.0, xp.where(following > 4.0, 4.0, following))
        middle = (following[0] > 1.5) & (following[0] < 3.5)
        return following, xp.where(middle, REWARD, 0.0)

    def expected_reward(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        left, right = (REWARD * np.isin(np.clip(states[..., 0] + move, 1, 4), (2, 3)) for move in (-1, 1))
        return np.stack([SUCCESS * left + (1 - SUCCESS) * right, SUCCESS * right + (1 - SUCCESS) * left], axis=-1)

    def oracle_myopic(self) -> Policy:
        mean = np.array([[0.0, 0.0], [-1.0, 2.5]])
        return Policy(UpperConfidence(mean, np.zeros((2, 2, 2))), self.action_names, self.state_names)
