"""Environments: the effects of sending on the outcome, which compose, and the best plan for people who have them.

The effect on the score of an outcome at a decision point is

    shift = κ · (sent · Σ gains · Π factors − Σ costs)

with gains and costs in standard deviations of the reward. κ is found by simulation: with it an effect of d moves the mean
reward by d standard deviations in every family of outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.registry import Registry
from surefoot.rehearsal.pooled_regression import Varying

Floats = NDArray[np.float64]
PROBE = 0.2
"""The effect at which κ is found where the environment has no size of its own."""
GRID = 21
"""Values of the memory at which the best plan is found."""


@dataclass(frozen=True, eq=False)
class Effect:
    """One effect of sending; it may remember `rows` numbers, (rows, *lanes)."""

    name: ClassVar[str]
    rows: ClassVar[int] = 0

    def gain(self, memory: Floats, day: Floats) -> Floats | float:
        """The gain of a prompt, in standard deviations."""
        return 0.0

    def factor(self, memory: Floats, day: Floats) -> Floats | float:
        """The factor of all gains."""
        return 1.0

    def cost(self, memory: Floats, day: Floats) -> Floats | float:
        """The loss with or without a prompt now."""
        return 0.0

    def advance(self, memory: Floats, sent: Floats) -> Floats:
        """The memory after a decision point; it begins at 0."""
        return memory

    def draw_trial(self, normals: Floats) -> Self:
        """The effect in each of several trials, where it is uncertain; from standard normal numbers (replicates,)."""
        return self

    @property
    def size(self) -> float:
        """Its mean gain, before factors."""
        return 0.0

    @property
    def varies_by_trial(self) -> bool:
        return False


EFFECTS: Registry[type[Effect]] = Registry("effect")
register_effect = EFFECTS.register


@register_effect
@dataclass(frozen=True, eq=False)
class Standardised(Effect):
    """A prompt moves the mean reward by d standard deviations."""

    name: ClassVar[str] = "standardised"
    d: float = 0.2
    """In standard deviations of the reward at available decision points."""

    def gain(self, memory: Floats, day: Floats) -> Floats | float:
        return self.d

    @property
    def size(self) -> float:
        return self.d


@register_effect
@dataclass(frozen=True, eq=False)
class Imputed(Effect):
    """The effect in a pilot with its uncertainty: d ~ N(estimate, standard error²) in every trial, and people around it."""

    name: ClassVar[str] = "imputed"
    individual: Varying
    """People's effects in standard deviations, (1, people)."""
    standard_error: float = 0.0
    """Of the average, in standard deviations."""

    def gain(self, memory: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.individual.individual[0])

    @property
    def size(self) -> float:
        return float(self.individual.population[0])

    @property
    def varies_by_trial(self) -> bool:
        return self.standard_error > 0

    def draw_trial(self, normals: Floats) -> Self:
        by_trial = self.standard_error * (normals[:, None] if self.individual.individual.ndim == 3 else normals[0])
        return replace(self, individual=replace(self.individual, individual=self.individual.individual + by_trial))


@register_effect
@dataclass(frozen=True, eq=False)
class PeopleDiffer(Effect):
    """Everybody's effect has a factor of its own, normal around 1."""

    name: ClassVar[str] = "people differ"
    individual: Varying
    """The factors, (1, people)."""

    @classmethod
    def by(cls, spread: float) -> PeopleDiffer:
        """With this standard deviation of the factor."""
        if not spread >= 0:
            raise InputError(f"spread is {spread}; it is a standard deviation, at least 0")
        return cls(Varying.normal(np.ones(1), np.array([float(spread)])))

    def factor(self, memory: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.individual.individual[0])


@register_effect
@dataclass(frozen=True, eq=False)
class Fading(Effect):
    """The effect halves in every half-life."""

    name: ClassVar[str] = "fading"
    half_life: float = 14.0
    """Days."""

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise InputError(f"half_life is {self.half_life}; it is a number of days above 0")

    def factor(self, memory: Floats, day: Floats) -> Floats | float:
        return np.asarray(0.5 ** (day / self.half_life))


@register_effect
@dataclass(frozen=True, eq=False)
class Burden(Effect):
    """Prompts burden: b′ = recovery · b + sent. A burden of 1 lowers the response to a prompt by the share `response`, and
    the outcome itself, with or without a prompt, by `baseline` standard deviations.
    """

    name: ClassVar[str] = "burden"
    rows: ClassVar[int] = 1
    response: float = 0.3
    """Share of the response that a burden of 1 takes."""
    baseline: float = 0.0
    """Standard deviations that a burden of 1 takes."""
    recovery: float = 0.8
    """Share of the burden that is left at the next decision point."""

    def __post_init__(self) -> None:
        if not (0 <= self.recovery < 1):
            raise InputError(f"recovery is {self.recovery}; it is the share of the burden that is left, from 0 to below 1")

    def factor(self, memory: Floats, day: Floats) -> Floats | float:
        return np.asarray(1 - self.response * memory[0])

    def cost(self, memory: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.baseline * memory[0])

    def advance(self, memory: Floats, sent: Floats) -> Floats:
        return np.asarray(self.recovery * memory + sent)


