"""The mean of a generalised logistic function of a normal variable, by a fixed quadrature.

G(x) = [1 + c exp(−b x)]^(−k). The trapezoidal rule errs by less than 1e-6 where what it sums is wide compared with its step:
over the normal variable where that is the narrower of the two, and else, by parts, over the logistic one:

    E G(μ + σ Z) = ∫ φ(z) G(μ + σ z) dz = ∫ G'(y) Φ((μ − y) / σ) dy
"""

from __future__ import annotations

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.largest_value import normal_cdf

EXPONENTS = (0.5, 4.0)
"""Limits of k for which the error holds."""
NORMAL_NODES = np.arange(-16, 17) / 2
NORMAL_WEIGHTS = np.exp(-(NORMAL_NODES**2) / 2) / np.sqrt(2 * np.pi) / 2
LOGISTIC_NODES = np.arange(-36, 37) / 2


def mean_of_logistic(mean: Array, deviation: Array, c: Array, b: Array, k: Array) -> Array:
    """E G(X), X ~ N(mean, deviation²); all arrays of one shape.

    >>> one = np.ones(1)
    >>> mean_of_logistic(0 * one, 3 * one, one, one, one).round(6)
    array([0.5])
    """
    xp = array_namespace(mean)
    spread = b * deviation
    return xp.where(spread < 1.0, _over_normal(b * mean, spread, c, k), _over_logistic(b * mean, spread, c, k))


def _over_normal(centre: Array, spread: Array, c: Array, k: Array) -> Array:
    xp = array_namespace(centre)
    z, weights = (_before(centre, nodes) for nodes in (NORMAL_NODES, NORMAL_WEIGHTS))
    return _sum_nodes(weights * xp.exp(-k * _softplus(xp.log(c) - centre - spread * z)))


def _over_logistic(centre: Array, spread: Array, c: Array, k: Array) -> Array:
    """Integrate over w = b y; with k below 1 the left tail is long, and the steps are longer by the same factor."""
    xp = array_namespace(centre)
    ones = xp.ones_like(k)
    stretch = xp.maximum(ones, 1 / k)
    shift = xp.log(xp.maximum(ones, k))
    below = -shift - stretch * _before(centre, LOGISTIC_NODES)
    slope = stretch / 2 * k * xp.exp(below - (k + 1) * _softplus(below))
    w = xp.log(c) - below
    return _sum_nodes(slope * normal_cdf((centre - w) / xp.where(spread < 1.0, 1.0, spread)))


def _before(values: Array, nodes: NDArray[np.float64]) -> Array:
    """The nodes along a new first axis, before the axes of `values`."""
    xp = array_namespace(values)
    return xp.asarray(nodes.reshape(-1, *[1] * values.ndim), device=device(values))


def _sum_nodes(terms: Array) -> Array:
    """Sum over the first axis, node by node: the rounding of `sum` depends on the number of problems."""
    total = terms[0, ...]
    for node in range(1, terms.shape[0]):
        total = total + terms[node, ...]
    return total


def _softplus(value: Array) -> Array:
    """log(1 + exp(value)), without overflow."""
    xp = array_namespace(value)
    return xp.maximum(value, xp.zeros_like(value)) + xp.log1p(xp.exp(-xp.abs(value)))
