"""Probabilities of actions: the largest of several normal values, and a logistic curve of one.

The probability that each of several normal values is the largest has an error below 1e-6. A value is the largest where all
its differences from the others are positive. That is the probability P(Y ≤ h) of standard normal variables Y with
correlations R. Plackett's identity, along the path on which t ρ₀ⱼ takes the place of ρ₀ⱼ,

    P(Y ≤ h) = Φ(h₀) P(Y₁ ≤ h₁, …) + Σⱼ ∫₀¹ ρ₀ⱼ φ₂(h₀, hⱼ; t ρ₀ⱼ) P(the others ≤ h | Y₀ = h₀, Yⱼ = hⱼ) dt

leaves integrals of probabilities in two dimensions less (Plackett, 1954). The nodes are Gauss's in v with 1 − t = v^power.
The integrand is smooth unless R is nearly singular: then it is steep at t = 1, and more nodes are needed.

The mean of the generalised logistic G(x) = [1 + c exp(−b x)]^(−k) of a normal variable is a fixed quadrature. The
trapezoidal rule errs by less than 1e-6 where what it sums is wide compared with its step: over the normal variable where
that is the narrower of the two, and else, by parts, over the logistic one:

    E G(μ + σ Z) = ∫ φ(z) G(μ + σ z) dz = ∫ G'(y) Φ((μ − y) / σ) dy
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf, pi
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_namespace
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace

Floats = NDArray[np.float64]


def normal_cdf(values: Array) -> Array:
    """Φ of every value."""
    xp = array_namespace(values)
    if is_torch_namespace(xp):
        return xp.special.ndtr(values)
    from scipy.special import ndtr

    return ndtr(values)


# The largest of several normal values

NODES = {6.0: (8, 2), 20.0: (12, 2), 100.0: (16, 3), 1000.0: (24, 4), inf: (48, 6)}
"""(number of nodes, power) that are enough up to a variance inflation 1 / (1 − R²), R² the share of a difference's variance
that the other differences explain. Of two variables each integral is then off by at most 2e-7, whatever its limits; the
variables that an integral leaves have no larger inflation."""
CERTAIN = 38.0
"""Beyond this many standard deviations Φ is 0 or 1 in double precision."""
HOPELESS = -6.5
"""A value this many standard deviations behind another is the largest with less than 5e-11, and gets probability 0."""
ROUNDING = 1e-15
BLOCK = 4096
"""Problems per pass."""
CELLS = 2**14
"""Numbers per array, so that arrays stay in the processor's cache."""
TORCH_CELLS = 2**20
"""The same with PyTorch, which begins an operation more slowly."""


