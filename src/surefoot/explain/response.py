"""How a policy answers to its state: the probability of every action as one variable moves, and what carries its logit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import VariableSetting
from surefoot.explain.variables import Variable
from surefoot.inference.intervals import CONFIDENCE, Interval, mean_interval, sum_by_participant, t_quantile
from surefoot.inference.sandwich import Influences
from surefoot.learning.methods import Method
from surefoot.numerics.arrays import list_blocks
from surefoot.policies.features import policy_features
from surefoot.policies.rules import DecisionRule

ROUNDING = 1e-9
"""Of the logit's parts: what moves by less is rounding."""

CURVE_ROWS, CURVE_PEOPLE, BAND_DRAWS, BAND_ROWS = 5000, 500, 200, 500
"""A curve is a mean over so many decision points, of so many people: no eye could tell more of them from it."""
CURVE_CELLS, LEAST_ROWS = 2**23, 100
"""The rules of all decision points of a curve hold together at most so many numbers; it has at least so many points."""
MANY_VARIABLES, MOST_CURVES, MOST_LEVELS = 24, 12, 40
"""Of more variables than the first, curves are traced for the second number of them, and of a category for the third number
of levels: no reader would follow more."""
Clip = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Moves probabilities (rows, actions) into the study's limits."""


@dataclass(frozen=True)
class Importance:
    """How much of the policy's logit hangs on one variable.

    Attributes
    ----------
    feature
        Its name.
    swing
        Mean over people and actions of the standard deviation of its part of the logit.
    share
        Cov(the variable's part of the logit, logit) / Var(logit), over people and decision points; the shares sum to 1.
    """

    feature: str
    swing: float
    share: float


@dataclass(frozen=True, eq=False)
class Curve:
    """Probability of every action as one state variable moves and the others stay as they were logged.

    Attributes
    ----------
    variable
        Its name.
    settings
        Where the variable was put, one after the other.
    probability, low, high
        (settings, actions), averaged over people and decision points, and a band around it.
    band
        What lies between low and high, in words; empty where there is no band.
    changes
        For every setting and action, how much more probable than at the first setting.
    points
        How many decision points it was averaged over, and of how many usable ones.
    rare
        How many rare levels were left out.
    """

    variable: str
    settings: tuple[VariableSetting, ...]
    probability: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    band: str
    changes: tuple[tuple[Interval, ...], ...]
    points: tuple[int, int]
    rare: int = 0

    @property
    def grid(self) -> NDArray[np.float64]:
        """In the variable's own units."""
        return np.array([setting.shown for setting in self.settings])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the settings; empty where they are points on an axis of numbers."""
        found = tuple(setting.label for setting in self.settings)
        return found if all(found) else ()

    @property
    def largest_change(self) -> float:
        """Of the probability of any action, between any two settings."""
        return float(np.ptp(self.probability, axis=0).max())


def measure_importances(fitted: Method, variables: tuple[Variable, ...]) -> tuple[Importance, ...]:
    """Shares of the logit's variance; with a policy per participant also that of its own intercept."""
    logs, rows = fitted.logs_, np.flatnonzero(fitted.used_)
    preferences = fitted.policies_.rule.preferences()
    count = len(rows) * preferences.shape[-2]
    spread = [np.atleast_2d(np.cov(logs.state[rows][:, list(one.places)], rowvar=False, bias=True)) for one in variables]

    def list_pieces() -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        for some in list_blocks(len(rows), cells=int(np.prod(preferences.shape[1:]))):
            coef = preferences[fitted.unit_[rows[some]]]
            yield coef, coef * policy_features(logs.state[rows[some]])[:, None, :]

    middle = sum((pieces.sum(axis=0) for _, pieces in list_pieces()), start=np.zeros(1)) / len(rows)
    total, own, size, shares, swings = 0.0, 0.0, 0.0, np.zeros(1), np.zeros(len(variables))
    for coef, pieces in list_pieces():
        size += float((pieces**2).sum())
        centred = pieces - middle
        whole = centred.sum(axis=2, keepdims=True)
        total, own = total + float((whole**2).sum()), own + float(np.abs(centred[:, :, -1]).sum())
        shares = shares + (centred * whole).sum(axis=(0, 1))
        for number, variable in enumerate(variables):
            seen = coef[:, :, list(variable.places)]
            swings[number] += np.sqrt(np.maximum(np.einsum("rai,ij,raj->ra", seen, spread[number], seen), 0.0)).sum()
    # A logit that moves by rounding only has no variance to share.
    shares = shares / total if total > ROUNDING**2 * size else np.zeros_like(shares)
    found = [
        Importance(variable.name, float(swing), float(shares[list(variable.places)].sum()))
        for variable, swing in zip(variables, swings / count, strict=True)
    ]
    if not fitted.pooled_:
        found.append(Importance("the participant's own intercept", own / count, float(shares[-1])))
    return tuple(sorted(found, key=lambda item: -item.share))


