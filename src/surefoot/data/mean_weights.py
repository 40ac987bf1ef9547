"""Whether logged probabilities can be what they are said to be.

If action a is drawn with probability p_a, the weight 1{A = a} / p_a has mean 1. Logs often hold the probability of sending
instead of that of the action taken; then the mean weight of "nothing" is E[(1 − p) / p], and every estimate that divides by
it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError

READINGS = {"action taken": "the action taken", "sending": "sending"}
"""What a column of probabilities can be of, in the study file and in words."""
SURE = 5.0
"""A mean weight this many standard errors from 1 is not chance."""
FITS = 3.0
"""Another reading of the probabilities fits within this many standard errors."""
FEW_PEOPLE = 10
"""With fewer people only the variance that the probabilities imply counts, not the spread between people."""
LEAST_EXPECTED = 10
"""An action with fewer expected decision points, with or without it, is not judged."""
MOST_ACTIONS = 5
"""With more actions not every order of the design's probabilities is tried."""
LEAST_PROBABILITY = 1e-100
"""Smaller probabilities count as this one: squares of their weights would overflow."""
SUMS = ("rows", "people", "weights", "variance", "squares", "products", "lengths", "expected", "unknown")
"""Sums over rows or people, which add over parts of the data, of one action's weights w, each person's sum of weights s and
number of rows n: rows, people, Σ w, Σ (1 / p − 1) (the variance of Σ w if p is right), Σ s², Σ s n, Σ n², Σ p (the expected
number of decision points with the action; where p is unknown, their number), and the rows where p is unknown."""


