"""The registry of estimators: weighted and centred least squares, EMEE, EMEE2 and the distal DCEE.

A row's f holds the moderators and g the controls, both with an intercept; A is the action, p̃ the numerator probability,
I availability, W = I · p̃(A)/p(A) · (weight of the future at a lag).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from surefoot.effects.decision_points import DecisionPoints
from surefoot.effects.estimating_equations import EstimatingEquation, Evaluation, Matrix, Root, solve
from surefoot.errors import InputError


@dataclass(frozen=True, eq=False)
class Estimate:
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
    estimate: Callable[[DecisionPoints], Estimate]
    distal: bool = False
    """Whether a participant has one outcome, at the end."""


def effect_names(points: DecisionPoints) -> tuple[str, ...]:
    """Of the effect's coefficients: the moderators', for each action when there are several."""
    if len(points.action_names) == 2:
        return points.moderator_names
    return tuple(f"{action}: {name}" for action in points.action_names[1:] for name in points.moderator_names)


def _taken(points: DecisionPoints) -> Matrix:
    """1{A = k} for every action but nothing, (actions − 1, rows)."""
    return np.asarray(points.action == np.arange(1, len(points.action_names))[:, None], dtype=np.float64)


def _by_action(each: Matrix, f: Matrix) -> Matrix:
    """(actions − 1, rows) ⊗ (p, rows), action by action."""
    return (each[:, None] * f).reshape(-1, f.shape[1])


def standardise(points: DecisionPoints) -> tuple[DecisionPoints, Matrix]:
    """The rows that count with centred and scaled moderators and controls, and B: scaled columns = B · columns.

    Years and clock times are then no more trouble to the solver than other numbers.
    """
    points = points.counted_only
    f, g = _standardiser(points.moderators), _standardiser(points.controls)
    scaled = replace(points, moderators=f @ points.moderators, controls=g @ points.controls)
    return scaled, block_diag(g, *[f] * (len(points.action_names) - 1))


def _standardiser(columns: Matrix) -> Matrix:
    centre, scale = columns.mean(axis=1), columns.std(axis=1)
    scale[~(scale > 1e-10 * np.abs(centre))] = 1.0
    found = np.diag(1 / scale)
    found[1:, 0] = -centre[1:] / scale[1:]
    return found


def solve_jointly(points: DecisionPoints, equation: EstimatingEquation, back: Matrix) -> Estimate:
    """Controls and effect from one equation in standardised columns."""
    root = solve(equation, points.order).mapped(back)
    q = len(points.control_names)
    return Estimate(root, q, points.control_names, root.theta[:q], corrected=True)


def _names(points: DecisionPoints) -> tuple[str, ...]:
    return (*points.control_names, *(f"treatment × {name}" for name in effect_names(points)))


def linear_equation(
    points: DecisionPoints, influence: Callable[[Matrix], tuple[Matrix, Matrix]] | None = None, start: Matrix | None = None
) -> EstimatingEquation:
    """Σ W Xᵀ ψ(Y − Xθ) = 0, X = [g, (1{A = k} − p̃_k) f]; without ψ weighted and centred least squares.

    `influence` gives ψ and ψ′ of residuals.
    """
    centred = _by_action(_taken(points) - points.numerator[1:], points.moderators)
    design, outcome = np.concatenate([points.controls, centred]), points.outcome

    def evaluate(theta: Matrix) -> Evaluation:
        residual = outcome - theta @ design
        if influence is None:
            return Evaluation(residual, design)
        value, derivative = influence(residual)
        return Evaluation(value, derivative * design)

    begin = np.zeros(len(design)) if start is None else start
    return EstimatingEquation(_names(points), points.weight * design, evaluate, begin)


def estimate_wcls(points: DecisionPoints) -> Estimate:
    """Weighted and centred least squares: θ̂ = (Σ XᵀWX)⁻¹ Σ XᵀWY."""
    scaled, back = standardise(points)
    return solve_jointly(scaled, linear_equation(scaled), back)


def _blipped_equation(points: DecisionPoints, shift: Matrix, centred: Matrix, weight: Matrix) -> EstimatingEquation:
    """Σ weight (e^(−shift fᵀβ) Y − e^(gᵀα)) [g; centred f]."""
    f, g, outcome, q = points.moderators, points.controls, points.outcome, len(points.control_names)
    moved = _by_action(shift, f)
    multiplier = weight * np.concatenate([g, _by_action(centred, f)])

    def evaluate(theta: Matrix) -> Evaluation:
        base, removed = np.exp(theta[:q] @ g), np.exp(-(theta[q:] @ moved)) * outcome
        return Evaluation(removed - base, np.concatenate([base * g, removed * moved]))

    mean = np.average(outcome, weights=weight)
    if not 0 < mean < 1:
        raise InputError(f"the outcome is {mean:g} at every row that counts; a relative risk needs both 0 and 1")
    start = np.zeros(len(multiplier))
    start[0] = np.log(mean)
    return EstimatingEquation(_names(points), multiplier, evaluate, start)


def estimate_emee(points: DecisionPoints) -> Estimate:
    """EMEE: Σ W e^(−A fᵀβ) (Y − e^(gᵀα + A fᵀβ)) [g; (A − p̃) f] = 0."""
    points, back = standardise(points)
    taken, q = _taken(points), len(points.control_names)
    equation = _blipped_equation(points, taken, taken - points.numerator[1:], points.weight)
    base = np.concatenate([points.controls, _by_action(taken, points.moderators)])
    # The slope of the fitted mean e^(gᵀα + A fᵀβ), times the e^(−A fᵀβ) that is left out of the multiplier.
    equation = replace(equation, leverage_slope=lambda theta: np.exp(theta[:q] @ base[:q]) * base)
    return solve_jointly(points, equation, back)


def estimate_emee2(points: DecisionPoints) -> Estimate:
    """EMEE2: Σ I (e^(−(A − p) fᵀβ) Y − e^(gᵀα)) [g; (A − p) f] = 0, without weights."""
    _two_actions(points, "emee2", "emee")
    points, back = standardise(points)
    shift = _taken(points) - _probability(points)
    return solve_jointly(points, _blipped_equation(points, shift, shift, points.future), back)


def estimate_dcee(points: DecisionPoints) -> Estimate:
    """Linear DCEE: β = (Σ ffᵀ)⁻¹ Σ I (−1)^(1−A)/p(A) (Y − (1 − p) μ₁ − p μ₀) f over all rows; μ_a = gᵀα_a by least squares.

    The arms' regressions do not enter the covariance: with known probabilities the estimating function does not depend on
    them to first order.
    """
    _two_actions(points, "dcee", "wcls")
    treated, p, f, g = points.action == 1, _probability(points), points.moderators, points.controls
    known = ~(np.isnan(points.outcome) | np.isnan(f).any(axis=0))
    complete = known & ~np.isnan(g).any(axis=0)
    arms = [_least_squares(g[:, complete & arm], points.outcome[complete & arm]) for arm in (~treated, treated)]
    rows = known & (complete | ~points.available)
    expected = np.nan_to_num((1 - p) * (arms[1] @ g) + p * (arms[0] @ g))
    contrast = points.available * np.where(treated, 1.0, -1.0) / points.taken * (points.outcome - expected)
    back = _standardiser(f[:, rows])
    design, target = back @ f[:, rows], contrast[rows]
    order = replace(points.order, person=points.person[rows], row=points.order.row[rows])

    def evaluate(theta: Matrix) -> Evaluation:
        return Evaluation(target - theta @ design, design)

    equation = EstimatingEquation(effect_names(points), design, evaluate, np.zeros(len(design)))
    root = solve(equation, order).mapped(back)
    names = tuple(f"{action}: {name}" for action in points.action_names for name in points.control_names)
    return Estimate(root, 0, names, np.concatenate(arms), corrected=False)


def _least_squares(design: Matrix, outcome: Matrix) -> Matrix:
    return np.asarray(np.linalg.lstsq(design.T, outcome, rcond=None)[0])


def _probability(points: DecisionPoints) -> Matrix:
    """Of treatment."""
    return np.where(points.action == 1, points.taken, 1 - points.taken)


def _two_actions(points: DecisionPoints, name: str, other: str) -> None:
    if len(points.action_names) > 2:
        raise InputError(f"{name} compares one treatment with nothing, here there are {len(points.action_names) - 1}; "
                         f"use {other}, or one treatment at a time")  # fmt: skip


ESTIMATORS = {
    "wcls": Estimator("weighted and centred least squares", "difference of means", False, estimate_wcls),
    "emee": Estimator("EMEE", "log relative risk", True, estimate_emee),
    "emee2": Estimator("EMEE2", "log relative risk", True, estimate_emee2),
    "dcee": Estimator("linear DCEE", "difference of means", False, estimate_dcee, distal=True),
}
