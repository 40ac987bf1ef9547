"""Everybody's moments as they are kept: enough to fit by least squares, also together with what comes later.

Of the joined rows A = [x(s, a), r] of a participant the triangle R with RᵀR = AᵀA is kept. It holds XᵀX, Xᵀr and rᵀr to
twice the digits that these sums have themselves, and later rows are added by a QR decomposition of R with them behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.learning.batch import Batch, choose_block_cells
from surefoot.learning.moments import Moments
from surefoot.numerics.engines import find_engine
from surefoot.numerics.parallel import map_threads

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MomentRoots:
    """The moments of each participant's usable decision points.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> parts = [MomentRoots.of_logs(logs[logs.time < 4], np.ones(1)), MomentRoots.of_logs(logs[logs.time >= 4], np.ones(1))]
    >>> whole = MomentRoots.of_logs(logs, np.ones(1))
    >>> bool(np.allclose((parts[0] + parts[1]).moments.gram, whole.moments.gram)), whole.used
    (True, array([6, 6, 6]))
    """

    participants: NDArray[Any]
    """Ids, sorted."""
    root: Floats
    """R of [x(s, a), r], (people, d + 1, d + 1)."""
    taken: NDArray[np.int64]
    """How often each action was taken, (people, actions)."""
    low: Floats
    """The least value of each state variable and, last, of the reward, (people, variables + 1); +∞ where there is none."""
    high: Floats

    @classmethod
    def of_logs(cls, logs: Trajectories, sees: Floats, centre: Floats | None = None) -> MomentRoots:
        """From logs; `sees` is 1.0 for the state variables that the critic sees, `centre` as in `Batch.from_rows`."""
        engine, can_use, ones = find_engine("numpy"), logs.usable, np.ones(len(logs))
        variables, size = logs.state.shape[1], (logs.state.shape[1] + 1) * logs.actions + 1
        root = np.zeros((len(logs.participants), size, size))
        low, high = (np.full((len(root), variables + 1), end) for end in (np.inf, -np.inf))
        codes = logs.participant_index[can_use] * logs.actions + logs.action[can_use]
        taken = np.bincount(codes, minlength=len(root) * logs.actions).reshape(len(root), logs.actions)

        def add_block(block: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
            people, rows = block
            batch = Batch.from_rows(logs, can_use, rows, engine, ones, centre, critic_sees=sees, policy_sees=sees)
            joined = np.concatenate([batch.features, batch.reward[..., None]], axis=-1) * batch.usable[..., None]
            root[people] = _triangle(joined)
            values, there = np.concatenate([batch.state, batch.reward[..., None]], axis=-1), batch.usable[..., None] > 0
            low[people] = np.where(there, values, np.inf).min(axis=1)
            high[people] = np.where(there, values, -np.inf).max(axis=1)

        list(map_threads(add_block, logs.blocks(choose_block_cells(logs))))
        return cls(logs.participants, root, taken, low, high)

    def __add__(self, later: MomentRoots) -> MomentRoots:
        """Of the decision points of both; the later ones may be of other people."""
        if self.root.shape[1:] != later.root.shape[1:]:
            raise InputError("the later logs have other state variables or actions; fit all logs anew")
        everyone = np.union1d(self.participants, later.participants)
        mine, theirs = self._among(everyone), later._among(everyone)
        stacked = np.concatenate([mine.root, theirs.root], axis=1)
        again = np.isin(everyone, later.participants)
        mine.root[again] = _triangle(stacked[again])
        ends = np.minimum(mine.low, theirs.low), np.maximum(mine.high, theirs.high)
        return MomentRoots(everyone, mine.root, mine.taken + theirs.taken, *ends)

    @classmethod
    def of_others(cls, pieces: Sequence[MomentRoots]) -> MomentRoots:
        """Of different people, or of `everyone` several times, one behind the other."""
        joined = {one.name: np.concatenate([getattr(piece, one.name) for piece in pieces]) for one in fields(cls)}
        order = np.argsort(joined["participants"], kind="stable")
        return cls(**{name: values[order] for name, values in joined.items()})

    def _among(self, everyone: NDArray[Any]) -> MomentRoots:
        """The same people among others, who have no decision points."""
        place = np.searchsorted(everyone, self.participants)
        found = []
        for values, empty in ((self.root, 0.0), (self.taken, 0), (self.low, np.inf), (self.high, -np.inf)):
            room = np.full((len(everyone), *values.shape[1:]), empty, dtype=values.dtype)
            room[place] = values
            found.append(room)
        return MomentRoots(everyone, *found)

    def of(self, people: NDArray[Any]) -> MomentRoots:
        """Some people's: their places, or a mask."""
        return MomentRoots(*(getattr(self, one.name)[people] for one in fields(self)))

    def total(self) -> MomentRoots:
        """Everybody's together, as one unit."""
        stacked = self.root.reshape(1, -1, self.root.shape[-1])
        ends = self.low.min(axis=0, keepdims=True), self.high.max(axis=0, keepdims=True)
        return MomentRoots(np.array(["everyone"]), _triangle(stacked), self.taken.sum(axis=0, keepdims=True), *ends)

    @property
    def moments(self) -> Moments:
        """Gram matrices, cross products and sums of squares."""
        joined = np.swapaxes(self.root, 1, 2) @ self.root
        return Moments(joined[:, :-1, :-1], joined[:, :-1, -1:], joined[:, -1:, -1:])

    @property
    def used(self) -> NDArray[np.int64]:
        """How many decision points each participant has, (people,)."""
        return np.asarray(self.taken.sum(axis=1))

    def compress(self) -> tuple[Floats, Floats, Floats]:
        """d + 1 rows x, their rewards and their weights, which have the same moments and the same number of decision points
        as everything that was read: (people, d + 1, d), (people, d + 1) and (people, d + 1)."""
        rows = self.root.shape[1]
        weight = self.used[:, None] / rows + np.zeros(rows)
        joined = self.root / np.sqrt(np.where(weight > 0, weight, 1.0))[..., None]
        return joined[..., :-1], joined[..., -1], weight


def _triangle(rows: Floats) -> Floats:
    """R with RᵀR = AᵀA, of A (people, rows, columns); (people, columns, columns) however few rows there are."""
    short = max(rows.shape[2] - rows.shape[1], 0)
    filled = np.pad(rows, ((0, 0), (0, short), (0, 0))) if short else rows
    return np.asarray(np.linalg.qr(filled, mode="r"))
