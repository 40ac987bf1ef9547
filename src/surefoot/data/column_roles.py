"""The columns that every log has: participant, time, availability, action."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import NO, YES, LogColumn, first_failure, is_text
from surefoot.data.problems import Problems
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


class UnnamedAvailability(NamedTuple):
    """A column that says when nothing could be sent, which nobody named."""

    name: str
    rows: int
    """At which nothing could be sent."""
    sent: int
    """Those of them at which something was sent."""


@dataclass(frozen=True)
class ColumnNames:
    """What the columns are called where the data came from, for messages and for `to_frame`."""

    participant: str = "participant"
    time: str = "time"
    action: str = "action"
    reward: str = "reward"
    probability: str = "probability"
    available: str = "available"
    probability_of: str = "action taken"
    """What the probabilities were where the data came from: of the `action taken`, of `sending`, or of the `design`.
    `Trajectories` always hold those of the action taken."""
    unnamed: tuple[UnnamedAvailability, ...] = ()
    """Columns of the data that look like availability, where none was named."""


TIME_HABITS = {
    r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}": (
        "is not a time in ISO 8601",
        "write ISO 8601 (2015-07-22T16:30:00), or time_format in [file] where all times have one format",
    ),
    r"^(\d{1,2}[ .-]+[A-Za-z]{3,}|[A-Za-z]{3,9}[.,]? ).*\d": (
        "is not a time in ISO 8601",
        "write ISO 8601 (2015-07-22T16:30:00), or time_format in [file], such as '%d-%b-%Y %H:%M'",
    ),
    r"^\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?$": (
        "is a time of day without a day",
        "write both in one column (2015-07-22T16:30:00)",
    ),
}
"""Ways to write times that are read only when the study says so, or not at all, with what is said of them."""


def read_participants(column: LogColumn) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted ids of the participants and, for every row, the position of its participant among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells, kind = column.cells, column.cells.type
    column.refuse_missing()
    column.problems.raise_any(column.name)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or column.is_text):
        raise InputError(
            f"column '{column.name}' has type {kind}; a participant's id is a whole number or text", column=column.name
        )
    if column.is_text:
        # NumPy's text ends at zero characters: two participants would become one.
        wrong = np.flatnonzero(pc.match_substring(cells, "\0").to_numpy(zero_copy_only=False))
    else:
        row = first_failure(cells, pa.int64())
        wrong = np.array([] if row is None else [row], dtype=np.int64)
    if wrong.size:
        text = repr(cells[int(wrong[0])].as_py())
        column.report(wrong, f"{text} is not a participant's id", "ids are whole numbers or text")
        column.problems.stop()
    encoded = (cells if column.is_text else cells.cast(pa.int64())).dictionary_encode()
    distinct = np.asarray(encoded.dictionary.to_pylist(), dtype=np.str_ if column.is_text else np.int64)
    participants, position = np.unique(distinct, return_inverse=True)
    return participants, position.astype(np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def type_participants(cells: pa.Array) -> pa.Array:
    """Ids in a text file: whole numbers where all are plain whole numbers (`1.0` too, `007` not), else text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(cells.type) or cells.null_count == len(cells):
        return cells
    if not pc.all(pc.match_substring_regex(cells, r"^(0|-?[1-9]\d{0,17})(\.0+)?$"), min_count=0).as_py():
        return cells
    return pc.replace_substring_regex(cells, r"\.0+$", "").cast(pa.int64())


def type_times(column: LogColumn) -> pa.Array:
    """Times in a text file: numbers where all are numbers, else text."""
    import pyarrow as pa

    if not column.is_text or column.settings.time_format is not None:
        return column.cells
    plain = column.plain_numbers().cells
    kinds = (pa.int64(), pa.float64())
    return next((plain.cast(kind) for kind in kinds if first_failure(plain, kind) is None), column.cells)


def read_times(column: LogColumn) -> NDArray[Any]:
    """Decision times as int64, float64 or (dates, timestamps, ISO 8601 text) datetime64; with a zone they become UTC."""
    import pyarrow as pa

    cells, kind = column.cells, column.cells.type
    column.refuse_missing()
    column.problems.raise_any(column.name)
    if column.is_text and column.settings.time_format is not None:
        cells = _parse_format(column, column.settings.time_format)
    elif column.is_text:
        cells = _parse_instants(column)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        cells = to_microseconds(cells, column.name)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(
            f"column '{column.name}' has type {kind}; a decision time is a number, a date or a timestamp", column=column.name
        )
    values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return values


