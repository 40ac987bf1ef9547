"""Cholesky factorisation of many small symmetric systems at once, one per person.

LAPACK is called once per matrix and gives up on the whole stack when one matrix is not positive definite. Here the loop
runs over the few columns instead of the many people, and a person whose matrix is singular does not disturb the others.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

Array = Any
"""An array of the array API standard: NumPy's, PyTorch's, …"""


class Cholesky:
    """Factor A = D⁻¹ L Lᵀ D⁻¹ for a stack of matrices (people, n, n), D scaling each diagonal to one.

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
        a = xp.permute_dims(matrix, (1, 2, 0))
        diagonal = xp.stack([a[j, j, :] for j in range(size)])
        self._scale = xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal)) ** -0.5
        a = a * self._scale[:, None, :] * self._scale[None, :, :]
        tolerance = 16 * size * float(xp.finfo(a.dtype).eps)
        self.smallest_pivot = xp.ones_like(a[0, 0, :])
        for j in range(size):
            self.smallest_pivot = xp.minimum(self.smallest_pivot, a[j, j, :])
            keep = a[j, j, :] > tolerance
            # With an infinite pivot the column below and the unknown itself become zero: the column is dropped.
            a[j, j, :] = xp.where(keep, xp.abs(a[j, j, :]) ** 0.5, xp.full_like(a[j, j, :], xp.inf))
            a[j + 1 :, j, :] = a[j + 1 :, j, :] / a[j, j, :]
            a[j + 1 :, j + 1 :, :] -= a[j + 1 :, None, j, :] * a[None, j + 1 :, j, :]
        self._lower = a
        self.rank = xp.sum(xp.astype(xp.stack([xp.isfinite(a[j, j, :]) for j in range(size)]), xp.int64), axis=0)
        self.positive_definite = self.smallest_pivot > tolerance

    def half_solve(self, right: Array) -> Array:
        """Solve D⁻¹ L y = b for right-hand sides (people, n): ‖y‖² is bᵀ A⁻¹ b."""
        xp, lower = self._xp, self._lower
        y = xp.permute_dims(right, (1, 0)) * self._scale
        for j in range(lower.shape[0]):
            y[j, :] = y[j, :] / lower[j, j, :]
            y[j + 1 :, :] -= lower[j + 1 :, j, :] * y[j, :]
        return y

    def half_solve_rows(self, rows: Array) -> list[Array]:
        """Solve D⁻¹ L y = b for every row b of (people, rows, n): the n columns of y, (people, rows) each."""
        columns: list[Array] = []
        for j in range(self._lower.shape[0]):
            left = rows[..., j] * self._scale[j, :, None]
            for k, column in enumerate(columns):
                left = left - self._lower[j, k, :, None] * column
            columns.append(left / self._lower[j, j, :, None])
        return columns

    def log_determinant(self) -> Array:
        """log det A, (people,), without the columns that were dropped."""
        xp, total = self._xp, self._xp.zeros_like(self._scale[0, :])
        for j in range(self._lower.shape[0]):
            pivot = self._lower[j, j, :]
            total = total + 2 * xp.log(xp.where(xp.isfinite(pivot), pivot / self._scale[j, :], xp.ones_like(pivot)))
        return total

    def solve(self, right: Array) -> Array:
        """Solve A y = b for right-hand sides (people, n)."""
        xp, lower = self._xp, self._lower
        y = self.half_solve(right)
        # No sums over an axis and no transposed result: both would be rounded differently for one person alone.
        solved = xp.empty_like(right)
        for j in range(lower.shape[0] - 1, -1, -1):
            y[j, :] = y[j, :] / lower[j, j, :]
            y[:j, :] -= lower[j, :j, :] * y[j, :]
            solved[:, j] = y[j, :] * self._scale[j, :]
        return solved
