"""The registry of estimators: weighted and centred least squares, EMEE, EMEE2 and the distal DCEE.

A row's f holds the moderators and g the controls, both with an intercept; A is the action, p̃ the numerator probability,
I availability, W = I · p̃(A)/p(A) · (weight of the future at a lag).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from surefoot.effects.estimating_equations import EstimatingEquation, Evaluation, Matrix, Root, solve
from surefoot.effects.trial_rows import TrialRows
from surefoot.errors import InputError


@dataclass(frozen=True, eq=False)
class ExcursionEstimate:
    """Coefficients of the effect (last) and of the controls (first, where they are estimated jointly)."""

    root: Root
    controls: int
    """How many of the root's coefficients belong to controls."""
    nuisance_names: tuple[str, ...]
    nuisance: Matrix
    corrected: bool
    """Whether inference rests on the corrected covariance."""

    @property
    def effects(self) -> int:
        return len(self.root.theta) - self.controls

    @property
    def degrees(self) -> int:
        """n − p − q."""
        return self.root.people - len(self.root.theta)


@dataclass(frozen=True)
class Estimator:
    """One line of the registry."""

    label: str
    estimand: str
    binary: bool
    """Whether the outcome must be 0 or 1, and the effect is a log relative risk."""
    estimate: Callable[[TrialRows], ExcursionEstimate]
    distal: bool = False
    """Whether a participant has one outcome, at the end."""


def effect_names(points: TrialRows) -> tuple[str, ...]:
    """Of the effect's coefficients: the moderators', for each action when there are several."""
    if len(points.action_names) == 2:
        return points.moderator_names
    return tuple(f"{action}: {name}" for action in points.action_names[1:] for name in points.moderator_names)


@dataclass(frozen=True, eq=False)
class StandardisedRows:
    """The rows that count with moderators and controls centred and scaled, block by block.

    Years and clock times are then no more trouble to the solver than other numbers.
    """

    points: TrialRows
    moderator_map: Matrix
    control_map: Matrix

    @classmethod
    def of(cls, points: TrialRows) -> StandardisedRows:
        points = points.counted_only
        return cls(points, _standardiser(points.moderators), _standardiser(points.controls))

    def moderators(self, rows: slice) -> Matrix:
        """f."""
        return self.moderator_map @ self.points.moderators[:, rows]

    def controls(self, rows: slice) -> Matrix:
        """g."""
        return self.control_map @ self.points.controls[:, rows]

    def indicate_actions(self, rows: slice) -> Matrix:
        """1{A = k} for every action but nothing, (actions − 1, rows)."""
        codes = np.arange(1, len(self.points.action_names))[:, None]
        return np.asarray(self.points.action[rows] == codes, dtype=np.float64)

    def centre_actions(self, rows: slice) -> Matrix:
        """1{A = k} − p̃_k."""
        return self.indicate_actions(rows) - self.points.numerator[1:, rows]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.points.control_names, *(f"treatment × {name}" for name in effect_names(self.points)))

    def solve(self, equation: EstimatingEquation) -> ExcursionEstimate:
        """Controls and effect from one equation, in the columns' own units."""
        back = block_diag(self.control_map, *[self.moderator_map] * (len(self.points.action_names) - 1))
        root, q = solve(equation, self.points.order).map_back(back), len(self.points.control_names)
        return ExcursionEstimate(root, q, self.points.control_names, root.theta[:q], corrected=True)


