"""Whether a state variable says what the outcome was: how much it tells of it beyond the past and beyond all others.

A leak is a value that was measured with the outcome or after it. Honest variables may go with the outcome, too: a baseline
trait (between people), the outcome before (through the past), a slow state (through its own past). So everything is centred
within people, and what is left of a variable x and of the outcome y beside

    the action, the outcome before and x before                 (the past)
    the same and all other state variables                      (the others)

is correlated. The others reveal a sum that holds the outcome, such as a daily total; without them two leaks cannot hide each
other. Of a relation that bends, the best monotone function of x (isotonic regression of the ranks of y) takes the place of
x, which also finds a measurement behind an outcome of 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEWEST_ROWS = 30
"""Decision points beyond the number of people and of variables held fixed, below which nothing is said."""
NOTHING_LEFT = 1e-6
"""A variable of which less than this share of its variance is left is explained by what is held fixed."""
TAILS, FENCE = 0.01, 3.0
"""Outcomes in the tails, or so many interquartile ranges beyond the quartiles, are left out: an artefact in variable and
outcome must not look like a relation."""
SURE = 3.0
"""Standard errors of Fisher's z by which a correlation may be smaller than it is estimated."""
LOOK, LEAST, UNSAFE = 0.9, 0.8, 0.98
"""A variable is suspicious from the first correlation on if it surely has the second. From the third on it is nearly the
outcome itself; correlations that hold differences between people are larger still."""
RIDGE = 1e-9
"""Added to the variances of the other variables, which may be combinations of each other."""


@dataclass(frozen=True, eq=False)
class Series:
    """Decision points with what was seen, and what was seen before.

    Attributes
    ----------
    values
        State variables, (rows, variables); NaN where missing.
    earlier
        Their last known values before.
    outcome, earlier_outcome
        The same of the outcome, (rows,).
    action, person
        Codes, (rows,).
    """

    values: Floats
    earlier: Floats
    outcome: Floats
    earlier_outcome: Floats
    action: NDArray[np.int64]
    person: NDArray[np.int64]

    @classmethod
    def of_rows(cls, values: Floats, outcome: Floats, action: NDArray[np.int64], person: NDArray[np.int64]) -> Series:
        """Of rows in the order of people and, within them, of time."""
        last_known = _carry_forward(np.column_stack([outcome, values]), person)
        before = np.full_like(last_known, np.nan)
        before[1:] = np.where((person[1:] == person[:-1])[:, None], last_known[:-1], np.nan)
        return cls(values, before[:, 1:], outcome, before[:, 0], action, person)

    def take(self, rows: NDArray[np.bool_]) -> Series:
        """Some of the rows."""
        return Series(**{name: column[rows] for name, column in vars(self).items()})

    def take_variable(self, variable: int) -> Series:
        """The rows that have one variable, now and before, and nothing but this variable."""
        values = self.values[:, variable : variable + 1]
        earlier = self.earlier[:, variable : variable + 1]
        alone = Series(values, earlier, self.outcome, self.earlier_outcome, self.action, self.person)
        return alone.take(np.isfinite(values[:, 0]) & np.isfinite(earlier[:, 0]))

    def list_controls(self) -> Floats:
        """The action and the outcome before, (rows, columns)."""
        codes = np.unique(self.action)[1:]
        return np.column_stack([self.action[:, None] == codes, self.earlier_outcome])

    def count_free(self, controls: int) -> int:
        """Rows beyond the number of people and of what is held fixed."""
        return len(self.person) - len(np.unique(self.person)) - controls


@dataclass(frozen=True, eq=False)
class Correlations:
    """Of every variable with the outcome, beyond the past or beyond the others, whichever is larger.

    Attributes
    ----------
    size
        (variables,); 0 for a variable that does not vary within people, or not beyond its past.
    least
        What it surely is at least, (variables,).
    beyond_past
        That beyond the past alone, (variables,).
    judged
        Whether there are decision points enough to judge each of them, (variables,).
    """

    size: Floats
    least: Floats
    beyond_past: Floats
    judged: NDArray[np.bool_]

    @property
    def suspicious(self) -> NDArray[np.bool_]:
        """Which variables tell more of the outcome than what is known before it can, (variables,)."""
        return (self.size >= LOOK) & (self.least >= LEAST)

    @property
    def unsafe(self) -> NDArray[np.bool_]:
        """Which of these are nearly the outcome, (variables,)."""
        return self.suspicious & (self.size >= UNSAFE)


