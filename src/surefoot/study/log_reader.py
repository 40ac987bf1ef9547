"""Reading logs as a study describes them: kinds, plausible ranges, scaling, actions, the reward and its transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data import column_kinds, columns, log_files
from surefoot.data.columns import Place
from surefoot.data.log_files import Rows
from surefoot.data.trajectories import ColumnNames, Trajectories, checked
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from surefoot.study.model import Reward, StateVariable, Study
    from surefoot.study.toml_types import Range


@dataclass(frozen=True, eq=False)
class StudyLogs:
    """Logs as the study describes them."""

    logs: Trajectories
    """States after kinds, ranges and scaling, rewards after the transform, probabilities logged or of the design."""
    raw_reward: NDArray[np.float64]
    """The reward of every row before winsorising and transform, NaN where it is missing."""
    implausible: dict[str, NDArray[np.int64]]
    """For every column with a plausible range: how many values outside it became missing, per participant of
    `logs.users`."""
    row: NDArray[np.int64]
    """For every row of `logs` its number in the input, from 0."""


def columns_needed(study: Study) -> list[str]:
    """The columns of the log that the study names, each once."""
    roles = study.columns
    wanted = [roles.participant, roles.time, roles.available, roles.probability, study.actions.column, study.reward.column]
    wanted += [variable.column or name for name, variable in study.state.items()]
    return list(dict.fromkeys(name for name in wanted if name is not None))


def read(study: Study, path: str | Path) -> StudyLogs:
    """All rows of a file or a folder of files."""
    parts: list[Rows] = []
    for file in files_with_rows(study, path):
        parts.append(read_file(study, file, sum(len(part.table) for part in parts)))
    with log_files.naming(path):
        return described(study, log_files.joined(parts))


def read_file(study: Study, file: Path, first_row: int, only: list[str] | None = None) -> Rows:
    """The study's columns of one file, or some of them, with every spelling of "missing" settled.

    People and times of a CSV file get their types from the whole file, so that parts of it agree on them.
    """
    import pyarrow as pa

    rows = log_files.read_rows(file, only or columns_needed(study), first_row)
    # A level of a category, or an action, may be spelled like "missing".
    meant = {study.actions.column: {*study.actions.names, *(study.actions.texts or ())}}
    for name, variable in study.state.items():
        meant.setdefault(variable.column or name, set()).update(variable.levels)
    words = (*column_kinds.MISSING, *study.columns.missing)
    table = {
        name: column_kinds.blanked(_whole(rows.table[name]), [word for word in words if word not in meant.get(name, ())])
        for name in rows.table.column_names
    }
    participant, time = study.columns.participant, study.columns.time
    if time in table and pa.types.is_timestamp(table[time].type):
        # Files may differ in unit and zone.
        with log_files.naming(file):
            table[time] = columns.microseconds(table[time], time)
    if file.suffix.lower() == ".csv":
        table[participant] = column_kinds.identities(table[participant])
        if time in table:
            table[time] = column_kinds.moments(table[time], time, rows.place)
    return Rows(pa.table(table), rows.place, rows.row)


def files_with_rows(study: Study, path: str | Path) -> list[Path]:
    """The files of an input, without the empty parts of a folder.

    Files whose columns of one name hold different kinds of values are refused; a column of nothing goes with any.
    """
    files = log_files.files_of(path)
    if len(files) == 1:
        return files
    first: dict[str, tuple[str, Path]] = {}
    filled = []
    for file in files:
        opened = log_files.parquet_file(file)
        schema = opened.schema_arrow
        log_files.check_columns(file, schema.names, columns_needed(study))
        for name in columns_needed(study):
            family = column_kinds.family(schema.field(name).type)
            known, where = first.setdefault(name, (family, file))
            if known == "nothing":
                first[name] = (family, file)
            elif family not in (known, "nothing"):
                raise InputError(
                    f"{file}: column '{name}' holds {family}, but {known} in {where}; write all files with one schema",
                    column=name,
                )
        if opened.metadata.num_rows:
            filled.append(file)
    if not filled:
        raise InputError(f"{path}: the tables have no rows; give them at least one decision point")
    return filled


def described(study: Study, rows: Rows) -> StudyLogs:
    """Rows of one or several files as the study's logs."""
    table, place, roles = {name: _whole(rows.table[name]) for name in rows.table.column_names}, rows.place, study.columns
    participants, participant_index = columns.people(table[roles.participant], roles.participant, place)
    implausible: dict[str, NDArray[np.int64]] = {}

    def plausible(values: NDArray[np.float64], name: str, limits: Range | None) -> NDArray[np.float64]:
        if limits is None:
            return values
        outside = (values < limits[0]) | (values > limits[1])
        implausible[name] = np.bincount(participant_index[outside], minlength=len(participants))
        return np.where(outside, np.nan, values)

    state = state_matrix(study, table, place, plausible)
    reward = study.reward
    raw = plausible(column_kinds.numbers(table[reward.column], reward.column, place), reward.column, reward.range)
    available = (
        np.ones(len(participant_index))
        if roles.available is None
        else column_kinds.yes_no(table[roles.available], roles.available, place)
    )
    actions = study.actions
    action = column_kinds.actions(table[actions.column], actions.column, place, actions.names, actions.texts)
    logs = checked(
        participants=participants,
        participant_index=participant_index,
        time=columns.times(table[roles.time], roles.time, place),
        state=state,
        available=available,
        action=action,
        probability=_probability(study, table, action, place),
        reward=transformed(raw, reward, place),
        state_names=study.state_names,
        action_names=actions.names,
        names=ColumnNames(
            roles.participant,
            roles.time,
            actions.column,
            reward.column,
            roles.probability or "probability",
            roles.available or "available",
        ),
        backend="pyarrow",
        place=place,
    )
    return StudyLogs(logs, raw, implausible, rows.row)


