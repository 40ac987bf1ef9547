"""Critics: who estimates the expected reward x(s, a)ᵀw, for all people of a block at once.

Arrays are (people, decision points, features); `weights` is zero on padding and on decision points that cannot be used,
so ragged people and
removed outliers are the same thing to the solvers. Everything is written to the array API standard. Whatever the order of
the axes, the solvers let the values of one feature lie side by side in memory, where passes over them are fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
from surefoot.numerics.batched_cholesky import Cholesky, solve
from surefoot.numerics.masked_quantiles import quantiles

SHAKY_PIVOT = 1e-3
CORRECTIONS = 3
"""Below this pivot a solution gets so many correction steps."""


@dataclass(frozen=True)
class CriticFit(PerParticipant):
    """What a critic found for each participant of a block."""

    coef: Array
    """w, (people, features)."""
    gram: Array
    """XᵀUX with the weights of the end, (people, features, features)."""
    weights: Array
    """The weight every decision point had in the end, (people, decision points)."""
    threshold: Array
    """ε, (people,); +∞ where nothing was capped."""
    n_iter: Array
    """How many weighted least-squares fits it took, (people,)."""
    converged: Array
    """Whether the weights stopped changing, (people,)."""


def residuals(features: Array, rewards: Array, coef: Array) -> Array:
    """r − Xw of every decision point, (people, decision points)."""
    xp = array_namespace(features)
    return rewards - xp.matmul(features, coef[..., None])[..., 0]


def ridge(features: Array, rewards: Array, weights: Array, penalty: Array) -> Array:
    """Weighted ridge coefficients w = (XᵀUX + diag(ζ))⁻¹ XᵀU r; `penalty` is (features,).

    >>> import numpy as np
    >>> x, r = np.ones((1, 4, 1)), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> ridge(x, r, np.ones((1, 4)), np.zeros(1))
    array([[2.5]])
    """
    return fit_ridge(features, rewards, weights, penalty=penalty).coef


def _joined(features: Array, rewards: Array) -> Array:
    """[r, X] with the decision points side by side, (people, 1 + features, decision points): all products of a fit are
    products with it."""
    xp = array_namespace(features)
    return xp.concat([rewards[:, None, :], xp.matrix_transpose(features)], axis=1)


def _residuals(joined: Array, coef: Array) -> Array:
    xp = array_namespace(joined)
    return (xp.concat([xp.ones_like(coef[:, :1]), -coef], axis=1)[:, None, :] @ joined)[:, 0, :]


def _moments(joined: Array, weights: Array, arms: int) -> tuple[Array, Array]:
    """XᵀUX and XᵀUr.

    With arms X is [b, 1{a=1}·b, …], so that every product of two features is one of b with a feature, or zero.
    """
    xp = array_namespace(joined)
    d = joined.shape[1] - 1
    size = d // arms
    products = (joined[:, : size + 1, :] * weights[:, None, :]) @ xp.matrix_transpose(joined)
    squares = xp.zeros((joined.shape[0], d, d), dtype=joined.dtype, device=device(joined))
    squares[:, :size, :] = products[:, 1:, 1:]
    for arm in (slice(start, start + size) for start in range(size, d, size)):
        squares[:, arm, :size] = squares[:, :size, arm]
        squares[:, arm, arm] = squares[:, :size, arm]
    return squares, products[:, 0, 1:]


def _solve(joined: Array, weights: Array, penalty: Array, arms: int) -> tuple[Array, Array]:
    """Ridge coefficients and XᵀUX from [r, X].

    Forming XᵀUX costs digits when features are nearly dependent. For people whose features are, correction steps with the
    residuals of the data bring them back (the corrected semi-normal equations of Björck).
    """
    xp = array_namespace(joined)
    squares, right = _moments(joined, weights, arms)
    shrink = penalty * xp.eye(squares.shape[-1], dtype=squares.dtype, device=device(squares))
    solution, smallest_pivot, _ = solve(squares + shrink, right[..., None])
    coef = solution[..., 0]
    shaky = xp.nonzero(smallest_pivot < SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        own, u, again = joined[shaky], weights[shaky], Cholesky(squares[shaky] + shrink)
        w = again.solve(right[shaky])
        for _ in range(CORRECTIONS):
            pull = own[:, 1:, :] @ (u * _residuals(own, w))[..., None]
            w = w + again.solve(pull[..., 0] - penalty * w)
        coef[shaky] = w
    return coef, squares


def fit_ridge(features: Array, rewards: Array, weights: Array, *, penalty: Array, arms: int = 1) -> CriticFit:
    """The critic before the paper: every usable decision point counts, whatever it says.

    `arms` may tell that X is [b, 1{a=1}·b, …], the same features b once for all and once for each further action, which
    saves time.
    """
    xp = array_namespace(features)
    coef, squares = _solve(_joined(features, rewards), weights, penalty, arms)
    ones = xp.ones_like(coef[:, 0])
    return CriticFit(coef, squares, weights, ones * xp.inf, xp.astype(ones, xp.int64), ones > 0)


def boxplot_threshold(squared_residuals: Array, rewards: Array, weights: Array, tau: float) -> Array:
    """ε = τ (q₃ + 1.5 (q₃ − q₁)) over each participant's usable squared residuals, (people,).

    Residuals below 1e-13 of the largest reward are rounding, not information: ε never falls below their square, so that a
    perfect fit keeps its decision points.
    """
    xp = array_namespace(squared_residuals)
    usable = weights > 0
    first, third = quantiles(squared_residuals, usable, (0.25, 0.75))
    # A participant with no usable decision point has quartiles of +∞, and so no cap.
    fence = third + 1.5 * (third - xp.where(xp.isfinite(first), first, xp.zeros_like(first)))
    largest = xp.max(xp.abs(rewards) * weights, axis=1)
    rounding = (1e-13 * largest) ** 2 + float(xp.finfo(rewards.dtype).smallest_normal)
    return xp.maximum(tau * fence, rounding)


def capped_objective(
    features: Array, rewards: Array, weights: Array, coef: Array, threshold: Array, penalty: Array
) -> Array:
    """Σ_i v_i min{(r_i − x_iᵀw)², ε} + Σ_j ζ_j w_j² for each participant, v the weights that mark usable decision points."""
    xp = array_namespace(features)
    capped = xp.minimum(residuals(features, rewards, coef) ** 2, threshold[:, None])
    return xp.sum(weights * capped, axis=1) + xp.sum(penalty * coef**2, axis=1)


def fit_capped(
    features: Array,
    rewards: Array,
    weights: Array,
    *,
    penalty: Array,
    arms: int = 1,
    tau: float = 1.0,
    refresh_threshold: bool = False,
    max_iter: int = 1000,
) -> CriticFit:
    """The paper's critic: minimise Σ min{(r − xᵀw)², ε} + ζ‖w‖² by dropping decision points beyond ε and fitting again.

    With ε held at its first value the objective cannot rise and the loop ends. With `refresh_threshold` ε follows the
    residuals of every fit; that can cycle, and a participant caught in a cycle goes on with ε as it then is. `arms` is as in
    `fit_ridge`.
    """
    xp = array_namespace(features)
    own, v = _joined(features, rewards), weights
    w, squares = _solve(own, v, penalty, arms)
    squared = _residuals(own, w) ** 2
    epsilon = boxplot_threshold(squared, rewards, v, tau)
    u = xp.where(squared < epsilon[:, None], v, 0.0)
    active = xp.arange(w.shape[0], device=device(w))
    found = CriticFit(*(xp.empty_like(part) for part in (w, squares, u, epsilon, active, active < 0)))
    # Brent's cycle detection: one remembered set of weights, renewed at every power of two.
    remembered, refreshing = u, xp.full(w.shape[0], refresh_threshold, dtype=xp.bool, device=device(w))
    for iteration in range(2, max_iter + 1):
        w, squares = _solve(own, u, penalty, arms)
        squared = _residuals(own, w) ** 2
        if refresh_threshold:
            epsilon = xp.where(refreshing, boxplot_threshold(squared, own[:, 0, :], v, tau), epsilon)
        renewed = xp.where(squared < epsilon[:, None], v, 0.0)
        changed = xp.any(renewed != u, axis=1)
        if refresh_threshold:
            refreshing = refreshing & xp.any(renewed != remembered, axis=1)
            remembered = renewed if iteration & (iteration - 1) == 0 else remembered
        ended = ~changed
        if xp.any(ended):
            fit = CriticFit(w, squares, u, epsilon, xp.full_like(active, iteration), ended)
            found.record(active[ended], fit.of(ended))
            active, own, v, w, renewed, epsilon = (part[changed] for part in (active, own, v, w, renewed, epsilon))
            if refresh_threshold:
                remembered, refreshing = remembered[changed], refreshing[changed]
        u = renewed
        if not active.shape[0]:
            return found
    squares = _moments(own, u, arms)[0]
    found.record(active, CriticFit(w, squares, u, epsilon, xp.full_like(active, max_iter), active < 0))
    return found