def probability_of_largest(mean: Array, covariance: Array) -> Array:
    """P(each of zero and d normal variables is the largest), (…, d + 1), for means (…, d) and covariances (…, d, d).

    A variable without variance is known; of two that are surely equal the first counts as the larger one.

    >>> probability_of_largest(np.zeros(4), np.eye(4) + 1.0).round(6)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    xp = array_namespace(mean)
    size = mean.shape[-1]
    if size == 1:
        # One value against zero: few operations, because single decisions wait for it.
        variance = covariance[..., 0]
        known = variance <= 0
        limit = mean / xp.sqrt(xp.where(known, 1e-300, variance))
        limit = xp.where(known & (mean == 0), -CERTAIN, limit)
        return normal_cdf(xp.concat([-limit, limit], axis=-1))
    means = xp.reshape(mean, (-1, size))
    covariances = xp.reshape(covariance, (-1, size, size))
    torch_block = max(1, TORCH_CELLS // ((size + 1) * NODES[inf][0] ** (size // 2)))
    block = torch_block if is_torch_namespace(xp) else BLOCK
    blocks = [
        _compare(means[start : start + block, :], covariances[start : start + block, :, :])
        for start in range(0, max(means.shape[0], 1), block)
    ]
    return xp.reshape(xp.concat(blocks, axis=0), (*mean.shape[:-1], size + 1))


def slopes_of_largest(mean: Floats, covariance: Floats) -> Floats:
    """Derivatives of `probability_of_largest` with respect to the means, (…, d + 1, d).

    Where the mean of b rises, b takes from a ≠ b the density of a tie X_a = X_b times the probability that the other values
    are lower, given the tie; a variable without variance takes nothing.

    >>> slopes_of_largest(np.zeros(1), np.eye(1)).round(4)
    array([[-0.3989],
           [ 0.3989]])
    """
    size = mean.shape[-1] + 1
    values = np.concatenate([np.zeros_like(mean[..., :1]), mean], axis=-1)
    padded = np.zeros((*mean.shape[:-1], size, size))
    padded[..., 1:, 1:] = covariance
    taken = np.zeros_like(padded)
    for a in range(size):
        for b in range(a):
            gap = values[..., a] - values[..., b]
            variance = padded[..., a, a] + padded[..., b, b] - 2 * padded[..., a, b]
            known = variance <= 0
            safe = np.where(known, 1.0, variance)
            density = np.where(known, 0.0, np.exp(-(gap**2) / (2 * safe)) / np.sqrt(2 * np.pi * safe))
            others = [c for c in range(size) if c not in (a, b)]
            if others:
                # X_c − X_a given X_a = X_b.
                with_gap = padded[..., a] - padded[..., b]
                slope = (with_gap[..., others] - with_gap[..., [a]]) / safe[..., None]
                ahead = values[..., others] - values[..., [a]] - slope * gap[..., None]
                among = padded[..., others, :][..., others] - padded[..., others, :][..., [a]]
                among = among - padded[..., [a], :][..., others] + padded[..., a, a][..., None, None]
                among = among - slope[..., :, None] * slope[..., None, :] * safe[..., None, None]
                density = density * probability_of_largest(ahead, among)[..., 0]
            taken[..., a, b] = density
            taken[..., b, a] = density
    return np.asarray(np.eye(size) * taken.sum(axis=-1)[..., None] - taken)[..., 1:]


def _compare(mean: Array, covariance: Array) -> Array:
    """`probability_of_largest` for (n, d) and (n, d, d)."""
    xp = array_namespace(mean)
    size = mean.shape[-1] + 1
    zero = xp.zeros_like(mean[:, :1])
    values = xp.permute_dims(xp.concat([zero, mean], axis=1), (1, 0))
    # Variances of the differences between zero and d variables, (d + 1, d + 1, n); 0 where it is rounding.
    rows = xp.concat([xp.zeros_like(covariance[:, :, :1]), covariance], axis=2)
    padded = xp.concat([xp.zeros_like(rows[:, :1, :]), rows], axis=1)
    variance = xp.linalg.diagonal(padded)
    total = variance[:, :, None] + variance[:, None, :]
    spread = total - 2 * padded
    spread = xp.permute_dims(xp.where(spread <= ROUNDING * total, 0.0, spread), (1, 2, 0))
    limits, correlation = _standardise(values, spread)
    if is_torch_namespace(xp):
        # A GPU's recorded step cannot choose problems by their values: all get the most nodes.
        wins = xp.clip(_orthant_probability(limits, correlation, NODES[inf]), 0.0, 1.0)
        return xp.permute_dims(wins / _add_in_order(wins), (1, 0))
    # The largest variance inflation among each value's differences from the others, (values, problems). With Q the inverse
    # of the covariance and Q₀₀ the sum of its elements, that of the difference of a from b is its variance times Q_bb: the
    # inverse for another first value has the same elements. What is singular, or known, gets a finite inverse.
    ridge = 1e-14 * np.max(np.abs(covariance), axis=(1, 2)) + 1e-290
    inverse = np.linalg.inv(covariance + ridge[:, None, None] * np.eye(size - 1))
    sums = _add_in_order(np.moveaxis(inverse.reshape(-1, (size - 1) ** 2), 1, 0))
    diagonal = np.concatenate([sums[None], np.diagonal(inverse, axis1=1, axis2=2).T])
    inflation = np.max(np.abs(diagonal) * spread, axis=1)
    # The hardest probability of a problem is 1 minus the others.
    hardest = np.arange(size)[:, None] == np.argmax(inflation, axis=0)
    # Comparisons are negated where NaN must not pass for a number.
    left = ~hardest & ~(np.min(limits, axis=0) <= HOPELESS)
    wins = np.zeros(left.shape)
    for most, nodes in NODES.items():
        chosen = left & ((inflation <= most) | (most == inf))
        left = left & ~chosen
        indices = np.flatnonzero(chosen)
        step = max(1, CELLS // nodes[0] ** ((size - 1) // 2))
        for start in range(0, len(indices), step):
            batch = indices[start : start + step]
            pairs = [[None if pair is None else pair.ravel()[batch] for pair in row] for row in correlation]
            probability = _orthant_probability([limit.ravel()[batch] for limit in limits], pairs, nodes)
            wins.ravel()[batch] = np.clip(probability, 0.0, 1.0)
    wins = np.where(hardest, np.clip(1 - _add_in_order(wins), 0.0, 1.0), wins)
    return (wins / _add_in_order(wins)).T


def _standardise(values: Array, spread: Array) -> tuple[list[Array], list[list[Array]]]:
    """h and R of every value's differences from the others; each number is an array (values, problems)."""
    xp = array_namespace(values)
    size = values.shape[0]
    others = [[b for b in range(size) if b != a] for a in range(size)]
    known = spread <= 0
    deviation = xp.sqrt(xp.where(known, 1.0, spread))
    order = xp.arange(size, device=device(values))
    ahead = values[:, None, :] - values[None, :, :]
    surely = (ahead > 0) | ((ahead == 0) & (order[:, None] < order)[..., None])
    unsure = xp.clip(ahead / deviation, -CERTAIN, CERTAIN)
    limit = xp.where(known, xp.where(surely, CERTAIN, -CERTAIN), unsure)

    def correlate(a: int, b: int, c: int) -> Array:
        covariance = (spread[a, b, :] + spread[a, c, :] - spread[b, c, :]) / 2
        correlation = xp.clip(covariance / (deviation[a, b, :] * deviation[a, c, :]), -1.0, 1.0)
        return xp.where(known[a, b, :] | known[a, c, :], 0.0, correlation)

    limits = [xp.stack([limit[a, others[a][i], :] for a in range(size)]) for i in range(size - 1)]
    pairs: list[list[Any]] = [[None] * (size - 1) for _ in range(size - 1)]
    for i in range(size - 1):
        for k in range(i):
            pairs[i][k] = pairs[k][i] = xp.stack([correlate(a, others[a][i], others[a][k]) for a in range(size)])
    return limits, pairs


