"""Estimating equations summed over participants: their root, and its covariance corrected for small samples.

All estimators here solve Σ_t D_t r_t(θ) = 0 with a multiplier D_t ∈ ℝᵈ and a scalar residual r_t for every decision point.
With R_t = −∂r_t/∂θ the derivative is A = Σ D_t R_tᵀ and Newton's step A⁻¹ Σ D_t r_t. Mancl and DeRouen's correction replaces
a participant's score u_i = Σ D_t r_t by (I − S_i A⁻¹)⁻¹ u_i, S_i = Σ D_t L_tᵀ, where L_t is the slope of the fitted mean
(R_t unless an estimator says otherwise): a participant pulls the fit towards their own outcomes, and their residuals are too
small by that much. So a participant's influence is (A − S_i)⁻¹ u_i, and no matrix is larger than d × d.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.analysis import Floats
from surefoot.effects.excursion_batch import RowOrder
from surefoot.errors import InputError

STEPS = 200
TOLERANCE = 1e-13
BLOCK_ROWS = 1 << 14
SINGULAR = 1e-11
"""A matrix whose reciprocal condition number, columns scaled alike, is below this has no trustworthy inverse."""


class Evaluation(NamedTuple):
    """Of a block of rows at one θ."""

    multiplier: Floats
    """D, (d, rows)."""
    residual: Floats
    """r, (rows,)."""
    slope: Floats
    """R, (d, rows)."""
    leverage_slope: Floats
    """L, (d, rows)."""


@dataclass(frozen=True, eq=False)
class EstimatingEquation:
    """Σ D_t r_t(θ) = 0 over rows sorted by participant."""

    names: tuple[str, ...]
    evaluate: Callable[[Floats, slice], Evaluation]
    start: Floats


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients of the controls (first, where they are estimated jointly) and of the effect (last)."""

    theta: Floats
    plain: Floats
    """Covariance of `theta`."""
    corrected: Floats
    """The same, corrected for small samples."""
    people: int
    controls: int = 0
    """How many of the coefficients belong to controls."""
    nuisance_names: tuple[str, ...] = ()
    nuisance: Floats | None = None
    is_corrected: bool = True
    """Whether inference rests on the corrected covariance."""

    @property
    def degrees(self) -> int:
        """n − p − q."""
        return self.people - len(self.theta)


def solve(equation: EstimatingEquation, order: RowOrder, back: Floats) -> Estimate:
    """The root and its covariances for columns x, where the equation has the columns Bx; `back` is B."""
    starts = np.flatnonzero(np.diff(order.person, prepend=-1))
    size = len(equation.start)
    if len(starts) <= size:
        raise InputError(
            f"{len(starts)} participants are too few for {size} coefficients ({', '.join(equation.names)}); "
            "name fewer moderators and controls, or wait for more participants"
        )
    blocks = _list_blocks(starts, len(order.person))
    theta = find_root(equation, [rows for _, rows in blocks])
    bread = np.zeros((size, size))
    scores = np.empty((len(starts), size))
    leverage = np.empty((len(starts), size, size))
    for people, rows in blocks:
        evaluation = equation.evaluate(theta, rows)
        first = starts[people] - rows.start
        bread += evaluation.multiplier @ evaluation.slope.T
        scores[people] = np.add.reduceat(evaluation.multiplier * evaluation.residual, first, axis=1).T
        for j in range(size):
            products = evaluation.multiplier[j] * evaluation.leverage_slope
            leverage[people, j] = np.add.reduceat(products, first, axis=1).T
    remainder = np.eye(size) - leverage @ np.linalg.inv(bread)
    alone = np.flatnonzero(np.linalg.cond(remainder) > 1 / SINGULAR)
    if alone.size:
        participant = order.participants[order.person[starts[alone[0]]]].item()
        raise InputError(
            f"participant {participant!r} alone decides a coefficient of {', '.join(equation.names)}, so its uncertainty "
            "cannot be estimated; name fewer moderators and controls",
            participant=participant,
        )
    plain = np.linalg.solve(bread, scores.T).T @ back
    corrected = np.linalg.solve(bread, np.linalg.solve(remainder, scores[:, :, None])[:, :, 0].T).T @ back
    return Estimate(back.T @ theta, plain.T @ plain, corrected.T @ corrected, len(starts))


def _list_blocks(starts: NDArray[np.int64], rows: int) -> list[tuple[slice, slice]]:
    """Participants, and their rows, in blocks that stay in the processor's cache."""
    first = np.unique(np.searchsorted(starts, np.arange(0, rows, BLOCK_ROWS)))
    first = np.append(first[first < len(starts)], len(starts))
    edges = np.append(starts, rows)
    return [(slice(a, b), slice(edges[a], edges[b])) for a, b in itertools.pairwise(first.tolist())]


def find_root(equation: EstimatingEquation, blocks: Sequence[slice]) -> Floats:
    """Newton's method; a step that makes the equations worse is halved."""
    theta = equation.start
    score, bread = _sum_blocks(equation, theta, blocks)
    for _ in range(STEPS):
        _refuse_singular(bread, equation.names)
        step = np.linalg.solve(bread, score)
        size = np.linalg.norm(score)
        if np.abs(step).max() <= TOLERANCE * (1 + np.abs(theta).max()):
            return np.asarray(theta + step)
        for _ in range(30):
            with np.errstate(over="ignore", invalid="ignore"):
                score, bread = _sum_blocks(equation, theta + step, blocks)
            # At the root rounding decides; a step that small is taken in any case.
            if np.linalg.norm(score) <= size or np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
                break
            step = step / 2
        theta = theta + step
    raise InputError(
        f"the estimating equations for {', '.join(equation.names)} have no root that could be found; perhaps the outcome "
        "hardly varies under one action: name fewer moderators and controls"
    )


def _sum_blocks(equation: EstimatingEquation, theta: Floats, blocks: Sequence[slice]) -> tuple[Floats, Floats]:
    """Σ D r and Σ D Rᵀ."""
    score = np.zeros(len(theta))
    bread = np.zeros((len(theta), len(theta)))
    for rows in blocks:
        evaluation = equation.evaluate(theta, rows)
        score += evaluation.multiplier @ evaluation.residual
        bread += evaluation.multiplier @ evaluation.slope.T
    return score, bread


def _refuse_singular(bread: Floats, names: tuple[str, ...]) -> None:
    scale = np.sqrt(np.abs(np.diagonal(bread)))
    if not (np.isfinite(bread).all() and (scale > 0).all()):
        zero = [name for name, size in zip(names, scale, strict=True) if not size > 0]
        raise InputError(f"{zero or list(names)} cannot be estimated: it never varies among the rows that count")
    _, values, vectors = np.linalg.svd(bread / np.outer(scale, scale))
    if values[-1] < SINGULAR * values[0]:
        tied = [name for name, weight in zip(names, vectors[-1], strict=True) if abs(weight) > 1e-3]
        raise InputError(f"{tied} say the same among the rows that count, so no effect of each exists; name fewer of them")
