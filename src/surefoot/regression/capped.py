"""Capped least squares around any regressor."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.utils.validation import check_is_fitted, validate_data

from surefoot.learning.critics import Capped
from surefoot.learning.critics.regressor import fit_capped_regressor


class CappedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Minimise Σ_i min{h_i², ε} + ζ g, h the residuals and g the penalty of any regressor.

    The regressor is fitted to all rows; ε = τ (q₃ + 1.5 (q₃ − q₁)) of the squared residuals is then held; rows beyond it get
    weight 0 and the regressor is fitted again, until the weights stay. A regressor that minimises Σ h² + ζ g lowers the
    objective every time. Rows of weight 0 are left out, so that no regressor need know about weights.

    Parameters
    ----------
    estimator : regressor, default=None
        None means `Ridge()`.
    tau : float, default=1.0
        τ.
    max_iter : int, default=100
        Fits at most.

    Attributes
    ----------
    estimator_ : regressor
        As fitted to the rows that were kept.
    weights_ : ndarray of shape (n_samples,)
        1 for rows that count, 0 for the others.
    threshold_ : float
        ε.
    n_iter_ : int
        Fits made.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(20.0)[:, None]
    >>> y = 2 * x[:, 0] + np.tile([0.1, -0.1], 10)
    >>> y[3] = 1000
    >>> found = CappedRegressor(Ridge(alpha=1e-6)).fit(x, y)
    >>> found.predict([[3.0]]).round(1), found.weights_.sum()
    (array([6.]), np.float64(19.0))
    """

    removal = Capped.removal
    """How the audit speaks of what it leaves out, where it is a method's critic."""

    def __init__(self, estimator: Any = None, *, tau: float = 1.0, max_iter: int = 100) -> None:
        self.estimator = estimator
        self.tau = tau
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        rows, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        target = target.astype(np.float64)
        template = Ridge() if self.estimator is None else self.estimator
        fit = fit_capped_regressor(template, rows, target, tau=self.tau, max_iter=self.max_iter)
        self.estimator_, self.weights_, self.threshold_, self.n_iter_, settled = fit
        if not settled:
            warnings.warn(f"the weights still change after {self.n_iter_} fits", ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(validate_data(self, X, reset=False, dtype=np.float64)))