class WeightedActions(NamedTuple):
    """The mean weight of every action, its standard error, and its distance from 1 in standard errors (0 if unjudged)."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    distance: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeanWeights:
    """The mean weight of every action, for the given reading of the probabilities and for other possible readings."""

    actions: tuple[str, ...]
    sums: dict[str, NDArray[np.float64]]
    """By reading, the given one first: (`SUMS`, actions)."""
    given: str
    column: str

    @classmethod
    def of(
        cls,
        action: NDArray[np.int64],
        probabilities: NDArray[np.float64],
        person: NDArray[np.int64],
        *,
        actions: tuple[str, ...],
        given: str,
        column: str,
    ) -> MeanWeights:
        """From rows at which an action was drawn; `probabilities` (rows, actions) are NaN where they are unknown."""
        codes = range(len(actions))
        taken = np.take_along_axis(probabilities, action[:, None], axis=1)[:, 0]
        readings = {given: probabilities}
        if given == "design":
            design = tuple(float(taken[action == code].mean()) if (action == code).any() else np.nan for code in codes)
            for order in sorted(set(permutations(design)) - {design}) if len(actions) <= MOST_ACTIONS else ():
                readings[f"[{', '.join(f'{p:g}' for p in order)}]"] = np.tile(order, (len(action), 1))
        elif len(actions) == 2 and ((meant := np.where(action == 0, 1 - taken, taken)) > 0).all():
            other = next(reading for reading in READINGS if reading != given)
            readings[other] = spread_probabilities(action, meant, 2)
        sums = {
            reading: np.stack([_sum_weights(action == code, meant[:, code], person) for code in codes], axis=1)
            for reading, meant in readings.items()
        }
        return cls(actions, sums, given, column)

    def __add__(self, other: MeanWeights) -> MeanWeights:
        sums = {reading: mine + other.sums[reading] for reading, mine in self.sums.items() if reading in other.sums}
        return replace(self, sums=sums)

    def to_dict(self) -> dict[str, Any]:
        sums = {reading: values.tolist() for reading, values in self.sums.items()}
        return {"actions": list(self.actions), "sums": sums, "given": self.given, "column": self.column}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MeanWeights:
        sums = {reading: np.array(values) for reading, values in data["sums"].items()}
        return cls(tuple(data["actions"]), sums, data["given"], data["column"])

    def judge(self, reading: str) -> WeightedActions:
        """Mean weights with their standard errors and distances from 1."""
        rows, people, weights, variance, squares, products, lengths, expected, unknown = self.sums[reading]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = weights / rows
            spread = (squares - 2 * mean * products + mean**2 * lengths) * people / (people - 1)
            # Over people, and at least that of independent draws with these probabilities.
            error = np.sqrt(np.maximum(variance, np.where(people >= FEW_PEOPLE, spread, 0.0))) / rows
            distance = (mean - 1) / error
        rare = np.minimum(expected, rows - expected) < LEAST_EXPECTED
        # Where the log does not say an action's probability it may have been 0, so that the mean may be below 1.
        unjudged = rare | (error == 0) | ((unknown > 0) & (mean < 1))
        return WeightedActions(mean, error, np.where(unjudged, 0.0, distance))

    def worst(self, reading: str) -> float:
        """The largest distance of a mean weight from 1, in standard errors."""
        return float(np.abs(self.judge(reading).distance).max())

    def means(self, reading: str) -> dict[str, float]:
        """The mean weight of every action that could be taken."""
        means = zip(self.actions, self.judge(reading).mean.tolist(), strict=True)
        return {action: mean for action, mean in means if not isnan(mean)}

    def describe(self, reading: str) -> str:
        """The mean weight of every action, as `nothing 0.67, send 1.01`."""
        return ", ".join(f"{action} {mean:.2f}" for action, mean in self.means(reading).items())

    def problem(self) -> str | None:
        """What is wrong with the probabilities, and the likely remedy; None if they may be right."""
        reason = self.find_reason()
        return None if reason is None else f"{reason}; {self.find_remedy()}"

    def find_reason(self) -> str | None:
        """Why the probabilities cannot be what they are said to be; None if they can."""
        judged = self.judge(self.given)
        worst = int(np.abs(judged.distance).argmax())
        if abs(judged.distance[worst]) <= SURE:
            return None
        claim = f"column '{self.column}': the probabilities cannot be those of {READINGS.get(self.given)}"
        if self.given == "design":
            claim = "actions.probabilities: the probabilities cannot be the design's"
        mean = f"{judged.mean[worst]:.2f} ± {judged.error[worst]:.2f}"
        people = int(self.sums[self.given][SUMS.index("people"), worst])
        return f"{claim}: the mean weight of '{self.actions[worst]}' is {mean} over {people} people, where it must be 1"

    @property
    def fitting_reading(self) -> str | None:
        """Another reading with which every mean weight may be 1."""
        fitting = [reading for reading in self.sums if reading != self.given and self.worst(reading) < FITS]
        return min(fitting, key=self.worst, default=None)

    def find_remedy(self) -> str:
        """The reading that fits, if one does."""
        best = self.fitting_reading
        if best is None:
            return (
                "log the probability with which the action that was taken was drawn, and where somebody could not be "
                "treated, name the column that says so (available)"
            )
        if self.given == "design":
            return f"they look swapped: write actions.probabilities = {best}"
        words = READINGS[best]
        return f'they look like those of {words}: write columns.probability_of = "{best}" (in Python: probability_of)'


def _sum_weights(
    taken: NDArray[np.bool_], probability: NDArray[np.float64], person: NDArray[np.int64]
) -> NDArray[np.float64]:
    """`SUMS` of one action: where it was taken, its probability (NaN if unknown), and the person of every row."""
    possible = probability != 0
    taken = taken[possible]
    probability = np.maximum(probability[possible], LEAST_PROBABILITY)
    unknown = np.isnan(probability)
    weight = np.where(taken, 1 / probability, 0.0)
    variance = np.where(unknown, (weight - 1) ** 2, 1 / probability - 1).sum()
    lengths = np.bincount(person[possible]).astype(np.float64)
    sums = np.bincount(person[possible], weights=weight)
    products = (sums @ sums, sums @ lengths, lengths @ lengths)
    expected = np.where(unknown, taken, probability).sum()
    return np.array([len(taken), (lengths > 0).sum(), weight.sum(), variance, *products, expected, unknown.sum()], float)


def spread_probabilities(action: NDArray[np.int64], taken: NDArray[np.float64], actions: int) -> NDArray[np.float64]:
    """(rows, actions): every action's probability, NaN where the log does not say it; `taken` is that of the action."""
    rows = np.arange(len(action))
    probabilities = np.full((len(action), actions), np.nan)
    if actions == 2:
        probabilities[rows, 1 - action] = 1 - taken
    else:
        for code in range(actions):
            of_action = taken[action == code]
            # If it is the same wherever the action was taken, it was the same elsewhere.
            if of_action.size and np.ptp(of_action) == 0:
                probabilities[:, code] = of_action[0]
    probabilities[rows, action] = taken
    return probabilities


def require_reading(
    action: NDArray[np.int64], logged: NDArray[np.float64], *, actions: tuple[str, ...], column: str
) -> None:
    """Refuse probabilities of unknown meaning, unless both meanings give the same numbers.

    There is no default, because either one is wrong for many logs, and estimates are then wrong without a sign of it.
    """
    problem = f"column '{column}': nothing says what it is the probability of; write probability_of='action taken'"
    if len(actions) > 2:
        raise InputError(f"{problem} (with several treatments one column can be nothing else)", column=column)
    known = (logged >= 0) & (logged <= 1)
    if (np.abs(logged[known & (action == 0)] - 0.5) < 1e-9).all():
        return
    probabilities = spread_probabilities(action[known], logged[known], 2)
    people = np.zeros(len(probabilities), dtype=np.int64)
    weights = MeanWeights.of(action[known], probabilities, people, actions=actions, given="action taken", column=column)
    hints = "; ".join(f"with '{reading}' they are {weights.describe(reading)}" for reading in weights.sums)
    raise InputError(f"{problem} or probability_of='sending' (mean weights must be 1: {hints})", column=column)
