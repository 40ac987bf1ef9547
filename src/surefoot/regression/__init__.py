"""Robust regressors with scikit-learn's manners; they need scikit-learn (`pip install 'surefoot[sklearn]'`).

`CappedRegressor` is the paper's objective, Σ min{h_i², ε} + ζ g, around any regressor with residuals h and penalty g;
`HighBreakdownRegressor` is the linear regression of the `hb-` methods.
"""

from surefoot.regression.capped import CappedRegressor
from surefoot.regression.high_breakdown import HighBreakdownRegressor

__all__ = ["CappedRegressor", "HighBreakdownRegressor"]
