"""What a simulated participant consists of: parts that go from one decision point to the next, each in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from surefoot.data.derived_states import DerivedState
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
MOST_CARRIED = 0.98
"""A number carries over at most this share of its score, so that nobody runs away."""


@dataclass(frozen=True, eq=False)
class Moment:
    """What parts may look at on the way to a decision point; arrays are (*lanes)."""

    time: Floats
    """Of the decision point that is reached."""
    clock: list[Floats]
    """Its features, (*lanes) each; one number where all lanes are at one time."""
    day: Floats
    score: Floats
    """Of the last reward; 0 where there is none."""
    dose: Floats
    """Of what was sent, less what was usual at that time."""
    marks: list[Floats]
    """0 or 1: whether the last outcome was lost, and the marks (availability, what is missing) that were drawn before."""
    sent: Floats
    reward: Floats
    known: Floats
    """1 where the last reward was reported."""
    seen: Mapping[str, Floats]
    """The state variables and the outcome that were measured last, without artefacts, by column."""


@dataclass(frozen=True, eq=False)
class StatePart(ABC):
    """One part of the inner state; its rows and its random numbers lie next to those of the others."""

    numbers: ClassVar[int] = 1
    """Uniform random numbers of a step, and of the beginning."""
    moves: ClassVar[bool] = True
    """False for what follows from the time or from the other parts."""

    @property
    def rows(self) -> int:
        return 1

    @abstractmethod
    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        """First rows, (rows, *lanes)."""

    @abstractmethod
    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        """The rows at the moment that is reached, from those before it."""

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        """The state's columns that it shows, none for a part that is not a state variable."""
        return []

    def predictors(self, own: Floats) -> list[Floats]:
        """What the outcome depends on."""
        return self.values(own, own[:1], own[:1])

    def scores(self, columns: list[Floats]) -> list[Floats]:
        """The same, from the state's columns as logs hold them."""
        return columns


def combine(coefficients: Floats, features: list[Floats]) -> Floats:
    """Σ wⱼ xⱼ with wⱼ (*people) and xⱼ (*lanes), or one number for all lanes."""
    total: Any = 0.0
    for weight, feature in zip(coefficients, features, strict=True):
        if feature.ndim or feature != 0:
            total = total + weight * feature
    return np.asarray(total)


@dataclass(frozen=True, eq=False)
class NumberPart(StatePart):
    """A number by its normal score: z′ = w₀ + φ z + (time of day, day, last reward, dose)ᵀ w + σ ε, shown as F⁻¹(Φ(z))."""

    coefficients: Varying
    """[1, z, clock …, score, dose]."""
    log_noise: Varying
    table: ScoreTable
    """Of the values as the logs have them."""

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        own = self.coefficients.own
        carried = own[1].clip(-MOST_CARRIED, MOST_CARRIED)
        level = (own[0] + combine(own[2:], [*moment.clock, moment.score, moment.dose])) / (1 - carried)
        return np.asarray(level + np.exp(self.log_noise.own[0]) / np.sqrt(1 - carried**2) * ndtri(uniform[0]))[None]

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        weights = self.coefficients.own
        level = weights[0] + weights[1].clip(-MOST_CARRIED, MOST_CARRIED) * own[0]
        level = level + combine(weights[2:], [*moment.clock, moment.score, moment.dose])
        return np.asarray(level + np.exp(self.log_noise.own[0]) * ndtri(uniform[0]))[None]

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [self.table.to_values(own[0])]

    def predictors(self, own: Floats) -> list[Floats]:
        return [own[0]]

    def scores(self, columns: list[Floats]) -> list[Floats]:
        return [np.nan_to_num(self.table.to_scores(columns[0]))]


@dataclass(frozen=True, eq=False)
class YesNoPart(StatePart):
    """0 or 1 by a two-state chain: logit P(1) = w₀ + w₁·(before) + (time of day, day, marks)ᵀ w."""

    coefficients: Varying
    """[1, before, clock …, marks …]."""
    looks_at: int = 0
    """How many of the marks."""
    shown: bool = True

    def _chance(self, before: Floats, moment: Moment) -> Floats:
        marks = moment.marks[: self.looks_at]
        return np.asarray(expit(combine(self.coefficients.own, [np.ones(()), before, *moment.clock, *marks])))

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        after_no, after_yes = (self._chance(np.full(moment.time.shape, before), moment) for before in (0.0, 1.0))
        steady = after_no / np.maximum(1 - after_yes + after_no, 1e-12)
        return np.asarray(uniform[:1] < steady, dtype=np.float64)

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        return np.asarray(uniform[:1] < self._chance(own[0], moment), dtype=np.float64)

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [own[0]] if self.shown else []


@dataclass(frozen=True, eq=False)
class CategoryPart(StatePart):
    """A level by a Markov chain: of those left, level k comes with logit w₀ + (level before, time of day, day)ᵀ w."""

    coefficients: Varying
    """[1, before = 1, before = 2, …, clock …] of every level but the first, one after the other."""
    shares: Floats
    """Of all levels in the pilot, for the first one."""

    @property
    def levels(self) -> int:
        return len(self.shares)

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        found = np.searchsorted(np.cumsum(self.shares)[:-1], uniform[0], side="right")
        return np.broadcast_to(found, moment.time.shape).astype(np.float64)[None]

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        before = [(own[0] == level).astype(np.float64) for level in range(1, self.levels)]
        features = [np.ones(()), *before, *moment.clock]
        blocks = np.split(self.coefficients.own, self.levels - 1)
        left, reached, level = np.ones(own[0].shape), np.zeros(own[0].shape), np.zeros(own[0].shape)
        for code, weights in enumerate(blocks, start=1):
            chance = left * expit(combine(weights, features))
            level = np.where((uniform[0] >= reached) & (uniform[0] < reached + chance), code, level)
            reached, left = reached + chance, left - chance
        return np.asarray(level)[None]

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [(own[0] == level).astype(np.float64) for level in range(1, self.levels)]


@dataclass(frozen=True, eq=False)
class ClockPart(StatePart):
    """A variable that only says what time it is: a + b · day, and what comes again every week."""

    numbers: ClassVar[int] = 0
    moves: ClassVar[bool] = False
    level: float
    slope: float
    week: Floats
    """By decision point of the week; (1,) for none."""

    @property
    def rows(self) -> int:
        return 0

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        return np.empty((0, *moment.time.shape))

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        return own

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [np.asarray(self.level + self.slope * day + self.week[(time % len(self.week)).astype(np.int64)])]


@dataclass(frozen=True, eq=False)
class DerivedPart(StatePart):
    """A derived state, computed as it is from logs and in a trial."""

    numbers: ClassVar[int] = 0
    moves: ClassVar[bool] = False
    state: DerivedState
    centre: float = 0.0
    scale: float = 1.0

    @property
    def rows(self) -> int:
        return len(self.state.begin(0.0))

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        zero = np.zeros(moment.time.shape)
        memory = [np.broadcast_to(part, zero.shape) for part in self.state.begin(zero)]
        return np.stack(memory) if memory else np.empty((0, *zero.shape))

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        earned = np.where(moment.known > 0, moment.reward, 0.0)
        memory: tuple[Any, ...] = self.state.advance(tuple(own), moment.sent, earned, moment.known, moment.time - 1)
        return np.stack(memory) if memory else own

    def values(self, own: Floats, time: Floats, day: Floats) -> list[Floats]:
        with np.errstate(invalid="ignore"):
            value = self.state.value(tuple(own), time, day)
        return [(np.asarray(value) - self.centre) / self.scale]
