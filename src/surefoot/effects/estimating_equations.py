"""Estimating equations summed over participants: their root, and its covariance corrected for small samples.

All estimators here solve Σ_t D_t r_t(θ) = 0 with a multiplier D_t ∈ ℝᵈ and a scalar residual r_t for every decision point.
With R_t = −∂r_t/∂θ the derivative is A = Σ D_t R_tᵀ and Newton's step A⁻¹ Σ D_t r_t. Mancl and DeRouen's correction replaces
a participant's score u_i = Σ D_t r_t by (I − S_i A⁻¹)⁻¹ u_i, S_i = Σ D_t L_tᵀ, where L_t is the slope of the fitted mean
(R_t unless an estimator says otherwise): a participant pulls the fit towards their own outcomes, and their residuals are too
small by that much. So a participant's influence is (A − S_i)⁻¹ u_i, and no matrix is larger than d × d.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.trial_rows import RowOrder
from surefoot.errors import InputError

Matrix = NDArray[np.float64]
STEPS = 200
TOLERANCE = 1e-13
BLOCK_ROWS = 1 << 14
SINGULAR = 1e-11
"""A matrix whose reciprocal condition number, columns scaled alike, is below this has no trustworthy inverse."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Of some rows at one θ."""

    multiplier: Matrix
    """D, (d, rows)."""
    residual: Matrix
    """r, (rows,)."""
    slope: Matrix
    """R, (d, rows)."""
    leverage_slope: Matrix
    """L, (d, rows)."""


@dataclass(frozen=True, eq=False)
class EstimatingEquation:
    """Σ D_t r_t(θ) = 0 over rows sorted by participant."""

    names: tuple[str, ...]
    evaluate: Callable[[Matrix, slice], Evaluation]
    start: Matrix


@dataclass(frozen=True, eq=False)
class Root:
    """θ̂ with its plain and its corrected covariance."""

    theta: Matrix
    plain: Matrix
    corrected: Matrix
    people: int

    def map_back(self, back: Matrix) -> Root:
        """For columns x where the equation was solved for columns Bx: Bᵀθ̂ with its covariances."""
        return Root(back.T @ self.theta, back.T @ self.plain @ back, back.T @ self.corrected @ back, self.people)


def solve(equation: EstimatingEquation, order: RowOrder) -> Root:
    """The root and its covariances; `order` says whose the equation's rows are."""
    starts, size = np.flatnonzero(np.diff(order.person, prepend=-1)), len(equation.start)
    if len(starts) <= size:
        raise InputError(
            f"{len(starts)} participants are too few for {size} coefficients ({', '.join(equation.names)}); "
            "name fewer moderators and controls, or wait for more participants"
        )
    blocks = _blocks(starts, len(order.person))
    theta = _find_root(equation, [rows for _, rows in blocks])
    bread, scores, own = np.zeros((size, size)), np.empty((len(starts), size)), np.empty((len(starts), size, size))
    for people, rows in blocks:
        found, first = equation.evaluate(theta, rows), starts[people] - rows.start
        bread += found.multiplier @ found.slope.T
        scores[people] = np.add.reduceat(found.multiplier * found.residual, first, axis=1).T
        for j in range(size):
            own[people, j] = np.add.reduceat(found.multiplier[j] * found.leverage_slope, first, axis=1).T
    kept = np.eye(size) - own @ np.linalg.inv(bread)
    alone = np.flatnonzero(np.linalg.cond(kept) > 1 / SINGULAR)
    if alone.size:
        who = order.participants[order.person[starts[alone[0]]]].item()
        raise InputError(
            f"participant {who!r} alone decides a coefficient of {', '.join(equation.names)}, so its uncertainty cannot be "
            "estimated; name fewer moderators and controls",
            participant=who,
        )
    plain = np.linalg.solve(bread, scores.T).T
    corrected = np.linalg.solve(bread, np.linalg.solve(kept, scores[:, :, None])[:, :, 0].T).T
    return Root(theta, plain.T @ plain, corrected.T @ corrected, len(starts))


def _blocks(starts: NDArray[np.int64], rows: int) -> list[tuple[slice, slice]]:
    """Participants, and their rows, in blocks that stay in the processor's cache."""
    first = np.unique(np.searchsorted(starts, np.arange(0, rows, BLOCK_ROWS)))
    first = np.append(first[first < len(starts)], len(starts))
    edges = np.append(starts, rows)
    return [(slice(a, b), slice(edges[a], edges[b])) for a, b in itertools.pairwise(first.tolist())]


def _find_root(equation: EstimatingEquation, blocks: list[slice]) -> Matrix:
    """Newton's method; a step that makes the equations worse is halved."""
    theta = equation.start
    score, bread = _score_and_bread(equation, theta, blocks)
    for _ in range(STEPS):
        _refuse_singular(bread, equation)
        step, size = np.linalg.solve(bread, score), np.linalg.norm(score)
        if np.abs(step).max() <= TOLERANCE * (1 + np.abs(theta).max()):
            return np.asarray(theta + step)
        for _ in range(30):
            with np.errstate(over="ignore", invalid="ignore"):
                score, bread = _score_and_bread(equation, theta + step, blocks)
            # At the root rounding decides; a step that small is taken whatever it does.
            if np.linalg.norm(score) <= size or np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
                break
            step = step / 2
        theta = theta + step
    raise InputError(
        f"the estimating equations for {', '.join(equation.names)} have no root that could be found; perhaps the outcome "
        "hardly varies under one action: name fewer moderators and controls"
    )


def _score_and_bread(equation: EstimatingEquation, theta: Matrix, blocks: list[slice]) -> tuple[Matrix, Matrix]:
    """Σ D r and Σ D Rᵀ."""
    score, bread = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
    for rows in blocks:
        found = equation.evaluate(theta, rows)
        score += found.multiplier @ found.residual
        bread += found.multiplier @ found.slope.T
    return score, bread


def _refuse_singular(bread: Matrix, equation: EstimatingEquation) -> None:
    scale = np.sqrt(np.abs(np.diagonal(bread)))
    if not (np.isfinite(bread).all() and (scale > 0).all()):
        zero = [name for name, size in zip(equation.names, scale, strict=True) if not size > 0]
        raise InputError(f"{zero or list(equation.names)} cannot be estimated: it never varies among the rows that count")
    _, values, vectors = np.linalg.svd(bread / np.outer(scale, scale))
    if values[-1] < SINGULAR * values[0]:
        tied = [name for name, part in zip(equation.names, vectors[-1], strict=True) if abs(part) > 1e-3]
        raise InputError(f"{tied} say the same among the rows that count, so no effect of each exists; name fewer of them")
