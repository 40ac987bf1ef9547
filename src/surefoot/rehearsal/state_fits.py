"""Fitting the parts of a participant to a pilot: how every kind of state variable, every mark and every artefact moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import Category, Number, VariableKind, YesNo
from surefoot.errors import InputError
from surefoot.registry import Registry
from surefoot.rehearsal.artefacts import ArtefactPart, describe_values
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.rehearsal.pilot_data import Marks, PilotData, shift
from surefoot.rehearsal.pooled_regression import SWEEPS, LinearFit, draw_within, fit_linear, fit_yes_no, predict
from surefoot.rehearsal.state_parts import CategoryPart, ClockPart, NumberPart, StatePart, YesNoPart
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
CLOCKWORK = 0.98
"""A variable of which the time explains this share only says what time it is."""


@dataclass(frozen=True, eq=False)
class FittedState:
    """A state variable's part, and what the outcome's model sees of it in the pilot, (people, decision points) each."""

    part: StatePart
    predictors: tuple[Floats, ...]


class StateFit(ABC):
    """How state variables of one kind are fitted."""

    name: ClassVar[str]

    @abstractmethod
    def fit(self, data: PilotData, values: Floats, rng: np.random.Generator) -> FittedState:
        """From its columns in the pilot, (people, decision points, columns)."""

    @abstractmethod
    def assume(self, kind: VariableKind, clock_features: int) -> StatePart:
        """Without a pilot: a part from what the study says about the variable."""


STATE_FITS: Registry[StateFit] = Registry("kind of state variable for rehearsals")
find_state_fit = STATE_FITS.find


class NumberFit(StateFit):
    """Autoregressive in normal scores; a number that follows the day is a clock."""

    name: ClassVar[str] = Number.name

    def fit(self, data: PilotData, values: Floats, rng: np.random.Generator) -> FittedState:
        column = values[..., 0]
        clock = find_clock(data, column)
        if clock is not None:
            return FittedState(clock, ())
        table = ScoreTable.of_values(column)
        scores, found = _fit_scores(data, column, table, rng)
        part = NumberPart(found.coefficients, found.log_noise, table)
        return FittedState(part, (np.nan_to_num(scores),))

    def assume(self, kind: VariableKind, clock_features: int) -> StatePart:
        """Half of the score is carried over; nine tenths of the values lie within the middle of the range."""
        low, high = kind.range if kind.range is not None else (kind.centre - 3 * kind.scale, kind.centre + 3 * kind.scale)
        values = (np.linspace(low, high, 101) - kind.centre) / kind.scale
        edges = np.linspace(-3.0, 3.0, 101)
        weights, spread = np.zeros(clock_features + 4), np.zeros(clock_features + 4)
        weights[1], spread[0] = 0.5, 0.25
        # Scores of spread 1: 0.25² / (1 − 0.5)² between people and σ² / (1 − 0.5²) within.
        noise = Varying.normal(np.array([np.log(0.75)]), np.zeros(1))
        return NumberPart(Varying.normal(weights, spread), noise, ScoreTable(values, edges, edges))


def find_clock(data: PilotData, column: Floats) -> ClockPart | None:
    """A part that follows the day, or the decision point of the week, if that explains the column; None if not."""
    known = data.present & ~np.isnan(column)
    values = column[known]
    if values.size == 0 or np.ptp(values) == 0:
        return ClockPart(float(values[0]) if values.size else 0.0, 0.0, np.zeros(1))
    time = np.broadcast_to(np.arange(column.shape[1], dtype=np.float64), column.shape)[known]
    day = data.clock.day(time)
    if np.ptp(day) > 0:
        slope, level = np.polyfit(day, values, 1)
        if np.var(values - level - slope * day) < (1 - CLOCKWORK) * np.var(values):
            return ClockPart(float(level), float(slope), np.zeros(1))
    phase = (time % (7 * data.clock.per_day)).astype(np.int64)
    if data.people < 3 or column.shape[1] < 2 * 7 * data.clock.per_day:
        return None
    week = np.bincount(phase, values) / np.maximum(np.bincount(phase), 1)
    return ClockPart(0.0, 0.0, week) if np.var(values - week[phase]) < (1 - CLOCKWORK) * np.var(values) else None


def _fit_scores(data: PilotData, column: Floats, table: ScoreTable, rng: np.random.Generator) -> tuple[Floats, LinearFit]:
    """Scores of a column, drawn where a pile hides them, and their autoregression."""
    scores = table.to_scores(column)
    low, high = table.limits(column)
    hidden = ~np.isnan(column) & (high > low)
    found = _fit_autoregression(data, scores)
    places = np.arange(column.shape[1]) % 2
    for _ in range(SWEEPS if hidden.any() else 0):
        for turn in (0, 1):
            level, noise = _expect_given_neighbours(data, scores, found)
            drawn = draw_within(level, noise, low, high, rng.random(scores.shape))
            scores = np.where(hidden & (places == turn), drawn, scores)
        found = _fit_autoregression(data, scores)
    return scores, found


def _lag_features(data: PilotData, scores: Floats) -> tuple[Floats, Floats]:
    """Features [1, score before, clock …, last reward, dose] and which decision points count."""
    before = shift(scores, np.nan)
    known = (data.present & ~np.isnan(scores) & ~np.isnan(before)).astype(np.float64)
    parts = [
        data.constant,
        np.nan_to_num(before)[..., None],
        data.time_features,
        data.past_score[..., None],
        data.dose[..., None],
    ]
    return np.concatenate(parts, axis=-1), known


def _fit_autoregression(data: PilotData, scores: Floats) -> LinearFit:
    x, weight = _lag_features(data, scores)
    # With a carry-over of their own, people's levels, w₀ / (1 − φ), would differ far more than they do.
    return fit_linear(x, scores, weight, common=(1, x.shape[-1] - 2, x.shape[-1] - 1))


def _expect_given_neighbours(data: PilotData, scores: Floats, found: LinearFit) -> tuple[Floats, Floats]:
    """Mean and spread of a score given the one before and the one after: with z′ = c + φ z + σ ε after it,
    (m + φ (z′ − c)) / (1 + φ²) and σ / √(1 + φ²)."""
    x, known = _lag_features(data, scores)
    level = predict(x, found.coefficients)
    level = np.where(known > 0, level, np.nan_to_num(scores))
    carried = np.broadcast_to(found.coefficients.own[1][:, None], scores.shape)
    left = np.nan_to_num(scores) - level + carried * x[..., 1]
    after = np.concatenate([left[:, 1:], np.zeros_like(left[:, :1])], axis=1)
    followed = np.concatenate([known[:, 1:], np.zeros_like(known[:, :1])], axis=1) > 0
    noise = np.broadcast_to(np.exp(found.log_noise.own[0])[:, None], scores.shape)
    both = np.where(followed, (level + carried * after) / (1 + carried**2), level)
    return both, np.where(followed, noise / np.sqrt(1 + carried**2), noise)


class CategoryFit(StateFit):
    """A Markov chain whose chances depend on the time of day."""

    name: ClassVar[str] = Category.name

    def fit(self, data: PilotData, values: Floats, rng: np.random.Generator) -> FittedState:
        levels = values.shape[-1] + 1
        level = (values * np.arange(1, levels)).sum(axis=-1)
        before = shift(level, np.nan)
        known = data.present & ~np.isnan(level) & ~np.isnan(before)
        dummies = (before[..., None] == np.arange(1, levels)).astype(np.float64)
        x = np.concatenate([data.constant, dummies, data.time_features], axis=-1)
        blocks = []
        for code in range(1, levels):
            left = known & ~((level >= 1) & (level < code))
            blocks.append(fit_chance(x, (level == code).astype(np.float64), left.astype(np.float64), range(1, levels)))
        shares = np.array([np.mean(level[data.present & ~np.isnan(level)] == code) for code in range(levels)])
        mean = np.nanmean(values, axis=(0, 1))
        return FittedState(
            CategoryPart(stack_varying(blocks), shares), tuple(np.where(np.isnan(values), mean, values).transpose(2, 0, 1))
        )

    def assume(self, kind: VariableKind, clock_features: int) -> StatePart:
        """All levels equally often; the level stays with a chance of about one half."""
        levels = len(kind.levels)
        blocks = []
        for code in range(1, levels):
            even = 1 / (levels - code + 1)
            weights = np.zeros(levels + clock_features)
            weights[0] = np.log(even / (1 - even)) - 0.5
            weights[code] = 1.5
            spread = np.zeros_like(weights)
            spread[0] = 0.5
            blocks.append(Varying.normal(weights, spread))
        return CategoryPart(stack_varying(blocks), np.full(levels, 1 / levels))


class YesNoFit(StateFit):
    """A two-state chain."""

    name: ClassVar[str] = YesNo.name

    def fit(self, data: PilotData, values: Floats, rng: np.random.Generator) -> FittedState:
        column = values[..., 0]
        clock = find_clock(data, column)
        if clock is not None:
            return FittedState(clock, ())
        part = YesNoPart(_fit_chain(data, column, []))
        return FittedState(part, (np.where(np.isnan(column), np.nanmean(column), column),))

    def assume(self, kind: VariableKind, clock_features: int) -> StatePart:
        """As often yes as no; it stays with a chance of about two thirds."""
        weights = np.zeros(2 + clock_features)
        weights[:2] = -0.7, 1.4
        spread = np.zeros_like(weights)
        spread[0] = 0.5
        return YesNoPart(Varying.normal(weights, spread))


for _fit in (NumberFit(), CategoryFit(), YesNoFit()):
    STATE_FITS.register(_fit)


def stack_varying(parts: list[Varying]) -> Varying:
    """Several as one, one after the other; what is not known of one tells nothing of another."""
    sizes = np.cumsum([0, *map(len, parts)])
    roots = np.zeros((len(parts[0].roots), sizes[-1], sizes[-1]))
    for part, (start, end) in zip(parts, pairwise(sizes.tolist()), strict=True):
        roots[:, start:end, start:end] = part.roots
    own, models = (np.concatenate([getattr(part, name) for part in parts]) for name in ("own", "models"))
    return Varying(own, models, roots)


def fit_chance(x: Floats, y: Floats, weight: Floats, common: Sequence[int]) -> Varying:
    """A logistic regression with some coefficients that are everybody's; what never, or always, happened goes on so."""
    seen = weight > 0
    if not seen.any() or y[seen].min() == y[seen].max():
        certain = np.zeros(x.shape[-1])
        certain[0] = 30.0 if seen.any() and y[seen].max() > 0 else -30.0
        return Varying.constant(certain, len(y))
    return fit_yes_no(x, y, weight, common)


