"""The largest of several correlated t statistics: simultaneous intervals and adjusted p-values (max-t)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from surefoot.errors import InputError

Floats = NDArray[np.float64]
ANGLES = 4096  # Directions of a plane, equally spaced.
DIRECTIONS = 1 << 15  # Quasi-random directions of a space with more dimensions.
SAME = 1e-10  # Relative to the largest: a smaller eigenvalue of a correlation matrix is rounding.


@dataclass(frozen=True, eq=False)
class LargestT:
    """The distribution of max |T_j|, T multivariate t with a correlation matrix VVᵀ of rank r.

    T = R V U with a random direction U and R²/r ~ F(r, degrees), so that P(max |T_j| > c) = E P(F > c²/(r h(U)²)) with
    h(U) = max |V_j U|. Only the directions are drawn, with a fixed seed: tails are as accurate as the centre.

    >>> import numpy as np
    >>> alone = LargestT.of(np.array([[4.0]]), 10)
    >>> round(alone.critical(0.05), 4), round(alone.exceed(2.2281389), 4)
    (2.2281, 0.05)
    """

    reach: Floats  # h(U) of every direction.
    rank: int
    degrees: float

    @classmethod
    def of(cls, covariance: Floats, degrees: float) -> "LargestT":
        """Of estimates with this covariance, which may be singular: pairs of three actions have two dimensions."""
        scale = np.sqrt(np.diagonal(covariance))
        if not (scale > 0).all():
            raise InputError("a comparison has no standard error, so no simultaneous interval exists; leave it out")
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        used = values > SAME * values[-1]
        loadings = vectors[:, used] * np.sqrt(values[used])
        return cls(np.abs(loadings @ _draw_directions(loadings.shape[1])).max(axis=0), loadings.shape[1], degrees)

    def exceed(self, size: float) -> float:
        """P(max |T_j| > size), the adjusted p-value of a statistic of this size."""
        if np.isnan(size):
            return np.nan
        return float(fdtrc(self.rank, self.degrees, size**2 / (self.rank * self.reach**2)).mean())

    def critical(self, alpha: float = 0.05) -> float:
        """The size that max |T_j| exceeds with probability `alpha`."""
        from scipy.optimize import brentq
        from scipy.special import stdtrit

        comparisons = 1e6  # No family is as large: Bonferroni's limit for it lies above the size.
        highest = -float(stdtrit(self.degrees, alpha / (2 * comparisons)))
        return float(brentq(lambda size: self.exceed(size) - alpha, 0.0, highest, xtol=1e-12))


def _draw_directions(dimensions: int) -> Floats:
    """Unit vectors, (dimensions, directions); opposite ones have the same reach, so half of a circle is enough."""
    if dimensions == 1:
        return np.ones((1, 1))
    if dimensions == 2:
        angles = np.pi * (np.arange(ANGLES) + 0.5) / ANGLES
        return np.stack([np.cos(angles), np.sin(angles)])
    from scipy.special import ndtri
    from scipy.stats import qmc

    normal = ndtri(qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random(DIRECTIONS)).T
    return np.asarray(normal / np.linalg.norm(normal, axis=0))
