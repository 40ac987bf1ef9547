"""Whether logged probabilities can be what they are said to be.

Where action a is drawn with probability p_a, the weight 1{A = a} / p_a has mean 1. Logs often hold the probability of
sending where that of the action taken is meant; then the mean weight of "nothing" is E[(1 − p) / p], and every estimate
that divides by it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_roles import ColumnNames
from surefoot.errors import InputError

SURE = 5.0
"""So many standard errors from 1 is not chance."""
FITS = 3.0
"""Within so many standard errors another reading of the probabilities fits."""
FEW_PEOPLE = 10
"""With fewer the spread between people says little; then only the variance that the probabilities imply counts."""
LEAST_EXPECTED = 10
"""An action that should have been taken, or not taken, less often says nothing."""
MOST_ACTIONS = 5
"""Of more actions not every order of the design's probabilities is tried."""


class RandomisedRows(Protocol):
    """What is needed of logs; `Trajectories` have it."""

    @property
    def participant_index(self) -> NDArray[np.int64]: ...
    @property
    def available(self) -> NDArray[np.bool_]: ...
    @property
    def action(self) -> NDArray[np.int64]: ...
    @property
    def probability(self) -> NDArray[np.float64]: ...
    @property
    def action_names(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> ColumnNames: ...


@dataclass(frozen=True)
class WeightSums:
    """Sums over people of one action's weights, which add over parts of the data."""

    rows: int = 0
    people: int = 0
    weights: float = 0.0
    """Σ of the weights."""
    variance: float = 0.0
    """Σ (1 / p − 1): the variance of that sum where p is right."""
    squares: float = 0.0
    products: float = 0.0
    lengths: float = 0.0
    """Over people, of their sum of weights s and number of rows n: Σ s², Σ s n, Σ n²."""
    expected: float = 0.0
    """How often the action should have been taken: Σ p, or where p is unknown how often it was."""
    unknown: int = 0
    """Rows where the log does not say this action's probability: it may have been 0 there, so the mean may be below 1."""

    def __add__(self, other: WeightSums) -> WeightSums:
        return WeightSums(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    @classmethod
    def of(cls, taken: NDArray[np.bool_], probability: NDArray[np.float64], who: NDArray[np.int64]) -> WeightSums:
        """Of one action: where it was taken, its probability (NaN where unknown), and whose the rows are."""
        # What had probability 0 was not drawn.
        drawn = probability != 0
        taken, probability, who = taken[drawn], probability[drawn], who[drawn]
        weight = np.where(taken, 1 / probability, 0.0)
        unknown = np.isnan(probability)
        variance = np.where(unknown, (weight - 1) ** 2, 1 / probability - 1)
        lengths = np.bincount(who).astype(np.float64)
        sums = np.bincount(who, weights=weight)
        moments = (float(sums @ sums), float(sums @ lengths), float(lengths @ lengths))
        expected = float(np.where(unknown, taken, probability).sum())
        sums_of = (float(weight.sum()), float(variance.sum()), *moments, expected)
        return cls(len(who), int((lengths > 0).sum()), *sums_of, int(unknown.sum()))

    @property
    def mean(self) -> float:
        return self.weights / self.rows

    @property
    def standard_error(self) -> float:
        """Over people, and at least what independent draws with these probabilities give."""
        implied = sqrt(self.variance) / self.rows
        if self.people < FEW_PEOPLE:
            return implied
        spread = self.squares - 2 * self.mean * self.products + self.mean**2 * self.lengths
        return max(implied, sqrt(max(spread, 0.0) * self.people / (self.people - 1)) / self.rows)

    @property
    def distance(self) -> float:
        """From 1, in standard errors."""
        rare = min(self.expected, self.rows - self.expected) < LEAST_EXPECTED
        if rare or self.standard_error == 0 or (self.unknown and self.mean < 1):
            return 0.0
        return (self.mean - 1) / self.standard_error


@dataclass(frozen=True)
class MeanWeights:
    """The mean weight of every action, as the probabilities are read and in the other ways that they could be meant."""

    actions: tuple[str, ...]
    sums: dict[str, tuple[WeightSums, ...]]
    """By reading, the given one first; one sum for every action."""
    given: str
    column: str

    @classmethod
    def of(cls, logs: RandomisedRows) -> MeanWeights | None:
        """From logs; None where they hold no probabilities."""
        rows = np.flatnonzero(logs.available & ~np.isnan(logs.probability))
        if not rows.size:
            return None
        action = logs.action[rows]
        each = spread_probabilities(action, logs.probability[rows], len(logs.action_names))
        names = logs.names
        person = logs.participant_index[rows]
        reading, column = names.probability_of, names.probability
        return cls.of_rows(action, each, person, actions=logs.action_names, given=reading, column=column)

    @classmethod
    def of_rows(
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
        taken = np.take_along_axis(probabilities, action[:, None], axis=1)[:, 0]
        readings = {given: probabilities, **_other_readings(given, action, taken, len(actions))}
        sums = {
            name: tuple(WeightSums.of(action == code, each[:, code], person) for code in range(len(actions)))
            for name, each in readings.items()
        }
        return cls(actions, sums, given, column)

    def __add__(self, other: MeanWeights) -> MeanWeights:
        sums = {
            name: tuple(mine + theirs for mine, theirs in zip(each, other.sums[name], strict=True))
            for name, each in self.sums.items()
            if name in other.sums
        }
        return replace(self, sums=sums)

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        sums = {name: [list(vars(one).values()) for one in each] for name, each in self.sums.items()}
        return {"actions": list(self.actions), "sums": sums, "given": self.given, "column": self.column}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MeanWeights:
        sums = {name: tuple(WeightSums(*one) for one in each) for name, each in data["sums"].items()}
        return cls(tuple(data["actions"]), sums, data["given"], data["column"])

    @property
    def given_sums(self) -> dict[str, WeightSums]:
        """By action, as the probabilities are read; without actions that could never be taken."""
        return {action: sums for action, sums in zip(self.actions, self.sums[self.given], strict=True) if sums.rows}

    def worst(self, reading: str) -> float:
        """The largest distance of an action's mean weight from 1, in standard errors."""
        return max(abs(one.distance) for one in self.sums[reading])

    def words(self, reading: str) -> str:
        """The mean weight of every action, as `nothing 0.67, send 1.01`."""
        return ", ".join(
            f"{action} {one.mean:.2f}" for action, one in zip(self.actions, self.sums[reading], strict=True) if one.rows
        )

    def problem(self) -> str | None:
        """What is wrong with the probabilities, and the likely remedy; None where they may be right."""
        reason = self.find_reason()
        return None if reason is None else f"{reason}; {self.find_remedy()}"

    def find_reason(self) -> str | None:
        """Why the probabilities cannot be what they are said to be; None where they can."""
        sums = self.sums[self.given]
        worst = max(range(len(sums)), key=lambda code: abs(sums[code].distance))
        weights = sums[worst]
        if abs(weights.distance) <= SURE:
            return None
        design = self.given == "design"
        place = "actions.probabilities" if design else f"column '{self.column}'"
        whose = "the design's" if design else f"those of {_WORDS[self.given]}"
        return (
            f"{place}: the probabilities cannot be {whose}: the mean weight of '{self.actions[worst]}' is "
            f"{weights.mean:.2f} ± {weights.standard_error:.2f} over {weights.people} people, where it must be 1"
        )

    @property
    def fitting_reading(self) -> str | None:
        """Another reading with which every mean weight may be 1."""
        fitting = [name for name in self.sums if name != self.given and self.worst(name) < FITS]
        return min(fitting, key=self.worst, default=None)

    def find_remedy(self) -> str:
        """The reading that fits, where one does."""
        best = self.fitting_reading
        if best is None:
            return (
                "log the probability with which the action that was taken was drawn, and where somebody could not be "
                "treated, name the column that says so (available)"
            )
        if self.given == "design":
            return f"they look swapped: write actions.probabilities = {best}"
        return f'they look like those of {_WORDS[best]}: write columns.probability_of = "{best}" (in Python: probability_of)'


_WORDS = {"action taken": "the action taken", "sending": "sending"}
READINGS = tuple(_WORDS)
"""What a column of probabilities can be of."""


def require_reading(
    action: NDArray[np.int64],
    logged: NDArray[np.float64],
    person: NDArray[np.int64],
    *,
    actions: tuple[str, ...],
    column: str,
) -> None:
    """Refuse a column where nobody said what it is the probability of, unless both meanings give the same numbers.

    There is no default, because either one is wrong for many logs, and estimates are then wrong without a sign of it.
    """
    what = f"column '{column}': nothing says what it is the probability of; write probability_of='action taken'"
    if len(actions) > 2:
        raise InputError(f"{what} (with several treatments one column can be nothing else)", column=column)
    known = ~np.isnan(logged)
    if (np.abs(logged[known & (action == 0)] - 0.5) < 1e-9).all():
        return
    hints = []
    for reading in READINGS:
        taken = logged if reading == "action taken" else np.where(action == 0, 1 - logged, logged)
        rows = np.flatnonzero(known & (taken > 0) & (taken <= 1))
        each = spread_probabilities(action[rows], taken[rows], 2)
        weights = MeanWeights.of_rows(action[rows], each, person[rows], actions=actions, given=reading, column=column)
        hints.append(f"with '{reading}' they are {weights.words(reading)}")
    raise InputError(f"{what} or probability_of='sending' (mean weights must be 1: {'; '.join(hints)})", column=column)


def find_weight_problem(logs: RandomisedRows) -> str | None:
    """Why the probabilities in logs cannot be what they are said to be, and the likely remedy; None where they may be."""
    if len(logs.action_names) == 2 and not _is_doubtful(logs):
        return None
    weights = MeanWeights.of(logs)
    return None if weights is None else weights.problem()


def _is_doubtful(logs: RandomisedRows) -> bool:
    """Whether a mean weight of two actions is far from 1 by the variance that the probabilities imply; quick, because every
    fit asks, and the spread between people can only bring it nearer."""
    drawn = logs.available & (logs.probability < 1)
    taken, treated = logs.probability[drawn], logs.action[drawn] > 0
    inverse, odds = 1 / taken, taken / (1 - taken)
    for chosen in (treated, ~treated):
        away = inverse @ chosen - len(taken)
        if abs(away) > SURE * sqrt((inverse - 1) @ chosen + odds @ ~chosen):
            return True
    return False


def check_probabilities(logs: RandomisedRows) -> None:
    """Refuse logs whose probabilities cannot be those of the actions taken."""
    problem = find_weight_problem(logs)
    if problem is not None:
        raise InputError(problem, column=logs.names.probability)


def spread_probabilities(action: NDArray[np.int64], taken: NDArray[np.float64], actions: int) -> NDArray[np.float64]:
    """(rows, actions): every action's probability, NaN where the log does not say it; `taken` is that of the action."""
    rows = np.arange(len(action))
    each = np.full((len(action), actions), np.nan)
    if actions == 2:
        each[rows, 1 - action] = 1 - taken
    else:
        for code in range(actions):
            own = taken[action == code]
            # One and the same probability wherever the action was taken: so it was elsewhere.
            if own.size and np.ptp(own) == 0:
                each[:, code] = own[0]
    each[rows, action] = taken
    return each


def _other_readings(
    given: str, action: NDArray[np.int64], taken: NDArray[np.float64], actions: int
) -> dict[str, NDArray[np.float64]]:
    """Every action's probability as it would be if the numbers meant something else; only what could have happened."""
    if given == "design":
        design = tuple(float(taken[action == code].mean()) if (action == code).any() else np.nan for code in range(actions))
        orders = set(permutations(design)) - {design} if actions <= MOST_ACTIONS else set()
        return {f"[{', '.join(f'{one:g}' for one in order)}]": np.tile(order, (len(action), 1)) for order in sorted(orders)}
    meant = np.where(action == 0, 1 - taken, taken)
    if actions != 2 or not (meant > 0).all():
        return {}
    return {"sending" if given == "action taken" else "action taken": spread_probabilities(action, meant, 2)}
