"""Detects zeros of a device that is not worn, or dead."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.reports.numbers import format_percent
from surefoot.screening.detectors import Detection, Mask, ScreenBatch, count_ties
from surefoot.screening.two_state_chain import Chain, ChainDetector, learn_chain, look_ahead, relative_gaps, run_filter

BOTH_SIDES = 0.01
"""A variable with more than this share of its values below 0, and above 0, takes both signs."""
AHEAD = np.array([[2], [1]])
"""Steps ahead that are used: for a state its outcome and the next state, for an outcome the next state."""


class WearPatterns(NamedTuple):
    """Zeros in the population."""

    impossible: tuple[str, ...]
    """Columns in which an honest value is never exactly 0."""
    devices: tuple[str, ...]
    chain: Chain | None
    typical_gap: float


@dataclass(frozen=True)
class NotWorn(ChainDetector):
    """Zeros of a device that was not worn.

    In a continuous column with positive and negative values an exact 0 is never honest. In the columns of a declared device
    a 0 may be honest (nobody walks at night). A hidden Markov chain (`two_state_chain`) gives the probability that the
    device was not worn: its steps show whether all state columns of the device are 0, and then whether the outcome is 0.
    """

    name: ClassVar[str] = "not_worn"
    reasons: ClassVar[tuple[str, ...]] = ("not worn",)
    reference: ClassVar[str] = (
        "Baum LE, Petrie T, Soules G, Weiss N (1970), A maximization technique occurring in the statistical analysis of "
        "probabilistic functions of Markov chains, Annals of Mathematical Statistics 41(1):164-171."
    )

    def describe(self) -> str:
        return (
            "Zeros of a device that was probably not worn. The probability of that is at least "
            f"{format_percent(self.threshold, 0)}."
        )

    def learn(self, sample: ScreenBatch) -> WearPatterns:
        gap = sample.typical_gap
        impossible = []
        devices: dict[str, None] = {}
        for position in sample.layout.measured:
            column = sample.layout.columns[position]
            values = sample.values[position]
            present = values[~np.isnan(values)]
            both_signs = present.size and min((present < 0).mean(), (present > 0).mean()) > BOTH_SIDES
            has_zeros = bool((present == 0).any())
            if has_zeros and both_signs and count_ties(np.where(values == 0, np.nan, values)).continuous:
                impossible.append(column.name)
            elif column.device is not None:
                devices[column.device] = None
        patterns = WearPatterns(tuple(impossible), tuple(devices), None, gap)
        if not devices:
            return patterns
        event, seen = _find_zeros(sample, patterns)
        hits, steps = (mask.reshape(-1, 2, *mask.shape[1:]).sum(axis=(0, 3)) for mask in (event, seen))
        chain = learn_chain(
            event,
            seen,
            relative_gaps(sample.gaps(), gap),
            Chain.first_guess(0.5 * (hits + 1.0) / (steps + 2.0)),
            weight=self.weight,
            rounds=self.rounds if event.any() else 0,
            most_enter=0.5,
            floor=np.zeros(1),
        )
        return patterns._replace(chain=chain)

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        for name in usual.impossible:
            yield Detection(name, "not worn", np.where(batch.column(name) == 0, 1.0, np.nan))
        if usual.chain is None:
            return
        event, seen = _find_zeros(batch, usual)
        if not event.any():
            return
        moves = usual.chain.moves(relative_gaps(batch.gaps(), usual.typical_gap))
        filtered = run_filter(event, seen, usual.chain, moves, self.weight, np.zeros(1))
        depth = np.broadcast_to(AHEAD, (2, len(usual.devices)))
        likely = look_ahead(event, seen, filtered, moves, depth).reshape(-1, 2, *event.shape[1:])
        for position, column in enumerate(batch.layout.columns):
            if column.name not in usual.impossible and column.device in usual.devices:
                chance = likely[:, int(column.role == "outcome"), usual.devices.index(column.device)].T
                flagged = (batch.values[position] == 0) & (chance >= self.threshold)
                yield Detection(column.name, "not worn", np.where(flagged, chance, np.nan))


def _find_zeros(batch: ScreenBatch, usual: WearPatterns) -> tuple[Mask, Mask]:
    """Whether all present columns of each device are 0, and whether any is present: (steps, devices, participants).

    The state columns of a decision point make one step, its outcomes the next.
    """
    participants, points = batch.time.shape
    event = np.zeros((points, 2, len(usual.devices), participants), dtype=bool)
    seen = np.zeros_like(event)
    measured = [(position, batch.layout.columns[position]) for position in batch.layout.measured]
    for kind, role in enumerate(("state", "outcome")):
        for group, device in enumerate(usual.devices):
            chosen = [
                position
                for position, column in measured
                if column.device == device and column.role == role and column.name not in usual.impossible
            ]
            values = batch.values[chosen]
            recorded = (~np.isnan(values)).any(axis=0)
            seen[:, kind, group] = recorded.T
            event[:, kind, group] = (recorded & ((values == 0) | np.isnan(values)).all(axis=0)).T
    steps = (2 * points, len(usual.devices), participants)
    return event.reshape(steps), seen.reshape(steps)
