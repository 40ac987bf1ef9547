"""Whether a state variable says what the outcome was: how much it tells of it beyond the past and beyond all others.

A leak is a value that was measured with the outcome or after it. Honest variables may go with the outcome, too: a baseline
trait (between people), the outcome before (through the past), a slow state (through its own past). So everything is centred
within people, and the residuals of a variable x and of the outcome y, given

    the action, the outcome before and x before                 (the past)
    the same and all other state variables                      (the others)

are correlated. The others reveal a sum that holds the outcome, such as a daily total; without them two leaks cannot hide
each other. Of a relation that bends, the best monotone function of x (isotonic regression of the ranks of y) takes the place
of x, which also finds a measurement behind an outcome of 0 and 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
FEWEST_ROWS = 30
"""Decision points beyond the number of people and of variables held fixed, below which nothing is said."""
NOTHING_LEFT = 1e-6
"""A variable of which less than this share of its variance is left is explained by what is held fixed."""
TAILS = 0.01  # Outcomes in the tails are left out: an artefact in variable and outcome must not look like a relation.
FENCE = 3.0  # So are outcomes this many interquartile ranges beyond the quartiles.
SURE = 3.0  # Standard errors of Fisher's z by which a correlation may be smaller than it is estimated.
LOOK = 0.9  # A variable with this correlation is suspicious if it surely has at least the next.
LEAST = 0.8
UNSAFE = 0.98
"""With this correlation it is nearly the outcome itself; correlations that hold differences between people are larger."""
RIDGE = 1e-9  # Added to the variances of the other variables, which may be combinations of each other.


class Correlations(NamedTuple):
    """Of every variable with the outcome, beyond the past or beyond the others, whichever is larger; (variables,) each."""

    size: Floats  # 0 for a variable that does not vary within people, or not beyond its past.
    beyond_past: Floats  # Beyond the past alone.
    judged: NDArray[np.bool_]  # Whether there are enough decision points to judge the variable.
    suspicious: NDArray[np.bool_]  # Variables that say more about the outcome than can be known before it.
    unsafe: NDArray[np.bool_]  # Suspicious variables that are nearly the outcome.


def correlate_with_outcome(values: Floats, outcome: Floats, action: Codes, person: Codes) -> Correlations:
    """Correlate state variables (rows, variables), NaN where missing, with the outcome; rows by person and time.

    >>> rng = np.random.default_rng(0)
    >>> person, outcome, noise = np.repeat(np.arange(4), 100), rng.normal(size=400), rng.normal(size=(400, 2))
    >>> values = np.column_stack([outcome + 0.1 * noise[:, 0], noise[:, 1]])
    >>> correlate_with_outcome(values, outcome, rng.integers(0, 2, 400), person).size.round(2)
    array([0.99, 0.08])
    """
    earlier = _find_earlier(np.column_stack([outcome, values]), person)
    known = np.isfinite(outcome) & np.isfinite(earlier[:, 0])
    values = values[known]
    outcome = outcome[known]
    action = action[known]
    person = person[known]
    past_outcome = earlier[known, 0]
    past_values = earlier[known, 1:]
    variables = values.shape[1]
    beyond_past = np.zeros(variables)
    free = np.zeros(variables, dtype=np.int64)
    for j in range(variables):
        rows = np.isfinite(values[:, j]) & np.isfinite(past_values[:, j])
        past = np.column_stack([past_outcome, past_values[:, j]])[rows]
        beyond_past[j], free[j] = _correlate_beyond_past(values[rows, j], outcome[rows], past, action[rows], person[rows])
    judged = free >= FEWEST_ROWS
    beyond_others, free_of_others = _correlate_beyond_others(values, past_values, outcome, past_outcome, action, person)
    beyond_others = np.where(judged, beyond_others, 0.0)
    sizes = np.stack([beyond_past, beyond_others])
    with np.errstate(divide="ignore"):  # The lower end of Fisher's z.
        error = SURE / np.sqrt(np.maximum(np.stack([free, np.full(variables, free_of_others)]), 1))
        least = np.tanh(np.arctanh(np.minimum(sizes, 1.0)) - error).max(axis=0)
    size = sizes.max(axis=0)
    suspicious = (size >= LOOK) & (least >= LEAST)
    return Correlations(size, beyond_past, judged, suspicious, suspicious & (size >= UNSAFE))


def _find_earlier(values: Floats, person: Codes) -> Floats:
    """The last known value of every column before each row, within people."""
    rows = np.arange(len(values))[:, None]
    begins = np.diff(person, prepend=person[:1] - 1) != 0
    first = np.maximum.accumulate(np.where(begins[:, None], rows, 0))
    known = np.maximum.accumulate(np.where(np.isnan(values), -1, rows), axis=0)
    last_known = np.where(known >= first, np.take_along_axis(values, np.maximum(known, 0), axis=0), np.nan)
    earlier = np.full_like(last_known, np.nan)
    earlier[1:] = np.where(begins[1:, None], np.nan, last_known[:-1])
    return earlier


def _correlate_beyond_past(x: Floats, outcome: Floats, past: Floats, action: Codes, person: Codes) -> tuple[float, int]:
    """The correlation of a variable with the outcome beyond their past (rows, 2), and its number of free rows."""
    actions = action[:, None] == np.unique(action)[1:]
    free = len(person) - len(np.unique(person)) - actions.shape[1] - 2
    if free < FEWEST_ROWS or np.ptp(outcome) == 0 or np.ptp(x) == 0:
        return 0.0, free
    inside = _is_inside(outcome)
    ranks = _rank(outcome)
    controls = np.column_stack([actions, past])[inside]
    ranked_controls = np.column_stack([actions, _rank(past)])
    sizes = []
    for values, target, fixed, people in (
        (x[inside], outcome[inside], controls, person[inside]),
        (_predict_monotone(x, ranks), ranks, ranked_controls, person),
    ):
        centred = _centre(np.column_stack([values, target, fixed]), people)
        columns = centred[:, :2]
        left = _take_residuals(columns, centred[:, 2:])
        variance = (columns**2).mean(axis=0)
        sizes.append(_correlate(left[:, :1], left[:, 1:], variance[:1], variance[1])[0])
    return float(max(sizes)), free


def _correlate_beyond_others(
    values: Floats, past_values: Floats, outcome: Floats, past_outcome: Floats, action: Codes, person: Codes
) -> tuple[Floats, int]:
    """The correlation of every variable with the outcome beyond the past and all other variables.

    With Ω the inverse of XᵀX, the residual of x_j given the others is XΩ_j / Ω_jj =: e, and that of any v given the others
    is its residual given all and b_j e, b the coefficients of v on X. So one inverse serves all variables.
    """
    inside = _is_inside(outcome)
    variables = values.shape[1]
    controls = np.column_stack([action[inside, None] == np.unique(action[inside])[1:], past_outcome[inside]])
    person = person[inside]
    free = len(person) - len(np.unique(person)) - controls.shape[1] - variables
    if variables < 2 or free < FEWEST_ROWS or np.ptp(outcome[inside]) == 0:
        return np.zeros(variables), 0
    # A missing value tells nothing: it becomes the mean of the participant.
    columns = np.column_stack([_clip(values[inside]), _clip(past_values[inside]), outcome[inside]])
    residuals = _take_residuals(_centre(columns, person), _centre(controls, person))
    size = np.sqrt((residuals**2).mean(axis=0))
    residuals = residuals / np.where(size > 0, size, 1.0)
    x = residuals[:, :variables]
    before = residuals[:, variables:-1]
    y = residuals[:, -1:]
    inverse = np.linalg.inv(x.T @ x + RIDGE * len(x) * np.eye(variables))
    x_left = x @ (inverse / np.diagonal(inverse))
    on_outcome = inverse @ (x.T @ y)
    on_before = inverse @ (x.T @ before)
    y_left = y - x @ on_outcome + on_outcome[:, 0] * x_left
    before_left = before - x @ on_before + np.diagonal(on_before) * x_left
    length = (before_left**2).sum(axis=0)
    length = np.where(length > NOTHING_LEFT * len(before_left), length, np.inf)
    x_left = x_left - before_left * ((x_left * before_left).sum(axis=0) / length)
    y_left = y_left - before_left * ((y_left * before_left).sum(axis=0) / length)
    return _correlate(x_left, y_left, np.ones(variables)), free


def _correlate(values: Floats, outcome: Floats, variance: Floats, outcome_variance: float = 1.0) -> Floats:
    """|r| of every column; 0 where next to nothing is left of columns that had these variances."""
    left = (values**2).mean(axis=0)
    outcome_left = (outcome**2).mean(axis=0)
    varies = (left > NOTHING_LEFT * variance) & (left > 0) & (outcome_left > NOTHING_LEFT**2 * outcome_variance)
    product = (values * outcome).mean(axis=0)
    return np.where(varies, np.abs(product) / np.sqrt(np.where(varies, left * outcome_left, 1.0)), 0.0)


def _take_residuals(columns: Floats, controls: Floats) -> Floats:
    width = np.sqrt((controls**2).mean(axis=0))
    scaled = controls / np.where(width > 0, width, 1.0)
    return columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]


def _centre(columns: Floats, person: Codes) -> Floats:
    """Less the mean of each participant; 0 where missing."""
    codes = np.unique(person, return_inverse=True)[1]
    centred = np.empty_like(columns, dtype=np.float64)
    for j, column in enumerate(columns.T):
        known = np.isfinite(column)
        filled = np.where(known, column, 0.0)
        mean = np.bincount(codes, weights=filled) / np.maximum(np.bincount(codes, weights=known), 1.0)
        centred[:, j] = np.where(known, filled - mean[codes], 0.0)
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
    """From 0 to 1; equal values share the mean of their ranks."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(values, axis=0) - 1) / max(len(values) - 1, 1))


def _predict_monotone(values: Floats, outcome: Floats) -> Floats:
    """The outcome by the rising or falling function of the values that comes closest to it at every other row: a function
    that is judged where it was fitted looks better than it is."""
    from scipy.optimize import isotonic_regression

    predicted = np.full(len(values), outcome.mean())
    ranks = _rank(values)
    rising = ((ranks - ranks.mean()) * (outcome - outcome.mean())).sum() >= 0
    parity = np.arange(len(values)) % 2
    for half in (0, 1):
        distinct, inverse, counts = np.unique(values[parity == half], return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=outcome[parity == half]) / counts
        fitted = isotonic_regression(means, weights=counts, increasing=bool(rising)).x
        predicted[parity != half] = np.interp(values[parity != half], distinct, fitted)
    return predicted
