"""Cholesky factorisation of many small symmetric systems at once, one per participant.

LAPACK is called once per matrix and gives up on the whole stack when one matrix is not positive definite. Here the loop
runs over the few columns instead of the many people, and one singular matrix does not disturb the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from surefoot.numerics.arrays import Array, array_namespace, contiguous


class Solved(NamedTuple):
    """What `solve` gives."""

    solution: Array
    smallest_pivot: Array
    """As of `Cholesky`, (people,)."""
    positive_definite: Array
    """For whom no column had to be dropped, (people,)."""


def solve(matrix: Array, right: Array) -> Solved:
    """Solve A Y = B for matrices (people, n, n) and right-hand sides (people, n, m).

    Singular systems fall back to `Cholesky`.

    >>> import numpy as np
    >>> solve(np.array([[[4.0, 2.0], [2.0, 5.0]]]), np.array([[[8.0], [12.0]]])).solution
    array([[[1.],
            [2.]]])
    """
    found = solve_definite(matrix, right)
    singular = array_namespace(matrix).nonzero(~found.positive_definite)[0]
    if singular.shape[0]:
        careful = Cholesky(matrix[singular])
        found.smallest_pivot[singular] = careful.smallest_pivot
        for column in range(right.shape[-1]):
            found.solution[singular, :, column] = careful.solve(right[singular, :, column])
    return found


def solve_definite(matrix: Array, right: Array) -> Solved:
    """`solve` for those whose matrix is positive definite; what the others get has no meaning.

    Eliminating A and B together is quicker than factoring first.
    """
    xp, (people, size, m) = array_namespace(matrix), right.shape
    # People go last: every operation below then runs over contiguous memory.
    a = xp.empty((size, size + m, people), dtype=matrix.dtype, device=device(matrix))
    a[:, :size, :], a[:, size:, :] = xp.permute_dims(matrix, (1, 2, 0)), xp.permute_dims(right, (1, 2, 0))
    pivots = xp.reshape(a, (size * (size + m), people))[:: size + m + 1, :]
    diagonal = xp.where(pivots > 0, pivots, 1.0)
    y = a[:, size:, :]
    with np.errstate(all="ignore"):  # The numbers of singular systems are replaced below.
        for j in range(size - 1):
            row = a[j, j + 1 :, :]
            a[j + 1 :, j + 1 :, :] -= (row[: size - j - 1, :] / pivots[j, :])[:, None, :] * row
        for j in range(size - 1, -1, -1):
            y[j, :, :] /= pivots[j, :]
            y[:j, :, :] -= a[:j, j, None, :] * y[j, :, :]
    smallest = xp.min(pivots / diagonal, axis=0)
    return Solved(contiguous(xp.permute_dims(y, (2, 0, 1))), smallest, smallest > _tolerance(matrix))


def _tolerance(matrix: Array) -> float:
    """A share of a column below this is rounding."""
    size: int = matrix.shape[-1]
    return 16 * size * float(array_namespace(matrix).finfo(matrix.dtype).eps)


class Cholesky:
    """Factor A = L D Lᵀ for a stack of matrices (people, n, n), L with ones and D with the pivots on its diagonal.

    A column that is, to rounding, a combination of the columns before it is dropped: its unknown is set to zero, as R's
    `lm` does for an aliased term. `smallest_pivot` is the least share of a column, of at most 1, that the columns before it
    do not explain: how far from singular a participant is.

    >>> import numpy as np
    >>> Cholesky(np.array([[[4.0, 2.0], [2.0, 5.0]]])).solve(np.array([[8.0, 12.0]]))
    array([[1., 2.]])
    """

    def __init__(self, matrix: Array) -> None:
        self._xp = xp = array_namespace(matrix)
        size, tolerance = matrix.shape[-1], _tolerance(matrix)
        a = contiguous(xp.permute_dims(matrix, (1, 2, 0)))
        diagonal = xp.stack([a[j, j, :] for j in range(size)])
        diagonal = xp.where(diagonal > 0, diagonal, 1.0)
        self._pivots = xp.empty_like(diagonal)
        for j in range(size):
            # With an infinite pivot the column below and the unknown itself become zero: the column is dropped.
            self._pivots[j, :] = xp.where(a[j, j, :] > tolerance * diagonal[j, :], a[j, j, :], xp.inf)
            column = a[j, j + 1 :, :] / self._pivots[j, :]
            a[j + 1 :, j + 1 :, :] -= column[:, None, :] * a[j, j + 1 :, :]
            a[j + 1 :, j, :] = column
        self._lower = a
        self.smallest_pivot = xp.min(xp.stack([a[j, j, :] for j in range(size)]) / diagonal, axis=0)

    @property
    def rank(self) -> Array:
        """How many columns were not dropped, (people,)."""
        xp = self._xp
        return xp.sum(xp.astype(xp.isfinite(self._pivots), xp.int64), axis=0)

    def _forward(self, right: Array) -> Array:
        """Solve L y = b for right-hand sides (people, n, …); y is (n, …, people)."""
        y = contiguous(self._xp.permute_dims(right, (*range(1, right.ndim), 0)))
        for j in range(y.shape[0] - 1):
            below = self._lower[j + 1 :, j, :]
            y[j + 1 :, ...] -= (below if y.ndim == 2 else below[:, None, :]) * y[j, ...]
        return y

    def half_solve(self, right: Array) -> Array:
        """Solve L √D y = b for right-hand sides (people, n, …): y is (n, …, people), and yᵀy is bᵀ A⁻¹ b."""
        y, root = self._forward(right), self._xp.sqrt(self._pivots)
        return y / (root if y.ndim == 2 else root[:, None, :])

    def log_determinant(self) -> Array:
        """log det A, (people,), without the columns that were dropped."""
        xp, total = self._xp, self._xp.zeros_like(self._pivots[0, :])
        for j in range(self._pivots.shape[0]):
            pivot = self._pivots[j, :]
            total = total + xp.log(xp.where(xp.isfinite(pivot), pivot, 1.0))
        return total

    def solve(self, right: Array) -> Array:
        """Solve A y = b for right-hand sides (people, n)."""
        y = self._forward(right) / self._pivots
        # No sums over an axis: they would be rounded differently for one participant alone.
        for j in range(y.shape[0] - 1, 0, -1):
            y[:j, :] -= self._lower[j, :j, :] * y[j, :]
        return contiguous(self._xp.matrix_transpose(y))


def invert(matrix: Array) -> tuple[Array, Array]:
    """A⁻¹ (people, n, n) of symmetric positive semi-definite matrices, and log det A, (people,).

    A column that is a combination of the columns before it is dropped, as by `Cholesky`: its row and column of the inverse
    are zero, and the determinant is that of the others.

    >>> import numpy as np
    >>> inverse, log_determinant = invert(np.array([[[4.0, 0.0], [0.0, 0.5]]]))
    >>> inverse, log_determinant.round(3)
    (array([[[0.25, 0.  ],
            [0.  , 2.  ]]]), array([0.693]))
    """
    xp, tolerance = array_namespace(matrix), _tolerance(matrix)
    a = contiguous(xp.permute_dims(matrix, (1, 2, 0)))
    size = a.shape[0]
    diagonal = xp.stack([a[j, j, :] for j in range(size)])
    log_determinant = xp.zeros_like(diagonal[0, :])
    for j in range(size):
        # Gauss and Jordan: with an infinite pivot the row becomes zero, and so does its column.
        pivot = xp.where(a[j, j, :] > tolerance * diagonal[j, :], a[j, j, :], xp.inf)
        log_determinant = log_determinant + xp.log(xp.where(xp.isfinite(pivot), pivot, 1.0))
        column = contiguous(a[:, j, :])
        column[j, :] = 0.0
        a[:, j, :] = 0.0
        a[j, j, :] = 1.0
        a[j, :, :] /= pivot
        a -= column[:, None, :] * a[j, None, :, :]
    return contiguous(xp.permute_dims(a, (2, 0, 1))), log_determinant
