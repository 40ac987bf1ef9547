"""What a policy does: which features carry it, how it answers to each of them, and whom it would treat when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import sum_by_participant
from surefoot.inference.sandwich import compute_influences
from surefoot.learning.methods import Method
from surefoot.policies.features import policy_features
from surefoot.policies.rules import DecisionRule

GRID_POINTS, CURVE_ROWS, BAND_DRAWS, BAND_ROWS = 15, 5000, 200, 500
COURSE_BINS = 20
Limited = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Scaling = Mapping[str, tuple[float, float]]
"""State variable → (centre, scale) by which it was scaled, so that it can be shown in its own units."""


@dataclass(frozen=True)
class Importance:
    """How much of what the policy does hangs on one feature."""

    feature: str
    swing: float
    """Mean over people and actions of |θ| · standard deviation: logits moved by a typical change of the feature."""
    share: float
    """Cov(the feature's part of the logit, logit) / Var(logit), over people and decision points; the shares sum to 1."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Probability of every action as one state variable moves and the others stay as they were logged."""

    variable: str
    grid: NDArray[np.float64]
    """In the variable's own units."""
    probability: NDArray[np.float64]
    """(grid, actions), averaged over people and decision points."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    band: str
    """What lies between low and high."""


@dataclass(frozen=True, eq=False)
class Course:
    """How many of the people available at a time would be treated."""

    label: str
    place: NDArray[np.float64]
    people: NDArray[np.float64]
    """People with a usable decision point in the bin."""
    treated: NDArray[np.float64]
    """Share of decision points at which the policy would send something."""
    logged: NDArray[np.float64]


def measure_importances(fitted: Method) -> tuple[Importance, ...]:
    """Shares of the logit's variance; with a policy per participant also what lies in who it is."""
    logs, rows = fitted.logs_, np.flatnonzero(~np.isnan(fitted.weights_))
    coef = fitted.policies_.rule.preferences()[fitted.unit_[rows]]
    pieces = coef * policy_features(logs.state[rows])[:, None, :]
    centred = pieces - pieces.mean(axis=0)
    whole = centred.sum(axis=2, keepdims=True)
    total = float((whole**2).sum())
    share = (centred * whole).sum(axis=(0, 1)) / (total if total > 0 else 1.0)
    swing = np.abs(coef[:, :, :-1]).mean(axis=(0, 1)) * logs.state[rows].std(axis=0)
    found = [Importance(name, float(swing[j]), float(share[j])) for j, name in enumerate(logs.state_names)]
    if not fitted.pooled_:
        found.append(Importance("who it is (own intercept)", float(np.abs(centred[:, :, -1]).mean()), float(share[-1])))
    return tuple(sorted(found, key=lambda item: -item.share))


def trace_curves(fitted: Method, *, limited: Limited | None, scaling: Scaling, seed: int) -> tuple[Curve, ...]:
    """One curve for every state variable that the policy sees."""
    logs = fitted.logs_
    rows = logs.order[~np.isnan(fitted.weights_[logs.order])]
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), CURVE_ROWS)).round().astype(np.int64))]
    found = []
    for j in np.flatnonzero(fitted.rule_sees_):
        name = logs.state_names[j]
        distinct = np.unique(logs.state[rows, j])
        low, high = np.quantile(logs.state[rows, j], (0.05, 0.95))
        grid = distinct if len(distinct) <= 3 else np.linspace(low, high, GRID_POINTS)
        centre, scale = scaling.get(name, (0.0, 1.0))
        found.append(_curve(fitted, rows, int(j), grid, limited, seed, name, centre + scale * grid))
    return tuple(found)


def _probabilities(
    rule: DecisionRule, state: NDArray[np.float64], j: int, value: float, limited: Limited | None
) -> NDArray[np.float64]:
    """At the given states with variable j set to a value, (*batch, actions)."""
    moved = state.copy()
    moved[..., j] = value
    found = rule.probabilities(moved)
    if limited is None:
        return found
    return limited(found.reshape(-1, found.shape[-1])).reshape(found.shape)


