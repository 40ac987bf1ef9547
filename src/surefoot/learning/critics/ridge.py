"""Ridge: weighted least squares for all people of a block at once, and the critic before the paper.

Whatever the order of the axes, the solvers keep the values of one feature side by side in memory, where passes over them
are fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from array_api_compat import device

from surefoot.learning.batch import Batch
from surefoot.learning.critics.critic import Critic, CriticFit, register_critic
from surefoot.numerics.arrays import Array, array_namespace, split_people
from surefoot.numerics.batched_cholesky import Cholesky, solve

SHAKY_PIVOT = 1e-3
CORRECTIONS = 3
"""Below this pivot a solution gets this many correction steps."""


def residuals(features: Array, rewards: Array, coef: Array) -> Array:
    """r − Xw of every decision point, (people, decision points)."""
    xp = array_namespace(features)
    return rewards - xp.matmul(features, coef[..., None])[..., 0]


def ridge(features: Array, rewards: Array, weights: Array, penalty: Array) -> Array:
    """Weighted ridge coefficients w = (XᵀUX + diag(ζ))⁻¹ XᵀU r; `penalty` is ζ of every feature, also per participant.

    >>> import numpy as np
    >>> x, r = np.ones((1, 4, 1)), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> ridge(x, r, np.ones((1, 4)), np.zeros(1))
    array([[2.5]])
    """
    return fit_ridge(features, rewards, weights, penalty=penalty).coef


def join_rewards(features: Array, rewards: Array) -> Array:
    """[r, X] with the decision points side by side, (people, 1 + features, decision points): all products of a fit are
    products with it."""
    xp = array_namespace(features)
    return xp.concat([rewards[:, None, :], xp.matrix_transpose(features)], axis=1)


def joined_residuals(joined: Array, coef: Array) -> Array:
    """r − Xw from [r, X], (people, decision points)."""
    xp = array_namespace(joined)
    return (xp.concat([xp.ones_like(coef[:, :1]), -coef], axis=1)[:, None, :] @ joined)[:, 0, :]


def weighted_moments(joined: Array, weights: Array, arms: int) -> tuple[Array, Array]:
    """XᵀUX and XᵀUr.

    With arms X is [b, 1{a=1}·b, …], so that every product of two features is one of b with a feature, or zero.
    """
    xp = array_namespace(joined)
    people, columns, points = joined.shape
    d = columns - 1
    size = d // arms
    products = xp.empty((people, size + 1, columns), dtype=joined.dtype, device=device(joined))
    for chunk in split_people(joined, columns * points):
        rows = joined[chunk]
        products[chunk] = (rows[:, : size + 1, :] * weights[chunk][:, None, :]) @ xp.matrix_transpose(rows)
    squares = xp.zeros((people, d, d), dtype=joined.dtype, device=device(joined))
    squares[:, :size, :] = products[:, 1:, 1:]
    for arm in (slice(start, start + size) for start in range(size, d, size)):
        squares[:, arm, :size] = squares[:, :size, arm]
        squares[:, arm, arm] = squares[:, :size, arm]
    return squares, products[:, 0, 1:]


def solve_ridge(joined: Array, weights: Array, penalty: Array, arms: int) -> tuple[Array, Array]:
    """Ridge coefficients and XᵀUX from [r, X].

    Forming XᵀUX costs digits when features are nearly dependent. For people whose features are, correction steps with the
    residuals of the data bring them back (the corrected semi-normal equations of Björck).
    """
    xp = array_namespace(joined)
    squares, right = weighted_moments(joined, weights, arms)
    penalty = xp.broadcast_to(penalty, right.shape)
    shrink = penalty[:, None, :] * xp.eye(squares.shape[-1], dtype=squares.dtype, device=device(squares))
    penalised = squares + shrink
    solution, smallest_pivot, _ = solve(penalised, right[..., None])
    coef = solution[..., 0]
    shaky = xp.nonzero(smallest_pivot < SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        parts = (part[shaky] for part in (joined, weights, penalised, right, penalty))
        coef[shaky] = solve_corrected(*parts)
    return coef, squares


def solve_corrected(joined: Array, weights: Array, penalised: Array, right: Array, penalty: Array) -> Array:
    """Ridge coefficients of people whose features are nearly dependent; `penalised` is XᵀUX + diag(ζ), `right` XᵀUr."""
    factored = Cholesky(penalised)
    coef = factored.solve(right)
    for _ in range(CORRECTIONS):
        pull = joined[:, 1:, :] @ (weights * joined_residuals(joined, coef))[..., None]
        coef = coef + factored.solve(pull[..., 0] - penalty * coef)
    return coef


def fit_ridge(features: Array, rewards: Array, weights: Array, *, penalty: Array, arms: int = 1) -> CriticFit:
    """Weighted ridge regression of every participant: each decision point counts as much as its weight says.

    Parameters
    ----------
    features
        X, (people, decision points, features).
    rewards
        r, (people, decision points).
    weights
        u, (people, decision points); 0 where a decision point does not count.
    penalty
        ζ of every feature, (features,) or (people, features).
    arms
        The number of actions if X is [b, 1{a=1}·b, …], the same features b once for all and once for each further action,
        which saves time.

    Returns
    -------
    CriticFit

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((1, 4))
    >>> fit_ridge(ones[..., None], np.array([[1.0, 2.0, 3.0, 4.0]]), ones, penalty=np.zeros(1)).coef
    array([[2.5]])
    """
    xp = array_namespace(features)
    coef, squares = solve_ridge(join_rewards(features, rewards), weights, penalty, arms)
    ones = xp.ones_like(coef[:, 0])
    return CriticFit(coef, squares, weights, ones * xp.inf, xp.astype(ones, xp.int64), ones > 0)


@register_critic
@dataclass(frozen=True)
class Ridge(Critic):
    """w = (XᵀUX + ζI)⁻¹ XᵀU r: the state of the art before the paper. Every usable decision point counts."""

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "ridge"
    weighs_rows: ClassVar[bool] = False

    def fit(self, batch: Batch) -> CriticFit:
        return fit_ridge(batch.features, batch.reward, batch.weights, penalty=batch.penalty, arms=batch.arms)