def _fit_chain(data: PilotData, marks: Floats, earlier: list[Floats]) -> Varying:
    """A two-state chain of marks (0, 1, NaN for unknown) given others that are drawn before it."""
    before = shift(marks, np.nan)
    known = (data.present & ~np.isnan(marks) & ~np.isnan(before)).astype(np.float64)
    columns = [data.constant, np.nan_to_num(before)[..., None], data.time_features, *(one[..., None] for one in earlier)]
    marked = range(2 + data.clock.size, 2 + data.clock.size + len(earlier))
    return fit_chance(np.concatenate(columns, axis=-1), np.nan_to_num(marks), known, [1, *marked])


@dataclass(frozen=True, eq=False)
class FittedMarks:
    """Availability and what is missing."""

    availability: YesNoPart | None
    missing: dict[str, YesNoPart]
    lost: YesNoPart | None


def fit_marks(data: PilotData) -> FittedMarks:
    """Chains of availability, of every state variable's gaps and of lost outcomes.

    Each looks at whether the last outcome was lost, and at the marks that are drawn before it.
    """
    study = data.study
    lost = _mark(data, np.isnan(data.outcome) & ~_find_flagged(data, study.reward.column))
    earlier: list[Floats] = [] if lost is None else [np.nan_to_num(shift(lost, 0.0))]

    def fit(marks: Floats | None) -> YesNoPart | None:
        if marks is None:
            return None
        part = YesNoPart(_fit_chain(data, marks, earlier), looks_at=len(earlier), shown=False)
        earlier.append(np.nan_to_num(marks))
        return part

    free = data.available
    availability = fit(None if free[data.present].all() else _mark(data, free))
    gaps = {name: fit(_mark(data, _find_missing(data, name))) for name in study.state_kinds}
    return FittedMarks(availability, {name: part for name, part in gaps.items() if part is not None}, fit(lost))


