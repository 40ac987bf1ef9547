"""Reading logs as a study describes them: kinds, plausible ranges, screen, scaling, actions, the outcome's transform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data import log_table
from surefoot.data.derived_states import count_moments, derive_states
from surefoot.data.file_formats import check_files
from surefoot.data.locations import Location
from surefoot.data.log_columns import MISSING, Problems, spell
from surefoot.data.suspect_columns import AVAILABLE_OR_NOT, find_unnamed_availability
from surefoot.data.trajectories import Trajectories, read_columns, take_probability
from surefoot.errors import InputError
from surefoot.reports.summaries import Overview, Shown
from surefoot.screening.detectors import Column, Layout, Questionnaire
from surefoot.screening.screen import LearnedPatterns, Screen, Screener, screen_values
from surefoot.study.log_description import LogDescription, OutcomeSection, ScreenSection

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class StudyLogs(Shown):
    """Logs as the study describes them."""

    logs: Trajectories
    """States after kinds, ranges and scaling, outcomes after the transform, probabilities logged or of the design."""
    raw_outcome: Floats
    """The outcome of every row before winsorising and transform, NaN where it is missing."""
    implausible: dict[str, NDArray[np.int64]]
    """For every column with a plausible range the number of values outside it, which became missing, per participant of
    `logs.participants`."""
    row: NDArray[np.int64]
    """For every row of `logs` its number in the input, from 0."""
    screen: Screen | None = None
    """The screen's flags, where the study has a screen; flagged values are missing in `logs`."""
    inputs: tuple[dict[str, Any], ...] = ()
    """Name, size and SHA-256 of the input files; empty for logs from memory."""
    outside: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    """For every column with a plausible range: the rows whose value lay outside it."""
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """Columns that only the screen needs, until it has run."""
    derived: Mapping[str, Floats] | None = None
    """Derived states at the time of the decision, until they join the states; None if they are computed from the rows."""
    problems: Problems = field(default_factory=Problems)
    """How messages name the rows."""

    machinery = Shown.machinery | {"derived", "extra", "outside", "problems", "row"}

    def _overview(self) -> Overview:
        logs = self.logs._overview()
        outside = sum(int(counts.sum()) for counts in self.implausible.values())
        facts = {
            **logs.facts,
            "implausible": f"{outside:,} values outside their plausible range, now missing",
            "screen": "off" if self.screen is None else f"{len(self.screen.flags.row):,} values flagged: see .screen",
        }
        return Overview(f"Logs of a study: {logs.heading}", facts)

    @property
    def measured_outcome(self) -> Floats:
        """The outcome of every row as it was measured, within its range, also where the screen marked it missing."""
        if self.screen is None:
            return self.raw_outcome
        screen = self.screen
        flagged = screen.marks & (screen.flags.column == self.logs.names.outcome)
        measured = self.raw_outcome.copy()
        measured[screen.flags.row[flagged]] = screen.values[flagged]
        return measured


def log_layout(study: LogDescription) -> log_table.LogLayout:
    """The columns of the log that the study names, each once, and their spellings of "missing"."""
    roles = study.columns
    wanted = [roles.participant, roles.time, roles.available, roles.probability, study.actions.column, study.outcome.column]
    wanted += [column for column, _ in study.state_kinds.values()]
    wanted += study.extra_columns()
    # A level of a category, or an action, may be spelled like "missing".
    meant = {study.actions.column: {*study.actions.names, *(study.actions.texts or ())}}
    codes = {study.outcome.column: tuple(map(spell, study.outcome.missing))}
    for name, variable in study.state.items():
        column = variable.column or name
        meant.setdefault(column, set()).update(variable.levels)
        codes[column] = (*codes.get(column, ()), *map(spell, variable.missing))
    columns = tuple(dict.fromkeys(name for name in wanted if name is not None))
    missing = (*MISSING, *roles.missing)
    optional = AVAILABLE_OR_NOT if roles.available is None else None
    return log_table.LogLayout(roles.participant, roles.time, columns, missing, codes, meant, study.file.settings, optional)


def study_files(study: LogDescription, path: str | Location) -> list[Location]:
    """The files of an input, without the empty parts of a folder."""
    files = log_table.list_files(path)
    filled = files if len(files) == 1 else check_files(files, log_layout(study).columns)
    if not filled:
        raise InputError(f"{path}: the tables have no rows; give them at least one decision point")
    return filled


