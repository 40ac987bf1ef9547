"""Screens logs before they are fitted: flags values that cannot be trusted, with reasons, and makes them missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, did_you_mean
from surefoot.screening.detectors import Block, Column, Layout, Questionnaire
from surefoot.screening.screener import Flags, LearnedPatterns, Screener, make_detectors, sample_rows, screen_columns
from surefoot.screening.treatment import (
    NOT_DIRT,
    Counts,
    TreatmentDifference,
    compare_actions,
    count_flags,
    find_worst_verdict,
    pool_people,
)

NOT_AVAILABLE = "not available"
"""Name, in counts by action, of decision points at which nothing could be sent."""


@dataclass(frozen=True, eq=False)
class Screen:
    """The flagged values of some logs, and the logs without these values.

    Attributes
    ----------
    logs
        The logs with flagged values missing; nothing else is changed.
    screener
        The columns and the detectors.
    flags
        Row, column, detector, reason and score of every flagged value.
    row
        For every row of the logs its position in the file, from 0.
    usual
        The patterns that the detectors learned from a sample of the participants.
    values
        Every flagged value as it was measured; NaN for a flagged time.
    """

    logs: Trajectories
    screener: Screener
    flags: Flags
    row: NDArray[np.int64]
    usual: LearnedPatterns
    values: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Screen({len(self.flags.row)} flags in {len(self.logs)} decision points: {self.counts()})"

    @cached_property
    def marks(self) -> NDArray[np.bool_]:
        """For every flag whether the value became missing; otherwise it is only reported."""
        return self.screener.marks(self.flags)

    def count_by_action(self) -> Counts:
        """How many decision points every detector flagged, by participant and action."""
        rows = {}
        for position, detector in enumerate(self.screener.detectors):
            flagged = np.zeros(len(self.logs), dtype=bool)
            flagged[self.flags.row[(self.flags.detector == position) & self.marks]] = True
            rows[detector.name] = flagged
        return count_flags(self.logs, rows)

    @cached_property
    def treatment(self) -> tuple[TreatmentDifference, ...]:
        """For every detector that flagged anything whether the flagged share differs by action."""
        return ScreenTotals.of([self]).treatment()

    @property
    def blind(self) -> bool:
        """False when the flagged share of some detector differs by action."""
        return not any(difference.differs for difference in self.treatment)

    def warnings(self) -> list[str]:
        """Warnings about detectors whose flagged share differs by action."""
        unsafe = [difference for difference in self.treatment if difference.differs]
        return [f"the screen: {difference.describe()}: {NOT_DIRT}" for difference in unsafe]

    def arms(self) -> NDArray[Any]:
        """The name of the action at every flagged decision point, or `not available`."""
        names = np.array([*self.logs.action_names, NOT_AVAILABLE])
        action = np.where(self.logs.available, self.logs.action, len(names) - 1)
        return names[action[self.flags.row]]

    def counts(self) -> dict[str, int]:
        """How many values were flagged for each reason."""
        reasons, numbers = np.unique(self.screener.reasons(self.flags), return_counts=True)
        return {str(reason): int(number) for reason, number in zip(reasons, numbers, strict=True)}

    def missing(self) -> dict[str, NDArray[np.int64]]:
        """For every column with a flag: how many values became missing, per participant of `logs.participants`."""
        missing = {}
        columns = self.screener.column_names(self.flags)
        for column in dict.fromkeys(columns[self.marks].tolist()):
            rows = self.flags.row[(columns == column) & self.marks]
            missing[column] = np.bincount(self.logs.participant_index[rows], minlength=len(self.logs.participants))
        return missing

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per flagged value: `row` in the file, participant, time, column, reason and score."""
        flags = self.flags
        logs = self.logs
        data = {
            "row": self.row[flags.row],
            "participant": logs.participants[logs.participant_index[flags.row]],
            "time": logs.time[flags.row],
            "column": self.screener.column_names(flags),
            "reason": self.screener.reasons(flags),
            "score": flags.score,
        }
        return make_frame(data, backend or logs.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return ScreenTotals.of([self]).to_dict()


@dataclass(eq=False)
class ScreenTotals:
    """Counts of flagged values over one or several parts of some logs."""

    people: int = 0
    decision_points: int = 0
    counts: Counter[tuple[str, str, str, bool]] = field(default_factory=Counter)
    """By column, reason, action (or `not available`) and whether the value became missing."""
    by_action: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=dict)

    @classmethod
    def of(cls, screens: Iterable[Screen]) -> ScreenTotals:
        totals = cls()
        for screen in screens:
            totals.add(screen)
        return totals

    def add(self, screen: Screen) -> None:
        columns = screen.screener.column_names(screen.flags)
        reasons = screen.screener.reasons(screen.flags)
        self.people += len(screen.logs.participants)
        self.decision_points += len(screen.logs)
        flags = zip(columns.tolist(), reasons.tolist(), screen.arms().tolist(), screen.marks.tolist(), strict=True)
        self.counts.update(flags)
        for key, by_participant in screen.count_by_action().items():
            self.by_action.setdefault(key, []).append(pool_people(by_participant))

    def treatment(self) -> tuple[TreatmentDifference, ...]:
        return compare_actions({key: np.concatenate(parts) for key, parts in self.by_action.items()})

    def list_counts(self) -> list[dict[str, Any]]:
        """For every column and reason: how many values, how many of them became missing, and after which action."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (column, reason, arm, is_missing), count in sorted(self.counts.items()):
            empty = {"column": column, "reason": reason, "values": 0, "missing": 0, "after": {}}
            row = rows.setdefault((column, reason), empty)
            row["values"] += count
            row["missing"] += count * is_missing
            row["after"][arm] = row["after"].get(arm, 0) + count
        return list(rows.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        treatment = self.treatment()
        counts = self.list_counts()
        return {
            "people": self.people,
            "decision_points": self.decision_points,
            "flagged_values": self.counts.total(),
            "now_missing": sum(row["missing"] for row in counts),
            "counts": counts,
            "verdict": find_worst_verdict(treatment),
            "blind_to_treatment": not any(difference.differs for difference in treatment),
            "treatment": [difference.to_dict() for difference in treatment],
        }


def screen(
    logs: Trajectories,
    *,
    devices: Mapping[str, str] | None = None,
    questionnaires: Sequence[Questionnaire] = (),
    columns: Sequence[str] | None = None,
    detectors: Mapping[str, Mapping[str, Any] | bool] | None = None,
    outcome: bool = True,
    usual: LearnedPatterns | None = None,
) -> Screen:
    """Flag the values of some logs that cannot be trusted and make them missing.

    Parameters
    ----------
    logs
        Logs with values as measured: an unworn device must still read 0. `study.read` screens before scaling and transforms.
    devices
        State variable or reward → the device it comes from. Columns of one device are judged together.
    questionnaires
        State variables that are answered in one go.
    columns
        The columns to screen; all unless given.
    detectors
        Parameters by detector; False leaves one out.
    outcome
        Whether flagged outcomes become missing. Otherwise they are reported and not changed.
    usual
        `Screen.usual` of another screen of the same columns; learned from these logs unless given.

    Returns
    -------
    Screen
        The logs with flagged values missing, and every flag with its reason.

    Examples
    --------
    >>> import surefoot as sf
    >>> clean = sf.simulators.HeartSteps(20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> worn = sf.simulators.contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=20, seed=1)
    >>> screened = screen(worn.logs)
    >>> screened.counts(), screened.blind
    ({'not worn': 1600}, True)
    """
    names = (*logs.state_names, logs.names.reward)
    for argument, given_names in (("devices", devices or {}), ("columns", columns or ())):
        for name in given_names:
            if name not in names:
                raise InputError(
                    f"{argument}: there is no column '{name}'{did_you_mean(name, names)}; the logs have {list(names)}"
                )
    values = np.vstack([logs.state.T, logs.reward])
    screened = [position for position, name in enumerate(names) if columns is None or name in columns]
    layout = Layout(
        columns=tuple(
            _column(names[position], position == len(names) - 1, values[position], devices or {}) for position in screened
        ),
        questionnaires=tuple(questionnaires),
        time=logs.names.time,
        clock=logs.time.dtype.kind == "M",
    )
    screener = Screener(layout, make_detectors(detectors or {}), outcome)
    return screen_values(
        logs, screener, values[screened], {names[position]: (position,) for position in screened}, usual=usual
    )


def _column(name: str, outcome: bool, values: NDArray[np.float64], devices: Mapping[str, str]) -> Column:
    present = values[~np.isnan(values)]
    yes_no = bool(((present == 0) | (present == 1)).all())
    return Column(name, "outcome" if outcome else "state", devices.get(name), number=not yes_no)


def screen_values(
    logs: Trajectories,
    screener: Screener,
    values: NDArray[np.float64],
    targets: Mapping[str, Sequence[int]],
    *,
    row: NDArray[np.int64] | None = None,
    usual: LearnedPatterns | None = None,
) -> Screen:
    """Screen values (columns, rows of the logs) as measured; `targets` says which values of the logs each column becomes.

    These are positions among the state variables, with the reward after the last.
    """
    time = as_seconds(logs.time)
    flags = None
    if usual is None:
        usual, flags = _learn_and_find(logs, screener, values)
    if flags is None:
        flags = screen_columns(screener, values, time, (rows for _, rows in logs.blocks()), usual)
    marked = screener.marks(flags)
    columns = screener.column_names(flags)
    state = logs.state.copy()
    reward = logs.reward.copy()
    for name in dict.fromkeys(columns[marked].tolist()):
        rows = flags.row[marked & (columns == name)]
        for position in targets.get(name, ()):
            (reward if position == state.shape[1] else state[:, position])[rows] = np.nan
    where = np.arange(len(logs)) if row is None else row
    flagged = np.where(flags.column < 0, np.nan, values[flags.column, flags.row])
    return Screen(logs.with_values(state=state, reward=reward), screener, flags, where, usual, flagged)


def _learn_and_find(
    logs: Trajectories, screener: Screener, values: NDArray[np.float64]
) -> tuple[LearnedPatterns, Flags | None]:
    """Learned patterns, and the flags if the sample holds all participants and their records are equally long."""
    sample = sample_rows(logs.order, logs.starts)
    usual, flags = screener.learn_and_find(Block.pad_rows(screener.layout, values, as_seconds(logs.time), sample))
    sample_is_everybody = len(sample) == len(logs.participants) and np.ptp(np.diff(logs.starts)) == 0
    return usual, flags if sample_is_everybody else None


def as_seconds(time: NDArray[Any]) -> NDArray[np.float64]:
    """Moments as seconds since 1970; numbers as they are."""
    if time.dtype.kind == "M":
        return np.asarray(time.astype("M8[us]").astype(np.int64) / 1e6)
    return time.astype(np.float64)
