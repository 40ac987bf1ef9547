"""Orthant probabilities of normal variables, by a fixed quadrature: the same number in every call, on every engine.

P(X ≤ h) of X ~ N(0, R) is known when the first variable is independent of the others: Φ(h₀) times their own probability.
Turning its correlations on, R(t) with ρ₀ⱼ(t) = t ρ₀ⱼ, changes it by (Plackett 1954)

    d/dt P(X ≤ h; R(t)) = Σⱼ ρ₀ⱼ φ₂(h₀, hⱼ; t ρ₀ⱼ) P(the others ≤ h | X₀ = h₀, Xⱼ = hⱼ)

which leaves an integral over t of probabilities in two dimensions less. Where R is nearly singular the integrand is steep at
t = 1: the nodes are Gauss's in v with 1 − t = v⁶, which look at every scale there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import erfc, exp, pi, sqrt
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_namespace

from surefoot.numerics.arrays import Array, array_namespace

NODES, POWER = 24, 6
"""The error is about 1e-8 for ordinary covariances and stays below 1e-4 for singular ones."""
_x, _w = np.polynomial.legendre.leggauss(NODES)
REMAINING = ((1 - _x) / 2) ** POWER
"""1 − t of every node."""
WEIGHTS = _w / 2 * POWER * ((1 - _x) / 2) ** (POWER - 1)
CERTAIN = 38.0
"""Φ is 0 or 1 in double precision beyond so many standard deviations."""
ROUNDING = 1e-15
SHRINKAGE = 1e-8
"""Correlations are taken so much closer to zero: a singular matrix becomes definite, and no probability moves by 1e-4."""
BLOCK_CELLS = 2**18
"""So many numbers are worked on at a time."""


def normal_cdf(values: Array) -> Array:
    """Φ of every value."""
    xp = array_namespace(values)
    if is_torch_namespace(xp):
        return xp.special.ndtr(values)
    from scipy.special import ndtr

    return ndtr(values)


def scalar_normal_cdf(value: float) -> float:
    """Φ of one plain number, without an array's overhead.

    >>> scalar_normal_cdf(0.0)
    0.5
    """
    return erfc(-value / sqrt(2.0)) / 2


def orthant_probability(limits: Sequence[Array], correlation: Sequence[Sequence[Array]]) -> Array:
    """P(X ≤ h) of standard normal variables with correlations R; each number is an array over problems, (n,).

    >>> half = np.array([0.0])
    >>> orthant_probability([half, half], [[half + 1, half + 0.5], [half + 0.5, half + 1]]).round(12)
    array([0.33333333])
    """
    if len(limits) == 1:
        return normal_cdf(limits[0])
    total = normal_cdf(limits[0]) * orthant_probability(limits[1:], [row[1:] for row in correlation[1:]])
    for j in range(1, len(limits)):
        total = total + _gain(limits, correlation, j)
    return total


def _gain(limits: Sequence[Array], correlation: Sequence[Sequence[Array]], j: int) -> Array:
    """∫ ρ₀ⱼ φ₂(h₀, hⱼ; t ρ₀ⱼ) P(the others ≤ h | X₀ = h₀, Xⱼ = hⱼ) dt."""
    first, other, rho = limits[0], limits[j], correlation[0][j]
    xp = array_namespace(first)
    left, weights = (xp.reshape(one, (NODES, *[1] * first.ndim)) for one in _nodes(xp, device(first)))
    t = 1 - left
    near = xp.abs(rho)
    # 1 − t² ρ², kept exact where both are close to 1.
    free = ((1 - near) + near * left) * (1 + t * near)
    exponent = -(other**2) / 2 - (first - t * rho * other) ** 2 / (2 * free)
    integrand = weights * rho * xp.exp(exponent) / (2 * pi * xp.sqrt(free))
    rest = [m for m in range(1, len(limits)) if m != j]
    if rest:
        integrand = integrand * _condition(limits, correlation, j, rest, t, free)
    # Node by node: a sum over an axis would be rounded by how many problems there are.
    total = integrand[0, ...]
    for node in range(1, NODES):
        total = total + integrand[node, ...]
    return total


@lru_cache(maxsize=8)
def _nodes(xp: Any, where: Any) -> tuple[Array, Array]:
    """1 − t and the weights, kept where they are worked with: a GPU's recorded step may not fetch them again."""
    return xp.asarray(REMAINING, device=where), xp.asarray(WEIGHTS, device=where)


