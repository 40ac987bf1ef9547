"""Robust regressors with scikit-learn's manners; they need scikit-learn (`pip install 'surefoot[sklearn]'`).

`CappedRegressor` is the paper's objective, Σ min{h_i², ε} + ζ g, around any regressor with residuals h and penalty g;
`HighBreakdownRegressor` is the linear regression of the `hb-` methods.
"""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.utils.validation import check_is_fitted, validate_data

from surefoot.learning.batch import Batch
from surefoot.learning.critics import Capped, HighBreakdown
from surefoot.learning.critics.regressor import fit_capped_regressor

__all__ = ["CappedRegressor", "HighBreakdownRegressor"]


class CappedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any regressor, made robust: rows with very large residuals are ignored.

    It minimises Σ_i min{h_i², ε} + ζ g, h the residuals and g the penalty of the regressor. The regressor is fitted to all
    rows; ε = τ (q₃ + 1.5 (q₃ − q₁)) of the squared residuals is then held; rows beyond it get weight 0 and the regressor is
    fitted again, until the weights stay. A regressor that minimises Σ h² + ζ g lowers the objective every time. Rows of
    weight 0 are left out, so that no regressor need know about weights.

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
    >>> fitted = CappedRegressor(Ridge(alpha=1e-6)).fit(x, y)
    >>> fitted.predict([[3.0]]).round(1), fitted.weights_.sum()
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


class HighBreakdownRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression on the rows that are outliers neither in X nor in y, as in the `hb-` methods.

    Parameters
    ----------
    alpha : float, default=1e-3
        ζ of the penalty ζ ‖coef‖²; the intercept has none.
    tau : float, default=1.0
        Multiplies the squared fences.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    weights_ : ndarray of shape (n_samples,)
        1 for rows that count, 0 for the others.
    threshold_ : float
        The square of the residual fence: a row that was left out within it was left out for its X.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> y = x @ [1.0, 2.0] + 0.1 * np.random.default_rng(1).standard_normal(100)
    >>> y[:30] += 50
    >>> HighBreakdownRegressor().fit(x, y).coef_.round(1)
    array([1., 2.])
    """

    removal = HighBreakdown.removal
    """How the audit speaks of what it leaves out, where it is a method's critic."""

    def __init__(self, *, alpha: float = 1e-3, tau: float = 1.0) -> None:
        self.alpha = alpha
        self.tau = tau

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        rows, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        target = target.astype(np.float64)
        features = np.column_stack([np.ones(len(target)), rows])[None]
        penalty = np.array([0.0, *[self.alpha] * rows.shape[1]])
        one_arm = np.zeros((1, len(target)), dtype=np.int64)
        usable = np.ones((1, len(target)))
        fit = HighBreakdown(self.tau).fit(Batch(features, rows[None], one_arm, target[None], usable, 1, penalty))
        self.intercept_ = float(fit.coef[0, 0])
        self.coef_ = fit.coef[0, 1:]
        self.weights_ = fit.weights[0]
        self.threshold_ = float(fit.threshold[0])
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64) @ self.coef_ + self.intercept_)
