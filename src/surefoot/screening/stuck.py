"""Detects dead sensors, which repeat their last value."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import FEW_VALUES
from surefoot.reports.numbers import format_percent
from surefoot.screening.detectors import Detection, Floats, Mask, ScreenBatch, count_ties
from surefoot.screening.two_state_chain import Chain, ChainDetector, learn_chain, look_ahead, relative_gaps, run_filter

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


class JudgedColumn(NamedTuple):
    """A column in which repeats are judged."""

    name: str
    rounded: bool
    """Whether equal values are common in the column, so that every value has its own rate of repeats."""
    low: float
    high: float
    """Floor and ceiling; values at or beyond them are not judged."""


class RepeatPatterns(NamedTuple):
    """Repeats in the population."""

    columns: list[JudgedColumn]
    chain: Chain | None
    typical_gap: float


@dataclass(frozen=True)
class Stuck(ChainDetector):
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

    def describe(self) -> str:
        return (
            "The same value again and again, for so long that the sensor is probably dead. The probability of that is at "
            f"least {format_percent(self.threshold, 0)}."
        )

    def learn(self, sample: ScreenBatch) -> RepeatPatterns:
        gap = sample.typical_gap
        columns = []
        for position in sample.layout.measured:
            values = sample.values[position]
            ties = count_ties(values)
            # A run of one value on a yes/no or 0 to 10 scale says nothing about the sensor.
            if len(ties.values) < FEW_VALUES:
                continue
            column = JudgedColumn(sample.layout.columns[position].name, not ties.continuous, *_find_limits(values))
            same, comparable = _find_repeats(values, column)
            if same.any() and same.sum() <= MOST_REPEATS * comparable.sum():
                columns.append(column)
        if not columns:
            return RepeatPatterns([], None, gap)
        event, seen = _stack_repeats(sample, columns)
        share = (event.sum(axis=(0, 2)) + 1.0) / (seen.sum(axis=(0, 2)) + 2.0)
        in_a_row = event[: len(event) - SOME_RUN + 1].copy()
        for ahead in range(1, SOME_RUN):
            in_a_row &= event[ahead : len(in_a_row) + ahead]
        chain = learn_chain(
            event,
            seen,
            relative_gaps(sample.gaps(), gap),
            # In a continuous column a live sensor hardly ever repeats a value.
            Chain.first_guess(np.where([column.rounded for column in columns], share, 1e-3)[None, :]),
            weight=self.weight,
            rounds=self.rounds if in_a_row.any() else 0,
            most_enter=MOST_ENTER,
            floor=_find_least_rates(sample, columns, np.arange(len(sample.time))),
        )
        return RepeatPatterns(columns, chain, gap)

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        if usual.chain is None:
            return
        event, seen = _stack_repeats(batch, usual.columns)
        # In a rounded column a single repeat is never flagged.
        rounded = np.array([column.rounded for column in usual.columns])
        candidates = np.where(rounded[:, None], event & np.roll(event, 1, axis=0), event)
        people = np.flatnonzero(candidates.any(axis=(0, 1)))
        if not len(people):
            return
        event = event[..., people]
        seen = seen[..., people]
        moves = usual.chain.moves(relative_gaps(batch.gaps()[people], usual.typical_gap))
        least = _find_least_rates(batch, usual.columns, people)
        filtered = run_filter(event, seen, usual.chain, moves, self.weight, least)
        layout = batch.layout
        states = [layout.columns[layout.position(column.name)].role == "state" for column in usual.columns]
        # A flag may use the next state, but not the outcome after the next decision.
        likely = look_ahead(event, seen, filtered, moves, np.array([states], dtype=np.int64))
        flagged = candidates[..., people] & (likely >= self.threshold)
        for group, column in enumerate(usual.columns):
            score = np.full(batch.time.shape, np.nan)
            score[people] = np.where(flagged[:, group], likely[:, group], np.nan).T
            yield Detection(column.name, "stuck", score)


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


def _find_repeats(values: Floats, column: JudgedColumn) -> tuple[Mask, Mask]:
    """Whether each value of (participants, decision points) equals the previous one, and whether this can be judged."""
    step = np.diff(values, axis=1, prepend=np.nan)
    changes = np.cumsum(~np.isnan(step) & (step != 0), axis=1)
    with np.errstate(invalid="ignore"):
        judged = (values != 0) & (values > column.low) & (values < column.high)
    seen = ~np.isnan(step) & judged & (changes >= CHANGES_NEEDED)
    return (step == 0) & seen, seen


def _stack_repeats(batch: ScreenBatch, columns: list[JudgedColumn]) -> tuple[Mask, Mask]:
    """Repeats, and whether they can be judged: (decision points, columns, participants)."""
    repeats = np.stack([_find_repeats(batch.column(column.name), column) for column in columns], axis=1)
    event, seen = repeats.transpose(0, 3, 1, 2)
    return event, seen


def _find_least_rates(batch: ScreenBatch, columns: list[JudgedColumn], people: NDArray[np.int64]) -> Floats:
    """The least honest rate of repeats of those people: (decision points, columns, people)."""
    rates = np.zeros((len(columns), len(people), batch.time.shape[1]))
    for group, column in enumerate(columns):
        if column.rounded:
            rates[group] = _share_so_far(batch.column(column.name)[people])
    return rates.transpose(2, 0, 1)


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
