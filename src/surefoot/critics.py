"""Critics: who estimates the expected reward x(s, a)ᵀw, for all people of a block at once.

Arrays are (people, tuples, features); `weights` is zero on padding and on tuples that cannot be used, so ragged people and
removed outliers are the same thing to the solvers. Everything is written to the array API standard.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace, device

from surefoot.cholesky import Array, Cholesky
from surefoot.order_statistics import quantiles

SHAKY_PIVOT = 1e-3
CORRECTIONS = 3
"""Below this pivot a solution gets so many correction steps."""


@dataclass(frozen=True)
class CriticFit:
    """What a critic found for each person of a block."""

    coef: Array
    """w, (people, features)."""
    weights: Array
    """The weight every tuple had in the end, (people, tuples)."""
    threshold: Array
    """ε, (people,); +∞ where nothing was capped."""
    n_iter: Array
    """How many weighted least-squares fits it took, (people,)."""
    converged: Array
    """Whether the weights stopped changing, (people,)."""


def gram(features: Array, weights: Array) -> Array:
    """XᵀUX of every person, (people, features, features)."""
    xp = array_namespace(features)
    return xp.matmul(xp.matrix_transpose(features * weights[..., None]), features)


def residuals(features: Array, rewards: Array, coef: Array) -> Array:
    """r − Xw of every tuple, (people, tuples)."""
    xp = array_namespace(features)
    return rewards - xp.matmul(features, coef[..., None])[..., 0]


def ridge(features: Array, rewards: Array, weights: Array, penalty: Array) -> Array:
    """Weighted ridge coefficients w = (XᵀUX + diag(ζ))⁻¹ XᵀU r; `penalty` is (features,).

    >>> import numpy as np
    >>> x, r = np.ones((1, 4, 1)), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> ridge(x, r, np.ones((1, 4)), np.zeros(1))
    array([[2.5]])
    """
    joined = _joined(features, rewards)
    return _solve(joined, weights, penalty)


def _joined(features: Array, rewards: Array) -> Array:
    """[X, r]: its Gram matrix holds XᵀUX and XᵀUr, and residuals are its product with (−w, 1)."""
    return array_namespace(features).concat([features, rewards[..., None]], axis=-1)


def _residuals(joined: Array, coef: Array) -> Array:
    xp = array_namespace(joined)
    return (joined @ xp.concat([-coef, xp.ones_like(coef[:, :1])], axis=-1)[..., None])[..., 0]


def _solve(joined: Array, weights: Array, penalty: Array) -> Array:
    """Ridge coefficients from [X, r].

    Forming XᵀUX costs digits when features are nearly dependent. For people whose features are, correction steps with the
    residuals of the data bring them back (the corrected semi-normal equations of Björck).
    """
    xp = array_namespace(joined)
    moments = gram(joined, weights)
    size = moments.shape[-1] - 1
    eye = xp.eye(size, dtype=moments.dtype, device=device(moments))
    system = Cholesky(moments[:, :size, :size] + penalty * eye)
    # A copy, because the layout of a slice would decide how later products are rounded.
    coef = system.solve(xp.asarray(moments[:, :size, size], copy=True))
    shaky = xp.nonzero(system.smallest_pivot < SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        own, u, w = joined[shaky], weights[shaky], coef[shaky]
        again = Cholesky(moments[shaky, :size, :size] + penalty * eye)
        for _ in range(CORRECTIONS):
            pull = xp.matrix_transpose(own[..., :size]) @ (u * _residuals(own, w))[..., None]
            w = w + again.solve(pull[..., 0] - penalty * w)
        coef[shaky] = w
    return coef


def fit_ridge(features: Array, rewards: Array, weights: Array, *, penalty: Array) -> CriticFit:
    """The critic before the paper: every usable tuple counts, whatever it says."""
    xp = array_namespace(features)
    coef = ridge(features, rewards, weights, penalty)
    ones = xp.ones_like(coef[:, 0])
    return CriticFit(coef, weights, ones * xp.inf, xp.astype(ones, xp.int64), ones > 0)


def boxplot_threshold(squared_residuals: Array, rewards: Array, weights: Array, tau: float) -> Array:
    """ε = τ (q₃ + 1.5 (q₃ − q₁)) over each person's usable squared residuals, (people,).

    Residuals below 1e-13 of the largest reward are rounding, not information: ε never falls below their square, so that a
    perfect fit keeps its tuples.
    """
    xp = array_namespace(squared_residuals)
    usable = weights > 0
    first, third = quantiles(squared_residuals, usable, (0.25, 0.75))
    # A person with no usable tuple has quartiles of +∞, and so no cap.
    fence = third + 1.5 * (third - xp.where(xp.isfinite(first), first, xp.zeros_like(first)))
    largest = xp.max(xp.abs(rewards) * weights, axis=1)
    rounding = (1e-13 * largest) ** 2 + float(xp.finfo(rewards.dtype).smallest_normal)
    return xp.maximum(tau * fence, rounding)


def capped_objective(
    features: Array, rewards: Array, weights: Array, coef: Array, threshold: Array, penalty: Array
) -> Array:
    """Σ_i v_i min{(r_i − x_iᵀw)², ε} + Σ_j ζ_j w_j² for each person, v the weights that mark usable tuples."""
    xp = array_namespace(features)
    capped = xp.minimum(residuals(features, rewards, coef) ** 2, threshold[:, None])
    return xp.sum(weights * capped, axis=1) + xp.sum(penalty * coef**2, axis=1)


def fit_capped(
    features: Array,
    rewards: Array,
    weights: Array,
    *,
    penalty: Array,
    tau: float = 1.0,
    refresh_threshold: bool = False,
    max_iter: int = 1000,
) -> CriticFit:
    """The paper's critic: minimise Σ min{(r − xᵀw)², ε} + ζ‖w‖² by dropping tuples beyond ε and fitting again.

    With ε held at its first value the objective cannot rise and the loop ends. With `refresh_threshold` ε follows the
    residuals of every fit; that can cycle, and a person caught in a cycle goes on with ε as it then is.
    """
    xp = array_namespace(features)
    joined = _joined(features, rewards)
    coef = _solve(joined, weights, penalty)
    squared = _residuals(joined, coef) ** 2
    threshold = boxplot_threshold(squared, rewards, weights, tau)
    final = xp.where(squared < threshold[:, None], weights, xp.zeros_like(weights))
    n_iter = xp.ones(coef.shape[0], dtype=xp.int64, device=device(coef))
    converged = xp.zeros(coef.shape[0], dtype=xp.bool, device=device(coef))
    # Brent's cycle detection: one remembered set of weights, renewed at every power of two.
    remembered = xp.asarray(final, copy=True) if refresh_threshold else final
    refreshing = xp.full(coef.shape[0], refresh_threshold, dtype=xp.bool, device=device(coef))
    active = xp.arange(coef.shape[0], device=device(coef))
    own, v = joined, weights
    for iteration in range(2, max_iter + 1):
        u = final[active]
        w = _solve(own, u, penalty)
        squared = _residuals(own, w) ** 2
        epsilon = threshold[active]
        if refresh_threshold:
            fresh = boxplot_threshold(squared, own[..., -1], v, tau)
            epsilon = xp.where(refreshing[active], fresh, epsilon)
        renewed = xp.where(squared < epsilon[:, None], v, xp.zeros_like(v))
        changed = xp.any(renewed != u, axis=1)
        coef[active], final[active], threshold[active] = w, renewed, epsilon
        n_iter[active] = iteration
        converged[active] = ~changed
        if refresh_threshold:
            refreshing[active] = refreshing[active] & xp.any(renewed != remembered[active], axis=1)
            if iteration & (iteration - 1) == 0:
                remembered[active] = renewed
        if not xp.any(changed):
            break
        active, own, v = active[changed], own[changed], v[changed]
    return CriticFit(coef, final, threshold, n_iter, converged)
