"""A pilot as arrays: everybody's decision points side by side, with what a model of them looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DAY_SECONDS, count_moments
from surefoot.data.mean_weights import check_probabilities
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.rehearsal.clock import StudyClock
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
NO_PILOT = "rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)"
"""The remedy where a pilot says too little."""
DOSE_DISCOUNT = 0.9
"""How much of what was sent is still felt one decision point later."""


@dataclass(frozen=True, eq=False)
class PilotData:
    """Everybody's decision points in their order, (people, decision points), padded at the end."""

    study: Study
    participants: NDArray[Any]
    present: Marks
    """False where padded."""
    state: Floats
    """(people, decision points, state columns), NaN where it is missing."""
    available: Marks
    action: NDArray[np.int64]
    probability: Floats
    """Of sending anything."""
    outcome: Floats
    """As measured, NaN where it is missing."""
    reward: Floats
    """As optimised."""
    slot: NDArray[np.int64]
    """The decision point's place in its day."""
    clock: StudyClock
    flagged: Mapping[tuple[str, str], tuple[Marks, Mapping[str, Floats]]]
    """What the screen marked: for every device (or column) and reason where, and the values of every column there."""

    @classmethod
    def of_logs(cls, logs: StudyLogs | Trajectories, study: Study, per_day: int | None) -> PilotData:
        """Of logs as the study describes them; refuses those that say nothing about people or about effects."""
        read = logs if isinstance(logs, StudyLogs) else None
        rows = read.logs if read is not None else logs
        if not isinstance(rows, Trajectories):
            raise InputError(f"a pilot is what study.read gives, or Trajectories; got {type(logs).__name__}")
        outcome = rows.reward if read is None else read.raw_reward
        _check(rows, outcome)
        places = _places(rows)
        present: Marks = places >= 0

        def lay(values: NDArray[Any], otherwise: float = np.nan) -> NDArray[Any]:
            mask = np.expand_dims(present, tuple(range(2, values.ndim + 1)))
            return np.where(mask, values[places], otherwise)

        points = per_day or _count_points(rows, study)
        return cls(
            study=study,
            participants=rows.participants,
            present=present,
            state=lay(rows.state),
            available=lay(rows.available, 0).astype(bool),
            action=lay(rows.action, 0).astype(np.int64),
            probability=lay(np.where(rows.available, send_probability(rows), 0.0), 0.0),
            outcome=lay(outcome),
            reward=lay(rows.reward),
            slot=lay(_slots(rows.time, points), 0).astype(np.int64),
            clock=StudyClock.of_length(points, places.shape[1]),
            flagged={} if read is None or read.screen is None else _group_flags(read, study, places),
        )

    @property
    def people(self) -> int:
        return len(self.participants)

    @cached_property
    def scores(self) -> ScoreTable:
        """Of the rewards."""
        return ScoreTable.of_values(self.reward)

    @cached_property
    def past_score(self) -> Floats:
        """The score of the reward one decision point before; 0 where it is not known."""
        return shift(np.nan_to_num(self.scores.to_scores(self.reward)), 0.0)

    @cached_property
    def _sent_before(self) -> Floats:
        """The discounted count of what was sent before."""
        found = np.zeros(self.action.shape)
        for t in range(1, self.action.shape[1]):
            found[:, t] = DOSE_DISCOUNT * found[:, t - 1] + (self.action[:, t - 1] > 0)
        return found

    @cached_property
    def send_rate(self) -> float:
        """Prompts for each decision point."""
        return float((self.action[self.present] > 0).mean())

    @cached_property
    def dose(self) -> Floats:
        """The discounted count of what was sent before, less what is usual at that time."""
        usual = usual_dose(np.arange(self.present.shape[1], dtype=np.float64), self.send_rate)
        return np.where(self.present, self._sent_before - usual, 0.0)

    @cached_property
    def time_features(self) -> Floats:
        """(people, decision points, features): time of day and day."""
        time = np.broadcast_to(np.arange(self.present.shape[1], dtype=np.float64), self.present.shape)
        return np.moveaxis(self.clock.features(time, self.slot), 0, -1)

    @cached_property
    def constant(self) -> Floats:
        return np.ones((*self.present.shape, 1))


