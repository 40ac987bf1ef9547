"""Orthant probabilities of normal variables that are far from singular, by Plackett's identity with few nodes.

As `orthants` does it, without what singular correlations need: where no variable is explained by the others, the integrand
over t is smooth, and few nodes of Gauss, in v with 1 − t = v², are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import pi
from typing import Any

import numpy as np
from array_api_compat import device

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.orthants import normal_cdf


@dataclass(frozen=True)
class Nodes:
    """How many nodes the integral over t has, and the one for the last two variables."""

    outer: int
    inner: int


LARGEST_INFLATIONS = {
    4.0: Nodes(4, 4),
    10.0: Nodes(5, 5),
    20.0: Nodes(6, 6),
    100.0: Nodes(10, 8),
    400.0: Nodes(16, 12),
}
"""How many nodes are enough up to a variance inflation: probabilities are then off by less than 5e-5."""


@lru_cache(maxsize=16)
def _place_nodes(count: int) -> tuple[list[float], list[float]]:
    """t and its weights / 2π."""
    x, weights = np.polynomial.legendre.leggauss(count)
    v = (1 - x) / 2
    return (1 - v**2).tolist(), (weights * v / (2 * pi)).tolist()


@lru_cache(maxsize=16)
def _outer_nodes(xp: Any, where: Any, count: int, axes: int) -> tuple[Array, Array]:
    """The same along a new first axis, kept where they are worked with: a GPU's recorded step may not fetch them again."""
    t, weights = (xp.asarray(part, device=where, dtype=xp.float64) for part in _place_nodes(count))
    return xp.reshape(t, (count, *[1] * axes)), xp.reshape(weights, (count, *[1] * axes))


def plain_orthant_probability(limits: Sequence[Array], correlation: Sequence[Sequence[Array]], nodes: Nodes) -> Array:
    """P(X ≤ h) of standard normal variables with correlations R; each number is an array over problems.

    >>> half = np.array([0.0])
    >>> rows = [[None, half + 0.5, half + 0.5], [half + 0.5, None, half + 0.5], [half + 0.5, half + 0.5, None]]
    >>> plain_orthant_probability([half, half, half], rows, Nodes(8, 6)).round(6)
    array([0.25])
    """
    if len(limits) == 1:
        return normal_cdf(limits[0])
    if len(limits) == 2:
        return _quadrant(limits[0], limits[1], correlation[0][1], nodes.inner)
    total = normal_cdf(limits[0]) * plain_orthant_probability(limits[1:], [row[1:] for row in correlation[1:]], nodes)
    for j in range(1, len(limits)):
        total = total + _gain(limits, correlation, j, nodes)
    return total


def _quadrant(first: Array, other: Array, rho: Array, count: int) -> Array:
    """P of two variables, Φ(h) Φ(k) + ∫ ρ φ₂(h, k; t ρ) dt."""
    xp = array_namespace(first)
    gain, square, product = xp.zeros_like(first), rho * rho, rho * other
    for t, weight in zip(*_place_nodes(count), strict=True):
        free = 1 - (t * t) * square
        away = first - t * product
        away *= away
        away /= free
        away *= -0.5
        density = xp.exp(away)
        density /= xp.sqrt(free)
        density *= weight
        gain += density
    return normal_cdf(first) * normal_cdf(other) + rho * xp.exp(-0.5 * (other * other)) * gain


def _gain(limits: Sequence[Array], correlation: Sequence[Sequence[Array]], j: int, nodes: Nodes) -> Array:
    """∫ ρ₀ⱼ φ₂(h₀, hⱼ; t ρ₀ⱼ) P(the others ≤ h | X₀ = h₀, Xⱼ = hⱼ) dt."""
    first, other, rho = limits[0], limits[j], correlation[0][j]
    xp = array_namespace(first)
    t, weights = _outer_nodes(xp, device(first), nodes.outer, first.ndim)
    between = t * rho
    inverse = 1 / (1 - between * between)
    away = first - between * other
    integrand = weights * xp.exp(-0.5 * (away * away) * inverse) * xp.sqrt(inverse)
    rest = [m for m in range(1, len(limits)) if m != j]
    with_first = {m: t * correlation[0][m] for m in rest}
    on_first = {m: (with_first[m] - between * correlation[j][m]) * inverse for m in rest}
    on_other = {m: (correlation[j][m] - between * with_first[m]) * inverse for m in rest}
    narrower = {m: 1 / xp.sqrt(1 - on_first[m] * with_first[m] - on_other[m] * correlation[j][m]) for m in rest}
    given = [(limits[m] - on_first[m] * first - on_other[m] * other) * narrower[m] for m in rest]

    def correlate(m: int, n: int) -> Array:
        left = correlation[m][n] - on_first[m] * with_first[n] - on_other[m] * correlation[j][n]
        return left * narrower[m] * narrower[n]

    among = [[None if m == n else correlate(min(m, n), max(m, n)) for n in rest] for m in rest]
    integrand = integrand * plain_orthant_probability(given, among, nodes)
    # Node by node: a sum over an axis would be rounded by how many problems there are.
    total = integrand[0, ...]
    for node in range(1, nodes.outer):
        total = total + integrand[node, ...]
    return rho * xp.exp(-0.5 * (other * other)) * total