Plausible = Callable[[NDArray[np.float64], str, "Range | None"], NDArray[np.float64]]
"""(values, column, range) → the values with those outside the range missing."""


def state_matrix(study: Study, table: Mapping[str, pa.Array], place: Place, plausible: Plausible) -> NDArray[np.float64]:
    """(rows, state columns): every state variable by its kind, implausible values missing, scaled."""
    state = []
    for name, variable in study.state.items():
        column = variable.column or name
        values = _state_values(table[column], column, variable, place)
        state.append(_scaled(plausible(values, column, variable.range), variable))
    return np.column_stack(state)


def _state_values(column: pa.Array, name: str, variable: StateVariable, place: Place) -> NDArray[np.float64]:
    if variable.kind == "category":
        return column_kinds.categories(column, name, place, variable.levels)
    return (column_kinds.yes_no if variable.kind == "yes/no" else column_kinds.numbers)(column, name, place)


def _scaled(values: NDArray[np.float64], variable: StateVariable) -> NDArray[np.float64]:
    if variable.scaling is None:
        return values
    return (values - variable.scaling.centre) / variable.scaling.scale


def _probability(study: Study, table: dict[str, Any], action: NDArray[np.float64], place: Place) -> NDArray[np.float64]:
    """Logged, or the design's probability of the action that was taken, or unknown."""
    name, design = study.columns.probability, study.actions.probabilities
    if name is not None:
        return column_kinds.numbers(table[name], name, place)
    if design is None:
        return np.full(len(action), np.nan)
    known = np.append(np.asarray(design), np.nan)
    return known[np.where(np.isnan(action), len(design), action).astype(np.int64)]


def transformed(raw: NDArray[np.float64], reward: Reward, place: Place) -> NDArray[np.float64]:
    """The reward that is optimised: winsorised, then log(x + c) or √x."""
    values = raw if reward.winsorise is None else np.clip(raw, *reward.winsorise)
    if reward.transform == "none":
        return values
    offset = reward.offset
    outside = values < 0 if offset is None else values + offset <= 0
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        remedy = "give the reward a plausible range (values outside count as missing), or change the transform"
        raise column_kinds.refused(place, row, reward.column, f"{values[row]:g} has no {reward.transform}; {remedy}")
    return np.sqrt(values) if offset is None else np.log(values + offset)


def _whole(column: Any) -> Any:
    """One array from the chunks that a file was read in."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    try:
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    except pa.ArrowException as error:
        raise InputError(
            f"a column cannot be held in memory as one ({error}); write the logs as several Parquet files"
        ) from error
