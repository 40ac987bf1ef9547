"""Cholesky factorisation of many small symmetric systems at once, one per person.

LAPACK is called once per matrix and gives up on the whole stack when one matrix is not positive definite. Here the loop
runs over the few columns instead of the many people, and a person whose matrix is singular does not disturb the others.
"""

from __future__ import annotations

import numpy as np

from surefoot.arrays import Array, array_namespace, laid_out


def _diagonal(a: Array) -> Array:
    size = a.shape[0]
    return array_namespace(a).reshape(a, (size * size, -1))[:: size + 1, :]


class Cholesky:
    """Factor A = L D Lᵀ for a stack of matrices (people, n, n), L with ones and D with the pivots on its diagonal.

    A column that is, to rounding, a combination of the columns before it is dropped: its unknown is set to zero, as R's
    `lm` does for an aliased term. `positive_definite` tells for whom nothing had to be dropped; `smallest_pivot` is the
    least share of a column, of at most 1, that the columns before it do not explain: how far from singular a person is.

    >>> import numpy as np
    >>> Cholesky(np.array([[[4.0, 2.0], [2.0, 5.0]]])).solve(np.array([[8.0, 12.0]]))
    array([[1., 2.]])
    """

    def __init__(self, matrix: Array) -> None:
        self._xp = xp = array_namespace(matrix)
        size = matrix.shape[-1]
        # People go last: every operation below then runs over contiguous memory.
        given = laid_out(xp.permute_dims(matrix, (1, 2, 0)))
        a = xp.asarray(given, copy=True)
        with np.errstate(divide="ignore", invalid="ignore"):  # people who are singular are seen to below
            for j in range(size):
                self._eliminate(a, j, a[j, j, :])
        diagonal = _diagonal(given)
        diagonal = xp.where(diagonal > 0, diagonal, 1.0)
        self._lower, self._pivots = a, self._xp.asarray(_diagonal(a), copy=True)
        tolerance = 16 * size * float(xp.finfo(a.dtype).eps)
        self.smallest_pivot = xp.min(self._pivots / diagonal, axis=0)
        self.positive_definite = self.smallest_pivot > tolerance
        singular = xp.nonzero(~self.positive_definite)[0]
        if singular.shape[0]:
            self._drop_columns(singular, given[:, :, singular], diagonal[:, singular], tolerance)

    def _eliminate(self, a: Array, j: int, pivot: Array) -> None:
        """Column j of L, and the rest of the matrix without what it explains."""
        column = a[j, j + 1 :, :] / pivot
        a[j + 1 :, j + 1 :, :] -= column[:, None, :] * a[j, j + 1 :, :]
        a[j + 1 :, j, :] = column

    def _drop_columns(self, people: Array, a: Array, diagonal: Array, tolerance: float) -> None:
        """Factor singular matrices again, without the columns that the ones before explain."""
        xp = self._xp
        shares, pivots = xp.empty_like(diagonal), xp.empty_like(diagonal)
        for j in range(a.shape[0]):
            shares[j, :] = a[j, j, :] / diagonal[j, :]
            # With an infinite pivot the column below and the unknown itself become zero.
            pivots[j, :] = xp.where(shares[j, :] > tolerance, a[j, j, :], xp.inf)
            self._eliminate(a, j, pivots[j, :])
        self._lower[:, :, people], self._pivots[:, people] = a, pivots
        self.smallest_pivot[people] = xp.min(shares, axis=0)

    @property
    def rank(self) -> Array:
        """How many columns were not dropped, (people,)."""
        xp = self._xp
        return xp.sum(xp.astype(xp.isfinite(self._pivots), xp.int64), axis=0)

    def _forward(self, right: Array) -> Array:
        """Solve L y = b for right-hand sides (people, n, …); y is (n, …, people)."""
        y = laid_out(self._xp.permute_dims(right, (*range(1, right.ndim), 0)))
        for j in range(y.shape[0] - 1):
            below = self._lower[j + 1 :, j, :]
            y[j + 1 :, ...] -= (below if y.ndim == 2 else below[:, None, :]) * y[j, ...]
        return y

    def half_solve(self, right: Array) -> Array:
        """Solve L √D y = b for right-hand sides (people, n, …): y is (n, …, people), and yᵀy is bᵀ A⁻¹ b."""
        y, root = self._forward(right), self._xp.sqrt(self._pivots)
        return y / (root if y.ndim == 2 else root[:, None, :])

    def half_solve_rows(self, rows: Array) -> list[Array]:
        """Solve L √D y = b for every row b of (people, rows, n): the n columns of y, (people, rows) each."""
        columns: list[Array] = []
        for j in range(self._lower.shape[0]):
            left = rows[..., j]
            for k, column in enumerate(columns):
                left = left - self._lower[j, k, :, None] * column
            columns.append(left)
        root = self._xp.sqrt(self._pivots)
        return [column / root[j, :, None] for j, column in enumerate(columns)]

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
        # No sums over an axis: they would be rounded differently for one person alone.
        for j in range(y.shape[0] - 1, 0, -1):
            y[:j, :] -= self._lower[j, :j, :] * y[j, :]
        return laid_out(self._xp.matrix_transpose(y))