def _curve(
    fitted: Method,
    rows: NDArray[np.int64],
    j: int,
    grid: NDArray[np.float64],
    limited: Limited | None,
    seed: int,
    name: str,
    shown: NDArray[np.float64],
) -> Curve:
    logs, rule = fitted.logs_, fitted.policies_.rule
    here = rule[fitted.unit_[rows]]
    at = [_probabilities(here, logs.state[rows], j, value, limited) for value in grid]
    mean = np.stack([found.mean(axis=0) for found in at])
    if not fitted.pooled_:
        present, participant_index = np.unique(logs.participant_index[rows], return_inverse=True)
        count = np.bincount(participant_index)
        own = np.stack(
            [
                np.stack([sum_by_participant(participant_index, len(present), column) / count for column in found.T], axis=1)
                for found in at
            ]
        )
        low, high = np.quantile(own, (0.1, 0.9), axis=1)
        return Curve(name, shown, mean, low, high, "middle 80 % of people")
    if rule.coefficients() is None or len(np.unique(logs.participant_index[rows])) < 2:
        return Curve(name, shown, mean, mean, mean, "")
    drawn = _draw_rules(fitted, rule, seed)
    few = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), BAND_ROWS)).round().astype(np.int64))]
    state = np.broadcast_to(logs.state[few], (BAND_DRAWS, *logs.state[few].shape))
    spread = np.stack([_probabilities(drawn, state, j, value, limited).mean(axis=1) for value in grid])
    plain = np.stack(
        [_probabilities(rule[np.zeros(len(few), int)], state[0], j, value, limited).mean(axis=0) for value in grid]
    )
    low, high = np.quantile(spread, (0.025, 0.975), axis=1) + (mean - plain)
    return Curve(name, shown, mean, np.clip(low, 0, mean), np.clip(high, mean, 1), "95 % interval")


def _draw_rules(fitted: Method, rule: DecisionRule, seed: int) -> DecisionRule:
    """Policies drawn from the normal approximation to θ, batch shape (draws, 1)."""
    covariance = compute_influences(fitted).covariance("policy")
    values, vectors = np.linalg.eigh(np.where(np.isfinite(covariance), covariance, 0.0))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(seed).standard_normal((BAND_DRAWS, len(root))) @ root.T
    shape = fitted.policies_.rule.coefficients().shape[1:]
    return rule.with_coefficients((fitted.coef_ + noise).reshape(BAND_DRAWS, 1, *shape))


def compute_send_probability(fitted: Method, limited: Limited | None) -> NDArray[np.float64]:
    """Probability of sending anything at every usable row, NaN elsewhere."""
    logs, rows = fitted.logs_, np.flatnonzero(~np.isnan(fitted.weights_))
    found = fitted.policies_.probabilities(logs.participant[rows], logs.state[rows])
    result = np.full(len(logs), np.nan)
    result[rows] = 1 - (found if limited is None else limited(found))[:, 0]
    return result


def count_courses(fitted: Method, send: NDArray[np.float64]) -> tuple[Course, ...]:
    """Along each participant's decision points and, where times are dates, over the hours of the day."""
    logs = fitted.logs_
    lengths = np.diff(logs.starts)
    number = np.empty(len(logs), dtype=np.int64)
    number[logs.order] = np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths) + 1
    width = max(1, -(-int(lengths.max()) // COURSE_BINS))
    found = [
        _count_by_place("decision point of the participant", (number - 1) // width, width, 1 + (width - 1) / 2, logs, send)
    ]
    if logs.time.dtype.kind == "M":
        hour = (logs.time.astype("datetime64[h]").astype(np.int64)) % 24
        if len(np.unique(hour)) > 1:
            found.append(_count_by_place("hour of the day, as logged", hour, 1, 0.0, logs, send))
    return tuple(found)


def _count_by_place(
    label: str, place: NDArray[np.int64], width: int, offset: float, logs: Trajectories, send: NDArray[np.float64]
) -> Course:
    rows = np.flatnonzero(~np.isnan(send))
    bins, where = np.unique(place[rows], return_inverse=True)
    count = np.bincount(where)
    pairs = np.unique(np.stack([where, logs.participant_index[rows]]), axis=1)
    return Course(
        label,
        (bins * width + offset).astype(np.float64),
        np.bincount(pairs[0]).astype(np.float64),
        np.bincount(where, weights=send[rows]) / count,
        np.bincount(where, weights=logs.action[rows] > 0) / count,
    )
