"""Environments: what sending does to the outcome. Small effects that compose.

The effect on the score of an outcome at a decision point is

    shift = κ · (sent · Σ gains · Π factors − Σ costs)

with gains and costs in standard deviations of the reward. κ is found by simulation: with it an effect of d moves the mean
reward by d standard deviations whatever the family of outcomes.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.registry import Registry
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
PROBE = 0.2
"""The effect at which κ is found where the environment has no size of its own."""


@dataclass(frozen=True, eq=False)
class Effect(ABC):
    """A part of what sending does; it may remember `rows` numbers."""

    name: ClassVar[str]
    rows: ClassVar[int] = 0

    def gain(self, own: Floats, day: Floats) -> Floats | float:
        """What a prompt adds, in standard deviations."""
        return 0.0

    def factor(self, own: Floats, day: Floats) -> Floats | float:
        """What all gains are multiplied by."""
        return 1.0

    def cost(self, own: Floats, day: Floats) -> Floats | float:
        """What is lost whether or not something is sent now."""
        return 0.0

    def begin(self, lanes: tuple[int, ...]) -> Floats:
        """What is remembered at first, (rows, *lanes)."""
        return np.zeros((self.rows, *lanes))

    def advance(self, own: Floats, sent: Floats) -> Floats:
        """What is remembered after a decision point."""
        return own

    def draw_trial(self, normals: Floats) -> Self:
        """The effect in each of several trials, where it is not known for certain; (replicates,)."""
        return self

    @property
    def size(self) -> float:
        """Its gain in the mean, before factors."""
        return 0.0

    @property
    def varies_by_trial(self) -> bool:
        """Whether `draw_trial` changes it."""
        return False


EFFECTS: Registry[type[Effect]] = Registry("effect")
register_effect, find_effect = EFFECTS.register, EFFECTS.find


@register_effect
@dataclass(frozen=True, eq=False)
class Standardised(Effect):
    """A prompt moves the mean reward by d standard deviations.

    Parameters
    ----------
    d
        Of the reward at available decision points.
    """

    name: ClassVar[str] = "standardised"
    d: float = 0.2

    def gain(self, own: Floats, day: Floats) -> Floats | float:
        return self.d

    @property
    def size(self) -> float:
        return self.d


@register_effect
@dataclass(frozen=True, eq=False)
class Imputed(Effect):
    """The effect that a pilot showed, with its uncertainty: d ~ N(estimate, standard error²) anew in every trial, and the
    effects of its people around it.

    Attributes
    ----------
    own
        People's effects in standard deviations, (1, people).
    standard_error
        Of the average, in standard deviations.
    """

    name: ClassVar[str] = "imputed"
    own: Varying
    standard_error: float = 0.0

    def gain(self, own: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.own.own[0])

    @property
    def size(self) -> float:
        return float(self.own.population[0])

    @property
    def varies_by_trial(self) -> bool:
        return self.standard_error > 0

    def draw_trial(self, normals: Floats) -> Self:
        by_trial = self.standard_error * (normals[:, None] if self.own.own.ndim == 3 else normals[0])
        return replace(self, own=replace(self.own, own=self.own.own + by_trial))


@register_effect
@dataclass(frozen=True, eq=False)
class PeopleDiffer(Effect):
    """Everybody's effect is multiplied by a number of their own, normal around 1.

    Attributes
    ----------
    own
        Those numbers, (1, people).
    """

    name: ClassVar[str] = "people differ"
    own: Varying

    @classmethod
    def by(cls, spread: float) -> PeopleDiffer:
        """With this standard deviation of the factor."""
        if not spread >= 0:
            raise InputError(f"spread is {spread}; it is a standard deviation, at least 0")
        return cls(Varying.normal(np.ones(1), np.array([float(spread)])))

    def factor(self, own: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.own.own[0])


@register_effect
@dataclass(frozen=True, eq=False)
class Fading(Effect):
    """The effect is halved every so many days.

    Parameters
    ----------
    half_life
        Days.
    """

    name: ClassVar[str] = "fading"
    half_life: float = 14.0

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise InputError(f"half_life is {self.half_life}; it is a number of days above 0")

    def factor(self, own: Floats, day: Floats) -> Floats | float:
        return np.asarray(0.5 ** (day / self.half_life))


@register_effect
@dataclass(frozen=True, eq=False)
class Burden(Effect):
    """Prompts burden: b′ = recovery · b + sent. A burden of 1 lowers the response to a prompt by the share `response`, and
    the outcome itself, prompt or none, by `baseline` standard deviations.

    Parameters
    ----------
    response
        Share of the response that a burden of 1 takes.
    baseline
        Standard deviations that a burden of 1 takes.
    recovery
        Share of the burden that is left at the next decision point.
    """

    name: ClassVar[str] = "burden"
    rows: ClassVar[int] = 1
    response: float = 0.3
    baseline: float = 0.0
    recovery: float = 0.8

    def __post_init__(self) -> None:
        if not (0 <= self.recovery < 1):
            raise InputError(f"recovery is {self.recovery}; it is the share of the burden that is left, from 0 to below 1")

    def factor(self, own: Floats, day: Floats) -> Floats | float:
        return np.asarray(1 - self.response * own[0])

    def cost(self, own: Floats, day: Floats) -> Floats | float:
        return np.asarray(self.baseline * own[0])

    def advance(self, own: Floats, sent: Floats) -> Floats:
        return np.asarray(self.recovery * own + sent)


@dataclass(frozen=True, eq=False)
class Environment:
    """Effects that act together.

    Attributes
    ----------
    name
        What tables call it.
    effects
        Which; none for no effect at all.
    scale
        κ, shift of the score for one standard deviation of the mean reward; set by `PilotModel.in_environment`.
    feels_dose
        Whether states and outcomes also depend on what was sent before as they did in the pilot.

    Examples
    --------
    >>> tiring = Environment("0.2, tiring", (Standardised(0.2), Fading(half_life=7.0), Burden(baseline=0.1)))
    >>> tiring.describe()
    'effects: standardised, fading, burden'
    """

    name: str
    effects: tuple[Effect, ...] = ()
    scale: float = 1.0
    feels_dose: bool = False

    @property
    def rows(self) -> int:
        return sum(effect.rows for effect in self.effects)

    @property
    def size(self) -> float:
        """Its gains in the mean, in standard deviations."""
        return sum(effect.size for effect in self.effects)

    @property
    def probe(self) -> float:
        """The effect at which κ is found."""
        return self.size or PROBE

    def describe(self) -> str:
        return "effects: " + (", ".join(effect.name for effect in self.effects) or "none")

    def rename(self, name: str) -> Environment:
        return replace(self, name=name)

    @property
    def varies_by_trial(self) -> bool:
        """Whether its effects are drawn anew in every trial."""
        return any(effect.varies_by_trial for effect in self.effects)

    def with_effects(self, effects: Sequence[Effect]) -> Environment:
        return replace(self, effects=tuple(effects))

    def draw_trial(self, normals: Floats) -> Environment:
        """With effects that are not known for certain drawn, from (effects, replicates) standard normal numbers."""
        return self.with_effects([effect.draw_trial(row) for effect, row in zip(self.effects, normals, strict=True)])

    def begin(self, lanes: tuple[int, ...]) -> Floats:
        return np.concatenate([np.empty((0, *lanes)), *(effect.begin(lanes) for effect in self.effects)])

    def _memories(self, rows: Floats) -> list[Floats]:
        ends = np.cumsum([0, *(effect.rows for effect in self.effects)])
        return [rows[start:end] for start, end in pairwise(ends.tolist())]

    def advance(self, rows: Floats, sent: Floats) -> Floats:
        moved = [effect.advance(own, sent) for effect, own in zip(self.effects, self._memories(rows), strict=True)]
        return np.concatenate([rows[:0], *moved])

    def shift(self, rows: Floats, sent: Floats, day: Floats) -> Floats | float:
        """Of the outcome's score at a decision point."""
        gain: Floats | float = 0.0
        factor: Floats | float = 1.0
        cost: Floats | float = 0.0
        for effect, own in zip(self.effects, self._memories(rows), strict=True):
            gain, factor = gain + effect.gain(own, day), factor * effect.factor(own, day)
            cost = cost + effect.cost(own, day)
        return self.scale * (sent * gain * factor - cost) if self.effects else 0.0


NO_EFFECT = Environment("no effect")


def standardised_effect(d: float, *more: Effect) -> Environment:
    """A standardised effect, with others that change it.

    Parameters
    ----------
    d
        How many standard deviations a prompt moves the mean reward by, before the others.
    more
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
    return Environment(", ".join([f"effect {d:g}", *(effect.name for effect in more)]), (Standardised(d), *more))
