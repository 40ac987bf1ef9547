"""A pilot as arrays: everybody's decision points side by side, with the features that a model of them uses."""

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
from surefoot.rehearsal.pooled_regression import ScoreTable
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
NO_PILOT = "rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)"
"""The remedy where a pilot says too little."""
DOSE_DISCOUNT = 0.9
"""The share of the dose of prompts that is left one decision point later."""
MOST_SLOTS = 8
"""Up to this number of decision points a day each has a level; more are described by two waves."""


@dataclass(frozen=True)
class StudyClock:
    """Features of decision point t: the time of day, as levels against the first or as waves, and the day."""

    per_day: int
    middle: float
    """The day that counts as 0, …"""
    width: float
    """… and the number of days that count as 1."""

    @classmethod
    def of_length(cls, per_day: int, points: int) -> StudyClock:
        """For a study with this number of decision points."""
        days = max((points - 1) // per_day, 1)
        return cls(per_day, days / 2, max(days / 3.5, 1.0))

    @property
    def size(self) -> int:
        return 1 + (self.per_day - 1 if self.per_day <= MOST_SLOTS else 4)

    def day(self, time: Floats) -> Floats:
        """Days since the first decision point."""
        return np.asarray(np.floor(time / self.per_day))

    def features(self, time: Floats, slot: NDArray[np.int64] | None = None) -> Floats:
        """(size, *time); the slot follows from the time unless it is given."""
        slots = np.asarray(time % self.per_day if slot is None else slot)
        if self.per_day <= MOST_SLOTS:
            columns = [(slots == number).astype(np.float64) for number in range(1, self.per_day)]
        else:
            turn = 2 * np.pi * slots / self.per_day
            columns = [np.cos(turn), np.sin(turn), np.cos(2 * turn), np.sin(2 * turn)]
        return np.stack([*columns, (self.day(time) - self.middle) / self.width])


@dataclass(frozen=True, eq=False)
class PilotArrays:
    """Everybody's decision points in their order, (people, decision points), padded at the end."""

    study: Study
    participants: NDArray[Any]
    present: Marks
    """False where padded."""
    state: Floats
    """(people, decision points, state columns), NaN where missing."""
    available: Marks
    action: NDArray[np.int64]
    probability: Floats
    """Of sending anything."""
    outcome: Floats
    """As measured, NaN where missing."""
    reward: Floats
    """As optimised."""
    slot: NDArray[np.int64]
    """The decision point's number in its day."""
    clock: StudyClock
    flagged: Mapping[tuple[str, str], Mapping[str, Floats]]
    """Values that the screen marked, NaN elsewhere: by device (or column) and reason, then by column."""

    @classmethod
    def of_logs(cls, logs: StudyLogs | Trajectories, study: Study, per_day: int | None) -> PilotArrays:
        """Of logs as the study describes them; refuses logs that say nothing about people or about effects."""
        read = logs if isinstance(logs, StudyLogs) else None
        rows = read.logs if read is not None else logs
        if not isinstance(rows, Trajectories):
            raise InputError(f"a pilot is what study.read gives, or Trajectories; got {type(logs).__name__}")
        outcome = rows.reward if read is None else read.raw_reward
        _check_pilot(rows, outcome)
        lengths = np.diff(rows.starts)
        present = np.arange(int(lengths.max())) < lengths[:, None]

        def pad(values: NDArray[Any], otherwise: float = np.nan) -> NDArray[Any]:
            padded = np.full((*present.shape, *values.shape[1:]), otherwise, dtype=np.result_type(values, type(otherwise)))
            padded[present] = values[rows.order]
            return padded

        points = per_day or _count_points(rows, study)
        flags: dict[tuple[str, str], dict[str, Floats]] = {}
        for (key, column), values in _list_flags(read, study).items():
            flags.setdefault(key, {})[column] = pad(values)
        return cls(
            study=study,
            participants=rows.participants,
            present=present,
            state=pad(rows.state),
            available=pad(rows.available, False),
            action=pad(rows.action, 0),
            probability=pad(np.where(rows.available, send_probability(rows), 0.0), 0.0),
            outcome=pad(outcome),
            reward=pad(rows.reward),
            slot=pad(_find_slots(rows.time, points), 0),
            clock=StudyClock.of_length(points, present.shape[1]),
            flagged=flags,
        )

    def find_flagged(self, column: str) -> Marks:
        """Where the screen marked a column."""
        marked = np.zeros(self.present.shape, dtype=bool)
        for values in self.flagged.values():
            if column in values:
                marked |= ~np.isnan(values[column])
        return marked

    @cached_property
    def scores(self) -> ScoreTable:
        """Of the rewards."""
        return ScoreTable.of_values(self.reward)

    @cached_property
    def send_rate(self) -> float:
        """Prompts for each decision point."""
        return float((self.action[self.present] > 0).mean())

    @cached_property
    def carried(self) -> Floats:
        """What earlier decision points leave, (people, decision points, 2): the score of the last reward (0 where unknown)
        and the dose, the discounted count of earlier prompts less its mean at that time."""
        score = delay(np.nan_to_num(self.scores.to_scores(self.reward)), 0.0)
        sent = np.zeros(self.action.shape)
        for t in range(1, self.action.shape[1]):
            sent[:, t] = DOSE_DISCOUNT * sent[:, t - 1] + (self.action[:, t - 1] > 0)
        usual = usual_dose(np.arange(self.present.shape[1], dtype=np.float64), self.send_rate)
        return np.stack([score, np.where(self.present, sent - usual, 0.0)], axis=-1)

    @cached_property
    def time_features(self) -> Floats:
        """(people, decision points, features): time of day and day."""
        time = np.broadcast_to(np.arange(self.present.shape[1], dtype=np.float64), self.present.shape)
        return np.moveaxis(self.clock.features(time, self.slot), 0, -1)

    def design(self, *columns: Floats) -> Floats:
        """Features [1, columns …], (people, decision points, d); a column may be a block with a third axis."""
        blocks = [column[..., None] if column.ndim == 2 else column for column in columns]
        return np.concatenate([np.ones((*self.present.shape, 1)), *blocks], axis=-1)


def send_probability(rows: Trajectories) -> Floats:
    """The probability of sending anything in every row; with several actions the mean share, since logs hold only that of
    the action taken."""
    if rows.actions > 2:
        return np.full(len(rows), float((rows.action[rows.available] > 0).mean()))
    return np.where(rows.action > 0, rows.probability, 1 - rows.probability)


def usual_dose(time: Floats, rate: float) -> Floats:
    """The mean dose at a decision point with this rate of prompts: rate (1 − λᵗ) / (1 − λ)."""
    return np.asarray(rate * (1 - DOSE_DISCOUNT**time) / (1 - DOSE_DISCOUNT))


def delay(values: NDArray[Any], first: float) -> NDArray[Any]:
    """Everybody's values one decision point later."""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)