def read_logs(study: LogDescription, path: str | Location) -> StudyLogs:
    """All rows of a file or a folder of files."""
    import pyarrow as pa

    with log_table.name_file(path):
        files = [log_table.LogFile(file) for file in study_files(study, path)]
        inputs = tuple(file.fingerprint(path) for file in files)
        tables: list[log_table.LogTable] = []
        for file in files:
            tables.append(file.read(log_layout(study), sum(map(len, tables))))
        measured = measure_logs(study, log_table.concatenate(tables))
        tables.clear()
        pa.default_memory_pool().release_unused()
        return replace(finish_logs(study, measured), inputs=inputs)


def read_further_columns(study: LogDescription, path: str | Location, names: Sequence[str]) -> log_table.LogTable:
    """Columns of an input that the study does not describe; `StudyLogs.row` says which row is which."""
    layout = replace(log_layout(study), columns=tuple(dict.fromkeys((study.columns.participant, *names))))
    tables: list[log_table.LogTable] = []
    with log_table.name_file(path):
        for file in study_files(study, path):
            tables.append(log_table.LogFile(file).read(layout, sum(map(len, tables))))
        return log_table.concatenate(tables)


def parse_logs(study: LogDescription, rows: log_table.LogTable, *, usual: LearnedPatterns | None = None) -> StudyLogs:
    """Rows of one or several files as the study's logs; `usual` holds the patterns that a screen learned from all people."""
    return finish_logs(study, measure_logs(study, rows), usual=usual)


def measure_logs(study: LogDescription, rows: log_table.LogTable, derived: Mapping[str, Floats] | None = None) -> StudyLogs:
    """Logs as measured, neither screened nor scaled; `derived` are derived states at the time of the decision."""
    columns, implausible, problems = read_columns(
        rows,
        time=study.columns.time,
        state={name: (column, replace(kind, centre=0.0, scale=1.0)) for name, (column, kind) in study.state_kinds.items()},
        action=study.actions.column,
        outcome=study.outcome.column,
        available=study.columns.available,
        probability=study.columns.probability,
        actions=study.actions.names,
        action_values=study.actions.texts,
    )
    extra = {}
    for name, role in study.extra_columns().items():
        column = rows.column(name, problems)
        extra[name] = count_moments(column.times()).astype(np.float64) if role == "enrolment" else column.numbers()
    outside = {study.state_kinds[name][0]: values for name, values in implausible.items()}
    unnamed = find_unnamed_availability(rows.table, log_layout(study).columns, columns["action"])
    measured = check_measured(study, columns, problems, outside, unnamed)
    return replace(measured, row=rows.row, extra=extra, derived=derived)


def check_measured(
    study: LogDescription,
    columns: dict[str, Any],
    problems: Problems,
    outside: Mapping[str, NDArray[np.bool_]] | None = None,
    unnamed: tuple[log_table.UnnamedAvailability, ...] = (),
) -> StudyLogs:
    """Validated logs as measured from the columns that `Trajectories.validated` takes."""
    roles = study.columns
    outcome = study.outcome
    design = study.actions.probabilities
    raw = columns["outcome"]
    outside = dict(outside or {})
    if outcome.range is not None:
        outside[outcome.column] = (raw < outcome.range[0]) | (raw > outcome.range[1])
        raw = np.where(outside[outcome.column], np.nan, raw)
    # That of the action taken: logged, derived from that of sending, or the design's; NaN where unknown.
    action = columns["action"]
    probability = columns["probability"]
    if design is not None:
        probability = np.append(design, np.nan)[np.where(np.isnan(action), len(design), action).astype(np.int64)]
    elif roles.probability is not None and roles.probability_of == "sending":
        probability = take_probability(probability, action, columns["available"], roles.probability, problems)
    named = (roles.participant, roles.time, study.actions.column, outcome.column)
    shown = (roles.probability or "probability", roles.available or "available")
    logs = Trajectories.validated(
        **{**columns, "outcome": raw, "probability": probability},
        state_names=study.read_names,
        action_names=study.actions.names,
        names=log_table.ColumnNames(*named, *shown, roles.probability_of if design is None else "design", unnamed),
        problems=problems,
    )
    people = len(logs.participants)
    counts = {name: np.bincount(logs.participant_index[rows], minlength=people) for name, rows in outside.items()}
    return StudyLogs(logs, logs.outcome, counts, np.arange(len(logs)), outside=outside, problems=problems)