def _mark(data: PilotData, marks: Marks) -> Floats | None:
    """Marks as 0, 1 and NaN beyond the end; None where there are none."""
    return np.where(data.present, marks.astype(np.float64), np.nan) if marks[data.present].any() else None


def _find_missing(data: PilotData, name: str) -> Marks:
    """Where a state variable is missing that the screen did not mark."""
    first = data.study.state_names.index(data.study.columns_of(name)[0])
    return np.isnan(data.state[..., first]) & ~_find_flagged(data, data.study.state[name].column or name)


def _find_flagged(data: PilotData, column: str) -> Marks:
    """Where the screen marked a column: that is an artefact, not a gap."""
    found = np.zeros(data.present.shape, dtype=bool)
    for _, by_column in data.flagged.values():
        if column in by_column:
            found |= ~np.isnan(by_column[column])
    return found


def fit_artefacts(data: PilotData) -> tuple[ArtefactPart, ...]:
    """A chain for every device and reason that the screen found, and what the device showed then."""
    parts = []
    for (device, reason), (marks, by_column) in data.flagged.items():
        chain = _fit_chain(data, np.where(data.present, marks.astype(np.float64), np.nan), [])
        shown = {}
        for column, values in by_column.items():
            centre, scale, measured = _find_column(data, column)
            shown[column] = describe_values((values - centre) / scale, measured)
        parts.append(ArtefactPart(device, reason, chain, shown))
    return tuple(parts)


def _find_column(data: PilotData, column: str) -> tuple[float, float, Floats]:
    """Centre and scale of a column of the logs, and its values in the pilot."""
    study = data.study
    if column == study.reward.column:
        return 0.0, 1.0, data.outcome
    for name, (read, kind) in study.state_kinds.items():
        if read == column:
            return kind.centre, kind.scale, data.state[..., study.state_names.index(name)]
    raise InputError(
        f"the screen marked '{column}', which is no state variable and not the reward; leave it out of the screen"
    )