def _check_pilot(rows: Trajectories, outcome: Floats) -> None:
    if len(rows.participants) < 2:
        raise InputError(f"a pilot with one participant does not say how people differ; give at least two, or {NO_PILOT}")
    if not rows.available.any():
        raise InputError(
            "no decision point of the pilot is available, so the effect of sending cannot be learned; check "
            f"columns.available, or {NO_PILOT}"
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
        problem = "is always missing" if known.size == 0 else f"is always {known[0]:g}"
        raise InputError(
            f"the pilot's outcome {problem}, so its spread cannot be learned; name the column that varies as "
            f"[reward] column, or {NO_PILOT}"
        )


def _count_points(rows: Trajectories, study: Study) -> int:
    """Decision points a day by the study, or by the dates; 1 without either."""
    if isinstance(study.days, int):
        return study.days
    if rows.time.dtype.kind != "M":
        return 1
    days = rows.time.astype("datetime64[D]").astype(np.int64)
    _, counts = np.unique(np.column_stack([rows.participant_index, days]), axis=0, return_counts=True)
    return max(1, round(float(np.median(counts))))


def _find_slots(time: NDArray[Any], per_day: int) -> NDArray[np.int64]:
    """The number of every decision point in its day: the nearest of the middles of equal shares of the clock times."""
    if time.dtype.kind == "M":
        seconds = count_moments(time) % DAY_SECONDS
        middles = np.quantile(seconds, (np.arange(per_day) + 0.5) / per_day)
        return np.searchsorted((middles[1:] + middles[:-1]) / 2, seconds, side="right")
    return np.asarray(np.floor(count_moments(time)) % per_day).astype(np.int64)


def _list_flags(read: StudyLogs | None, study: Study) -> dict[tuple[tuple[str, str], str], Floats]:
    """Values that the screen made missing, by ((device, reason), column); a column without a device is its own device."""
    if read is None or read.screen is None:
        return {}
    screen = read.screen
    devices = {variable.column or name: variable.device for name, variable in study.state.items()}
    devices[study.reward.column] = study.reward.device
    columns = screen.flags.column
    reasons = screen.flags.reason
    flags = {}
    for column, reason in dict.fromkeys(zip(columns[screen.marks].tolist(), reasons[screen.marks].tolist(), strict=True)):
        chosen = screen.marks & (columns == column) & (reasons == reason)
        values = np.full(len(read.logs), np.nan)
        values[screen.flags.row[chosen]] = screen.values[chosen]
        flags[(devices.get(column) or column, reason), column] = values
    return flags