def correlate_with_outcome(series: Series) -> Correlations:
    """How much of the outcome each state variable tells.

    Parameters
    ----------
    series
        Decision points of people.

    Returns
    -------
    Correlations

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> person, outcome, noise = np.repeat(np.arange(4), 100), rng.normal(size=400), rng.normal(size=(400, 2))
    >>> values = np.column_stack([outcome + 0.1 * noise[:, 0], noise[:, 1]])
    >>> correlate_with_outcome(Series.of_rows(values, outcome, rng.integers(0, 2, 400), person)).size.round(2)
    array([0.99, 0.08])
    """
    known = series.take(np.isfinite(series.outcome) & np.isfinite(series.earlier_outcome))
    variables = series.values.shape[1]
    beyond_past = np.zeros(variables)
    free = np.zeros(variables, dtype=np.int64)
    for variable in range(variables):
        beyond_past[variable], free[variable] = _correlate_beyond_past(known.take_variable(variable))
    judged = free >= FEWEST_ROWS
    beyond_others, free_of_others = _correlate_beyond_others(known)
    beyond_others = np.where(judged, beyond_others, 0.0)
    least = np.maximum(_bound_below(beyond_past, free), _bound_below(beyond_others, np.full(variables, free_of_others)))
    return Correlations(np.maximum(beyond_past, beyond_others), least, beyond_past, judged)


def _bound_below(size: Floats, free: NDArray[np.int64]) -> Floats:
    """The lower end of Fisher's z."""
    with np.errstate(divide="ignore"):
        return np.tanh(np.arctanh(np.minimum(size, 1.0)) - SURE / np.sqrt(np.maximum(free, 1)))


def _correlate_beyond_past(series: Series) -> tuple[float, int]:
    """The correlation of the only variable with the outcome beyond the past, and on how many free rows it rests."""
    x = series.values[:, 0]
    controls = np.column_stack([series.list_controls(), series.earlier])
    free = series.count_free(controls.shape[1])
    if free < FEWEST_ROWS or np.ptp(series.outcome) == 0 or np.ptp(x) == 0:
        return 0.0, free
    inside = _is_inside(series.outcome)
    ranks = _rank(series.outcome)
    past = np.column_stack([series.list_controls()[:, :-1], _rank(series.earlier_outcome), _rank(series.earlier[:, 0])])
    linear = _correlate_residuals(x[inside], series.outcome[inside], controls[inside], series.person[inside])
    monotone = _correlate_residuals(_predict_monotone(x, ranks), ranks, past, series.person)
    return max(linear, monotone), free


def _correlate_beyond_others(series: Series) -> tuple[Floats, int]:
    """The correlation of every variable with the outcome beyond the past and all other variables.

    With Ω the inverse of XᵀX, what is left of x_j beside the others is XΩ_j / Ω_jj =: e, and what is left of any v beside
    the others is what all leave of it and b_j e, b the coefficients of v on X. So one inverse serves all variables.
    """
    inside = series.take(_is_inside(series.outcome))
    variables = inside.values.shape[1]
    controls = inside.list_controls()
    free = inside.count_free(controls.shape[1] + variables)
    if variables < 2 or free < FEWEST_ROWS or np.ptp(inside.outcome) == 0:
        return np.zeros(variables), 0
    # A missing value tells nothing: it becomes the mean of the participant.
    columns = np.column_stack([_clip(inside.values), _clip(inside.earlier), inside.outcome])
    left = _take_residuals(_centre(columns, inside.person), _centre(controls, inside.person))
    size = np.sqrt((left**2).mean(axis=0))
    left = left / np.where(size > 0, size, 1.0)
    x, before, outcome = left[:, :variables], left[:, variables:-1], left[:, -1:]
    inverse = np.linalg.inv(x.T @ x + RIDGE * len(x) * np.eye(variables))
    residual = x @ (inverse / np.diagonal(inverse))
    on_outcome = inverse @ (x.T @ outcome)
    on_before = inverse @ (x.T @ before)
    outcome_left = outcome - x @ on_outcome + on_outcome[:, 0] * residual
    before_left = before - x @ on_before + np.diagonal(on_before) * residual
    residual = residual - _project(residual, before_left)
    outcome_left = outcome_left - _project(outcome_left, before_left)
    return _correlate(residual, outcome_left, np.ones(variables)), free


