"""Logs with those of a later time behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError

SHOWN_POINTS = 3


def join_logs(first: Trajectories, later: Trajectories) -> Trajectories:
    """All decision points of both, those of the first before those of the later; none may be in both, unless the first waits
    for its outcome: then the later one counts.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> join_logs(logs[logs.time < 4], logs[logs.time >= 4])
    Trajectories(3 people, 18 decision points, state ['position'], actions ['left', 'right'])
    """
    _require_same_kind(first, later)
    participants = np.union1d(first.participants, later.participants)
    positions = [np.searchsorted(participants, logs.participants)[logs.participant_index] for logs in (first, later)]
    earlier_row = _match_points(positions, [first.time, later.time])
    repeated = earlier_row >= 0
    waiting = first.available & np.isnan(first.reward)
    _refuse_repeated(later, repeated & ~waiting[earlier_row])
    lasting = np.ones(len(first), dtype=bool)
    lasting[earlier_row[repeated]] = False
    names = ("time", "state", "available", "action", "probability", "reward")
    columns: dict[str, Any] = {name: np.concatenate([getattr(first, name)[lasting], getattr(later, name)]) for name in names}
    index = np.concatenate([positions[0][lasting], positions[1]])
    return replace(first, participants=participants, participant_index=index, **columns)


def _require_same_kind(first: Trajectories, later: Trajectories) -> None:
    """Refuse logs that cannot stand behind others."""
    for what, ours, theirs in (
        ("state variables", first.state_names, later.state_names),
        ("actions", first.action_names, later.action_names),
        ("participants", first.participants.dtype.kind, later.participants.dtype.kind),
        ("times", first.time.dtype.kind, later.time.dtype.kind),
    ):
        if ours != theirs:
            raise InputError(f"the later logs have other {what}: {theirs!r} instead of {ours!r}; fit all logs anew")


def _match_points(positions: list[NDArray[np.int64]], times: list[NDArray[Any]]) -> NDArray[np.int64]:
    """For every decision point of the later logs its row in the first, −1 where it is new.

    Both are lists of two: positions among all participants, and times, of the first logs and of the later ones.
    """
    distinct, place = np.unique(np.concatenate(times), return_inverse=True)
    points = np.concatenate(positions) * len(distinct) + place
    first, later = points[: len(times[0])], points[len(times[0]) :]
    order = np.argsort(first, kind="stable")
    nearest = order[np.minimum(np.searchsorted(first[order], later), len(order) - 1)]
    return np.where(first[nearest] == later, nearest, -1)


def _refuse_repeated(later: Trajectories, repeated: NDArray[np.bool_]) -> None:
    """Name decision points that were learned from already."""
    twice = np.flatnonzero(repeated)
    if twice.size:
        named = [f"'{later.participant[row]}' at {later.time[row]}" for row in twice[:SHOWN_POINTS]]
        more = f" and {twice.size - SHOWN_POINTS} more" if twice.size > SHOWN_POINTS else ""
        raise InputError(
            f"{twice.size} of the later decision points were learned from already: participant {', '.join(named)}{more}; "
            "give only later ones and those that waited for their outcome, or fit all logs anew"
        )
