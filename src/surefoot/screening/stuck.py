"""Detects dead sensors, which repeat their last value."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.data.suspect_columns import FEW_VALUES
from surefoot.errors import InputError
from surefoot.screening.detectors import Detection, Detector, Floats, Mask, ScreenBatch, count_ties
from surefoot.screening.two_state_chain import Chain, learn_chain, look_ahead, relative_gaps, run_filter

MOST_REPEATS = 0.5
"""A column that repeats its value at more than this share of the steps changes slowly and is not judged."""
CHANGES_NEEDED = 3
"""Participants are judged once their value has changed this many times."""
MOST_ENTER = 0.1
SOME_RUN = 3
"""A sample without this many repeats in a row has no stuck sensor."""
BEYOND_LIMIT = 0.005
LIMIT_SHARE = 0.01
"""A floor (or ceiling) holds at least this share of the values; less than `BEYOND_LIMIT` may lie beyond it."""


class RepeatPatterns(NamedTuple):
    """Repeats in the population."""

    columns: tuple[str, ...]
    rounded: tuple[bool, ...]
    """Whether equal values are common in the column, so that every value has its own rate of repeats."""
    limits: tuple[tuple[float, float], ...]
    """Floor and ceiling of each column; values at or beyond them are not judged."""
    chain: Chain | None
    typical_gap: float


@dataclass(frozen=True)
class Stuck(Detector):
    """Runs of one exact value that are implausibly long given the participant's own record.

    A hidden Markov chain (`two_state_chain`) on "the same value as at the decision point before". Rounded and whole numbers
    repeat honestly: a live sensor repeats at the participant's own rate so far, and at least as often as the value has
    occurred in the participant's record, once it has occurred in two runs. `not_worn` judges zeros. The floor and the
    ceiling of a column are not judged (log(0.5) stands for no steps, and people sit still for hours), nor are columns with
    few distinct values.
    """

    name: ClassVar[str] = "stuck"
    reasons: ClassVar[tuple[str, ...]] = ("stuck",)
    reference: ClassVar[str] = (
        "Sharma AB, Golubchik L, Govindan R (2010), Sensor faults: detection methods and prevalence in real-world datasets, "
        "ACM Transactions on Sensor Networks 6(3):23."
    )
    threshold: float = 0.9
    """A repeated value is flagged when the probability that the sensor is stuck is at least this."""
    weight: float = 20.0
    """The population's rate of repeats counts as much as this many decision points of the participant's own."""
    rounds: int = 4
    """Steps of expectation and maximisation."""

    def check(self) -> None:
        if not (0.5 <= self.threshold < 1 and self.weight > 0 and self.rounds >= 1):
            raise InputError(f"stuck needs 0.5 <= threshold < 1, weight > 0 and rounds >= 1; got {self}")

    def learn(self, sample: ScreenBatch) -> RepeatPatterns:
        gap = sample.typical_gap
        judged: dict[str, tuple[bool, tuple[float, float]]] = {}
        for position in sample.layout.measured:
            values = sample.values[position]
            ties = count_ties(values)
            # A run of one value on a yes/no or 0 to 10 scale says nothing about the sensor.
            if len(ties.values) < FEW_VALUES:
                continue
            limits = _find_limits(values)
            event, seen = _repeats(values, limits)
            if event.any() and event.sum() <= MOST_REPEATS * seen.sum():
                judged[sample.layout.columns[position].name] = (not ties.continuous, limits)
        if not judged:
            return RepeatPatterns((), (), (), None, gap)
        rounded = tuple(is_rounded for is_rounded, _ in judged.values())
        usual = RepeatPatterns(tuple(judged), rounded, tuple(limits for _, limits in judged.values()), None, gap)
        event, seen, least = _steps(sample, usual)
        share = (event.sum(axis=(0, 2)) + 1.0) / (seen.sum(axis=(0, 2)) + 2.0)
        chain = learn_chain(
            event,
            seen,
            relative_gaps(sample.gaps(), gap),
            # In a continuous column a live sensor hardly ever repeats a value.
            Chain.first_guess(np.where(rounded, share, 1e-3)[None, :]),
            weight=self.weight,
            rounds=self.rounds if _in_a_row(event, SOME_RUN).any() else 0,
            most_enter=MOST_ENTER,
            floor=least,
        )
        return usual._replace(chain=chain)

    def find(self, batch: ScreenBatch, usual: Any) -> list[Detection]:
        if usual.chain is None:
            return []
        repeats = np.stack(
            [_repeats(batch.column(name), limits)[0] for name, limits in zip(usual.columns, usual.limits, strict=True)]
        )
        # In a rounded column a single repeat is never flagged.
        candidates = np.where(np.array(usual.rounded)[:, None, None], repeats & np.roll(repeats, 1, axis=2), repeats)
        people = np.flatnonzero(candidates.any(axis=(0, 2)))
        if not len(people):
            return []
        suspects = replace(batch, values=batch.values[:, people], time=batch.time[people], rows=batch.rows[people])
        event, seen, least = _steps(suspects, usual)
        moves = usual.chain.moves(relative_gaps(suspects.gaps(), usual.typical_gap))
        filtered = run_filter(event, seen, usual.chain, moves, self.weight, least)
        layout = batch.layout
        states = [layout.columns[layout.position(name)].role == "state" for name in usual.columns]
        # A flag may use the next state, but not the outcome after the next decision.
        likely = look_ahead(event, seen, filtered, moves, np.array([states], dtype=np.int64))
        flags = []
        for group, name in enumerate(usual.columns):
            flagged = candidates[group, people].T & (likely[:, group] >= self.threshold)
            if flagged.any():
                score = np.full(batch.time.shape, np.nan)
                score[people] = np.where(flagged, likely[:, group], np.nan).T
                flags.append(Detection(name, "stuck", score))
        return flags


def _find_limits(values: Floats) -> tuple[float, float]:
    """The floor and the ceiling of a column: its least and greatest values, or values that pile up next to them.

    >>> _find_limits(np.array([[-3.0, *[0.5] * 300, *range(1, 100), 7000.0]]))
    (0.5, 7000.0)
    """
    present = np.sort(values[~np.isnan(values)])
    skipped = int(BEYOND_LIMIT * len(present))
    low = present[skipped]
    high = present[-1 - skipped]
    piled = [(present == limit).mean() >= LIMIT_SHARE for limit in (low, high)]
    return float(low if piled[0] else present[0]), float(high if piled[1] else present[-1])


def _repeats(values: Floats, limits: tuple[float, float]) -> tuple[Mask, Mask]:
    """Whether each value of (participants, decision points) equals the previous one, and whether this can be judged."""
    same = np.zeros(values.shape, dtype=bool)
    same[:, 1:] = values[:, 1:] == values[:, :-1]
    both = np.zeros(values.shape, dtype=bool)
    both[:, 1:] = ~np.isnan(values[:, 1:] - values[:, :-1])
    changes = np.cumsum(both & ~same, axis=1)
    with np.errstate(invalid="ignore"):
        judged = (values != 0) & (values > limits[0]) & (values < limits[1])
    seen = both & judged & (changes >= CHANGES_NEEDED)
    return same & seen, seen


def _in_a_row(event: Mask, length: int) -> Mask:
    """Whether an event at (decision points, …) is the last of at least `length` in a row."""
    last_of_run = event.copy()
    for back in range(1, length):
        last_of_run[back:] &= event[:-back]
        last_of_run[:back] = False
    return last_of_run


def _steps(batch: ScreenBatch, usual: RepeatPatterns) -> tuple[Mask, Mask, Floats]:
    """Repeats, whether they can be judged, and their least honest rate: (decision points, columns, participants)."""
    columns = [batch.column(name) for name in usual.columns]
    repeats = [_repeats(values, limits) for values, limits in zip(columns, usual.limits, strict=True)]
    least = [
        _share_so_far(values) if is_rounded else np.zeros(values.shape)
        for values, is_rounded in zip(columns, usual.rounded, strict=True)
    ]
    event = np.stack([same for same, _ in repeats]).transpose(2, 0, 1)
    seen = np.stack([comparable for _, comparable in repeats]).transpose(2, 0, 1)
    return event, seen, np.stack(least).transpose(2, 0, 1)


def _share_so_far(values: Floats) -> Floats:
    """Share of a participant's earlier values that equal this one; 0 until the value has occurred in two separate runs.

    >>> _share_so_far(np.array([[4.0, 4.0, 5.0, 4.0, 4.0]])).round(2)
    array([[0.  , 0.  , 0.  , 0.67, 0.75]])
    """
    order = np.argsort(values, axis=1, kind="stable")
    in_order = np.take_along_axis(values, order, axis=1)
    position = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    fresh = np.ones(values.shape, dtype=bool)
    fresh[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    first = np.maximum.accumulate(np.where(fresh, position, 0), axis=1)
    new_run = fresh.copy()
    new_run[:, 1:] |= order[:, 1:] != order[:, :-1] + 1
    runs = np.cumsum(new_run, axis=1)
    runs = runs - np.take_along_axis(runs, first, axis=1) + 1
    share = np.where(runs >= 2, (position - first) / np.maximum(order, 1), 0.0)
    in_time_order = np.empty(values.shape)
    np.put_along_axis(in_time_order, order, share, axis=1)
    return np.where(np.isnan(values), 0.0, np.minimum(in_time_order, 0.99))