def _project(values: Floats, onto: Floats) -> Floats:
    """Column by column."""
    length = (onto**2).sum(axis=0)
    share = (values * onto).sum(axis=0) / np.where(length > NOTHING_LEFT * len(onto), length, np.inf)
    return np.asarray(onto * share)


def _correlate_residuals(values: Floats, outcome: Floats, controls: Floats, person: NDArray[np.int64]) -> float:
    """|r| of values and outcome, both centred within people and beside the controls."""
    columns = _centre(np.column_stack([values, outcome]), person)
    left = _take_residuals(columns, _centre(controls, person))
    variance = (columns**2).mean(axis=0)
    return float(_correlate(left[:, :1], left[:, 1:], variance[:1], variance[1])[0])


def _correlate(values: Floats, outcome: Floats, variance: Floats, outcome_variance: float = 1.0) -> Floats:
    """|r| of every column; 0 where next to nothing is left of what had these variances."""
    left = (values**2).mean(axis=0)
    outcome_left = (outcome**2).mean(axis=0)
    told = (left > NOTHING_LEFT * variance) & (left > 0) & (outcome_left > NOTHING_LEFT**2 * outcome_variance)
    product = (values * outcome).mean(axis=0)
    return np.where(told, np.abs(product) / np.sqrt(np.where(told, left * outcome_left, 1.0)), 0.0)


def _take_residuals(columns: Floats, controls: Floats) -> Floats:
    width = np.sqrt((controls**2).mean(axis=0))
    scaled = controls / np.where(width > 0, width, 1.0)
    return columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]


def _centre(columns: Floats, person: NDArray[np.int64]) -> Floats:
    """Less the mean of each participant; 0 where missing."""
    codes = np.unique(person, return_inverse=True)[1]
    centred = np.empty_like(columns, dtype=np.float64)
    for place, column in enumerate(columns.T):
        known = np.isfinite(column)
        filled = np.where(known, column, 0.0)
        count = np.bincount(codes, weights=known)
        mean = np.bincount(codes, weights=filled) / np.where(count > 0, count, 1.0)
        centred[:, place] = np.where(known, filled - mean[codes], 0.0)
    return centred


def _is_inside(values: Floats) -> NDArray[np.bool_]:
    """Neither in the tails nor far from the others."""
    if not len(values):
        return np.zeros(0, dtype=bool)
    low, first, third, high = np.quantile(values, (TAILS, 0.25, 0.75, 1 - TAILS))
    if third > first:
        low = max(low, first - FENCE * (third - first))
        high = min(high, third + FENCE * (third - first))
    return np.asarray((values >= low) & (values <= high))


def _clip(values: Floats) -> Floats:
    """Values far from the others moved in, column by column."""
    clipped = np.array(values)
    for column in clipped.T:
        known = np.isfinite(column)
        if known.any():
            low, high = np.quantile(column[known], (TAILS, 1 - TAILS))
            if low < high:
                column[known] = np.clip(column[known], 2 * low - high, 2 * high - low)
    return clipped


def _rank(values: Floats) -> Floats:
    """From 0 to 1, the mean of equal values."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts + 1) / 2
    return np.asarray(ranks[inverse] / max(len(values) - 1, 1))


def _predict_monotone(values: Floats, outcome: Floats) -> Floats:
    """The outcome by the rising or falling function of the values that comes closest to it at every other row: a function
    that is judged where it was fitted looks better than it is."""
    from scipy.optimize import isotonic_regression

    predicted = np.full(len(values), outcome.mean())
    rising = _correlate_signed(_rank(values), outcome) >= 0
    parity = np.arange(len(values)) % 2
    for part in (0, 1):
        distinct, inverse, counts = np.unique(values[parity == part], return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=outcome[parity == part]) / counts
        fitted = isotonic_regression(means, weights=counts, increasing=rising).x
        predicted[parity != part] = np.interp(values[parity != part], distinct, fitted)
    return predicted


def _correlate_signed(values: Floats, outcome: Floats) -> float:
    return float(((values - values.mean()) * (outcome - outcome.mean())).sum())


def _carry_forward(values: Floats, person: NDArray[np.int64]) -> Floats:
    """The last known value of every column up to each row, within people."""
    rows = np.arange(len(values))[:, None]
    begins = np.concatenate([[True], person[1:] != person[:-1]]) if len(person) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(values)), 0))[:, None]
    known = np.maximum.accumulate(np.where(np.isnan(values), -1, rows), axis=0)
    return np.where(known >= first, np.take_along_axis(values, np.maximum(known, 0), axis=0), np.nan)
