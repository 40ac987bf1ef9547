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
    """All decision points of both, those of the first before those of the later; none may be in both.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> join_logs(logs[logs.time < 4], logs[logs.time >= 4])
    Trajectories(3 people, 18 decision points, state ['position'], actions ['left', 'right'])
    """
    for what, ours, theirs in (
        ("state variables", first.state_names, later.state_names),
        ("actions", first.action_names, later.action_names),
        ("participants", first.participants.dtype.kind, later.participants.dtype.kind),
        ("times", first.time.dtype.kind, later.time.dtype.kind),
    ):
        if ours != theirs:
            raise InputError(f"the later logs have other {what}: {theirs!r} instead of {ours!r}; fit all logs anew")
    participants = np.union1d(first.participants, later.participants)
    index = np.concatenate([_find_places(participants, logs)[logs.participant_index] for logs in (first, later)])
    columns = ("time", "state", "available", "action", "probability", "reward")
    joined: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(later, name)]) for name in columns}
    found = replace(first, participants=participants, participant_index=index, **joined)
    _refuse_repeated(found)
    return found


def _find_places(participants: NDArray[np.generic], logs: Trajectories) -> NDArray[np.int64]:
    return np.searchsorted(participants, logs.participants)


def _refuse_repeated(logs: Trajectories) -> None:
    """Name decision points that are there twice."""
    who, when = logs.participant_index[logs.order], logs.time[logs.order]
    twice = np.flatnonzero((who[1:] == who[:-1]) & (when[1:] == when[:-1]))
    if twice.size:
        named = [f"'{logs.participants[who[row]]}' at {when[row]}" for row in twice[:SHOWN_POINTS]]
        more = f" and {twice.size - SHOWN_POINTS} more" if twice.size > SHOWN_POINTS else ""
        raise InputError(
            f"{twice.size} of the later decision points were learned from already: participant {', '.join(named)}{more}; "
            "give only later ones, or fit all logs anew"
        )
