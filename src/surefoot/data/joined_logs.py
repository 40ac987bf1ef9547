"""Logs with those of a later time behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError

SHOWN_POINTS = 3


class DecisionTimes(Protocol):
    """Whose decision points, and when."""

    @property
    def participants(self) -> NDArray[Any]:
        """Ids, sorted."""

    @property
    def participant_index(self) -> NDArray[np.int64]:
        """Of every decision point."""

    @property
    def time(self) -> NDArray[Any]: ...


def join_logs(first: Trajectories, later: Trajectories) -> Trajectories:
    """All decision points of both, those of the first before those of the later; none may be in both, unless the first waits
    for its outcome: then the later one counts.

    >>> import surefoot as sf
    >>> logs = sf.simulators.ChainWalk(3).collect(sf.policies.coin(2), decision_points=6, seed=0)
    >>> join_logs(logs[logs.time < 4], logs[logs.time >= 4])
    Trajectories(3 people, 18 decision points, state ['position'], actions ['left', 'right'])
    """
    _require_same_kind(first, later)
    kept = find_lasting(first, later)
    participants = np.union1d(first.participants, later.participants)
    places = [np.searchsorted(participants, logs.participants)[logs.participant_index] for logs in (first, later)]
    columns = ("time", "state", "available", "action", "probability", "reward")
    joined: dict[str, Any] = {name: np.concatenate([getattr(first, name)[kept], getattr(later, name)]) for name in columns}
    return replace(
        first, participants=participants, participant_index=np.concatenate([places[0][kept], places[1]]), **joined
    )


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


def find_lasting(first: Trajectories, later: Trajectories) -> NDArray[np.bool_]:
    """The rows of the first for which no late outcome came; any other decision point that is in both is refused."""
    again = find_again(first, later)
    refuse_repeated(later, again >= 0, allowed=find_waiting(first)[again])
    lasting = np.ones(len(first), dtype=bool)
    lasting[again[again >= 0]] = False
    return lasting


def find_waiting(logs: Trajectories) -> NDArray[np.bool_]:
    """Available decision points that lack their outcome."""
    return np.asarray(logs.available & np.isnan(logs.reward))


def find_again(first: DecisionTimes, later: DecisionTimes) -> NDArray[np.int64]:
    """For every decision point of the later logs its row in the first, −1 where it is new."""
    found = np.full(len(later.time), -1)
    people, ours, theirs = np.intersect1d(first.participants, later.participants, return_indices=True)
    if not people.size or not len(first.time):
        return found
    position = [np.full(len(one.participants), -1) for one in (first, later)]
    position[0][ours], position[1][theirs] = np.arange(len(people)), np.arange(len(people))
    times, place = np.unique(np.concatenate([first.time, later.time]), return_inverse=True)
    who = np.concatenate([position[0][first.participant_index], position[1][later.participant_index]])
    points = np.where(who >= 0, who * len(times) + place, -1)
    known, fresh = points[: len(first.time)], points[len(first.time) :]
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known[order], fresh), len(order) - 1)]
    same = (fresh >= 0) & (known[at] == fresh)
    found[same] = at[same]
    return found


def refuse_repeated(later: Trajectories, repeated: NDArray[np.bool_], allowed: NDArray[np.bool_]) -> None:
    """Name decision points that were learned from already."""
    twice = np.flatnonzero(repeated & ~allowed)
    if twice.size:
        named = [f"'{later.participant[row]}' at {later.time[row]}" for row in twice[:SHOWN_POINTS]]
        more = f" and {twice.size - SHOWN_POINTS} more" if twice.size > SHOWN_POINTS else ""
        raise InputError(
            f"{twice.size} of the later decision points were learned from already: participant {', '.join(named)}{more}; "
            "give only later ones and those that waited for their outcome, or fit all logs anew"
        )