def _condition(
    limits: Sequence[Array], correlation: Sequence[Sequence[Array]], j: int, rest: list[int], t: Array, free: Array
) -> Array:
    """P(the others ≤ h | X₀ = h₀, Xⱼ = hⱼ) at every t."""
    xp = array_namespace(t)
    between = t * correlation[0][j]
    with_first = {m: t * correlation[0][m] for m in rest}
    on_first = {m: (with_first[m] - between * correlation[j][m]) / free for m in rest}
    on_other = {m: (correlation[j][m] - between * with_first[m]) / free for m in rest}

    def covariance(m: int, n: int) -> Array:
        whole = 1.0 if m == n else correlation[m][n]
        return whole - on_first[m] * with_first[n] - on_other[m] * correlation[j][n]

    spread = {m: xp.sqrt(xp.clip(covariance(m, m), ROUNDING, 1.0)) for m in rest}
    given = [(limits[m] - on_first[m] * limits[0] - on_other[m] * limits[j]) / spread[m] for m in rest]
    most = 1 - ROUNDING
    among = [[xp.clip(covariance(m, n) / (spread[m] * spread[n]), -most, most) for n in rest] for m in rest]
    return orthant_probability([xp.clip(one, -CERTAIN, CERTAIN) for one in given], among)


def probability_of_largest(mean: Array, covariance: Array) -> Array:
    """P(each of zero and d normal variables is the largest), (…, d + 1), for means (…, d) and covariances (…, d, d).

    A variable without variance is known; of two that are surely equal the first counts as the larger one.

    >>> probability_of_largest(np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]])).round(9)
    array([[0.33333333, 0.33333333, 0.33333333]])
    """
    xp = array_namespace(mean)
    size = mean.shape[-1]
    flat_mean, flat_covariance = xp.reshape(mean, (-1, size)), xp.reshape(covariance, (-1, size, size))
    step = max(1, BLOCK_CELLS // ((size + 1) * NODES ** (size // 2)))
    parts = [
        _compare(flat_mean[at : at + step, :], flat_covariance[at : at + step, :, :])
        for at in range(0, max(flat_mean.shape[0], 1), step)
    ]
    return xp.reshape(xp.concat(parts, axis=0), (*mean.shape[:-1], size + 1))


def _compare(mean: Array, covariance: Array) -> Array:
    """`probability_of_largest` for (n, d) and (n, d, d): each variable against all others, in one batch (d + 1, n)."""
    xp = array_namespace(mean)
    size = mean.shape[-1] + 1
    nothing = xp.zeros_like(mean[:, 0])
    means = [nothing, *(mean[:, a] for a in range(size - 1))]
    spreads = [[covariance[:, a - 1, b - 1] if a and b else nothing for b in range(size)] for a in range(size)]
    if size == 2:
        against = _standardise(means, spreads, 0, [1])[0][0]
        return xp.stack([normal_cdf(against), normal_cdf(-against)], axis=-1)
    found = [_standardise(means, spreads, a, [b for b in range(size) if b != a]) for a in range(size)]
    others = range(size - 1)
    limits = [xp.stack([one[0][i] for one in found]) for i in others]
    correlation = [[xp.stack([one[1][i][k] for one in found]) for k in others] for i in others]
    wins = xp.permute_dims(xp.clip(orthant_probability(limits, correlation), 0.0, 1.0), (1, 0))
    total = wins[:, 0]
    for a in range(1, size):
        total = total + wins[:, a]
    return wins / total[:, None]


def _standardise(
    means: list[Array], spreads: list[list[Array]], a: int, others: list[int]
) -> tuple[list[Array], list[list[Array]]]:
    """Limits and correlations with which P(X ≤ h) is the probability that variable a is larger than the others."""
    xp = array_namespace(means[0])

    def covariance(b: int, c: int) -> Array:
        return spreads[b][c] - spreads[b][a] - spreads[a][c] + spreads[a][a]

    limits, deviations = [], []
    for b in others:
        variance, ahead = covariance(b, b), means[a] - means[b]
        size = spreads[b][b] + spreads[a][a]
        unsure = variance > ROUNDING * size
        deviation = xp.sqrt(xp.where(unsure, variance, 1.0))
        surely = xp.where((ahead > 0) | ((ahead == 0) & (a < b)), CERTAIN, -CERTAIN)
        limits.append(xp.where(unsure, xp.clip(ahead / deviation, -CERTAIN, CERTAIN), surely))
        deviations.append(xp.where(unsure, deviation, xp.inf))
    correlation = [
        [
            (1 - SHRINKAGE) * xp.clip(covariance(b, c) / (deviations[i] * deviations[k]), -1.0, 1.0)
            for k, c in enumerate(others)
        ]
        for i, b in enumerate(others)
    ]
    return limits, correlation


_PLAIN_NODES = list(zip(REMAINING.tolist(), (WEIGHTS / (2 * pi)).tolist(), strict=True))


def scalar_probability_of_largest(mean: Sequence[float], covariance: Sequence[Sequence[float]]) -> list[float]:
    """`probability_of_largest` for one problem in plain numbers: of up to two variables without an array's overhead.

    >>> [round(p, 6) for p in scalar_probability_of_largest([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])]
    [0.333333, 0.333333, 0.333333]
    """
    spreads = [row[a] for a, row in enumerate(covariance)]
    if len(mean) == 1 and spreads[0] > 0:
        limit = _within(mean[0] / sqrt(spreads[0]))
        return [scalar_normal_cdf(-limit), scalar_normal_cdf(limit)]
    between = covariance[0][-1]
    spreads.append(spreads[0] + spreads[-1] - 2 * between)
    if len(mean) != 2 or min(spreads) <= ROUNDING * (spreads[0] + spreads[1]):
        found: list[float] = probability_of_largest(np.array(mean), np.array(covariance)).tolist()
        return found
    s = [sqrt(variance) for variance in spreads]
    limits = [_within(mean[0] / s[0]), _within(mean[1] / s[1])]
    apart = _within((mean[0] - mean[1]) / s[2])
    wins = [
        _scalar_quadrant(-limits[0], -limits[1], between / (s[0] * s[1])),
        _scalar_quadrant(limits[0], apart, (spreads[0] - between) / (s[0] * s[2])),
        _scalar_quadrant(limits[1], -apart, (spreads[1] - between) / (s[1] * s[2])),
    ]
    whole = sum(wins)
    return [win / whole for win in wins]


def _within(limit: float) -> float:
    return min(max(limit, -CERTAIN), CERTAIN)


def _scalar_quadrant(first: float, other: float, rho: float) -> float:
    """`orthant_probability` of two variables."""
    rho = (1 - SHRINKAGE) * min(max(rho, -1.0), 1.0)
    near, gain = abs(rho), 0.0
    for left, weight in _PLAIN_NODES:
        t = 1 - left
        free = ((1 - near) + near * left) * (1 + t * near)
        gain += weight * exp(-((first - t * rho * other) ** 2) / (2 * free)) / sqrt(free)
    total = scalar_normal_cdf(first) * scalar_normal_cdf(other) + rho * exp(-(other**2) / 2) * gain
    return min(max(total, 0.0), 1.0)