def send_probability(rows: Trajectories) -> Floats:
    """Of sending anything, for every row; with several actions, of which logs hold that of the one taken, the mean share."""
    if rows.actions > 2:
        return np.full(len(rows), float((rows.action[rows.available] > 0).mean()))
    return np.where(rows.action > 0, rows.probability, 1 - rows.probability)


def usual_dose(time: Floats, rate: float) -> Floats:
    """The mean discounted count after so many decision points with this rate of prompts: rate (1 − λᵗ) / (1 − λ)."""
    return np.asarray(rate * (1 - DOSE_DISCOUNT**time) / (1 - DOSE_DISCOUNT))


def shift(values: NDArray[Any], first: float) -> NDArray[Any]:
    """Everybody's values one decision point later."""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)


def _check(rows: Trajectories, outcome: Floats) -> None:
    if len(rows.participants) < 2:
        raise InputError(f"a pilot with one participant does not say how people differ; give at least two, or {NO_PILOT}")
    if not rows.available.any():
        raise InputError(
            "no decision point of the pilot is available, so nothing about sending can be learned; check columns.available, "
            f"or {NO_PILOT}"
        )
    if np.isnan(rows.probability[rows.available]).any():
        raise InputError(
            "the pilot's randomisation probabilities are missing; log them (columns.probability), or write what the design "
            "was: [actions] probabilities = [0.4, 0.6] with your numbers"
        )
    # A pilot in which nothing was ever sent is refused by name where its effect is estimated.
    if len(np.unique(rows.action[rows.available] > 0)) > 1:
        check_probabilities(rows)
    known = outcome[~np.isnan(outcome)]
    if known.size == 0 or np.ptp(known) == 0:
        problem = "is never there" if known.size == 0 else f"is always {known[0]:g}"
        raise InputError(
            f"the pilot's outcome {problem}: nothing about its spread can be learned; name the column that varies as "
            f"[reward] column, or {NO_PILOT}"
        )


def _places(rows: Trajectories) -> NDArray[np.int64]:
    """Everybody's rows in time order, −1 where padded."""
    lengths = np.diff(rows.starts)
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    found = np.full(inside.shape, -1)
    found[inside] = rows.order
    return found


def _count_points(rows: Trajectories, study: Study) -> int:
    """Decision points a day: as the study says, or as dates say; 1 where nobody says."""
    if isinstance(study.days, int):
        return study.days
    if rows.time.dtype.kind != "M":
        return 1
    days = rows.time.astype("datetime64[D]").astype(np.int64)
    _, counts = np.unique(np.column_stack([rows.participant_index, days]), axis=0, return_counts=True)
    return max(1, round(float(np.median(counts))))


def _slots(time: NDArray[Any], per_day: int) -> NDArray[np.int64]:
    """Which of the day's decision points: of timestamps the nearest of the middles of equal shares of the clock times."""
    if time.dtype.kind == "M":
        seconds = count_moments(time) % DAY_SECONDS
        middles = np.quantile(seconds, (np.arange(per_day) + 0.5) / per_day)
        return np.searchsorted((middles[1:] + middles[:-1]) / 2, seconds, side="right")
    return np.asarray(np.floor(count_moments(time)) % per_day).astype(np.int64)


def _group_flags(
    read: StudyLogs, study: Study, places: NDArray[np.int64]
) -> dict[tuple[str, str], tuple[Marks, dict[str, Floats]]]:
    """What became missing, by device and reason; a column without a device is one of its own."""
    screen = read.screen
    if screen is None:
        return {}
    devices = {variable.column or name: variable.device for name, variable in study.state.items()}
    devices[study.reward.column] = study.reward.device
    columns, reasons = screen.screener.column_names(screen.flags), screen.screener.reasons(screen.flags)
    found: dict[tuple[str, str], tuple[Marks, dict[str, Floats]]] = {}
    for column, reason in dict.fromkeys(zip(columns[screen.marks].tolist(), reasons[screen.marks].tolist(), strict=True)):
        chosen = screen.marks & (columns == column) & (reasons == reason)
        values = np.full(len(read.logs), np.nan)
        values[screen.flags.row[chosen]] = screen.values[chosen]
        laid = np.where(places >= 0, values[places], np.nan)
        key = (devices.get(column) or column, reason)
        marks, by_column = found.get(key, (np.zeros(places.shape, dtype=bool), {}))
        found[key] = (marks | ~np.isnan(laid), {**by_column, column: laid})
    return found
