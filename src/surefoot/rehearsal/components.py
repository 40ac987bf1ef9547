"""Components of a simulated participant: state variables, gaps and artefacts, how each moves and how it is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from surefoot.data.column_kinds import Category, Number, VariableKind, YesNo
from surefoot.data.derived_states import DerivedState
from surefoot.errors import InputError
from surefoot.registry import Registry
from surefoot.rehearsal.pilot_data import Marks, PilotArrays, delay
from surefoot.rehearsal.pooled_regression import (
    SWEEPS,
    LinearFit,
    ScoreTable,
    Varying,
    draw_within,
    fit_linear,
    fit_yes_no,
    predict,
)

Floats = NDArray[np.float64]
MOST_CARRIED = 0.98
"""A number carries over at most this share of its score, so that nobody's state runs away."""
CLOCKWORK = 0.98
"""A variable with this share of its variance explained by the time is a clock."""
MOSTLY = 0.8
"""Flagged values are of one kind where this share of them is."""
MOST_VALUES = 500
EVEN = np.full(2, 0.5)


@dataclass(frozen=True, eq=False)
class Moment:
    """What components may depend on at the decision point that is reached; arrays are (*lanes)."""

    time: Floats
    day: Floats
    clock: list[Floats]
    """Features of the time; one number where all lanes are at one time."""
    carried: list[Floats]
    """As `PilotArrays.carried`: the score of the last reward, and the dose."""
    marks: list[Floats]
    """0 or 1: whether the last outcome was lost, and the marks (availability, gaps) that were drawn before."""
    sent: Floats
    reward: Floats
    known: Floats
    """1 where the last reward was reported."""
    measured: Mapping[str, Floats]
    """The last values of state variables and outcome without artefacts, by column."""


@dataclass(frozen=True, eq=False)
class Component(ABC):
    """One component of the inner state, with rows and uniform random numbers of its own."""

    numbers: ClassVar[int] = 1
    """Random numbers of a step, and of the beginning."""
    moves: ClassVar[bool] = True
    """False where it follows from the time or from other components."""

    @property
    def rows(self) -> int:
        return 1

    @abstractmethod
    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        """First rows, (rows, *lanes)."""

    @abstractmethod
    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        """The rows at the moment that is reached, from those before it."""

    def values(self, rows: Floats, time: Floats, day: Floats) -> list[Floats]:
        """The state's columns that it shows; none unless it is a state variable."""
        return []

    def predictors(self, rows: Floats) -> list[Floats]:
        """Its columns in the model of the outcome."""
        return self.values(rows, rows[:1], rows[:1])


class StateComponent(Component):
    """A state variable of one kind."""

    name: ClassVar[str]
    """Of the kind."""

    @classmethod
    @abstractmethod
    def fit(cls, data: PilotArrays, values: Floats, rng: np.random.Generator) -> tuple[Component, list[Floats]]:
        """From its columns (people, decision points, columns), with its columns in the model of the outcome."""

    @classmethod
    @abstractmethod
    def assume(cls, kind: VariableKind, clock_features: int) -> Component:
        """Without a pilot, from the study's description."""


STATE_COMPONENTS: Registry[type[StateComponent]] = Registry("kind of state variable for rehearsals")
register_component = STATE_COMPONENTS.register


def combine(coefficients: Floats, features: Sequence[Floats]) -> Floats:
    """Σ wⱼ xⱼ with wⱼ (*people) and xⱼ (*lanes), or one number for all lanes."""
    total: Any = 0.0
    for weight, feature in zip(coefficients, features, strict=True):
        if feature.ndim or feature != 0:
            total = total + weight * feature
    return np.asarray(total)


