"""How much a variable explains of the outcome that nothing else known explains.

Everything is taken in deviations from the participant's means: a trait of a person may go with the person's level of the
outcome. The partial correlation of outcome y and variable x_j given all other columns is −P_yj / √(P_yy P_jj), P the inverse
of the correlation matrix. The other columns are the other variables, the actions, and the values of y and of all variables
at the decision point before: a lagged outcome, or a slow variable, is known before the decision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RIDGE = 1e-8
"""Added to the diagonal of the correlation matrix, so that copies of a column do no harm."""
LEAST_FREE = 30
"""With fewer degrees of freedom large partial correlations arise by chance."""


class PartialCorrelations(NamedTuple):
    """Of every variable with the outcome, in absolute value; 0 where there is too little to tell."""

    beyond_others: Floats
    """Given the other variables, the actions and everything before."""
    beyond_past: Floats
    """Given the actions and the variable's and the outcome's values before."""


def correlate_partially(
    outcome: Floats, variables: Floats, controls: Floats, participant: NDArray[np.int64]
) -> PartialCorrelations:
    """Partial correlations of an outcome with variables (rows, variables).

    Parameters
    ----------
    outcome, variables
        Rows sorted by participant and time; NaN where missing.
    controls
        (rows, controls) such as actions, without missing values.
    participant
        Of every row.

    Returns
    -------
    PartialCorrelations

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> outcome = rng.normal(size=400)
    >>> variables = np.column_stack([outcome + 0.1 * rng.normal(size=400), rng.normal(size=400)])
    >>> found = correlate_partially(outcome, variables, np.zeros((400, 0)), np.repeat(np.arange(8), 50))
    >>> found.beyond_others.round(1)
    array([1., 0.])
    """
    has_before = np.append(False, np.diff(participant) == 0)
    earlier_outcome = np.where(has_before, np.roll(outcome, 1), np.nan)
    earlier = np.where(has_before[:, None], np.roll(variables, 1, axis=0), np.nan)
    count = variables.shape[1]
    beyond_past = np.zeros(count)
    for j in range(count):
        columns = [outcome, variables[:, j], earlier_outcome, earlier[:, j], *controls.T]
        beyond_past[j] = _correlate(np.column_stack(columns), participant)[0]
    together = np.column_stack([outcome, variables, earlier_outcome, controls])
    beyond_others = _correlate(np.column_stack([together, earlier]), participant)
    if np.isnan(beyond_others).any():  # Too few rows for every variable's past.
        beyond_others = _correlate(together, participant)
    return PartialCorrelations(np.nan_to_num(beyond_others[:count]), np.nan_to_num(beyond_past))


def _correlate(columns: Floats, participant: NDArray[np.int64]) -> Floats:
    """|partial correlation| of the first column with every other one given the others; NaN where rows are too few."""
    complete = ~np.isnan(columns).any(axis=1)
    values = columns[complete]
    _, group = np.unique(participant[complete], return_inverse=True)
    people = int(group.max(initial=-1)) + 1
    if len(values) - people - columns.shape[1] < LEAST_FREE:
        return np.full(columns.shape[1] - 1, np.nan)
    size = np.bincount(group)
    means = np.stack([np.bincount(group, weights=column) / size for column in values.T], axis=1)
    deviations = values - means[group]
    spread = np.sqrt((deviations**2).mean(axis=0))
    varies = spread > 1e-9 * np.abs(values).max(axis=0, initial=1.0)
    standard = np.where(varies, deviations / np.where(varies, spread, 1.0), 0.0)
    correlation = standard.T @ standard / len(standard)
    precision = np.linalg.inv(correlation + RIDGE * np.eye(len(correlation)))
    partial = np.abs(precision[0]) / np.sqrt(precision[0, 0] * np.diagonal(precision))
    return np.where(varies & varies[0], partial, 0.0)[1:]