def finish_logs(study: LogDescription, measured: StudyLogs, *, usual: LearnedPatterns | None = None) -> StudyLogs:
    """Measured logs, screened, scaled and transformed as the study asks."""
    logs = measured.logs
    screen = None
    if study.screen is not None and study.screen.on:
        # Derived states hold actions, which a screen must not see.
        screen = _screen_logs(study, study.screen, measured, usual)
        logs = screen.logs
    transformed = transform_outcome(logs.outcome, study.outcome, measured.problems)
    measured.problems.raise_any()
    derived = measured.derived
    if derived is None and study.derived_states:
        action = logs.action.astype(np.float64)
        derived = derive_states(study.derived_states, logs.participant_index, logs.time, action, transformed, study.days)
    kinds = [kind for name, (_, kind) in study.state_kinds.items() for _ in study.state_columns[name]]
    scaled = (logs.state - [kind.centre for kind in kinds]) / [kind.scale for kind in kinds]
    state = join_states(study, scaled, derived or {})
    finished = replace(logs, state=state, outcome=transformed, state_names=study.state_names, sorted_rows=logs.order)
    return replace(measured, logs=finished, raw_outcome=logs.outcome, screen=screen, extra={}, derived=None)


def join_states(study: LogDescription, read: Floats, derived: Mapping[str, Floats]) -> Floats:
    """(rows, state columns) in the study's order, from the columns that were read, scaled, and the derived states."""
    if not derived:
        return read
    columns = []
    position = 0
    for name, variable in study.state.items():
        if variable.derived:
            kind = variable.variable_kind
            columns.append((derived[name][:, None] - kind.centre) / kind.scale)
        else:
            size = len(study.state_columns[name])
            columns.append(read[:, position : position + size])
            position += size
    return np.concatenate(columns, axis=1)


def _screen_logs(
    study: LogDescription, section: ScreenSection, measured: StudyLogs, usual: LearnedPatterns | None
) -> Screen:
    """Screen values as they were measured, before scaling and transforms."""
    logs = measured.logs
    # The positions of every number column among the state's columns that are read; the outcome comes after the last.
    targets: dict[str, tuple[int, ...]] = {}
    position = 0
    for name, (column, kind) in study.state_kinds.items():
        if kind.is_measured:
            targets[column] = (*targets.get(column, ()), position)
        position += len(study.state_columns[name])
    targets[study.outcome.column] = (position,)
    targets = {column: positions for column, positions in targets.items() if column in (section.columns or targets)}
    devices = {variable.column or name: variable.device for name, variable in study.state.items()}
    devices[study.outcome.column] = study.outcome.device
    if section.devices:
        devices = {column: device if device in section.devices else None for column, device in devices.items()}
    columns = [
        Column(column, "outcome" if column == study.outcome.column else "state", devices[column]) for column in targets
    ]
    columns += [Column(name, role, number=False) for name, role in study.extra_columns().items()]
    known = {column.name for column in columns}
    questionnaires = tuple(
        Questionnaire(
            name=name,
            items=tuple(item for item in questionnaire.items if item in known),
            scores=tuple(study.state[score].column or score for score in questionnaire.scores),
            seconds=questionnaire.seconds,
        )
        for name, questionnaire in study.questionnaire.items()
    )
    layout = Layout(tuple(columns), questionnaires, time=study.columns.time, clock=logs.time.dtype.kind == "M")
    screener = Screener(layout, section.detectors(), section.outcome)
    matrix = np.column_stack([logs.state, logs.outcome])
    extra = measured.extra
    values = [extra[name] if name in extra else matrix[:, targets[name][0]] for name in (column.name for column in columns)]
    return screen_values(logs, screener, np.stack(values), targets, row=measured.row, usual=usual)


def restore_outcome(transformed: Floats, outcome: OutcomeSection) -> Floats:
    """The inverse of `transform_outcome`, to nine digits, so that a zero stays a zero."""
    if outcome.transform == "none":
        return transformed
    return np.round(transformed**2 if outcome.offset is None else np.exp(transformed) - outcome.offset, 9)


def transform_outcome(raw: Floats, outcome: OutcomeSection, problems: Problems) -> Floats:
    """The outcome that is optimised: winsorised, then log(x + c) or √x."""
    values = raw if outcome.winsorise is None else np.clip(raw, *outcome.winsorise)
    if outcome.transform == "none":
        return values
    offset = outcome.offset
    outside = values < 0 if offset is None else values + offset <= 0
    if outside.any():
        rows = np.flatnonzero(outside)
        remedy = "give the outcome a plausible range (values outside count as missing), or change the transform"
        problems.report(outcome.column, rows, f"{values[rows[0]]:g} has no {outcome.transform}", remedy)
        values = np.where(outside, np.nan, values)
    return np.sqrt(values) if offset is None else np.log(values + offset)
