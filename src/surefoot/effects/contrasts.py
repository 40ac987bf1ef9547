"""Tests and intervals of linear combinations, t and F with the full corrected covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.estimators import ExcursionEstimate

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ContrastResults:
    """Linear combinations Cβ, one for each row of C, as statsmodels' `t_test` gives them."""

    names: tuple[str, ...]
    effect: Matrix
    sd: Matrix
    """Standard errors."""
    df_denom: int

    @property
    def tvalue(self) -> Matrix:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.effect / self.sd)

    @property
    def pvalue(self) -> Matrix:
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.df_denom, -np.abs(self.tvalue)))

    def conf_int(self, alpha: float = 0.05) -> Matrix:
        """(combinations, 2)."""
        from scipy.special import stdtrit

        half = stdtrit(self.df_denom, 1 - alpha / 2) * self.sd
        return np.column_stack([self.effect - half, self.effect + half])


@dataclass(frozen=True)
class JointTest:
    """F test that several coefficients are all nothing."""

    names: tuple[str, ...]
    fvalue: float
    df_num: int
    df_denom: int
    pvalue: float


def covariance(estimate: ExcursionEstimate, *, corrected: bool | None = None) -> Matrix:
    """Of all coefficients; corrected as the estimator wants it unless told."""
    chosen = estimate.corrected if corrected is None else corrected
    return estimate.root.corrected if chosen else estimate.root.plain


def joint_test(estimate: ExcursionEstimate, names: tuple[str, ...] = (), contrasts: Matrix | None = None) -> JointTest:
    """Hotelling's T² (n − q − p)/(k (n − q − p + k − 1)) ~ F(k, n − q − p) for k combinations of the p coefficients.

    For all p of them that is T² (n − q − p)/(p (n − q − 1)), for a single one the square of its t.
    """
    from scipy.special import fdtrc

    q, degrees = estimate.controls, estimate.degrees
    matrix = np.eye(estimate.effects) if contrasts is None else contrasts
    size = len(matrix)
    value = matrix @ estimate.root.theta[q:]
    spread = matrix @ covariance(estimate)[q:, q:] @ matrix.T
    scale = np.sqrt(np.diagonal(spread))
    if not (scale > 0).all():  # An outcome that the action decides leaves no spread.
        return JointTest(names, np.nan, size, degrees, np.nan)
    value, spread = value / scale, spread / np.outer(scale, scale)
    statistic = float(value @ np.linalg.solve(spread, value)) * degrees / (size * (degrees + size - 1))
    return JointTest(names, statistic, size, degrees, float(fdtrc(size, degrees, statistic)))
