"""Huber's and Tukey's losses in place of squares: a sensitivity analysis, of another estimand.

They are valid under no effect and under a constant shift. Where a prompt makes a few people walk a lot, the mean moves and
they hardly do: never the headline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.decision_points import DecisionPoints
from surefoot.effects.estimating_equations import solve
from surefoot.effects.estimators import Estimate, linear_equation, solve_jointly, standardise
from surefoot.effects.sample_quality import NORMAL_MAD
from surefoot.errors import InputError, did_you_mean

Matrix = NDArray[np.float64]
STEPS = 500


def _huber(scaled: Matrix) -> tuple[Matrix, Matrix]:
    return np.clip(scaled, -1.345, 1.345), (np.abs(scaled) <= 1.345).astype(np.float64)


def _bisquare(scaled: Matrix) -> tuple[Matrix, Matrix]:
    inside = np.maximum(1 - (scaled / 4.685) ** 2, 0.0)
    return scaled * inside**2, inside * (1 - 5 * (scaled / 4.685) ** 2)


@dataclass(frozen=True)
class RobustLoss:
    """ψ and ψ′ of standardised residuals."""

    label: str
    influence: Callable[[Matrix], tuple[Matrix, Matrix]]


ROBUST_LOSSES = {
    "huber": RobustLoss("Huber", _huber),
    "bisquare": RobustLoss("bisquare", _bisquare),
}


def estimate_robustly(points: DecisionPoints, loss: str) -> Estimate:
    """WCLS with a robust loss, the scale fixed at 1.4826 MAD of the residuals of plain WCLS."""
    if loss not in ROBUST_LOSSES:
        raise InputError(
            f"no robust loss '{loss}'{did_you_mean(loss, ROBUST_LOSSES)}; choose from {list(ROBUST_LOSSES)}. Leaving out "
            "what a robust fit left over and analysing the rest is refused: whether a row is left out depends on the "
            "outcome, and so on treatment"
        )
    points, back = standardise(points)
    start = solve(linear_equation(points), points.order).theta
    residual = linear_equation(points).evaluate(start).residual
    scale = NORMAL_MAD * np.median(np.abs(residual - np.median(residual)))
    if scale == 0:
        raise InputError("more than half of the residuals are equal: there is no robust scale; leave the robust losses out")

    def influence(residuals: Matrix) -> tuple[Matrix, Matrix]:
        value, derivative = ROBUST_LOSSES[loss].influence(residuals / scale)
        return scale * value, derivative

    start = _reweight(points, influence, start)
    return solve_jointly(points, linear_equation(points, influence, start), back)


def _reweight(points: DecisionPoints, influence: Callable[[Matrix], tuple[Matrix, Matrix]], theta: Matrix) -> Matrix:
    """Least squares with weights ψ(r)/r until nothing moves: goes down whatever the loss, where Newton's steps may not."""
    equation = linear_equation(points)
    for _ in range(STEPS):
        found = equation.evaluate(theta)
        value, _ = influence(found.residual)
        weight = np.divide(value, found.residual, out=np.ones_like(value), where=found.residual != 0)
        multiplier = equation.multiplier * weight
        step = np.linalg.solve(multiplier @ found.slope.T, multiplier @ found.residual)
        theta = theta + step
        if (np.abs(step) <= 1e-9 * (1 + np.abs(theta))).all():
            break
    return theta
