"""Linear regression that survives a third of the rows being wrong."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from surefoot.learning.critics import HighBreakdown
from surefoot.learning.critics.high_breakdown import fit_high_breakdown


class HighBreakdownRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge on the rows that are far out neither in X as a whole nor in y, as the `hb-` methods find them.

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
        fit = fit_high_breakdown(
            features, target[None], usable, state=rows[None], action=one_arm, penalty=penalty, tau=self.tau
        )
        self.intercept_ = float(fit.coef[0, 0])
        self.coef_ = fit.coef[0, 1:]
        self.weights_ = fit.weights[0]
        self.threshold_ = float(fit.threshold[0])
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64) @ self.coef_ + self.intercept_)
