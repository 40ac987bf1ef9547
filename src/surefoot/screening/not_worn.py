"""Detects zeros of a device that is not worn, or dead."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.errors import InputError
from surefoot.screening.detectors import Detection, Detector, Floats, Layout, Mask, ScreenBatch, count_ties
from surefoot.screening.two_state_chain import Chain, learn_chain, look_ahead, relative_gaps, run_filter

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
class NotWorn(Detector):
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
    threshold: float = 0.9
    """Zeros are flagged when the probability that the device was not worn is at least this."""
    weight: float = 20.0
    """The population's rate of zeros counts as much as this many decision points of the participant's own."""
    rounds: int = 4
    """Steps of expectation and maximisation."""

    def check(self) -> None:
        if not (0.5 <= self.threshold < 1 and self.weight > 0 and self.rounds >= 1):
            raise InputError(f"not_worn needs 0.5 <= threshold < 1, weight > 0 and rounds >= 1; got {self}")

    def learn(self, sample: ScreenBatch) -> WearPatterns:
        impossible = tuple(
            sample.layout.columns[position].name
            for position in sample.layout.measured
            if _zero_is_impossible(sample.values[position])
        )
        devices = _devices(sample.layout, impossible)
        gap = sample.typical_gap
        if not devices:
            return WearPatterns(impossible, (), None, gap)
        event, seen = _steps(sample, devices, impossible)
        rate = event.reshape(-1, 2, *event.shape[1:]).sum(axis=(0, 3)) + 1.0
        rate = 0.5 * rate / (seen.reshape(-1, 2, *event.shape[1:]).sum(axis=(0, 3)) + 2.0)
        chain = learn_chain(
            event,
            seen,
            relative_gaps(sample.gaps(), gap),
            Chain.first_guess(rate),
            weight=self.weight,
            rounds=self.rounds if event.any() else 0,
            most_enter=0.5,
            floor=np.zeros(1),
        )
        return WearPatterns(impossible, devices, chain, gap)

    def find(self, batch: ScreenBatch, usual: Any) -> list[Detection]:
        names = [column.name for column in batch.layout.columns]
        detections = []
        for name in usual.impossible:
            zero = batch.values[names.index(name)] == 0
            if zero.any():
                detections.append(Detection(name, "not worn", np.where(zero, 1.0, np.nan)))
        if usual.chain is None:
            return detections
        event, seen = _steps(batch, usual.devices, usual.impossible)
        if not event.any():
            return detections
        moves = usual.chain.moves(relative_gaps(batch.gaps(), usual.typical_gap))
        filtered = run_filter(event, seen, usual.chain, moves, self.weight, np.zeros(1))
        depth = np.broadcast_to(AHEAD, (2, len(usual.devices)))
        likely = look_ahead(event, seen, filtered, moves, depth).reshape(-1, 2, *event.shape[1:])
        for position, column in enumerate(batch.layout.columns):
            if column.name in usual.impossible or column.device not in usual.devices:
                continue
            kind = int(column.role == "outcome")
            chance = likely[:, kind, usual.devices.index(column.device)].T
            flagged = (batch.values[position] == 0) & (chance >= self.threshold)
            if flagged.any():
                detections.append(Detection(column.name, "not worn", np.where(flagged, chance, np.nan)))
        return detections


def _zero_is_impossible(values: Floats) -> bool:
    present = values[~np.isnan(values)]
    if not (present == 0).any():
        return False
    both = min((present < 0).mean(), (present > 0).mean()) > BOTH_SIDES
    return bool(both) and count_ties(np.where(values == 0, np.nan, values)).continuous


def _devices(layout: Layout, impossible: tuple[str, ...]) -> tuple[str, ...]:
    judged = (layout.columns[position] for position in layout.measured)
    return tuple(dict.fromkeys(c.device for c in judged if c.device is not None and c.name not in impossible))


def _steps(batch: ScreenBatch, devices: tuple[str, ...], impossible: tuple[str, ...]) -> tuple[Mask, Mask]:
    """Whether all present columns of each device are 0, and whether any is present: (steps, devices, participants).

    The state columns of a decision point make one step, its outcomes the next.
    """
    participants, points = batch.time.shape
    event = np.zeros((points, 2, len(devices), participants), dtype=bool)
    seen = np.zeros_like(event)
    for kind, role in enumerate(("state", "outcome")):
        for group, device in enumerate(devices):
            chosen = [
                position
                for position in batch.layout.measured
                if batch.layout.columns[position].device == device
                and batch.layout.columns[position].role == role
                and batch.layout.columns[position].name not in impossible
            ]
            values = batch.values[chosen]
            recorded = (~np.isnan(values)).any(axis=0)
            seen[:, kind, group] = recorded.T
            event[:, kind, group] = (recorded & ((values == 0) | np.isnan(values)).all(axis=0)).T
    return event.reshape(2 * points, len(devices), participants), seen.reshape(2 * points, len(devices), participants)