def to_microseconds(cells: pa.Array, name: str) -> pa.Array:
    """Dates and timestamps of any unit as timestamps in microseconds; those with a zone become UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = cells.type.tz if pa.types.is_timestamp(cells.type) else None
    try:
        cells = cells.cast(options=pc.CastOptions(pa.timestamp("us", zone), allow_time_truncate=True))
    except pa.ArrowException as error:
        raise InputError(f"column '{name}': {error}; correct the times", column=name) from error
    # An instant with a zone is stored by Arrow in UTC; dropping the label keeps the instant.
    return cells.cast(pa.timestamp("us"))


def _parse_instants(column: LogColumn) -> pa.Array:
    """ISO 8601 text: all without a zone, or all with one (the zones may differ), which gives UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = column.cells
    if first_failure(cells.slice(0, 1), pa.float64()) is None:
        column.cast(pa.float64(), _unlike_the_numbers)
        column.problems.raise_any(column.name)
        raise InputError(
            f"column '{column.name}': times are text; convert them to numbers or to ISO 8601", column=column.name
        )
    zoned = pc.match_substring_regex(cells, r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$").to_numpy(zero_copy_only=False)
    kind = pa.timestamp("us", "UTC") if zoned[0] else pa.timestamp("us")
    odd = np.flatnonzero(zoned != zoned[0])
    if odd.size:
        has = "has no" if zoned[0] else "has a"
        what = f"'{cells[int(odd[0])]}' {has} time zone, unlike the rows before it"
        column.report(odd, what, "give all times a zone, or none")
        cells = pc.if_else(pa.array(zoned != zoned[0]), cells[0], cells)
    cells = LogColumn(column.name, cells, column.problems).cast(kind, _not_a_time)
    column.problems.raise_any(column.name)
    return cells.cast(pa.timestamp("us"))


def _parse_format(column: LogColumn, layout: str) -> pa.Array:
    """Text in a format of strptime."""
    import pyarrow.compute as pc

    times = pc.strptime(column.cells, format=layout, unit="us", error_is_null=True)
    wrong = np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False))
    if wrong.size:
        text = column.cells[int(wrong[0])]
        column.report(wrong, f"'{text}' does not fit time_format '{layout}'", "correct it, or the format in [file]")
        column.problems.stop()
    return times


def _unlike_the_numbers(cells: pa.Array, text: str) -> tuple[pa.Array, str, str]:
    import pyarrow.compute as pc

    remedy = "write all times as numbers, or all in ISO 8601"
    return pc.equal(cells, text), f"'{text}' is not a number, unlike the times before it", remedy


def _not_a_time(cells: pa.Array, text: str) -> tuple[pa.Array, str, str]:
    import pyarrow.compute as pc

    for habit, (what, remedy) in TIME_HABITS.items():
        if re.match(habit, text):
            # One habit of the file, not as many mistakes as it has times.
            return pc.match_substring_regex(cells, habit), f"'{text}' {what}", remedy
    remedy = "write times as numbers or in ISO 8601 (2015-07-22T16:30:00)"
    return pc.equal(cells, text), f"'{text}' is not a time", remedy


def read_actions(column: LogColumn, names: Sequence[str], values: Sequence[str] | None = None) -> NDArray[np.float64]:
    """Action codes by the values that stand for them, or, where none are given, by number, by name or by yes/no."""
    meaning: dict[str, float] = {}
    if values is None and len(names) == 2:
        meaning = {**dict.fromkeys(NO, 0.0), **dict.fromkeys(YES, 1.0)}
    if values is None:
        meaning |= {str(code): float(code) for code in range(len(names))}
    known = list(names if values is None else values)
    meaning |= {text: float(code) for code, text in enumerate(known)}
    remedy = f"declared are {known}: add it to the actions, or correct the row"
    return column.codes(meaning, known, "action '{}' was never declared", remedy)


def take_probability(
    logged: NDArray[np.float64], action: NDArray[np.float64], available: NDArray[np.float64], column: str, problems: Problems
) -> NDArray[np.float64]:
    """From the probability of sending that of the action taken; NaN where that cannot be."""
    outside = (logged < 0) | (logged > 1)
    taken = np.where(action == 0, 1 - logged, logged)
    impossible = (taken == 0) & (available == 1)
    for where, what in (
        (outside, "probability {} is outside [0, 1]"),
        (impossible & (action == 0), "nothing was sent although the probability of sending is {}"),
        (impossible & (action != 0), "something was sent although the probability of sending is {}"),
    ):
        rows = np.flatnonzero(where)
        if rows.size:
            remedy = "log the probability of sending anything, or leave it empty"
            problems.report(column, rows, what.format(f"{logged[rows[0]]:g}"), remedy)
    return np.where(outside | impossible, np.nan, taken)
