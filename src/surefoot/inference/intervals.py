"""Intervals over people: a participant with many decision points is still one participant."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
FEW_PEOPLE = 30  # With fewer people intervals are rough, and are reported as such.


class Interval(NamedTuple):
    """An estimate with its standard error and 95 % interval; the ends are NaN where there is too little to tell."""

    value: float
    standard_error: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return bool(self.low > 0 or self.high < 0)

    def __neg__(self) -> "Interval":
        return Interval(-self.value, self.standard_error, -self.high, -self.low)


def t_quantile(degrees: float) -> float:
    """The quantile of Student's t that a two-sided 95 % interval needs."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def t_interval(value: float, standard_error: float, degrees: float) -> Interval:
    """value ± t · standard error."""
    half = t_quantile(degrees) * standard_error if degrees > 0 else np.nan
    return Interval(float(value), float(standard_error), float(value - half), float(value + half))


def mean_interval(values: NDArray[np.float64]) -> Interval:
    """The mean of independent values (of people, of replicates) with Student's t interval; no ends below two values.

    >>> [round(float(part), 3) for part in mean_interval(np.array([1.0, 2.0, 3.0]))]
    [2.0, 0.577, -0.484, 4.484]
    """
    count = len(values)
    if count < 2:
        return Interval(float(values.mean()) if count else np.nan, np.nan, np.nan, np.nan)
    return t_interval(float(values.mean()), float(values.std(ddof=1) / np.sqrt(count)), count - 1)


def wilson_interval(
    events: NDArray[np.float64], trials: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's 95 % limits of every share events / trials: honest with few trials and near 0 and 1.

    >>> low, high = wilson_interval(np.array([3.0]), np.array([8.0]))
    >>> print(low.round(3), high.round(3))
    [0.137] [0.694]
    """
    from scipy.special import ndtri

    share = events / trials
    z2 = float(ndtri((1 + CONFIDENCE) / 2)) ** 2
    half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2)))
    centre = share + z2 / (2 * trials)
    shrink = 1 + z2 / trials
    return (centre - half) / shrink, (centre + half) / shrink


def jackknife_interval(value: float, left_out: NDArray[np.float64]) -> Interval:
    """An estimate's interval from what it would be without each of the people: Student's t, corrected for skewness.

    With d the deviations of `left_out` from their mean, se² = (n − 1)/n Σ d² and γ the skewness of −d, the ends are value −
    se · g⁻¹(± t), g(T) = T + a T²/3 + a² T³/27 + a/6, a = γ/√n (Hall 1992), and at most 3/|a|. No draws, so no seed.

    >>> [round(part, 3) for part in jackknife_interval(2.0, np.array([2.5, 2.0, 1.5]))]  # the mean of 1, 2, 3
    [2.0, 0.577, -0.484, 4.484]
    """
    count = len(left_out)
    spread = left_out.mean() - left_out
    error = float(np.sqrt((count - 1) / count * (spread**2).sum()))
    tilt = float((spread**3).mean() / (spread**2).mean() ** 1.5 / np.sqrt(count)) if error > 0 else 0.0
    if abs(tilt) < 1e-6:
        return t_interval(value, error, count - 1)
    student = t_quantile(count - 1) * np.array([1.0, -1.0])
    # g is steep enough to be believed up to where its slope is zero, T = −3/a; an end never lies beyond.
    low, high = value - error * 3 / tilt * (np.cbrt(np.maximum(1 + tilt * (student - tilt / 6), 0.0)) - 1)
    return Interval(value, error, float(low), float(high))


def describe_roughness(people: int) -> str:
    """A remark on intervals over few people; empty where there are enough.

    >>> describe_roughness(9)
    '9 people: rough'
    """
    return f"{people} people: rough" if people < FEW_PEOPLE else ""


def ratio_interval(top: NDArray[Any], bottom: NDArray[Any]) -> Interval:
    """Σ top / Σ bottom, each given as one total per participant.

    >>> import numpy as np
    >>> steps, points = np.array([10.0, 30.0, 20.0, 40.0]), np.array([1.0, 3.0, 2.0, 4.0])
    >>> ratio_interval(steps, points)
    Interval(value=10.0, standard_error=0.0, low=10.0, high=10.0)
    """
    return difference_interval(top, bottom, np.zeros(len(top)), np.ones(len(top)))


def difference_interval(top: NDArray[Any], bottom: NDArray[Any], top_2: NDArray[Any], bottom_2: NDArray[Any]) -> Interval:
    """Σ top / Σ bottom − Σ top₂ / Σ bottom₂ with a jackknife interval over people; `jackknife_interval` says which.

    Both ratios are computed anew without each participant, denominators included. Where that cannot be, because one
    participant has all of a denominator, the interval is Student's with the linearised standard error.
    """
    people = len(top)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = top.sum() / bottom.sum()
        second = top_2.sum() / bottom_2.sum()
        value = float(first - second)
        if not np.isfinite(value) or people < 2:
            return Interval(value, np.nan, np.nan, np.nan)
        # About their ratios, so that the errors are not differences of large numbers.
        residuals = top - first * bottom
        residuals_2 = top_2 - second * bottom_2
        influence = residuals / bottom.sum() - residuals_2 / bottom_2.sum()
        left_out = value - residuals / (bottom.sum() - bottom) + residuals_2 / (bottom_2.sum() - bottom_2)
    error = float(np.sqrt(people / (people - 1) * (influence**2).sum()))
    if error <= 1e-12 * (abs(first) + abs(second)):
        return Interval(value, 0.0, value, value)
    if not np.isfinite(left_out).all():
        return t_interval(value, error, people - 1)
    return jackknife_interval(value, left_out)


def adjust_p_values(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's adjustment for the number of tests.

    >>> adjust_p_values(np.array([0.04, 0.03, 0.01]))
    array([0.06, 0.06, 0.03])
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1)), 1.0)
    return adjusted


def sum_by_participant(participant_index: NDArray[np.int64], people: int, values: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of `values` over each participant's rows."""
    return np.bincount(participant_index, weights=np.asarray(values, dtype=np.float64), minlength=people).astype(np.float64)
