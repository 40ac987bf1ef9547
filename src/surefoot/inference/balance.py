"""Whether actions were drawn with the stated probabilities, whatever was known before the decision.

Where an action is drawn with probability p, no tilt of the stated probabilities along an x that was known before should
explain the actions better: with logit q = logit p + λ x, the likelihood ratio Π q(A)/p(A) has mean 1 and, by Chernoff,

    P(max over λ of the ratio ≥ 1/α) ≤ 2 α,

for few rows, small probabilities and long tails of x alike, where a normal approximation would fail (docs/audit.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, stdtr

from surefoot.inference.intervals import adjust_p_values

Floats = NDArray[np.float64]
FALSE_ALARMS = 1e-3  # The bound on the share of sound logs in which any variable is called out of balance.
UNSAFE_SLOPE = 0.02
"""Where a standard deviation of a variable moves an action by two points beyond its probability, effects are biased."""
LOOK_SLOPE = 0.005  # Below half a point the rounding of logged probabilities explains it.
WORTH_A_LOOK = 3.0  # In standard errors; what is nearer to 0 needs no likelihood ratio.
FEW_PEOPLE = 10  # With fewer the spread between people says little.
MILDER = 0.1
"""Between people the p-value may be ten times as large: that test only guards against draws that depend on each other."""
ROUNDING = 1e-9  # A variable that varies by less, compared with its size, does not vary.


@dataclass(frozen=True)
class Imbalance:
    """How actions follow a variable beyond the stated probabilities."""

    variable: str
    slope: float  # Probability by which a standard deviation of the variable moves the action, beyond what is stated.
    p_value: float  # Adjusted for the number of variables (Holm).

    @property
    def is_sure(self) -> bool:
        """More than chance, and more than rounded probabilities explain."""
        return self.p_value < FALSE_ALARMS and abs(self.slope) >= LOOK_SLOPE

    @property
    def is_unsafe(self) -> bool:
        """Large enough to bias effects."""
        return self.is_sure and abs(self.slope) >= UNSAFE_SLOPE


def find_imbalances(
    taken: NDArray[np.bool_], probability: Floats, variables: Mapping[str, Floats], person: NDArray[np.int64]
) -> list[Imbalance]:
    """One entry for each variable (NaN where unknown) that varies, in their order.

    The rows are those at which the action was drawn, with its stated probability strictly between 0 and 1.

    >>> rng = np.random.default_rng(0)
    >>> home = rng.integers(0, 2, 600).astype(float)
    >>> taken = rng.random(600) < np.where(home == 1, 0.8, 0.3)
    >>> (imbalance,) = find_imbalances(taken, np.full(600, 0.5), {"home": home}, np.repeat(np.arange(20), 30))
    >>> imbalance.is_sure, round(imbalance.slope, 2)
    (True, 0.25)
    """
    slopes = {}
    p_values = []
    for name, column in variables.items():
        known = ~np.isnan(column)
        values = column[known]
        if len(values) < 2 or np.ptp(values) <= ROUNDING * np.abs(values).max():
            continue
        stated = probability[known]
        variance = stated * (1 - stated)
        # Towards the mean, so that a wrong share of actions overall is not blamed on every variable.
        values = values - variance @ values / variance.sum()
        values /= values.std()
        surprise = (taken[known] - stated) * values
        slopes[name] = float(surprise.mean())
        p_value = 1.0
        if abs(surprise.sum()) >= WORTH_A_LOOK * np.sqrt(variance @ values**2):
            ratio = 2 * np.exp(-_find_log_ratio(taken[known], stated, values))
            p_value = max(min(1.0, ratio), MILDER * _compare_people(surprise, person[known]))
        p_values.append(p_value)
    adjusted = adjust_p_values(np.array(p_values))
    return [Imbalance(name, slope, float(p)) for (name, slope), p in zip(slopes.items(), adjusted, strict=True)]


def _find_log_ratio(taken: NDArray[np.bool_], probability: Floats, values: Floats) -> float:
    """The largest log Π q(A)/p(A) that Newton's method meets; every λ gives a lower bound of it."""
    stated = np.log(probability) - np.log1p(-probability)
    largest = 0.0
    tilt = 0.0
    for _ in range(25):
        tilted = expit(stated + tilt * values)
        change = ((taken - tilted) @ values) / max(float((tilted * (1 - tilted)) @ values**2), 1e-9)
        tilt += float(np.clip(change, -1.0, 1.0))
        gain = tilt * (taken @ values) - np.log1p(probability * np.expm1(np.clip(tilt * values, -700, 700))).sum()
        largest = max(largest, float(gain))
        if abs(change) < 1e-6:
            break
    return largest


def _compare_people(surprise: Floats, person: NDArray[np.int64]) -> float:
    """p-value of people's sums having mean 0 (t test); 0 where there are too few people to tell."""
    sums = np.bincount(person, weights=surprise)[np.bincount(person) > 0]
    if len(sums) < FEW_PEOPLE:
        return 0.0
    error = sums.std(ddof=1) / np.sqrt(len(sums))
    return float(2 * stdtr(len(sums) - 1, -abs(sums.mean()) / error)) if error > 0 else 0.0
