"""Cholesky factorisation of many small symmetric systems at once, one per participant.

LAPACK is called once per matrix and gives up on the whole stack when one matrix is not positive definite. Here the loop
runs over the few columns instead of the many people, and one singular matrix does not affect the others. Larger matrices
are eliminated a few columns at a time, so that most of the work is done by matrix products.
"""

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from surefoot.numerics.arrays import CACHED, Array, array_namespace, contiguous, split_people

FEW = 12
"""Up to this many columns are eliminated one by one."""
MANY = 48
"""With more columns than this, `Cholesky` eliminates `FEW` columns at a time."""


class Solved(NamedTuple):
    """The result of `solve`."""

    solution: Array
    smallest_pivot: Array
    """The same as `Cholesky.smallest_pivot`, (people,)."""
    positive_definite: Array
    """Whether no column had to be dropped, (people,)."""


def solve(matrix: Array, right: Array) -> Solved:
    """Solve A Y = B for matrices (people, n, n) and right-hand sides (people, n, m).

    Singular systems fall back to `Cholesky`.

    >>> import numpy as np
    >>> solve(np.array([[[4.0, 2.0], [2.0, 5.0]]]), np.array([[[8.0], [12.0]]])).solution
    array([[[1.],
            [2.]]])
    """
    solved = solve_definite(matrix, right)
    singular = array_namespace(matrix).nonzero(~solved.positive_definite)[0]
    if singular.shape[0]:
        careful = Cholesky(matrix[singular])
        solved.smallest_pivot[singular] = careful.smallest_pivot
        solved.solution[singular] = careful.solve(right[singular])
    return solved


def solve_definite(matrix: Array, right: Array) -> Solved:
    """`solve` for positive definite matrices; the results of other matrices have no meaning.

    Eliminating A and B together is faster than factoring first. With LDLᵀ a block of columns and U = L⁻¹ (the rest of its
    rows), the others lose Uᵀ D⁻¹ U.
    """
    xp = array_namespace(matrix)
    people, size, m = right.shape
    solution = xp.empty(right.shape, dtype=matrix.dtype, device=device(matrix))
    smallest = xp.empty(people, dtype=matrix.dtype, device=device(matrix))
    with np.errstate(all="ignore"):  # The numbers of singular systems are replaced.
        few = people * size * (size + m) <= CACHED
        for part in [slice(0, people)] if few else split_people(matrix, size * (size + m)):
            left = xp.concat([matrix[part], right[part]], axis=-1)
            panels = []
            for first in range(0, size, FEW):
                last = min(first + FEW, size)
                # People go last: every operation on a panel then runs over contiguous memory.
                columns = size + m - first
                panel = xp.empty((last - first, columns, left.shape[0]), dtype=left.dtype, device=device(left))
                panel[...] = xp.permute_dims(left[:, first:last, first:], (1, 2, 0))
                pivots = panel.reshape((last - first) * columns, -1)[:: columns + 1, :]
                for j in range(last - first - 1):
                    row = panel[j, j + 1 :, :]
                    panel[j + 1 :, j + 1 :, :] -= (row[: last - first - j - 1, :] / pivots[j, :])[:, None, :] * row
                panels.append((first, last, panel, pivots))
                if last < size:
                    beside = contiguous(xp.permute_dims(panel[:, last - first :, :], (2, 0, 1)))
                    scaled = beside[:, :, : size - last] / xp.matrix_transpose(pivots)[..., None]
                    left[:, last:, last:] -= xp.matrix_transpose(scaled) @ beside
            y = solution[part]
            for first, last, panel, pivots in reversed(panels):
                known = panel[:, size - first :, :]
                if last < size:
                    beside = contiguous(xp.permute_dims(panel[:, last - first : size - first, :], (2, 0, 1)))
                    known = contiguous(known - xp.permute_dims(beside @ y[:, last:, :], (1, 2, 0)))
                for j in range(last - first - 1, -1, -1):
                    known[j, :, :] /= pivots[j, :]
                    known[:j, :, :] -= panel[:j, j, None, :] * known[j, :, :]
                y[:, first:last, :] = xp.permute_dims(known, (2, 0, 1))
            diagonal = xp.matrix_transpose(xp.linalg.diagonal(matrix[part]))
            pivots = xp.concat([panel[3] for panel in panels])
            smallest[part] = xp.min(pivots / xp.where(diagonal > 0, diagonal, 1.0), axis=0)
    return Solved(solution, smallest, smallest > 16 * size * float(xp.finfo(matrix.dtype).eps))


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
        size = matrix.shape[-1]
        diagonal = xp.stack([matrix[:, j, j] for j in range(size)])
        diagonal = xp.where(diagonal > 0, diagonal, 1.0)
        least = 16 * size * float(xp.finfo(matrix.dtype).eps) * diagonal
        self._pivots = xp.empty_like(diagonal)
        self._lower = a = contiguous(xp.permute_dims(matrix, (1, 2, 0)))
        width = FEW if size > MANY else size
        for first in range(0, size, width):
            last = min(first + width, size)
            for j in range(first, last):
                # With an infinite pivot the column below and the unknown itself become zero: the column is dropped.
                self._pivots[j, :] = xp.where(a[j, j, :] > least[j, :], a[j, j, :], xp.inf)
                column = a[j, j + 1 :, :] / self._pivots[j, :]
                a[j + 1 : last, j + 1 :, :] -= column[: last - j - 1, None, :] * a[j, j + 1 :, :]
                a[j + 1 :, j, :] = column
            if last < size:
                # With LDLᵀ the factored columns, the others lose L D Lᵀ: a product of matrices.
                lower = contiguous(xp.permute_dims(a[last:, first:last, :], (2, 0, 1)))
                upper = contiguous(xp.permute_dims(a[first:last, last:, :], (2, 0, 1)))
                a[last:, last:, :] -= xp.permute_dims(lower @ upper, (1, 2, 0))
        self.smallest_pivot = xp.min(xp.stack([a[j, j, :] for j in range(size)]) / diagonal, axis=0)

    @property
    def rank(self) -> Array:
        """How many columns were not dropped, (people,)."""
        xp = self._xp
        return xp.sum(xp.astype(xp.isfinite(self._pivots), xp.int64), axis=0)

    def _forward(self, right: Array) -> tuple[Array, Array, Array]:
        """Solve L y = b for right-hand sides (people, n, …): y (n, …, people), and L and D with as many axes."""
        y = contiguous(self._xp.permute_dims(right, (*range(1, right.ndim), 0)))
        lower = self._lower if y.ndim == 2 else self._lower[:, :, None, :]
        for j in range(y.shape[0] - 1):
            y[j + 1 :, ...] -= lower[j + 1 :, j, ...] * y[j, ...]
        return y, lower, self._pivots if y.ndim == 2 else self._pivots[:, None, :]

    def half_solve(self, right: Array) -> Array:
        """Solve L √D y = b for right-hand sides (people, n, …): y is (n, …, people), and yᵀy is bᵀ A⁻¹ b."""
        y, _, pivots = self._forward(right)
        return y / self._xp.sqrt(pivots)

    def log_determinant(self) -> Array:
        """log det A, (people,), without the columns that were dropped."""
        return _add_logarithms(self._pivots)

    def solve(self, right: Array) -> Array:
        """Solve A y = b for right-hand sides (people, n, …)."""
        y, lower, pivots = self._forward(right)
        y /= pivots
        # No sums over an axis: they would be rounded differently for one participant alone.
        for j in range(y.shape[0] - 1, 0, -1):
            y[:j, ...] -= lower[j, :j, ...] * y[j, ...]
        return contiguous(self._xp.permute_dims(y, (y.ndim - 1, *range(y.ndim - 1))))


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
    xp = array_namespace(matrix)
    size = matrix.shape[-1]
    least = 16 * size * float(xp.finfo(matrix.dtype).eps) * xp.stack([matrix[:, j, j] for j in range(size)])
    inverse, pivots = _sweep(matrix, least)
    return inverse, _add_logarithms(pivots)