@lru_cache(maxsize=64)
def _place_nodes(xp: Any, on_device: Any, nodes: tuple[int, int], axes: int) -> tuple[Array, Array]:
    """1 − t and its weights / 2π along a new first axis; a GPU's recorded step may not fetch them again."""
    number, power = nodes
    x, weights = np.polynomial.legendre.leggauss(number)
    v = ((1 - x) / 2).reshape(number, *[1] * axes)
    weights = weights.reshape(v.shape) * power * v ** (power - 1) / (4 * pi)
    return xp.asarray(v**power, device=on_device), xp.asarray(weights, device=on_device)


def _orthant_probability(limits: Sequence[Array], correlation: Sequence[Sequence[Array]], nodes: tuple[int, int]) -> Array:
    """P(Y ≤ h) of standard normal variables with correlations R."""
    if len(limits) == 1:
        return normal_cdf(limits[0])
    total = normal_cdf(limits[0]) * _orthant_probability(limits[1:], [row[1:] for row in correlation[1:]], nodes)
    for j in range(1, len(limits)):
        total = total + _integrate(limits, correlation, j, nodes)
    return total


def _integrate(limits: Sequence[Array], correlation: Sequence[Sequence[Array]], j: int, nodes: tuple[int, int]) -> Array:
    """∫ ρ₀ⱼ φ₂(h₀, hⱼ; t ρ₀ⱼ) P(the others ≤ h | Y₀ = h₀, Yⱼ = hⱼ) dt."""
    first = limits[0]
    other = limits[j]
    rho = correlation[0][j]
    xp = array_namespace(first)
    left, weights = _place_nodes(xp, device(first), nodes, first.ndim)
    t = 1 - left
    near = xp.abs(rho)
    # 1 − t² ρ², kept exact where both are close to 1.
    free = ((1 - near) + near * left) * (1 + t * near)
    between = t * rho
    integrand = weights * xp.exp(-0.5 * (first - between * other) ** 2 / free) / xp.sqrt(free)
    others = [m for m in range(1, len(limits)) if m != j]
    if others:
        with_first = {m: t * correlation[0][m] for m in others}
        on_first = {m: (with_first[m] - between * correlation[j][m]) / free for m in others}
        on_other = {m: (correlation[j][m] - between * with_first[m]) / free for m in others}

        def explain(m: int, k: int) -> Array:
            return on_first[m] * with_first[k] + on_other[m] * correlation[j][k]

        spread = {m: xp.sqrt(xp.clip(1 - explain(m, m), ROUNDING, 1.0)) for m in others}
        shifted = {m: limits[m] - on_first[m] * first - on_other[m] * other for m in others}
        conditional = [xp.clip(shifted[m] / spread[m], -CERTAIN, CERTAIN) for m in others]
        among: list[list[Any]] = [[None] * len(others) for _ in others]
        for i, m in enumerate(others):
            for k, n in enumerate(others[:i]):
                pair = (correlation[m][n] - explain(m, n)) / (spread[m] * spread[n])
                among[i][k] = among[k][i] = xp.clip(pair, ROUNDING - 1, 1 - ROUNDING)
        integrand = integrand * _orthant_probability(conditional, among, nodes)
    return rho * xp.exp(-0.5 * other**2) * _add_in_order(integrand)


