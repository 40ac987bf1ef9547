"""HeartSteps: weather, engagement and treatment fatigue, and the steps walked after each decision point."""

from copy import copy
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, Engine, array_namespace
from surefoot.numerics.random_streams import streams
from surefoot.policies.features import effects
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import UpperConfidence
from surefoot.simulators.simulator import Simulator

BETA = (0.4, 0.3, 0.4, 0.7, 0.05, 0.6, 3.0, 0.25, 0.25, 0.4, 0.1, 0.5, 500.0)
"""β₁ … β₁₃."""
REWARD_NOISE = 3.0
"""Standard deviation of ϱ, in units of β₁₃ steps."""
REWARD_SPREAD = (300.0, 50.0, 50.0, 75.0, 150.0, 75.0, 75.0, 25.0)
"""Standard deviations, between people at spread 1, of the reward's coefficients on [1, s, a, a·s]."""
TRANSITION_SPREAD = (0.1, 0.1, 0.15, 0.08, 0.02, 0.2)
"""… and of β₁ … β₆."""
MOST_STABLE = 0.9
"""β₁, β₂, β₄ and β₄ + β₅ of a participant lie between − and + this, so that nobody's state runs away."""


class HeartSteps(Simulator):
    """People of the HeartSteps model; one step is one decision point, five a day.

    State S1 (weather), S2 (engagement), S3 (treatment fatigue), standard normal at first. With A the action (0 nothing,
    1 send), ξ ~ N(0, 1) and ϱ ~ N(0, 9):

        S1' = β1·S1 + ξ1
        S2' = β2·S2 + β3·A + ξ2
        S3' = β4·S3 + β5·S3·A + β6·A + ξ3
        R   = β13·[β7 + A·(β8 + β9·S1 + β10·S2) + β11·S1 − β12·S3 + ϱ]     (steps in the following three hours)

    Source: Zhu, Guo, Li, Huang, arXiv 1802.09714; the identity covariance of the first state is ours. So is `spread`.

    Parameters
    ----------
    participants
        Number of people.
    spread
        Everybody's coefficients of the reward on [1, s, a, a·s] and of the transitions are drawn around these, with `spread`
        times the standard deviations above; `critic_coef` and `transition_coef` hold the truth.
    seed
        Seed of these draws.

    Examples
    --------
    >>> HeartSteps(participants=3).expected_reward(np.zeros((1, 3)))
    array([[1500., 1625.]])
    >>> HeartSteps(participants=3, spread=1.0).expected_reward(np.zeros((3, 1, 3))).round()[:, 0]
    array([[1738., 2063.],
           [1045., 1317.],
           [1586., 1552.]])
    """

    state_names = ("weather", "engagement", "fatigue")
    initial_numbers = 3
    step_numbers = 4
    critic_coef = BETA[12] * np.array([BETA[6], BETA[10], 0.0, -BETA[11], BETA[7], BETA[8], BETA[9], 0.0])

    def __init__(self, participants: int = 50, *, spread: float = 0.0, seed: int | np.random.SeedSequence = 0) -> None:
        super().__init__(participants)
        if not (np.isfinite(spread) and spread >= 0):
            raise InputError(f"spread is {spread}; it must be a finite number of at least 0")
        self.spread = float(spread)
        self._transition: list[Any] = list(BETA[:6])
        self._deviation: list[Any] = []
        if self.spread:
            drawn = np.array([rng.standard_normal(14) for rng in streams(seed, "participants", range(participants))])
            self._deviation = list(self.spread * np.array(REWARD_SPREAD)[:, None] * drawn[:, :8].T)
            deviation = self.spread * np.array(TRANSITION_SPREAD)[:, None] * drawn[:, 8:].T
            beta = np.array(BETA[:6])[:, None] + deviation
            for carried in (0, 1, 3):
                beta[carried] = beta[carried].clip(-MOST_STABLE, MOST_STABLE)
            beta[4] = beta[4].clip(-MOST_STABLE - beta[3], MOST_STABLE - beta[3])
            self._transition = list(beta)
            self.critic_coef = type(self).critic_coef + np.stack(self._deviation, axis=1)

    def __repr__(self) -> str:
        differing = f", spread={self.spread:g}" if self.spread else ""
        return f"{type(self).__name__}(participants={len(self.participants)}{differing})"

    @property
    def transition_coef(self) -> NDArray[np.float64]:
        """The true coefficients of the next state on [1, s, a, a·s], (8, 3), or (people, 8, 3) where people differ."""
        weather, engagement, on_engagement, fatigue, more_fatigue, on_fatigue = self._transition
        coefficients = np.zeros((*np.shape(weather), 8, 3))
        coefficients[..., 1, 0] = weather
        coefficients[..., 2, 1] = engagement
        coefficients[..., 3, 2] = fatigue
        coefficients[..., 4, 1] = on_engagement
        coefficients[..., 4, 2] = on_fatigue
        coefficients[..., 7, 2] = more_fatigue
        return coefficients

    def of(self, people: slice, engine: Engine) -> Self:
        if not self.spread:
            return self
        selected = copy(self)
        selected._deviation = [engine.to_device(values[people]) for values in self._deviation]
        selected._transition = [engine.to_device(values[people]) for values in self._transition]
        return selected

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    def begin(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return numbers

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        weather = state[0]
        engagement = state[1]
        fatigue = state[2]
        beta = self._transition
        following = array_namespace(state).empty(state.shape, dtype=state.dtype, device=device(state))
        following[0] = beta[0] * weather + numbers[0]
        following[1] = beta[1] * engagement + beta[2] * action + numbers[1]
        following[2] = beta[3] * fatigue + action * (beta[4] * fatigue + beta[5]) + numbers[2]
        effect = action * (BETA[7] + BETA[8] * weather + BETA[9] * engagement)
        reward = BETA[12] * (BETA[6] + effect + BETA[10] * weather - BETA[11] * fatigue + REWARD_NOISE * numbers[3])
        return following, reward + self._own_reward(state, action) if self.spread else reward

    def _own_reward(self, state: Array, action: Array) -> Array:
        """A participant's deviation from the population's expected reward."""
        d = self._deviation
        nothing = d[0] + d[1] * state[0] + d[2] * state[1] + d[3] * state[2]
        return nothing + action * (d[4] + d[5] * state[0] + d[6] * state[1] + d[7] * state[2])

    def expected_reward(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        nothing = BETA[12] * (BETA[6] + BETA[10] * states[..., 0] - BETA[11] * states[..., 2])
        effect = BETA[12] * (BETA[7] + BETA[8] * states[..., 0] + BETA[9] * states[..., 1])
        if self.spread:
            # People, the first axis, go last, where the coefficients have them.
            by_variable = np.moveaxis(states, (-1, 0), (0, -1))
            rewards = [np.moveaxis(self._own_reward(by_variable, action), -1, 0) for action in (0.0, 1.0)]
            nothing = nothing + rewards[0]
            effect = effect + rewards[1] - rewards[0]
        return np.stack([nothing, nothing + effect], axis=-1)

    def oracle_myopic(self) -> Policy | Policies:
        if self.spread:
            advantage = effects(self.critic_coef, 2)
            means = np.concatenate([np.zeros_like(advantage), advantage], axis=1)
            rule = UpperConfidence(means, np.zeros((*means.shape, 4)))
            return Policies(self.participants, rule, self.action_names, self.state_names)
        mean = np.array([[0.0, 0.0, 0.0, 0.0], [BETA[8], BETA[9], 0.0, BETA[7]]])
        return Policy(UpperConfidence(mean, np.zeros((2, 4, 4))), self.action_names, self.state_names)
