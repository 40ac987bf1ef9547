"""The probability that each of several normal values is the largest, with an error below 1e-4, quickly.

Of two or three it is that of `orthants`. Of more, each problem goes the cheapest way that is good enough for it, which it
alone decides, not its company:

- values that are nearly independent, as the actions' posteriors are of a critic with coefficients of their own for every
  action: one integral for all of them (`independent_values`);
- correlations that are far from singular: few nodes (`plain_orthants`);
- the others, known values and ties among them: `orthants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from array_api_compat import device, is_torch_namespace

from surefoot.numerics import orthants
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.independent_values import INDEPENDENT, NEARLY_INDEPENDENT, NODES, IndependentValues, add_in_order
from surefoot.numerics.plain_orthants import LARGEST_INFLATIONS, Nodes, plain_orthant_probability

BLOCK = 1024
"""So many problems at a time are looked at."""
CELLS = 2**13
"""Arrays of so many numbers stay in the processor's cache, and are not asked of the system anew for every step."""
HOPELESS = -5.0
"""A value so many standard deviations behind another gets probability 0; it is the largest with less than 3e-7."""


def probability_of_largest(mean: Array, covariance: Array) -> Array:
    """P(each of zero and d normal variables is the largest), (…, d + 1), for means (…, d) and covariances (…, d, d).

    >>> found = probability_of_largest(np.zeros(4), np.eye(4) + 1.0)
    >>> found.round(5)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    xp, size = array_namespace(mean), mean.shape[-1]
    if size < 3:
        return orthants.probability_of_largest(mean, covariance)
    flat_mean, flat_covariance = xp.reshape(mean, (-1, size)), xp.reshape(covariance, (-1, size, size))
    parts = [
        _compare(flat_mean[at : at + BLOCK, :], flat_covariance[at : at + BLOCK, :, :])
        for at in range(0, max(flat_mean.shape[0], 1), BLOCK)
    ]
    return xp.reshape(xp.concat(parts, axis=0), (*mean.shape[:-1], size + 1))


def scalar_probability_of_largest(mean: Sequence[float], covariance: Sequence[Sequence[float]]) -> list[float]:
    """`probability_of_largest` for one problem in plain numbers: of up to two variables without an array's overhead."""
    if len(mean) < 3:
        return orthants.scalar_probability_of_largest(mean, covariance)
    found: list[float] = probability_of_largest(np.array(mean), np.array(covariance)).tolist()
    return found


