"""Least trimmed squares in one arm, for all people of a block at once: the fit to the half that leaves the least.

Arrays are [r, X] as (people, 1 + features, decision points), made by `stack_features`; further sets of weights, of
coefficients or of residuals go before the people.
"""

from __future__ import annotations

from array_api_compat import device

from surefoot.learning.critics.ridge import SHAKY_PIVOT, solve_corrected
from surefoot.numerics.arrays import Array, array_namespace, take_people
from surefoot.numerics.batched_cholesky import solve
from surefoot.numerics.masked_quantiles import SmallestHalf, median, quantiles

ABSOLUTE_STEPS = 6
CONCENTRATION_STEPS = 3


def fit_sets(joined: Array, weights: Array) -> Array:
    """Coefficients (sets, people, features) of weighted least squares of [r, X], for several sets of weights (sets, people,
    decision points)."""
    xp = array_namespace(joined)
    sets, people, points = weights.shape
    x = joined[:, 1:, :]
    turned = xp.matrix_transpose(joined)
    products = xp.concat([(x * weights[index, :, None, :]) @ turned for index in range(sets)])
    squares = products[:, :, 1:]
    right = products[:, :, 0]
    solution, smallest_pivot, _ = solve(squares, products[:, :, :1])
    coef = solution[..., 0]
    shaky = xp.nonzero(smallest_pivot < SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        u = xp.reshape(weights, (sets * people, points))[shaky]
        nothing = xp.zeros_like(right[shaky])
        coef[shaky] = solve_corrected(joined[shaky % people], u, squares[shaky], right[shaky], nothing)
    return xp.reshape(coef, (sets, people, -1))


def find_residuals(joined: Array, coef: Array) -> Array:
    """r − Xw of every set of coefficients (sets, people, features), (sets, people, decision points)."""
    xp = array_namespace(joined)
    return (xp.concat([xp.ones_like(coef[..., :1]), -coef], axis=-1)[..., None, :] @ joined)[..., 0, :]


def fit_residuals(joined: Array, weights: Array) -> Array:
    """Residuals of every decision point from weighted least squares of [r, X]."""
    u = array_namespace(joined).astype(weights, joined.dtype)
    return find_residuals(joined, fit_sets(joined, u[None, ...]))[0]


def sum_squares(values: Array) -> Array:
    """Along the last axis."""
    return (values[..., None, :] @ values[..., :, None])[..., 0, 0]


def fit_trimmed(joined: Array, arm: Array) -> Array:
    """Residuals from least trimmed squares: the fit to half of the arm that leaves the smallest sum of squares there.

    The starts are least absolute deviations and the same moved to the lower and to the upper quartile of its residuals:
    where two fifths of the arm are displaced, one of these lies in the midst of the others.
    """
    xp = array_namespace(joined)
    absolute = _fit_absolute(joined, arm)
    low, high = (xp.where(xp.isfinite(quartile), quartile, 0.0) for quartile in quantiles(absolute, arm, (0.25, 0.75)))
    left = absolute - xp.stack([xp.zeros_like(low), low, high])[..., None]
    smallest = SmallestHalf.of_present(arm, joined.shape[1] - 1, joined.dtype)
    halves = smallest.choose(xp.abs(left))
    for _ in range(2):
        left = find_residuals(joined, fit_sets(joined, xp.astype(halves, joined.dtype)))
        halves = smallest.choose(xp.abs(left))
    best = xp.argmin(sum_squares(left * xp.astype(halves, left.dtype)), axis=0)
    return concentrate(joined, smallest, halves[best, xp.arange(arm.shape[0], device=device(joined))])


def _fit_absolute(joined: Array, arm: Array) -> Array:
    """Residuals from least absolute deviations, nearly: least squares weighted anew a few times."""
    xp = array_namespace(joined)
    centre = median(joined[:, 0, :], arm)
    residuals = joined[:, 0, :] - xp.where(xp.isfinite(centre), centre, 0.0)[:, None]
    typical = median(xp.abs(residuals), arm)
    least = xp.where(xp.isfinite(typical) & (typical > 0), 1e-3 * typical, 1.0)[:, None]
    counts = xp.astype(arm, joined.dtype)
    for _ in range(ABSOLUTE_STEPS):
        residuals = fit_residuals(joined, counts / xp.maximum(xp.abs(residuals), least))
    return residuals


def concentrate(joined: Array, smallest: SmallestHalf, half: Array) -> Array:
    """Residuals after concentration steps from half of the arm; whose half stays as it is costs no more time."""
    xp = array_namespace(joined)
    residuals = left = fit_residuals(joined, half)
    moving = xp.arange(half.shape[0], device=device(joined))
    for _ in range(CONCENTRATION_STEPS - 1):
        after = smallest.choose(xp.abs(left))
        changed = xp.nonzero(xp.any(after != half, axis=1))[0]
        if not changed.shape[0]:
            break
        moving = moving[changed]
        joined = take_people(joined, changed)
        smallest = smallest.of(changed)
        half = after[changed]
        residuals[moving] = left = fit_residuals(joined, half)
    return residuals