def _add_in_order(terms: Array) -> Array:
    """The sum over the first axis, term by term: NumPy's own sum is rounded by how many problems there are."""
    total = terms[0, ...]
    for index in range(1, terms.shape[0]):
        total = total + terms[index, ...]
    return total


# A logistic curve of a normal value

EXPONENTS = (0.5, 4.0)
"""Limits of k for which the error holds."""


def mean_of_logistic(mean: Array, deviation: Array, c: Array, b: Array, k: Array) -> Array:
    """E G(X), X ~ N(mean, deviation²); all arrays of one shape.

    >>> one = np.ones(1)
    >>> mean_of_logistic(0 * one, 3 * one, one, one, one).round(6)
    array([0.5])
    """
    xp = array_namespace(mean)
    ones = xp.ones_like(k)
    centre = b * mean
    spread = b * deviation
    is_narrow = spread < 1.0
    # Nodes stand along a new first axis, before the axes of the values.
    shape = (-1, *[1] * mean.ndim)
    z = xp.reshape(xp.arange(-16, 17, dtype=mean.dtype, device=device(mean)) / 2, shape)
    density = xp.exp(-(z**2) / 2) / (2 * pi) ** 0.5 / 2
    above = xp.log(c) - centre - spread * z
    over_normal = _add_in_order(density * xp.exp(-k * xp.logaddexp(xp.zeros_like(above), above)))
    # Over w = b y; with k below 1 the left tail is long, and the steps are longer by the same factor.
    stretch = xp.maximum(ones, 1 / k)
    steps = xp.reshape(xp.arange(-36, 37, dtype=mean.dtype, device=device(mean)) / 2, shape)
    below = -xp.log(xp.maximum(ones, k)) - stretch * steps
    slope = stretch / 2 * k * xp.exp(below - (k + 1) * xp.logaddexp(xp.zeros_like(below), below))
    w = xp.log(c) - below
    over_logistic = _add_in_order(slope * normal_cdf((centre - w) / xp.where(is_narrow, 1.0, spread)))
    return xp.where(is_narrow, over_normal, over_logistic)
