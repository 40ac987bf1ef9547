"""Who does not wear the device: those whom a coordinator calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from surefoot.screening.not_worn import NotWorn
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import trial_logs

CALL_AFTER = timedelta(days=2)
LOOK_BACK = timedelta(days=30)
"""Older decision points say nothing about today, and a page should not read a whole trial."""


@dataclass(frozen=True)
class Unworn:
    """One participant whose device has recorded nothing but zeros for too long."""

    id: str
    last_worn: datetime | None
    """The last decision point at which the device was worn; None when it never was in the days looked at."""
    since: datetime
    """The first decision point from which on it was not."""
    last_contact: datetime
    decision_points: int
    """With the device not worn, since then."""


def names_a_device(trial: Trial) -> bool:
    """Whether the study says which columns a device measures."""
    study = trial.study
    return study.reward.device is not None or any(variable.device is not None for variable in study.state.values())


def flag_unworn(trial: Trial, since: datetime) -> list[tuple[Any, bool]]:
    """Every decision point since a moment and whether the device was not worn then; empty where no device is named."""
    if not names_a_device(trial):
        return []
    with trial.database.snapshot() as connection:
        rows = trial_logs.read_rows(connection, since=since)
    screen = trial_logs.make_study_logs(trial.study.with_screen(), rows).screen if rows else None
    if screen is None:
        return []
    unworn = np.zeros(len(rows), dtype=bool)
    chosen = screen.screener.detector_names(screen.flags) == NotWorn.name
    unworn[screen.row[screen.flags.row[chosen]]] = True
    return list(zip(rows, unworn.tolist(), strict=True))


def find_unworn_points(trial: Trial, participant_id: str, at: datetime) -> set[int]:
    """The decision points of one participant, by their index, at which the device was not worn."""
    flagged = flag_unworn(trial, at - LOOK_BACK)
    return {row["decision_idx"] for row, off in flagged if off and row["participant_id"] == participant_id}


def list_unworn(trial: Trial, at: datetime) -> list[Unworn]:
    """Participants who have not worn the device for two days, the longest first."""
    by_participant: dict[str, list[tuple[Any, bool]]] = {}
    for row, off in flag_unworn(trial, at - LOOK_BACK):
        by_participant.setdefault(row["participant_id"], []).append((row, off))
    people = [_describe(name, points) for name, points in by_participant.items()]
    late = [person for person in people if person is not None and at - (person.last_worn or person.since) >= CALL_AFTER]
    return sorted(late, key=lambda person: (person.since, person.id))


def _describe(name: str, points: Sequence[tuple[Any, bool]]) -> Unworn | None:
    """What there is to say about one participant's decision points, in order; None when the device was worn at the last."""
    run = next((position for position, (_, off) in enumerate(reversed(points)) if not off), len(points))
    if run == 0:
        return None
    first = len(points) - run
    last_worn = points[first - 1][0]["decided_at"] if first else None
    return Unworn(name, last_worn, points[first][0]["decided_at"], points[-1][0]["received_at"], run)
