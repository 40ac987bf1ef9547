"""Simulated people whose logs hold derived states: the past that a policy may look at."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DerivedState, Memory
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.engines import Engine
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import UpperConfidence
from surefoot.simulators.base import Simulator


class WithMemory(Simulator):
    """A simulator whose states are followed by derived ones, computed as they are from logs and in a trial.

    Inside, a state is the simulator's own, then the derived values, then what they remember and the time; policies and logs
    see the first two.

    Parameters
    ----------
    simulator
        Of the people.
    derived
        The derived states by name.
    day_boundary
        The number of decision points a day, for derived states that count days.

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
        self.participants = simulator.participants
        self._simulator = simulator
        self._derived = dict(derived)
        self._per_day = day_boundary
        for name, state in derived.items():
            if state.needs_days and day_boundary is None:
                raise InputError(f"'{name}' counts days; give day_boundary, the number of decision points a day")
        self.state_names = (*simulator.state_names, *derived)
        self.action_names = simulator.action_names
        self.initial_numbers = simulator.initial_numbers
        self.step_numbers = simulator.step_numbers
        self.critic_coef = self._widen(simulator.critic_coef)

    def __repr__(self) -> str:
        return f"WithMemory({self._simulator!r}, {list(self._derived)})"

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self._simulator.draw(rng, shape)

    def begin(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
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
            memory = tuple(state[start + j] for j in range(size))
            memories.append(kind.advance(memory, sent, reward, xp.ones_like(reward), time))
            start += size
        return self._compose(following, memories, time + 1.0), reward

    def _compose(self, state: Array, memories: list[Memory], time: Array) -> Array:
        xp = array_namespace(state)
        day = xp.floor(time / self._per_day) if self._per_day else time
        with np.errstate(invalid="ignore"):
            values = [kind.value(memory, time, day) for kind, memory in zip(self._derived.values(), memories, strict=True)]
        return xp.stack([*state, *values, *(part for memory in memories for part in memory), time])

    def visible(self, state: Array) -> Array:
        return state[: len(self.state_names)]

    def of(self, people: slice, engine: Engine) -> Self:
        part = copy(self)
        part._simulator = self._simulator.of(people, engine)
        return part

    def expected_reward(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._simulator.expected_reward(states[..., : len(self._simulator.state_names)])

    def oracle_myopic(self) -> Policy | Policies:
        """That of the simulator, which does not look at what is remembered."""
        policy = self._simulator.oracle_myopic()
        mean = policy.rule.arrays()["mean"]
        slopes = mean[..., :-1]
        nothing = np.zeros((*mean.shape[:-1], len(self._derived)))
        wide = np.concatenate([slopes, nothing, mean[..., -1:]], axis=-1)
        rule = UpperConfidence(wide, np.zeros((*wide.shape, wide.shape[-1])))
        if isinstance(policy, Policy):
            return Policy(rule, self.action_names, self.state_names)
        return Policies(policy.participants, rule, self.action_names, self.state_names)

    def _widen(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients on [1, s] of every action with zeros for the derived states."""
        blocks = np.split(coef, len(self.action_names), axis=-1)
        zero = np.zeros((*coef.shape[:-1], len(self._derived)))
        return np.concatenate([part for block in blocks for part in (block, zero)], axis=-1)