@register_component
@dataclass(frozen=True, eq=False)
class NumberComponent(StateComponent):
    """A number by its normal score: z′ = w₀ + φ z + (clock, last reward, dose)ᵀ w + σ ε, shown as F⁻¹(Φ(z))."""

    name: ClassVar[str] = Number.name
    coefficients: Varying
    """[1, z, clock …, carried …]."""
    log_noise: Varying
    table: ScoreTable

    @classmethod
    def fit(cls, data: PilotArrays, values: Floats, rng: np.random.Generator) -> tuple[Component, list[Floats]]:
        column = values[..., 0]
        clock = find_clock(data, column)
        if clock is not None:
            return clock, []
        table = ScoreTable.of_values(column)
        scores = table.to_scores(column)
        low, high = table.limits(column)
        hidden = ~np.isnan(column) & (high > low)
        fitted = _fit_autoregression(data, scores)
        # Scores within piles are drawn given their neighbours, even and odd decision points in turn.
        odd = np.arange(column.shape[1]) % 2
        for _ in range(SWEEPS if hidden.any() else 0):
            for turn in (0, 1):
                level, noise = _expect_given_neighbours(data, scores, fitted)
                drawn = draw_within(level, noise, low, high, rng.random(scores.shape))
                scores = np.where(hidden & (odd == turn), drawn, scores)
            fitted = _fit_autoregression(data, scores)
        return cls(fitted.coefficients, fitted.log_noise, table), [np.nan_to_num(scores)]

    @classmethod
    def assume(cls, kind: VariableKind, clock_features: int) -> Component:
        """Half of the score carries over; nine tenths of the values lie within the middle of the range."""
        low, high = kind.range if kind.range is not None else (kind.centre - 3 * kind.scale, kind.centre + 3 * kind.scale)
        values = (np.linspace(low, high, 101) - kind.centre) / kind.scale
        edges = np.linspace(-3.0, 3.0, 101)
        weights = np.zeros(clock_features + 4)
        weights[1] = 0.5
        spread = np.zeros(clock_features + 4)
        spread[0] = 0.25
        # Scores of spread 1: 0.25² / (1 − 0.5)² between people and σ² / (1 − 0.5²) within.
        noise = Varying.normal(np.array([np.log(0.75)]), np.zeros(1))
        return cls(Varying.normal(weights, spread), noise, ScoreTable(values, edges, edges))

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        weights = self.coefficients.individual
        carried = weights[1].clip(-MOST_CARRIED, MOST_CARRIED)
        level = (weights[0] + combine(weights[2:], [*moment.clock, *moment.carried])) / (1 - carried)
        return np.asarray(level + np.exp(self.log_noise.individual[0]) / np.sqrt(1 - carried**2) * ndtri(uniform[0]))[None]

    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        weights = self.coefficients.individual
        level = weights[0] + weights[1].clip(-MOST_CARRIED, MOST_CARRIED) * rows[0]
        level = level + combine(weights[2:], [*moment.clock, *moment.carried])
        return np.asarray(level + np.exp(self.log_noise.individual[0]) * ndtri(uniform[0]))[None]

    def values(self, rows: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [self.table.to_values(rows[0])]

    def predictors(self, rows: Floats) -> list[Floats]:
        return [rows[0]]


def _lag_features(data: PilotArrays, scores: Floats) -> tuple[Floats, Floats]:
    """Features [1, score before, clock …, carried …] and which decision points count."""
    before = delay(scores, np.nan)
    known = (data.present & ~np.isnan(scores) & ~np.isnan(before)).astype(np.float64)
    return data.design(np.nan_to_num(before), data.time_features, data.carried), known


def _fit_autoregression(data: PilotArrays, scores: Floats) -> LinearFit:
    x, weight = _lag_features(data, scores)
    # With a carry-over of their own, people's levels, w₀ / (1 − φ), would differ far more than they do.
    return fit_linear(x, scores, weight, common=(1, x.shape[-1] - 2, x.shape[-1] - 1))


def _expect_given_neighbours(data: PilotArrays, scores: Floats, fitted: LinearFit) -> tuple[Floats, Floats]:
    """Mean and spread of a score given the one before and the one after: with z′ = c + φ z + σ ε after it,
    (m + φ (z′ − c)) / (1 + φ²) and σ / √(1 + φ²)."""
    x, known = _lag_features(data, scores)
    level = np.where(known > 0, predict(x, fitted.coefficients), np.nan_to_num(scores))
    carried = np.broadcast_to(fitted.coefficients.individual[1][:, None], scores.shape)
    unexplained = np.nan_to_num(scores) - level + carried * x[..., 1]
    after = np.concatenate([unexplained[:, 1:], np.zeros_like(unexplained[:, :1])], axis=1)
    followed = np.concatenate([known[:, 1:], np.zeros_like(known[:, :1])], axis=1) > 0
    noise = np.broadcast_to(fitted.noise, scores.shape)
    mean = np.where(followed, (level + carried * after) / (1 + carried**2), level)
    return mean, np.where(followed, noise / np.sqrt(1 + carried**2), noise)


@register_component
@dataclass(frozen=True, eq=False)
class CategoryComponent(StateComponent):
    """A level by a Markov chain: of the remaining levels, level k has logit w₀ + (level before, clock, marks)ᵀ w."""

    name: ClassVar[str] = Category.name
    coefficients: Varying
    """[1, before = 1, before = 2, …, clock …, marks …] of every level but the first, one after the other."""
    shares: Floats
    """Of all levels in the pilot, for the first one."""
    looks_at: int = 0
    """The number of earlier marks that it depends on."""

    @classmethod
    def fit(cls, data: PilotArrays, values: Floats, rng: np.random.Generator) -> tuple[Component, list[Floats]]:
        levels = values.shape[-1] + 1
        level = (values * np.arange(1, levels)).sum(axis=-1)
        before = delay(level, np.nan)
        known = data.present & ~np.isnan(level) & ~np.isnan(before)
        dummies = (before[..., None] == np.arange(1, levels)).astype(np.float64)
        x = data.design(dummies, data.time_features)
        blocks = []
        for code in range(1, levels):
            remaining = known & ~((level >= 1) & (level < code))
            blocks.append(_fit_chance(x, (level == code).astype(np.float64), remaining.astype(np.float64), range(1, levels)))
        shares = np.array([np.mean(level[data.present & ~np.isnan(level)] == code) for code in range(levels)])
        filled = np.where(np.isnan(values), np.nanmean(values, axis=(0, 1)), values)
        return cls(Varying.stack(blocks), shares), list(filled.transpose(2, 0, 1))

    @classmethod
    def assume(cls, kind: VariableKind, clock_features: int) -> Component:
        """All levels equally often; the level stays with a chance of about one half."""
        levels = len(kind.levels)
        blocks = []
        for code in range(1, levels):
            even = 1 / (levels - code + 1)
            weights = np.zeros(levels + clock_features)
            weights[0] = np.log(even / (1 - even)) - 0.5
            weights[code] = 1.5
            blocks.append(Varying.normal(weights, 0.5 * (np.arange(len(weights)) == 0)))
        return cls(Varying.stack(blocks), np.full(levels, 1 / levels))

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        level = np.searchsorted(np.cumsum(self.shares)[:-1], uniform[0], side="right")
        return np.broadcast_to(level, moment.time.shape).astype(np.float64)[None]

    def _chances(self, rows: Floats, moment: Moment) -> list[Floats]:
        """Of every level but the first, given that it is none of those between."""
        features = [np.ones(()), *self.values(rows, moment.time, moment.day), *moment.clock, *moment.marks[: self.looks_at]]
        blocks = np.split(self.coefficients.individual, len(self.shares) - 1)
        return [np.asarray(expit(combine(weights, features))) for weights in blocks]

    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        remaining = np.ones(rows[0].shape)
        reached = np.zeros(rows[0].shape)
        level = np.zeros(rows[0].shape)
        for code, share in enumerate(self._chances(rows, moment), start=1):
            chance = remaining * share
            level = np.where((uniform[0] >= reached) & (uniform[0] < reached + chance), code, level)
            reached = reached + chance
            remaining = remaining - chance
        return np.asarray(level)[None]

    def values(self, rows: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [(rows[0] == level).astype(np.float64) for level in range(1, len(self.shares))]


@register_component
@dataclass(frozen=True, eq=False)
class YesNoComponent(CategoryComponent):
    """0 or 1 by a two-state chain, which begins in its steady state."""

    name: ClassVar[str] = YesNo.name

    @classmethod
    def fit(cls, data: PilotArrays, values: Floats, rng: np.random.Generator) -> tuple[Component, list[Floats]]:
        clock = find_clock(data, values[..., 0])
        return super().fit(data, values, rng) if clock is None else (clock, [])

    @classmethod
    def assume(cls, kind: VariableKind, clock_features: int) -> Component:
        """Yes as often as no; it stays with a chance of about two thirds."""
        weights = np.array([-0.7, 1.4, *np.zeros(clock_features)])
        return cls(Varying.normal(weights, 0.5 * (np.arange(len(weights)) == 0)), EVEN)

    @classmethod
    def assume_marks(cls, share: float, clock_features: int, looks_at: int) -> YesNoComponent:
        """Marks in runs, on in this share of the decision points."""
        weights = np.zeros(2 + clock_features + looks_at)
        # logit P ∓ 0.5 after 0 and 1: about as often as asked, with runs.
        weights[:2] = np.log(share / (1 - share)) - share, 1.0
        return cls(Varying.normal(weights, 0.3 * (np.arange(len(weights)) == 0)), EVEN, looks_at)

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        shape = (1, *moment.time.shape)
        (after_no,), (after_yes,) = (self._chances(np.full(shape, before), moment) for before in (0.0, 1.0))
        steady = after_no / np.maximum(1 - after_yes + after_no, 1e-12)
        return np.asarray(uniform[:1] < steady, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ClockComponent(Component):
    """A variable that follows from the time: a + b · day, and a value for every decision point of the week."""

    numbers: ClassVar[int] = 0
    moves: ClassVar[bool] = False
    level: float
    slope: float
    week: Floats
    """(1,) for none."""

    @property
    def rows(self) -> int:
        return 0

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        return np.empty((0, *moment.time.shape))

    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        return rows

    def values(self, rows: Floats, time: Floats, day: Floats) -> list[Floats]:
        return [np.asarray(self.level + self.slope * day + self.week[(time % len(self.week)).astype(np.int64)])]


def find_clock(data: PilotArrays, column: Floats) -> ClockComponent | None:
    """A clock that follows the day, or the decision point of the week, if that explains the column."""
    known = data.present & ~np.isnan(column)
    values = column[known]
    if values.size == 0 or np.ptp(values) == 0:
        return ClockComponent(float(values[0]) if values.size else 0.0, 0.0, np.zeros(1))
    time = np.broadcast_to(np.arange(column.shape[1], dtype=np.float64), column.shape)[known]
    day = data.clock.day(time)
    if np.ptp(day) > 0:
        slope, level = np.polyfit(day, values, 1)
        if np.var(values - level - slope * day) < (1 - CLOCKWORK) * np.var(values):
            return ClockComponent(float(level), float(slope), np.zeros(1))
    if len(data.participants) < 3 or column.shape[1] < 2 * 7 * data.clock.per_day:
        return None
    phase = (time % (7 * data.clock.per_day)).astype(np.int64)
    week = np.bincount(phase, values) / np.maximum(np.bincount(phase), 1)
    explained = np.var(values - week[phase]) < (1 - CLOCKWORK) * np.var(values)
    return ClockComponent(0.0, 0.0, week) if explained else None


@dataclass(frozen=True, eq=False)
class DerivedComponent(Component):
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
        memory = [np.broadcast_to(number, zero.shape) for number in self.state.begin(zero)]
        return np.stack(memory) if memory else np.empty((0, *zero.shape))

    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        earned = np.where(moment.known > 0, moment.reward, 0.0)
        memory: tuple[Any, ...] = self.state.advance(tuple(rows), moment.sent, earned, moment.known, moment.time - 1)
        return np.stack(memory) if memory else rows

    def values(self, rows: Floats, time: Floats, day: Floats) -> list[Floats]:
        with np.errstate(invalid="ignore"):
            value = self.state.value(tuple(rows), time, day)
        return [(np.asarray(value) - self.centre) / self.scale]


@dataclass(frozen=True, eq=False)
class Artefact(Component):
    """A device and one reason not to trust it: a two-state chain, and the values of its columns while it is on."""

    numbers: ClassVar[int] = 2
    device: str
    reason: str
    coefficients: Varying
    """Of the chain: [1, before, clock …]."""
    shown: dict[str, Floats | None]
    """For every column the values to draw from; None: the last value that was measured."""

    @property
    def name(self) -> str:
        return f"{self.device}: {self.reason}"

    @property
    def rows(self) -> int:
        return 1 + len(self.shown)

    @property
    def _chain(self) -> YesNoComponent:
        return YesNoComponent(self.coefficients, EVEN)

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        on = self._chain.begin(moment, uniform)
        return self._show(on, np.zeros((self.rows, *moment.time.shape)), moment, uniform)

    def advance(self, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        return self._show(self._chain.advance(rows[:1], moment, uniform), rows, moment, uniform)

    def _show(self, on: Floats, rows: Floats, moment: Moment, uniform: Floats) -> Floats:
        begins = (on[0] > 0) & (rows[0] == 0)
        values = []
        for showing, (column, pool) in zip(rows[1:], self.shown.items(), strict=True):
            if pool is None:
                values.append(np.where(begins, moment.measured.get(column, np.zeros(on[0].shape)), showing))
            else:
                values.append(pool[(uniform[1] * len(pool)).astype(np.int64)])
        return np.stack([on[0], *values])

    def overlay(self, rows: Floats, column: str, values: Floats) -> Floats:
        """Values of a column, replaced where the artefact is on."""
        return np.where(rows[0] > 0, rows[1 + list(self.shown).index(column)], values)


def find_shown_values(flagged: Floats, measured: Floats) -> Floats | None:
    """Values that a column showed where it was flagged (NaN elsewhere): one value, those flagged, or None for the last
    value that was measured."""
    pool = flagged[~np.isnan(flagged)]
    distinct, counts = np.unique(pool, return_counts=True)
    if counts.max() >= MOSTLY * len(pool):
        return distinct[[counts.argmax()]]
    values = np.where(np.isnan(flagged), measured, flagged)
    if (values == delay(values, np.nan))[~np.isnan(flagged)].mean() >= MOSTLY:
        return None
    return np.quantile(pool, np.linspace(0, 1, min(len(pool), MOST_VALUES)), method="nearest")


def fit_artefacts(data: PilotArrays) -> dict[tuple[str, str], Component]:
    """A chain for every device and reason that the screen found, and the values of the device then."""
    study = data.study
    columns = {study.reward.column: (0.0, 1.0, data.outcome)}
    for name, (column, kind) in study.state_kinds.items():
        if name in study.state_names and column not in columns:
            columns[column] = (kind.centre, kind.scale, data.state[..., study.state_names.index(name)])
    artefacts: dict[tuple[str, str], Component] = {}
    for (device, reason), flagged in data.flagged.items():
        marks = np.any([~np.isnan(values) for values in flagged.values()], axis=0)
        shown = {}
        for column, values in flagged.items():
            if column not in columns:
                raise InputError(
                    f"the screen marked '{column}', which is no state variable and not the reward; leave it out "
                    "of the screen"
                )
            centre, scale, measured = columns[column]
            shown[column] = find_shown_values((values - centre) / scale, measured)
        artefact = Artefact(device, reason, _fit_chain(data, np.where(data.present, marks, np.nan), []), shown)
        artefacts["artefact", artefact.name] = artefact
    return artefacts


def fit_marks(data: PilotArrays) -> dict[tuple[str, str], Component]:
    """Chains of availability, of every state variable's gaps and of lost outcomes, where there are any.

    Each depends on whether the last outcome was lost, and on the marks that are drawn before it.
    """
    study = data.study
    marks: dict[tuple[str, str], Marks] = {}
    if not data.available[data.present].all():
        marks["mark", "available"] = data.available
    for name in study.state_kinds:
        first = study.state_names.index(study.columns_of(name)[0])
        flagged = data.find_flagged(study.state[name].column or name)
        marks["gap", name] = np.isnan(data.state[..., first]) & ~flagged
    lost = np.isnan(data.outcome) & ~data.find_flagged(study.reward.column)
    marks["mark", "lost"] = lost
    earlier = [delay(lost & data.present, False).astype(np.float64)] if lost[data.present].any() else []
    chains: dict[tuple[str, str], Component] = {}
    for key, marked in marks.items():
        if marked[data.present].any():
            chain = _fit_chain(data, np.where(data.present, marked, np.nan), earlier)
            chains[key] = YesNoComponent(chain, EVEN, len(earlier))
            earlier.append((marked & data.present).astype(np.float64))
    return chains


def _fit_chain(data: PilotArrays, marks: Floats, earlier: list[Floats]) -> Varying:
    """A two-state chain of marks (0, 1, NaN for unknown) given others that are drawn before it."""
    before = delay(marks, np.nan)
    known = (data.present & ~np.isnan(marks) & ~np.isnan(before)).astype(np.float64)
    x = data.design(np.nan_to_num(before), data.time_features, *earlier)
    return _fit_chance(x, np.nan_to_num(marks), known, [1, *range(2 + data.clock.size, x.shape[-1])])


def _fit_chance(x: Floats, y: Floats, weight: Floats, common: Sequence[int]) -> Varying:
    """A logistic regression with common coefficients; an event that never, or always, happened goes on so."""
    seen = weight > 0
    if not seen.any() or y[seen].min() == y[seen].max():
        certain = np.zeros(x.shape[-1])
        certain[0] = 30.0 if seen.any() and y[seen].max() > 0 else -30.0
        return Varying.constant(certain, len(y))
    return fit_yes_no(x, y, weight, common)
