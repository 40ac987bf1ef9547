"""Reading logs as a study describes them: kinds, plausible ranges, scaling, actions, the reward and its transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import derive_states
from surefoot.data.file_formats import check_files
from surefoot.data.locations import Location
from surefoot.data.log_columns import MISSING, Problems, spell
from surefoot.data.log_table import ColumnNames, LogFile, LogLayout, LogTable, concatenate, list_files, name_file
from surefoot.data.mean_weights import take_probability
from surefoot.data.suspect_columns import AVAILABLE_OR_NOT, find_unnamed_availability
from surefoot.data.trajectories import DecisionPoints, Trajectories, read_decision_points
from surefoot.errors import InputError
from surefoot.screening.detectors import Role
from surefoot.screening.screen import Screen, as_seconds
from surefoot.screening.screener import LearnedPatterns
from surefoot.study.log_description import LogDescription, Reward
from surefoot.study.log_screen import screen_logs
from surefoot.study.measured_logs import MeasuredLogs


@dataclass(frozen=True, eq=False)
class StudyLogs:
    """Logs as the study describes them.

    Attributes
    ----------
    logs
        States after kinds, ranges and scaling, rewards after the transform, probabilities logged or of the design.
    raw_reward
        The reward of every row before winsorising and transform, NaN where it is missing.
    implausible
        For every column with a plausible range: how many values outside it became missing, per participant of
        `logs.participants`.
    row
        For every row of `logs` its number in the input, from 0.
    screen
        What the screen flagged, where the study asks for one; those values are missing in `logs`.
    inputs
        Name, size and SHA-256 of the files that they came from; empty for logs from memory.
    outside
        For every column with a plausible range: the rows whose value lay outside it.
    """

    logs: Trajectories
    raw_reward: NDArray[np.float64]
    implausible: dict[str, NDArray[np.int64]]
    row: NDArray[np.int64]
    screen: Screen | None = None
    inputs: tuple[dict[str, Any], ...] = ()
    outside: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def measured_reward(self) -> NDArray[np.float64]:
        """The reward of every row as it was measured, within its range: with the values that the screen marked missing."""
        if self.screen is None:
            return self.raw_reward
        screen = self.screen
        flagged = screen.marks & (screen.screener.column_names(screen.flags) == self.logs.names.reward)
        measured = self.raw_reward.copy()
        measured[screen.flags.row[flagged]] = screen.values[flagged]
        return measured


def log_layout(study: LogDescription) -> LogLayout:
    """The columns of the log that the study names, each once, and how it spells "missing"."""
    roles = study.columns
    wanted = [roles.participant, roles.time, roles.available, roles.probability, study.actions.column, study.reward.column]
    wanted += [column for column, _ in study.state_kinds.values()]
    wanted += study.extra_columns()
    # A level of a category, or an action, may be spelled like "missing".
    meant = {study.actions.column: {*study.actions.names, *(study.actions.texts or ())}}
    for name, variable in study.state.items():
        meant.setdefault(variable.column or name, set()).update(variable.levels)
    own = {(variable.column or name): tuple(map(spell, variable.missing)) for name, variable in study.state.items()}
    own[study.reward.column] = tuple(map(spell, study.reward.missing))
    columns = tuple(dict.fromkeys(name for name in wanted if name is not None))
    missing = (*MISSING, *roles.missing)
    also = AVAILABLE_OR_NOT if roles.available is None else None
    return LogLayout(roles.participant, roles.time, columns, missing, own, meant, study.file.settings, also)


def study_files(study: LogDescription, path: str | Location) -> list[Location]:
    """The files of an input, without the empty parts of a folder."""
    files = list_files(path)
    if len(files) == 1:
        return files
    filled = check_files(files, log_layout(study).columns)
    if not filled:
        raise InputError(f"{path}: the tables have no rows; give them at least one decision point")
    return filled


def read_logs(study: LogDescription, path: str | Location) -> StudyLogs:
    """All rows of a file or a folder of files."""
    import pyarrow as pa

    with name_file(path):
        measured, inputs = _measure_files(study, path)
        pa.default_memory_pool().release_unused()
        return replace(finish_logs(study, measured), inputs=inputs)


def _measure_files(study: LogDescription, path: str | Location) -> tuple[MeasuredLogs, tuple[dict[str, Any], ...]]:
    """All rows of a file or a folder of files, measured, and what the files are; nothing else of them is kept."""
    parts: list[LogTable] = []
    inputs = []
    for file in (LogFile(file) for file in study_files(study, path)):
        inputs.append(file.fingerprint(path))
        parts.append(file.read(log_layout(study), sum(map(len, parts))))
    return measure_logs(study, concatenate(parts)), tuple(inputs)


def parse_logs(study: LogDescription, rows: LogTable, *, usual: LearnedPatterns | None = None) -> StudyLogs:
    """Rows of one or several files as the study's logs; `usual` is what a screen has learned about all people."""
    return finish_logs(study, measure_logs(study, rows), usual=usual)


def measure_logs(
    study: LogDescription, rows: LogTable, derived: Mapping[str, NDArray[np.float64]] | None = None
) -> MeasuredLogs:
    """Every column by its role, neither screened nor scaled; `derived` are derived states as they were at the decision."""
    roles, actions = study.columns, study.actions
    points = read_decision_points(
        rows,
        time=roles.time,
        state={name: (column, replace(kind, centre=0.0, scale=1.0)) for name, (column, kind) in study.state_kinds.items()},
        action=actions.column,
        reward=study.reward.column,
        available=roles.available,
        probability=roles.probability,
        actions=actions.names,
        action_values=actions.texts,
    )
    extra = {}
    if study.screen is not None and study.screen.on:
        extra = {name: _read_extra(rows, name, role, points.problems) for name, role in study.extra_columns().items()}
    unnamed = find_unnamed_availability(rows.table, log_layout(study).columns, points.action)
    return MeasuredLogs(rows.participants, rows.participant_index, rows.row, points, extra, derived, unnamed)


