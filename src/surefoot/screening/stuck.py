"""A dead sensor repeats its last value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.screening.detectors import Detector
from surefoot.screening.series import Block, Found, typical_gap
from surefoot.screening.ties import is_continuous
from surefoot.screening.two_state_chain import Chain, learn_chain, look_ahead, relative_gaps, run_filter

MOST_REPEATS = 0.5
"""A column that repeats its value at more than this share of the steps changes slowly by nature and is not judged."""
CHANGES_NEEDED = 3
"""A participant whose value changed less often so far has no record to compare with."""
MOST_ENTER = 0.1
SOME_RUN = 3
"""Where nobody in the sample repeats so often in a row, nothing is stuck there."""


class Usual(NamedTuple):
    """What is usual in the population."""

    columns: tuple[str, ...]
    rounded: tuple[bool, ...]
    """Whether equal values are common in the column: then each has its own rate of repeats."""
    chain: Chain | None
    typical_gap: float


@dataclass(frozen=True)
class Stuck(Detector):
    """Runs of one exact value that are longer than the participant's own record makes plausible.

    A hidden Markov chain (`two_state_chain`) on "the same value as at the decision point before". Rounded and whole numbers
    repeat honestly: a live sensor repeats at the participant's own rate so far, and at least as often as the value came
    up in the participant's record, once it did so twice. Zeros are left to `not_worn`.

    Parameters
    ----------
    threshold
        A repeated value is flagged when the sensor is at least this likely stuck.
    weight
        The population's rate of repeats counts as much as this many decision points of the participant's own.
    rounds
        Steps of expectation and maximisation.
    """

    name: ClassVar[str] = "stuck"
    reasons: ClassVar[tuple[str, ...]] = ("stuck",)
    reference: ClassVar[str] = (
        "Sharma AB, Golubchik L, Govindan R (2010), Sensor faults: detection methods and prevalence in real-world datasets, "
        "ACM Transactions on Sensor Networks 6(3):23."
    )
    threshold: float = 0.9
    weight: float = 20.0
    rounds: int = 4

    def check(self) -> None:
        if not (0.5 <= self.threshold < 1 and self.weight > 0 and self.rounds >= 1):
            raise InputError(f"stuck needs 0.5 <= threshold < 1, weight > 0 and rounds >= 1; got {self}")

    def learn(self, sample: Block) -> Usual:
        gap, names, rounded = typical_gap(sample), [], []
        for place in sample.layout.measured:
            event, seen = _repeats(sample.values[place])
            if event.any() and event.sum() <= MOST_REPEATS * seen.sum():
                names.append(sample.layout.columns[place].name)
                rounded.append(not is_continuous(sample.values[place]))
        if not names:
            return Usual((), (), None, gap)
        event, seen, floor = _steps(sample, tuple(names), tuple(rounded))
        share = (event.sum(axis=(0, 2)) + 1.0) / (seen.sum(axis=(0, 2)) + 2.0)
        chain = learn_chain(
            event,
            seen,
            relative_gaps(sample.gaps(), gap),
            # Where hardly any two values are the same, a live sensor hardly ever repeats one.
            Chain.first_guess(np.where(rounded, share, 1e-3)[None, :]),
            weight=self.weight,
            rounds=self.rounds if _in_a_row(event, SOME_RUN).any() else 0,
            most_enter=MOST_ENTER,
            floor=floor,
        )
        return Usual(tuple(names), tuple(rounded), chain, gap)

    def find(self, block: Block, usual: Any) -> list[Found]:
        if usual.chain is None:
            return []
        repeats = np.stack([_repeats(block.values[block.layout.place(name)])[0] for name in usual.columns])
        # In a rounded column one repeat is never enough.
        candidates = np.where(np.array(usual.rounded)[:, None, None], repeats & np.roll(repeats, 1, axis=2), repeats)
        who = np.flatnonzero(candidates.any(axis=(0, 2)))
        if not len(who):
            return []
        some = replace(block, values=block.values[:, who], time=block.time[who], rows=block.rows[who])
        event, seen, floor = _steps(some, usual.columns, usual.rounded)
        moves = usual.chain.moves(relative_gaps(some.gaps(), usual.typical_gap))
        filtered = run_filter(event, seen, usual.chain, moves, self.weight, floor)
        layout = block.layout
        states = [layout.columns[layout.place(name)].role == "state" for name in usual.columns]
        # The outcome after the next decision may not say anything about this one.
        likely = look_ahead(event, seen, filtered, moves, np.array([states], dtype=np.int64))
        found = []
        for group, name in enumerate(usual.columns):
            flagged = candidates[group, who].T & (likely[:, group] >= self.threshold)
            if flagged.any():
                score = np.full(block.time.shape, np.nan)
                score[who] = np.where(flagged, likely[:, group], np.nan).T
                found.append(Found(name, "stuck", score))
        return found


def _repeats(values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each value of (participants, decision points) is that of the one before, and whether one can tell."""
    same = np.zeros(values.shape, dtype=bool)
    same[:, 1:] = values[:, 1:] == values[:, :-1]
    both = np.zeros(values.shape, dtype=bool)
    both[:, 1:] = ~np.isnan(values[:, 1:] - values[:, :-1])
    changes = np.cumsum(both & ~same, axis=1)
    seen = both & (values != 0) & (changes >= CHANGES_NEEDED)
    return same & seen, seen


def _in_a_row(event: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Whether an event at (decision points, …) is the last of so many in a row."""
    found = event.copy()
    for back in range(1, length):
        found[back:] &= event[:-back]
        found[:back] = False
    return found


def _steps(
    block: Block, names: tuple[str, ...], rounded: tuple[bool, ...]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Repeats, where one can tell, and the least honest rate of them: (decision points, columns, participants)."""
    found = [_repeats(block.values[block.layout.place(name)]) for name in names]
    floor = [
        _share_so_far(block.values[block.layout.place(name)]) if often else np.zeros(block.time.shape)
        for name, often in zip(names, rounded, strict=True)
    ]
    event, seen, least = (np.stack(one).transpose(2, 0, 1) for one in (*zip(*found, strict=True), floor))
    return event, seen, least


def _share_so_far(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Which share of a participant's values before this one equals it, 0 until it has come up in two separate runs.

    >>> _share_so_far(np.array([[4.0, 4.0, 5.0, 4.0, 4.0]])).round(2)
    array([[0.  , 0.  , 0.  , 0.67, 0.75]])
    """
    order = np.argsort(values, axis=1, kind="stable")
    in_order = np.take_along_axis(values, order, axis=1)
    place = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    fresh = np.ones(values.shape, dtype=bool)
    fresh[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    first = np.maximum.accumulate(np.where(fresh, place, 0), axis=1)
    new_run = fresh.copy()
    new_run[:, 1:] |= order[:, 1:] != order[:, :-1] + 1
    runs = np.cumsum(new_run, axis=1)
    runs = runs - np.take_along_axis(runs, first, axis=1) + 1
    share = np.where(runs >= 2, (place - first) / np.maximum(order, 1), 0.0)
    found = np.empty(values.shape)
    np.put_along_axis(found, order, share, axis=1)
    return np.where(np.isnan(values), 0.0, np.minimum(found, 0.99))
