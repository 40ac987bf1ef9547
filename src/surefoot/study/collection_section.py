"""`[collection]`: how the actions in the logs were chosen, which decides what may be concluded from them."""

from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.study.toml_file import Section

ROUNDING = 1e-3
"""Probabilities that differ by less are the same: logs round them."""
DOUBT = (
    "If a policy learned from several participants during the study, participants are not independent and standard errors "
    "may be too small."
)
CONSEQUENCES = {
    "fixed": "The policy that chose actions stayed the same during the study, so participants are independent.",
    "own": "Each participant's policy learned from that participant's data alone, so participants are independent.",
    "pooled": (
        "The policy that chose actions learned from several participants during the study, so participants are not "
        "independent: standard errors may be too small and intervals too short, also those of effects."
    ),
    "unknown": (
        f"The study does not say how actions were chosen, and probabilities differ between decision points. {DOUBT} "
        'Write [collection] policy = "fixed", "own" or "pooled".'
    ),
}
"""What follows from the way in which actions were chosen, where probabilities differ between decision points."""


class CollectionSection(Section):
    """How the actions in the logs were chosen.

    Examples
    --------
    >>> CollectionSection(policy="pooled", updates=(7, 14)).updates
    (7.0, 14.0)
    """

    policy: Literal["fixed", "own", "pooled", "unknown"] = "unknown"
    """`fixed`: the rule for the probabilities stayed the same (they may depend on the state). `own`: each participant's
    policy learned from that participant's data. `pooled`: policies learned from several participants' data."""
    updates: tuple[float, ...] | tuple[str, ...] = ()
    """When policies changed: in the unit of the time column, or ISO 8601."""

    @field_validator("updates", mode="before")
    @classmethod
    def _updates_are_times(cls, updates: Any) -> Any:
        given = updates if isinstance(updates, list | tuple) else [updates]
        times = [time.isoformat() if isinstance(time, date) else time for time in given]
        if all(isinstance(time, int | float) and not isinstance(time, bool) for time in times):
            return tuple(map(float, times))
        try:
            zoned = {datetime.fromisoformat(time).tzinfo is not None for time in times}
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{updates!r} is not a list of times; write [3, 10] in the unit of the time column, or ISO 8601 "
                '(["2026-03-01T04:00:00"])'
            ) from error
        if len(zoned) > 1:
            raise ValueError("give all times a zone, or none")
        return tuple(times)

    @model_validator(mode="after")
    def _fixed_policies_have_no_updates(self) -> "CollectionSection":
        if self.policy == "fixed" and self.updates:
            raise ValueError('a fixed policy has no updates; leave them out, or write policy = "own" or "pooled"')
        return self

    def describe(self, logs: Trajectories) -> list[str]:
        """What follows for these logs, in sentences; none where every decision point had the same probabilities."""
        # With two actions that of sending, else that of the action taken.
        sending = logs.probability
        if logs.actions == 2:
            sending = np.where(logs.action > 0, sending, 1 - sending)
        sending = np.where(logs.available, sending, np.nan)
        drawn = [sending[(logs.action == code) & ~np.isnan(sending)] for code in range(logs.actions)]
        if not any(values.size and np.ptp(values) >= ROUNDING for values in drawn):
            return []
        conflict = self._find_conflict(logs, sending)
        if conflict is None:
            return [CONSEQUENCES[self.policy]]
        return [conflict, CONSEQUENCES["pooled"] if self.policy == "pooled" else DOUBT]

    def _find_conflict(self, logs: Trajectories, sending: NDArray[np.float64]) -> str | None:
        """Two decision points at which the same policy acted in the same state, with different probabilities."""
        if self.policy == "unknown" or (self.policy != "fixed" and not self.updates):
            return None
        dated = logs.time.dtype.kind == "M"
        if self.updates and dated != isinstance(self.updates[0], str):
            problem = f"column '{logs.names.time}' holds {'dates' if dated else 'numbers'}"
            raise InputError(f"collection.updates: {problem}; write the updates in the same way", column=logs.names.time)
        updates: list[Any] = [datetime.fromisoformat(time) if isinstance(time, str) else time for time in self.updates]
        if dated:
            # As the logs hold times: in UTC where there is a zone.
            updates = [time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time for time in updates]
        epoch = np.searchsorted(np.sort(np.array(updates, dtype=logs.time.dtype if dated else float)), logs.time, "right")
        shared = [logs.participant_index] if self.policy == "own" else []
        # Several actions are compared by the one that was taken.
        shared += [logs.action] if logs.actions > 2 else []
        rows = np.flatnonzero(~np.isnan(sending) & ~np.isnan(logs.state).any(axis=1))
        key = np.column_stack([logs.state, epoch, *shared])[rows]
        situation = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((sending[rows], situation))
        first = np.flatnonzero(np.diff(situation[order], prepend=-1))
        last = np.append(first[1:], len(order)) - 1
        spread = sending[rows][order[last]] - sending[rows][order[first]]
        if not spread.size or spread.max() < ROUNDING:
            return None
        worst = int(spread.argmax())
        low, high = (rows[order[end[worst]]] for end in (first, last))
        since = " between the same updates" if self.updates else ""
        return (
            f'The study says [collection] policy = "{self.policy}", but in the same state{since} the probability of sending '
            f"was {sending[low]:.3g} (participant {logs.participant[low].item()!r}, {logs.names.time} {logs.time[low]}) and "
            f"{sending[high]:.3g} (participant {logs.participant[high].item()!r}, {logs.names.time} {logs.time[high]}). "
            "Either the policy changed at other times, or it used something that is not a state variable."
        )