def finish_logs(study: LogDescription, measured: MeasuredLogs, *, usual: LearnedPatterns | None = None) -> StudyLogs:
    """Logs as measured, screened, scaled and transformed as the study asks."""
    points = measured.points
    outside = {study.state_kinds[name][0]: where for name, where in points.implausible.items()}
    state, raw, reward = points.state, points.reward, study.reward
    if reward.range is not None:
        outside[reward.column] = (raw < reward.range[0]) | (raw > reward.range[1])
        raw = np.where(outside[reward.column], np.nan, raw)
    build = _builder(study, measured)
    found = None
    if study.screen is not None and study.screen.on:
        # Derived states hold actions, which a screen must not see.
        seen = build(state=state, reward=raw, state_names=study.read_names)
        found = screen_logs(study, seen, measured.extra, measured.row, usual)
        state, raw = found.logs.state, found.logs.reward
    earned = transform_reward(raw, reward, points.problems)
    index, derived = measured.participant_index, measured.derived
    if derived is None and study.derived_states:
        derived = derive_states(study.derived_states, index, points.time, points.action, earned, study.days)
    joined = join_states(study, scale_states(study, state), derived or {})
    logs = build(state=joined, reward=earned, state_names=study.state_names)
    people = len(measured.participants)
    counts = {name: np.bincount(index[where], minlength=people) for name, where in outside.items()}
    return StudyLogs(logs, raw, counts, measured.row, found, outside=outside)


def _builder(study: LogDescription, measured: MeasuredLogs) -> Callable[..., Trajectories]:
    """(state, reward, state_names) → trajectories of these decision points, validated."""
    roles, actions, points = study.columns, study.actions, measured.points
    names = (roles.participant, roles.time, actions.column, study.reward.column)
    return partial(
        Trajectories.validated,
        participants=measured.participants,
        participant_index=measured.participant_index,
        time=points.time,
        available=points.available,
        action=points.action,
        probability=_probability(study, points),
        action_names=actions.names,
        names=ColumnNames(*names, *_optional_names(study), measured.unnamed),
        problems=points.problems,
    )


def scale_states(study: LogDescription, measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """(x − centre) / scale for every state variable that has a scaling."""
    kinds = [kind for name, (_, kind) in study.state_kinds.items() for _ in study.columns_of(name)]
    if all((kind.centre, kind.scale) == (0.0, 1.0) for kind in kinds):
        return measured
    scaled = measured.copy()
    for place, kind in enumerate(kinds):
        if (kind.centre, kind.scale) != (0.0, 1.0):
            scaled[:, place] = (measured[:, place] - kind.centre) / kind.scale
    return scaled


def _read_extra(rows: LogTable, name: str, role: Role, problems: Problems) -> NDArray[np.float64]:
    """A column that only the screen needs."""
    column = rows.column(name, problems)
    return as_seconds(column.times()) if role == "enrolment" else column.numbers()


def join_states(
    study: LogDescription, read: NDArray[np.float64], derived: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """(rows, state columns) in the study's order, from those that were read and those that were derived, scaled."""
    if not derived:
        return read
    found, place = [], 0
    for name, variable in study.state.items():
        size = len(study.columns_of(name))
        if variable.derived:
            kind = variable.variable_kind
            found.append((derived[name][:, None] - kind.centre) / kind.scale)
        else:
            found.append(read[:, place : place + size])
            place += size
    return np.concatenate(found, axis=1)


def _optional_names(study: LogDescription) -> tuple[str, str, str]:
    """What messages call the probability and the availability, and what the probability is of."""
    available = study.columns.available or "available"
    if study.actions.probabilities is not None:
        return "probability", available, "design"
    return study.columns.probability or "probability", available, study.columns.probability_of


def _probability(study: LogDescription, points: DecisionPoints) -> NDArray[np.float64]:
    """Of the action that was taken: logged, derived from that of sending, or the design's; NaN where unknown."""
    design, column = study.actions.probabilities, study.columns.probability
    if design is not None:
        known = np.append(np.asarray(design), np.nan)
        return known[np.where(np.isnan(points.action), len(design), points.action).astype(np.int64)]
    logged = points.probability
    if column is None or study.columns.probability_of == "action taken":
        return logged
    return take_probability(logged, points.action, points.available, column, points.problems)


def restore_outcome(earned: NDArray[np.float64], reward: Reward) -> NDArray[np.float64]:
    """The outcome that `transform_reward` made a reward of; to nine digits, so that a zero stays a zero."""
    if reward.transform == "none":
        return earned
    return np.round(earned**2 if reward.offset is None else np.exp(earned) - reward.offset, 9)


def transform_reward(raw: NDArray[np.float64], reward: Reward, problems: Problems) -> NDArray[np.float64]:
    """The reward that is optimised: winsorised, then log(x + c) or √x."""
    values = raw if reward.winsorise is None else np.clip(raw, *reward.winsorise)
    if reward.transform == "none":
        return values
    offset = reward.offset
    outside = values < 0 if offset is None else values + offset <= 0
    if outside.any():
        rows = np.flatnonzero(outside)
        remedy = "give the reward a plausible range (values outside count as missing), or change the transform"
        problems.report(reward.column, rows, f"{values[rows[0]]:g} has no {reward.transform}", remedy)
        values = np.where(outside, np.nan, values)
    return np.sqrt(values) if offset is None else np.log(values + offset)