def invert_definite(matrix: Array) -> tuple[Array, Array]:
    """`invert` for matrices that are far from singular, such as I + S: no column is dropped.

    A⁻¹ follows from the inverses of its first half and of what that leaves of the second: mostly products of matrices.
    """
    xp = array_namespace(matrix)
    size = matrix.shape[-1]
    inverse = xp.empty_like(matrix)
    pivots = xp.empty((size, matrix.shape[0]), dtype=matrix.dtype, device=device(matrix))
    for part in split_people(matrix, size**2):
        inverse[part], pivots[:, part] = _invert_halves(contiguous(matrix[part]))
    return inverse, _add_logarithms(pivots)


def _invert_halves(matrix: Array) -> tuple[Array, Array]:
    """A⁻¹ and the pivots, (n, people)."""
    xp = array_namespace(matrix)
    size = matrix.shape[-1]
    if size <= FEW:
        return _sweep(matrix)
    half = size // 2
    first, first_pivots = _invert_halves(matrix[:, :half, :half])
    beside = first @ matrix[:, :half, half:]
    last, last_pivots = _invert_halves(matrix[:, half:, half:] - matrix[:, half:, :half] @ beside)
    across = beside @ last
    inverse = xp.empty_like(matrix)
    inverse[:, :half, :half] = first + across @ xp.matrix_transpose(beside)
    inverse[:, :half, half:] = -across
    inverse[:, half:, :half] = -xp.matrix_transpose(across)
    inverse[:, half:, half:] = last
    return inverse, xp.concat([first_pivots, last_pivots])


def _sweep(matrix: Array, least: Array | None = None) -> tuple[Array, Array]:
    """A⁻¹ and the pivots, (n, people), after Gauss and Jordan; a column whose pivot does not exceed `least` is dropped."""
    xp = array_namespace(matrix)
    a = contiguous(xp.permute_dims(matrix, (1, 2, 0)))
    pivots = xp.empty((a.shape[0], a.shape[2]), dtype=a.dtype, device=device(a))
    for j in range(a.shape[0]):
        # With an infinite pivot the row becomes zero, and so does its column.
        pivots[j, :] = a[j, j, :] if least is None else xp.where(a[j, j, :] > least[j, :], a[j, j, :], xp.inf)
        column = contiguous(a[:, j, :])
        column[j, :] = 0.0
        a[:, j, :] = 0.0
        a[j, j, :] = 1.0
        a[j, :, :] /= pivots[j, :]
        a -= column[:, None, :] * a[j, None, :, :]
    return contiguous(xp.permute_dims(a, (2, 0, 1))), pivots


def _add_logarithms(pivots: Array) -> Array:
    """log det A, (people,), without the columns that were dropped."""
    xp = array_namespace(pivots)
    total = xp.zeros_like(pivots[0, :])
    for j in range(pivots.shape[0]):  # A sum over an axis would be rounded differently for one participant alone.
        total = total + xp.log(xp.where(xp.isfinite(pivots[j, :]), pivots[j, :], 1.0))
    return total