def _compare(mean: Array, covariance: Array) -> Array:
    """`probability_of_largest` for (n, d) and (n, d, d)."""
    xp, size = array_namespace(mean), mean.shape[-1] + 1
    effects, spreads = xp.permute_dims(mean, (1, 0)), xp.permute_dims(covariance, (1, 2, 0))
    values = xp.concat([xp.zeros_like(effects[:1, :]), effects])
    differences = _measure_differences(spreads)
    found, left = xp.zeros_like(xp.permute_dims(values, (1, 0))), xp.ones_like(values[0, :], dtype=xp.bool)
    for chosen, parts, steps in _sort_independent(values, differences):
        found = _fill(found, chosen & left, parts, steps * size, partial(_compare_independent, steps))
        left = left & ~chosen
    inflation = _inflate(spreads, differences)
    for most, nodes in LARGEST_INFLATIONS.items():
        chosen, cells = inflation <= most, nodes.outer ** ((size - 2) // 2) * size
        found = _fill(found, chosen & left, (values, differences), cells, partial(_compare_each, nodes))
        left = left & ~chosen

    def compare_exactly(means: Array, covariances: Array) -> Array:
        return orthants.probability_of_largest(xp.permute_dims(means, (1, 0)), xp.permute_dims(covariances, (2, 0, 1)))

    return _fill(found, left, (effects, spreads), 1, compare_exactly)


def _sort_independent(values: Array, differences: Array) -> Iterator[tuple[Array, tuple[Array, ...], int]]:
    """Which problems are of nearly independent values, what is to be known of them, and the steps that they need."""
    xp = array_namespace(values)
    independent = IndependentValues.of_differences(values, differences)
    dependence = independent.measure_dependence()
    variance = xp.where(dependence <= NEARLY_INDEPENDENT, independent.variance, 1.0)
    needed = IndependentValues(values, variance).count_steps()
    for steps in NODES:
        yield (dependence <= INDEPENDENT) & (needed <= steps), (values, variance), steps
        yield (dependence <= NEARLY_INDEPENDENT) & (needed <= steps), (values, variance, independent.between), steps


def _compare_independent(steps: int, *parts: Array) -> Array:
    return IndependentValues(*parts).compare(steps)


def _fill(found: Array, chosen: Array, parts: tuple[Array, ...], cells: int, compare: Callable[..., Array]) -> Array:
    """Put the chosen problems' probabilities into (problems, actions).

    `parts` have their problems along the last axis, and each problem takes so many `cells` of an array.
    """
    xp = array_namespace(found)
    if is_torch_namespace(xp):
        # Which are chosen is not known before a GPU's recorded step runs.
        return xp.where(chosen[:, None], compare(*parts), found)
    places, step = np.flatnonzero(chosen), max(1, CELLS // cells)
    for at in (places[start : start + step] for start in range(0, len(places), step)):
        found[at] = compare(*(part[..., at] for part in parts))
    return found


def _measure_differences(spreads: Array) -> Array:
    """Variances of the differences between zero and d variables with covariances (d, d, n): (d + 1, d + 1, n)."""
    xp, size = array_namespace(spreads), spreads.shape[0] + 1
    found = xp.zeros((size, size, spreads.shape[-1]), dtype=spreads.dtype, device=device(spreads))
    for a in range(1, size):
        found[0, a, :] = found[a, 0, :] = spreads[a - 1, a - 1, :]
        for b in range(1, a):
            total = spreads[a - 1, a - 1, :] + spreads[b - 1, b - 1, :]
            found[a, b, :] = found[b, a, :] = total - 2 * spreads[a - 1, b - 1, :]
    return found


def _inflate(spreads: Array, differences: Array) -> Array:
    """The largest variance inflation among each value's differences from the others, (n,): infinite where V is singular.

    1/VIF is the share of a difference's variance that the other differences do not explain. With Q the inverse of V, the
    covariances of the differences from value 0, and Q₀₀ the sum of its elements, it is Q_bb times the variance D_ab: the
    inverse for another first value has the same elements.
    """
    xp, size = array_namespace(spreads), spreads.shape[0]
    inverse, regular = spreads + 0.0, xp.ones_like(spreads[0, 0, :], dtype=xp.bool)
    for k in range(size):
        pivot = inverse[k, k, :]
        regular = regular & (pivot > orthants.ROUNDING * spreads[k, k, :])
        pivot = xp.where(regular, pivot, 1.0)
        row = inverse[k, :, :] / pivot
        inverse = inverse - inverse[:, k : k + 1, :] * row[None, :, :]
        inverse[k, :, :] = inverse[:, k, :] = row
        inverse[k, k, :] = -1 / pivot
    most = xp.max(differences, axis=0)
    found = -most[0, :] * add_in_order([add_in_order(inverse[a, ...]) for a in range(size)])
    for a in range(size):
        found = xp.maximum(found, -inverse[a, a, :] * most[a + 1, :])
    return xp.where(regular, found, xp.inf)


def _compare_each(nodes: Nodes, values: Array, differences: Array) -> Array:
    """Each value against all others, but the one of the largest mean, which gets what is left, and hopeless ones."""
    xp, size = array_namespace(values), values.shape[0]
    deviations = xp.sqrt(differences)
    others = [[b for b in range(size) if b != a] for a in range(size)]

    def limit(i: int) -> Array:
        return xp.stack([(values[a] - values[b]) / deviations[a, b] for a in range(size) for b in [others[a][i]]])

    def correlate(i: int, k: int) -> Array:
        found = []
        for a in range(size):
            b, c = others[a][i], others[a][k]
            covariance = (differences[a, b] + differences[a, c] - differences[b, c]) / 2
            found.append(covariance / (deviations[a, b] * deviations[a, c]))
        return xp.stack(found)

    limits = [limit(i) for i in range(size - 1)]
    best = xp.argmax(values, axis=0)
    needed = xp.stack([best != a for a in range(size)])
    for one in limits:
        needed = needed & (one > HOPELESS)
    correlation = [[correlate(i, k) if i < k else None for k in range(size - 1)] for i in range(size - 1)]
    wins = _solve_needed(needed, limits, correlation, nodes)
    total = add_in_order(wins)
    rest = xp.clip(1 - total, 0.0, 1.0)
    whole = total + rest
    return xp.stack([xp.where(best == a, rest, wins[a, :]) / whole for a in range(size)], axis=-1)


def _solve_needed(needed: Array, limits: list[Array], correlation: list[list[Array | None]], nodes: Nodes) -> Array:
    """Orthant probabilities where they are needed, and 0 elsewhere, (actions, n)."""
    xp = array_namespace(needed)
    if is_torch_namespace(xp):
        found = plain_orthant_probability(limits, _mirror(correlation), nodes)
        return xp.where(needed, xp.clip(found, 0.0, 1.0), 0.0)
    wins = np.zeros(needed.shape)
    chosen = [[None if one is None else one[needed] for one in row] for row in correlation]
    found = plain_orthant_probability([one[needed] for one in limits], _mirror(chosen), nodes)
    wins[needed] = np.clip(found, 0.0, 1.0)
    return wins


def _mirror(upper: list[list[Array | None]]) -> list[list[Array | None]]:
    """Both halves of a symmetric matrix of which the upper one is given."""
    places = range(len(upper))
    return [[upper[min(i, k)][max(i, k)] for k in places] for i in places]
