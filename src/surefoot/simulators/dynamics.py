"""What moves simulated people forward: states, actions and random numbers in, next states and rewards out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array
from surefoot.numerics.engines import Engine


class Dynamics(ABC):
    """How people come from one decision point to the next, as functions of arrays.

    States are (rows, *lanes), one lane per simulated course of events, so that any number of people and policies move
    forward together. People are the last axis of the lanes.

    Attributes
    ----------
    participants
        Ids of the people.
    state_names
        One name for every state variable.
    action_names
        One name for every action, nothing first.
    initial_numbers
        Random numbers that the first state takes.
    step_numbers
        Random numbers that one step takes.
    people_differ_by_replicate
        How many replicates there are where each has people of its own; None where all have the same.
    """

    participants: NDArray[Any]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...] = ("nothing", "send")
    initial_numbers: int
    step_numbers: int
    people_differ_by_replicate: int | None = None

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """The random numbers that drive the dynamics: drawn in pieces they are the same as at once."""

    @abstractmethod
    def begin(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """First states (rows, *lanes) from random numbers (initial_numbers, *lanes)."""

    @abstractmethod
    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        """Next states and rewards from states, actions and random numbers (step_numbers, *lanes)."""

    def visible(self, state: Array) -> Array:
        """The part of the state (rows, *lanes) that policies and logs see, NaN where it is missing: all of it, unless
        there is more."""
        return state

    def available(self, state: Array) -> Array | None:
        """Who can be treated, (*lanes); None where everybody always can."""
        return None

    def report(self, state: Array, reward: Array) -> Array:
        """The reward of a decision point as logs hold it, NaN where it is lost; as it is, unless values go missing."""
        return reward

    def of(self, people: slice, engine: Engine) -> Self:
        """The dynamics of some people, with arrays where the engine works; the same for all unless people differ."""
        return self
