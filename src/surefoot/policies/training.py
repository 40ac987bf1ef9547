"""Which decision points policies were learned from, so that they are not evaluated on the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class KnownTraining:
    """Whose decision points, and when.

    >>> logs = Trajectories.from_arrays(np.zeros((2, 3, 1)), np.zeros((2, 3)), np.zeros((2, 3)), participants=["ann", "bo"])
    >>> KnownTraining.of_logs(logs).count_shared(logs)
    (6, 2)
    """

    participants: NDArray[Any]
    """Ids, sorted."""
    participant_index: NDArray[np.int64]
    """Of every decision point."""
    time: NDArray[Any]
    order: NDArray[np.int64]
    """Rows sorted by participant, then time."""

    @classmethod
    def of_logs(cls, logs: Trajectories) -> KnownTraining:
        """From the logs that policies are learned from."""
        return cls(logs.participants, logs.participant_index, logs.time, logs.order)

    @cached_property
    def fingerprint(self) -> str:
        """The sum over people of the SHA-256 of their id and times: the fingerprints of different people add up."""
        times = self.time[self.order]
        ends = np.cumsum(np.bincount(self.participant_index, minlength=len(self.participants)))
        total = 0
        start = 0
        for participant, end in zip(self.participants.tolist(), ends.tolist(), strict=True):
            digest = hashlib.sha256(f"{participant}\0".encode() + times[start:end].tobytes()).digest()
            total = total + int.from_bytes(digest)
            start = end
        return _write_fingerprint(total)

    def count_shared(self, logs: Trajectories) -> tuple[int, int]:
        """How many decision points of the logs, and of how many of their people, it was learned from."""
        if self.participants.dtype.kind != logs.participants.dtype.kind:
            return 0, 0
        people, ours, theirs = np.intersect1d(logs.participants, self.participants, return_indices=True)
        if not people.size or self.time.dtype.kind != logs.time.dtype.kind:
            return 0, len(people)
        position = [np.full(len(ids), -1) for ids in (logs.participants, self.participants)]
        position[0][ours] = np.arange(len(people))
        position[1][theirs] = np.arange(len(people))
        people_of_rows = [position[0][logs.participant_index], position[1][self.participant_index]]
        times, moment = np.unique(np.concatenate([logs.time, self.time]), return_inverse=True)
        pairs = np.concatenate(people_of_rows) * len(times) + moment
        mine = pairs[: len(logs)][people_of_rows[0] >= 0]
        others = pairs[len(logs) :][people_of_rows[1] >= 0]
        return int(np.isin(mine, others).sum()), len(people)


def add_fingerprints(parts: Iterable[str]) -> str:
    """The fingerprint of all people together from those of some of them each."""
    return _write_fingerprint(sum(int(part, 16) for part in parts))


def _write_fingerprint(total: int) -> str:
    return f"{total % 2**256:064x}"


@dataclass(frozen=True, eq=False)
class FiledTraining:
    """What a file of policies holds: a fingerprint that recognises the same decision points, and no ids."""

    fingerprint: str

    def count_shared(self, logs: Trajectories) -> tuple[int, int]:
        """All decision points and people of the logs, or none."""
        same = KnownTraining.of_logs(logs).fingerprint == self.fingerprint
        return (len(logs), len(logs.participants)) if same else (0, 0)


Training = KnownTraining | FiledTraining
