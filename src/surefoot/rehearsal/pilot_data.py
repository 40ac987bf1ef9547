"""A pilot as arrays: everybody's decision points side by side."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DAY_SECONDS, count_moments
from surefoot.data.log_columns import Problems
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import transform_outcome

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
NO_PILOT = "rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)"
"""The remedy where a pilot says too little."""


@dataclass(frozen=True, eq=False)
class PilotArrays:
    """Everybody's decision points in their order, (people, decision points), padded at the end (not `present`).

    `state` (…, state columns) is scaled and `outcome` transformed, NaN where missing; `recorded` and `recorded_outcome` are
    the same before the screen, with artefacts. `sent` is 1 for any action but the first, `probability` that of sending
    anything, 0 for people who are not available; `slot` is the number of the decision point in its day.
    """

    study: Study
    participants: NDArray[Any]
    present: Marks
    state: Floats
    recorded: Floats
    available: Marks
    sent: Floats
    probability: Floats
    outcome: Floats
    recorded_outcome: Floats
    slot: NDArray[np.int64]
    per_day: int

    @classmethod
    def of_logs(cls, logs: StudyLogs | Trajectories, study: Study, per_day: int | None) -> "PilotArrays":
        """Of logs as the study describes them; refuses logs that say nothing about people or about effects."""
        read = logs if isinstance(logs, StudyLogs) else None
        rows = read.logs if read is not None else logs
        if not isinstance(rows, Trajectories):
            raise InputError(f"a pilot is what study.read gives, or Trajectories; got {type(logs).__name__}")
        _check_pilot(rows, rows.outcome if read is None else read.raw_outcome)
        pad = rows.pad_rows
        points = per_day or _count_points(rows, study)
        recorded, recorded_outcome = _restore_flagged(read, rows, study)
        # With several actions logs hold only the probability of the action taken, so the mean share stands for all.
        chance = np.where(rows.action > 0, rows.probability, 1 - rows.probability)
        if rows.actions > 2:
            chance = np.full(len(rows), float((rows.action[rows.available] > 0).mean()))
        return cls(
            study=study,
            participants=rows.participants,
            present=pad(np.ones(len(rows), dtype=bool), False),
            state=pad(rows.state),
            recorded=pad(recorded),
            available=pad(rows.available, False),
            sent=pad((rows.action > 0).astype(np.float64), 0.0),
            probability=pad(np.where(rows.available, chance, 0.0), 0.0),
            outcome=pad(rows.outcome),
            recorded_outcome=pad(recorded_outcome),
            slot=pad(_find_slots(rows.time, points), 0),
            per_day=points,
        )

    @cached_property
    def read(self) -> list[int]:
        """State columns that are read, without derived ones."""
        return [number for number, name in enumerate(self.study.state_names) if name not in self.study.derived_states]

    @cached_property
    def states(self) -> Floats:
        """Of these columns, (columns, people, decision points)."""
        return np.moveaxis(self.state[..., self.read], -1, 0)

    @cached_property
    def points(self) -> NDArray[np.int64]:
        """Number of everybody's decision points."""
        return np.asarray(self.present.sum(axis=1))

    @cached_property
    def length(self) -> NDArray[np.int64]:
        """Everybody's decision points, of whole days if there is one."""
        lengths = self.points
        return np.asarray(np.where(lengths >= self.per_day, lengths // self.per_day * self.per_day, lengths))

    @property
    def centred(self) -> Floats:
        """The action less its probability; 0 for people who are not available."""
        return np.where(self.available, self.sent - self.probability, 0.0)

    @property
    def clock(self) -> list[Floats]:
        """Controls of every regression: the time of day, by decision points of the day (at most eight), and the day."""
        width = max(self.per_day / 8, 1.0)
        slots = (self.slot / width).astype(np.int64)
        levels = [(slots == number).astype(np.float64) for number in range(1, int(slots.max()) + 1)]
        day = np.broadcast_to(np.arange(self.present.shape[1]) // self.per_day, self.present.shape)
        return [*levels, day / max(float(day.max()), 1.0)]


def add_doses(sent: Floats, memories: tuple[float, ...]) -> Floats:
    """The doses of earlier prompts, d′ = ρ d + sent, one for every memory ρ: (memories, people, decision points)."""
    rho = np.array(memories)[:, None]
    doses = np.zeros((len(memories), *sent.shape))
    for t in range(1, sent.shape[1]):
        doses[..., t] = rho * doses[..., t - 1] + sent[:, t - 1]
    return doses


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
    known = outcome[~np.isnan(outcome)]
    if known.size == 0 or np.ptp(known) == 0:
        problem = "is always missing" if known.size == 0 else f"is always {known[0]:g}"
        raise InputError(
            f"the pilot's outcome {problem}, so its spread cannot be learned; name the column that varies as "
            f"[outcome] column, or {NO_PILOT}"
        )
    sent = rows.action[rows.available] > 0
    if len(np.unique(sent)) < 2:
        happened = "at every" if sent.any() else "at no"
        raise InputError(
            f"the pilot sent something {happened} available decision point, so it does not show the effect of sending; "
            f"include decision points of both kinds, or {NO_PILOT}"
        )
    rows.check_probabilities()


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


def _restore_flagged(read: StudyLogs | None, rows: Trajectories, study: Study) -> tuple[Floats, Floats]:
    """States and outcomes with the values that the screen made missing put back."""
    state = rows.state.copy()
    if read is None or read.screen is None:
        return state, rows.outcome
    screen = read.screen
    columns = {
        column: (study.state_names.index(name), kind)
        for name, (column, kind) in study.state_kinds.items()
        if name in study.state_names
    }
    names = screen.flags.column
    for column in dict.fromkeys(names[screen.marks & (names != study.outcome.column)].tolist()):
        if column not in columns:
            raise InputError(
                f"the screen marked '{column}', which is neither a state variable nor the outcome; do not screen it"
            )
        number, kind = columns[column]
        chosen = screen.marks & (names == column)
        state[screen.flags.row[chosen], number] = (screen.values[chosen] - kind.centre) / kind.scale
    return state, transform_outcome(read.measured_outcome, study.outcome, Problems())