def list_seen(fitted: Method, variables: tuple[Variable, ...]) -> list[Variable]:
    """The variables that the decision rule looks at."""
    return [variable for variable in variables if fitted.rule_sees_[list(variable.places)].any()]


def choose_variables(fitted: Method, variables: tuple[Variable, ...], importances: tuple[Importance, ...]) -> list[Variable]:
    """The variables that the policy sees; of many, those that move its logit most."""
    seen = list_seen(fitted, variables)
    if len(seen) <= MANY_VARIABLES:
        return seen
    swings = {item.feature: item.swing for item in importances}
    largest = sorted(seen, key=lambda variable: -swings[variable.name])[:MOST_CURVES]
    return [variable for variable in seen if variable in largest]


def trace_curves(
    fitted: Method, variables: list[Variable], *, clip: Clip | None, seed: int, influences: Influences | None
) -> tuple[Curve, ...]:
    """One curve for each of the variables; `influences` are those of people on a pooled fit."""
    tracer = _Tracer(fitted, clip, seed, influences)
    return tuple(tracer.trace(variable) for variable in variables)


def _spread_evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most so many of them, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(np.int64))]


def _choose_rows(fitted: Method) -> NDArray[np.int64]:
    """Usable rows of enough people, in their order."""
    logs = fitted.logs_
    rows = logs.order[fitted.used_[logs.order]]
    most = min(CURVE_ROWS, max(LEAST_ROWS, CURVE_CELLS // fitted.policies_.rule.cells))
    if fitted.pooled_ or len(rows) <= most:
        return _spread_evenly(rows, most)
    index = logs.participant_index[rows]
    people = _spread_evenly(np.unique(index), CURVE_PEOPLE)
    begins, ends = (np.searchsorted(index, people, side=side) for side in ("left", "right"))
    points = max(1, most // len(people))
    return np.concatenate([_spread_evenly(rows[begin:end], points) for begin, end in zip(begins, ends, strict=True)])


class _Tracer:
    """What all curves of a policy share: the decision points, and policies drawn around a pooled one."""

    def __init__(self, fitted: Method, clip: Clip | None, seed: int, influences: Influences | None) -> None:
        self._clip, self._pooled = clip, fitted.pooled_
        rule, rows = fitted.policies_.rule, _choose_rows(fitted)
        self._state, self._rule = fitted.logs_.state[rows], rule[fitted.unit_[rows]]
        present, self._participant_index = np.unique(fitted.logs_.participant_index[rows], return_inverse=True)
        self._people, self._points = len(present), (len(rows), int(fitted.used_.sum()))
        self._drawn: DecisionRule | None = None
        if self._pooled and self._people > 1:
            self._few = _spread_evenly(np.arange(len(rows)), BAND_ROWS)
            self._drawn = _draw_rules(fitted, seed, influences)

    def trace(self, variable: Variable) -> Curve:
        settings, rare = self._list_settings(variable)
        at = np.stack([self._decide(self._rule, self._state, variable, setting) for setting in settings])
        mean = at.mean(axis=1)
        if not self._pooled:
            own = self._average_by_participant(at)
            low, high = np.quantile(own, (0.1, 0.9), axis=1)
            changes = [[mean_interval(column) for column in (there - own[0]).T] for there in own]
            band = "middle 80 % of people"
            return Curve(variable.name, settings, mean, low, high, band, _freeze(changes), self._points, rare)
        if self._drawn is None:
            return Curve(variable.name, settings, mean, mean, mean, "", _freeze(_without_ends(mean)), self._points, rare)
        state = self._state[None, self._few]
        drawn = np.stack([self._decide(self._drawn, state, variable, setting).mean(axis=1) for setting in settings])
        # Drawn at a sample of the decision points: the band is put around the curve of all of them.
        drawn += (mean - at[:, self._few].mean(axis=1))[:, None, :]
        low, high = np.quantile(drawn, ENDS, axis=1)
        low, high = np.clip(low, 0, mean), np.clip(high, mean, 1)
        changed = _freeze(_change_intervals(mean, drawn))
        return Curve(variable.name, settings, mean, low, high, "95 % interval", changed, self._points, rare)

    def _list_settings(self, variable: Variable) -> tuple[tuple[VariableSetting, ...], int]:
        """Where to put the variable: of many levels, the first and those that were logged most often; and how many other
        levels there are."""
        values = variable.take(self._state)
        settings = variable.kind.list_settings(values)
        if len(settings) <= MOST_LEVELS:
            return tuple(settings), 0
        counts = [int((values == setting.columns).all(axis=1).sum()) for setting in settings]
        counts[0] = len(values)
        often = np.sort(np.argsort(-np.array(counts), kind="stable")[:MOST_LEVELS])
        return tuple(settings[place] for place in often), len(settings) - MOST_LEVELS

    def _decide(
        self, rule: DecisionRule, state: NDArray[np.float64], variable: Variable, setting: VariableSetting
    ) -> NDArray[np.float64]:
        """At the given states with the variable, all its columns, put to a setting: (*batch, actions)."""
        moved = state.copy()
        moved[..., variable.places] = setting.columns
        found = rule.probabilities(moved)
        return found if self._clip is None else self._clip(found.reshape(-1, found.shape[-1])).reshape(found.shape)

    def _average_by_participant(self, at: NDArray[np.float64]) -> NDArray[np.float64]:
        """(settings, rows, actions) → (settings, people, actions)."""
        count = np.bincount(self._participant_index)
        sums = [[sum_by_participant(self._participant_index, self._people, column) for column in there.T] for there in at]
        return np.asarray(np.swapaxes(np.array(sums) / count, 1, 2))


ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


def _freeze(changes: list[list[Interval]]) -> tuple[tuple[Interval, ...], ...]:
    return tuple(tuple(row) for row in changes)


def _without_ends(mean: NDArray[np.float64]) -> list[list[Interval]]:
    return [[Interval(float(value), np.nan, np.nan, np.nan) for value in row] for row in mean - mean[0]]


def _change_intervals(mean: NDArray[np.float64], drawn: NDArray[np.float64]) -> list[list[Interval]]:
    """From (settings, actions) and draws (settings, draws, actions): differences to the first setting."""
    value, moved = mean - mean[0], drawn - drawn[0]
    low, high = np.quantile(moved, ENDS, axis=1)
    error = moved.std(axis=1)
    numbers = np.stack([value, error, np.minimum(low, value), np.maximum(high, value)], axis=-1)
    return [[Interval(*map(float, cell)) for cell in row] for row in numbers]


def _draw_rules(fitted: Method, seed: int, influences: Influences | None) -> DecisionRule | None:
    """Policies drawn from what the rule itself is unsure of, or from the normal approximation to θ, widened to Student's t,
    batch shape (draws, 1); None for a rule that is neither, and where θ has no standard error."""
    rule = fitted.policies_.rule
    if rule.coefficients() is None:
        from_posterior: DecisionRule | None = rule.draw(BAND_DRAWS, np.random.default_rng(seed))
        return from_posterior
    if influences is None or influences.policy is None:
        return None
    covariance = influences.covariance("policy")
    if not np.isfinite(covariance).all():
        return None
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) * t_quantile(len(influences.critic) - 1) / t_quantile(np.inf)
    noise = np.random.default_rng(seed).standard_normal((BAND_DRAWS, len(root))) @ root.T
    drawn: DecisionRule = rule.with_coefficients(
        (fitted.coef_ + noise).reshape(BAND_DRAWS, 1, *rule.coefficients().shape[1:])
    )
    return drawn