@dataclass(frozen=True, eq=False)
class Environment:
    """Effects that act together."""

    name: str
    """Its name in tables."""
    effects: tuple[Effect, ...] = ()
    """None for no effect at all."""
    scale: float = 1.0
    """κ, shift of the score for one standard deviation of the mean reward; set by `PilotModel.in_environment`."""
    feels_dose: bool = False
    """Whether states and outcomes also depend on earlier prompts as they did in the pilot."""

    @property
    def rows(self) -> int:
        return sum(effect.rows for effect in self.effects)

    @property
    def probe(self) -> float:
        """The effect at which κ is found: the sum of the gains in standard deviations."""
        return sum(effect.size for effect in self.effects) or PROBE

    @property
    def varies_by_trial(self) -> bool:
        """Whether its effects are drawn in every trial."""
        return any(effect.varies_by_trial for effect in self.effects)

    def describe(self) -> str:
        return "effects: " + (", ".join(effect.name for effect in self.effects) or "none")

    def with_changes(self, changes: Sequence[Effect]) -> Environment:
        """With further effects, which its name lists."""
        name = ", ".join([self.name, *(effect.name for effect in changes)])
        return replace(self, name=name, effects=(*self.effects, *changes))

    def with_effects(self, effects: Sequence[Effect]) -> Environment:
        return replace(self, effects=tuple(effects))

    def draw_trial(self, normals: Floats) -> Environment:
        """With uncertain effects drawn, from (effects, replicates) standard normal numbers."""
        return self.with_effects([effect.draw_trial(row) for effect, row in zip(self.effects, normals, strict=True)])

    def begin(self, lanes: tuple[int, ...]) -> Floats:
        return np.zeros((self.rows, *lanes))

    def _memories(self, rows: Floats) -> list[tuple[Effect, Floats]]:
        ends = np.cumsum([0, *(effect.rows for effect in self.effects)])
        memories = [rows[start:end] for start, end in pairwise(ends.tolist())]
        return list(zip(self.effects, memories, strict=True))

    def advance(self, rows: Floats, sent: Floats) -> Floats:
        return np.concatenate([rows[:0], *(effect.advance(memory, sent) for effect, memory in self._memories(rows))])

    def shift(self, rows: Floats, sent: Floats, day: Floats) -> Floats | float:
        """The shift of the outcome's score at a decision point."""
        gain: Floats | float = 0.0
        factor: Floats | float = 1.0
        cost: Floats | float = 0.0
        for effect, memory in self._memories(rows):
            gain = gain + effect.gain(memory, day)
            factor = factor * effect.factor(memory, day)
            cost = cost + effect.cost(memory, day)
        return self.scale * (sent * gain * factor - cost) if self.effects else 0.0


NO_EFFECT = Environment("no effect")


def standardised_effect(d: float, *changes: Effect) -> Environment:
    """A standardised effect, with others that change it.

    Parameters
    ----------
    d
        Standard deviations by which a prompt moves the mean reward, before the changes.
    changes
        `PeopleDiffer.by(0.5)`, `Fading(half_life=14)`, `Burden(…)`.

    Returns
    -------
    Environment
        All of them together, for `model.in_environment`.

    Examples
    --------
    >>> standardised_effect(0.3, Fading(7.0)).name
    'effect 0.3, fading'
    """
    if not np.isfinite(d):
        raise InputError(f"d is {d}; an effect is a finite number of standard deviations")
    return Environment(f"effect {d:g}", (Standardised(d),)).with_changes(changes)


@dataclass(frozen=True, eq=False)
class BestPlan:
    """When to send to people whose effects remember at most one number m (a burden), by somebody who knows the effects.

    By dynamic programming from the last decision point to the first, on the scale of the outcome's score and for everybody
    at once: V_t(m) = max over a of shift(m, a, day) + V_{t+1}(m′(m, a)), with m on a grid and V interpolated in between.
    Somebody unavailable gets a = 0. The plan ignores how outcomes and states carry over, and drop-out.
    """

    grid: Floats
    """Values of the memory, (grid,)."""
    advantage: Floats
    """Of sending, (decision points, grid, *lanes)."""

    @classmethod
    def find(cls, environment: Environment, lanes: tuple[int, ...], days: Floats, availability: float) -> BestPlan:
        """For people (*lanes) over decision points on these days of theirs, with this mean share of available ones."""
        largest = environment.begin((1,))
        for _ in range(500):
            largest = environment.advance(largest, np.ones(1))
        grid = np.linspace(0.0, float(largest[0, 0]), GRID) if environment.rows else np.zeros(1)
        memory = np.broadcast_to(grid.reshape(-1, *[1] * len(lanes)), (len(grid), *lanes))
        rows = np.stack([memory]) if environment.rows else np.empty((0, *memory.shape))
        actions = [np.full(memory.shape, sent) for sent in (0.0, 1.0)]
        after = [environment.advance(rows, sent)[0] if environment.rows else memory for sent in actions]
        value = np.zeros(memory.shape)
        advantage = np.empty((len(days), *memory.shape))
        for point in range(len(days) - 1, -1, -1):
            worth = [
                environment.shift(rows, sent, np.asarray(days[point])) + _interpolate(grid, value, reached)
                for sent, reached in zip(actions, after, strict=True)
            ]
            advantage[point] = worth[1] - worth[0]
            value = worth[0] + availability * advantage[point].clip(0)
        return cls(grid, advantage)

    def sends(self, point: int, memory: Floats) -> NDArray[np.bool_]:
        """Whether to send at a decision point, for memories (*lanes)."""
        return np.asarray(_interpolate(self.grid, self.advantage[point], memory[None])[0] > 0)


def _interpolate(grid: Floats, values: Floats, memory: Floats) -> Floats:
    """values (grid, *lanes) at memories (n, *lanes), evenly spaced grid; a single value is the same everywhere."""
    if len(grid) == 1:
        return np.broadcast_to(values[0], memory.shape)
    position = memory / grid[1]
    low = np.floor(position).clip(0, len(grid) - 2).astype(np.int64)
    below = np.take_along_axis(values, low, axis=0)
    above = np.take_along_axis(values, low + 1, axis=0)
    return np.asarray(below + (position - low) * (above - below))