def _standardiser(columns: Matrix) -> Matrix:
    """B: standardised columns = B · columns. Any centre and scale near the true ones will do: some rows tell them."""
    some = columns[:, :: max(1, columns.shape[1] // 10_000)]
    centre, scale = some.mean(axis=1), some.std(axis=1)
    scale[~(scale > 1e-10 * np.abs(centre))] = 1.0
    found = np.diag(1 / scale)
    found[1:, 0] = -centre[1:] / scale[1:]
    return found


def _by_action(each: Matrix, f: Matrix) -> Matrix:
    """(actions − 1, rows) ⊗ (p, rows), action by action."""
    return (each[:, None] * f).reshape(-1, f.shape[1])


def linear_equation(
    data: StandardisedRows, influence: Callable[[Matrix], tuple[Matrix, Matrix]] | None = None, start: Matrix | None = None
) -> EstimatingEquation:
    """Σ W Xᵀ ψ(Y − Xθ) = 0, X = [g, (1{A = k} − p̃_k) f]; without ψ weighted and centred least squares.

    `influence` gives ψ and ψ′ of residuals.
    """
    outcome, weight = data.points.outcome, data.points.weight

    def evaluate(theta: Matrix, rows: slice) -> Evaluation:
        design = np.concatenate([data.controls(rows), _by_action(data.centre_actions(rows), data.moderators(rows))])
        residual, slope = outcome[rows] - theta @ design, design
        if influence is not None:
            residual, derivative = influence(residual)
            slope = derivative * design
        return Evaluation(weight[rows] * design, residual, slope, slope)

    return EstimatingEquation(data.names, evaluate, np.zeros(len(data.names)) if start is None else start)


def estimate_wcls(points: TrialRows) -> ExcursionEstimate:
    """Weighted and centred least squares: θ̂ = (Σ XᵀWX)⁻¹ Σ XᵀWY."""
    data = StandardisedRows.of(points)
    return data.solve(linear_equation(data))


def _log_start(data: StandardisedRows, weight: Matrix) -> Matrix:
    """α₀ = log of the mean outcome, all else nothing."""
    mean = np.average(data.points.outcome, weights=weight)
    if not 0 < mean < 1:
        raise InputError(f"the outcome is {mean:g} at every row that counts; a relative risk needs both 0 and 1")
    return np.array([np.log(mean), *np.zeros(len(data.names) - 1)])


def estimate_emee(points: TrialRows) -> ExcursionEstimate:
    """EMEE: Σ W e^(−A fᵀβ) (Y − e^(gᵀα + A fᵀβ)) [g; (A − p̃) f] = 0."""
    data = StandardisedRows.of(points)
    outcome, weight, q = data.points.outcome, data.points.weight, len(points.control_names)

    def evaluate(theta: Matrix, rows: slice) -> Evaluation:
        f, g = data.moderators(rows), data.controls(rows)
        moved = _by_action(data.indicate_actions(rows), f)
        base, removed = np.exp(theta[:q] @ g), np.exp(-(theta[q:] @ moved)) * outcome[rows]
        multiplier = weight[rows] * np.concatenate([g, _by_action(data.centre_actions(rows), f)])
        slope = np.concatenate([base * g, removed * moved])
        # Of the fitted mean e^(gᵀα + A fᵀβ), times the e^(−A fᵀβ) that is left out of the multiplier.
        return Evaluation(multiplier, removed - base, slope, base * np.concatenate([g, moved]))

    return data.solve(EstimatingEquation(data.names, evaluate, _log_start(data, weight)))


def estimate_emee2(points: TrialRows) -> ExcursionEstimate:
    """EMEE2: Σ I (e^(−(A − p) fᵀβ) Y − e^(gᵀα)) [g; (A − p) f] = 0, without weights."""
    _two_actions(points, "emee2", "emee")
    data = StandardisedRows.of(points)
    outcome, future, q = data.points.outcome, data.points.future, len(points.control_names)
    shift = (data.points.action - _probability(data.points))[None]

    def evaluate(theta: Matrix, rows: slice) -> Evaluation:
        g, moved = data.controls(rows), _by_action(shift[:, rows], data.moderators(rows))
        base, removed = np.exp(theta[:q] @ g), np.exp(-(theta[q:] @ moved)) * outcome[rows]
        slope = np.concatenate([base * g, removed * moved])
        return Evaluation(future[rows] * np.concatenate([g, moved]), removed - base, slope, slope)

    return data.solve(EstimatingEquation(data.names, evaluate, _log_start(data, future)))


def estimate_dcee(points: TrialRows) -> ExcursionEstimate:
    """Linear DCEE: β = (Σ ffᵀ)⁻¹ Σ I (−1)^(1−A)/p(A) (Y − (1 − p) μ₁ − p μ₀) f over all rows; μ_a = gᵀα_a by least squares.

    The arms' regressions do not enter the covariance: with known probabilities the estimating function does not depend on
    them to first order.
    """
    _two_actions(points, "dcee", "wcls")
    treated, p, f, g = points.action == 1, _probability(points), points.moderators, points.controls
    known = ~(np.isnan(points.outcome) | np.isnan(f).any(axis=0))
    complete = known & ~np.isnan(g).any(axis=0)
    arms = [least_squares(g[:, complete & arm], points.outcome[complete & arm]) for arm in (~treated, treated)]
    rows = known & (complete | ~points.available)
    expected = np.nan_to_num((1 - p) * (arms[1] @ g) + p * (arms[0] @ g))
    contrast = points.available * np.where(treated, 1.0, -1.0) / points.taken * (points.outcome - expected)
    back = _standardiser(f[:, rows])
    design, target = back @ f[:, rows], contrast[rows]
    order = replace(points.order, person=points.person[rows], row=points.order.row[rows])

    def evaluate(theta: Matrix, block: slice) -> Evaluation:
        part = design[:, block]
        return Evaluation(part, target[block] - theta @ part, part, part)

    equation = EstimatingEquation(effect_names(points), evaluate, np.zeros(len(design)))
    root = solve(equation, order).map_back(back)
    names = tuple(f"{action}: {name}" for action in points.action_names for name in points.control_names)
    return ExcursionEstimate(root, 0, names, np.concatenate(arms), corrected=False)


def least_squares(design: Matrix, outcome: Matrix) -> Matrix:
    """Of the outcome on columns (d, rows)."""
    scaling = _standardiser(design)
    scaled = scaling @ design
    return np.asarray(scaling.T @ np.linalg.lstsq(scaled @ scaled.T, scaled @ outcome, rcond=None)[0])


def _probability(points: TrialRows) -> Matrix:
    """Of treatment."""
    return np.where(points.action == 1, points.taken, 1 - points.taken)


def _two_actions(points: TrialRows, name: str, other: str) -> None:
    if len(points.action_names) > 2:
        raise InputError(f"{name} compares one treatment with nothing, here there are {len(points.action_names) - 1}; "
                         f"use {other}, or one treatment at a time")  # fmt: skip


ESTIMATORS = {
    "wcls": Estimator("weighted and centred least squares", "difference of means", False, estimate_wcls),
    "emee": Estimator("EMEE", "log relative risk", True, estimate_emee),
    "emee2": Estimator("EMEE2", "log relative risk", True, estimate_emee2),
    "dcee": Estimator("linear DCEE", "difference of means", False, estimate_dcee, distal=True),
}
