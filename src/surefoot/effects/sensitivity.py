"""Huber's and Tukey's losses in place of squares: a sensitivity analysis, of another estimand.

They are valid under no effect and under a constant shift. Where a prompt makes a few people walk a lot, the mean moves and
they hardly do: never the headline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.estimating_equations import Evaluation, solve
from surefoot.effects.estimators import ExcursionEstimate, StandardisedRows, linear_equation
from surefoot.effects.sample_quality import NORMAL_MAD
from surefoot.effects.trial_rows import TrialRows
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


def estimate_robustly(points: TrialRows, loss: str) -> ExcursionEstimate:
    """WCLS with a robust loss, the scale fixed at 1.4826 MAD of the residuals of plain WCLS."""
    if loss not in ROBUST_LOSSES:
        raise InputError(
            f"no robust loss '{loss}'{did_you_mean(loss, ROBUST_LOSSES)}; choose from {list(ROBUST_LOSSES)}. Leaving out "
            "what a robust fit left over and analysing the rest is refused: whether a row is left out depends on the "
            "outcome, and so on treatment"
        )
    data = StandardisedRows.of(points)
    every, plain = slice(0, len(data.points)), linear_equation(data)
    start = solve(plain, data.points.order).theta
    residual = plain.evaluate(start, every).residual
    scale = NORMAL_MAD * np.median(np.abs(residual - np.median(residual)))
    if scale == 0:
        raise InputError("more than half of the residuals are equal: there is no robust scale; leave the robust losses out")

    def influence(residuals: Matrix) -> tuple[Matrix, Matrix]:
        value, derivative = ROBUST_LOSSES[loss].influence(residuals / scale)
        return scale * value, derivative

    return data.solve(linear_equation(data, influence, _reweight(plain.evaluate(start, every), influence, start)))


def _reweight(rows: Evaluation, influence: Callable[[Matrix], tuple[Matrix, Matrix]], start: Matrix) -> Matrix:
    """Least squares with weights ψ(r)/r until nothing moves: goes down whatever the loss, where Newton's steps may not."""
    theta, residual = start, rows.residual
    for _ in range(STEPS):
        value, _ = influence(residual)
        weight = np.divide(value, residual, out=np.ones_like(value), where=residual != 0)
        multiplier = rows.multiplier * weight
        step = np.linalg.solve(multiplier @ rows.slope.T, multiplier @ residual)
        theta, residual = theta + step, residual - step @ rows.slope
        if np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
            break
    return theta
