"""From one column of a table to a NumPy array, or to an error that names the column, the row and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

Place = Callable[[int], str]
"""How a row is called in messages: `row 17` of a frame, `line 19` of a file."""


def frame_row(row: int) -> str:
    """As in a data frame, from 0."""
    return f"row {row}"


def numbers(column: pa.Array, name: str, place: Place) -> NDArray[np.float64]:
    """Numbers and yes/no values as float64; missing becomes NaN, text is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if is_text(column):
        row, text = _first_not_a_number(column)
        raise InputError(
            f"{place(row)}, column '{name}': '{text}' is text where a number is needed; correct it or convert the column",
            row=row,
            column=name,
        )
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    if not any(test(kind) for test in known):
        raise InputError(f"column '{name}' has type {kind} where numbers are needed; convert it", column=name)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    values: NDArray[np.float64] = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
    return values


def _first_not_a_number(column: pa.Array) -> tuple[int, str]:
    first: tuple[int, str] | None = None
    for row, text in enumerate(column.to_pylist()):
        if text is None:
            continue
        first = first or (row, text)
        try:
            float(text)
        except ValueError:
            return row, text
    return first or (0, "")


def action_codes(column: pa.Array, name: str, place: Place, actions: tuple[str, ...]) -> NDArray[np.float64]:
    """Actions by number, or by declared name; missing becomes NaN."""
    if not is_text(column):
        return numbers(column, name, place)
    codes = {action: float(code) for code, action in enumerate(actions)}
    values = np.full(len(column), np.nan)
    for row, text in enumerate(column.to_pylist()):
        if text and text not in codes:
            hint = f"{did_you_mean(text, actions)}; declared are {list(actions)}"
            raise InputError(
                f"{place(row)}, column '{name}': action '{text}' was never declared{hint}", row=row, column=name
            )
        values[row] = codes[text] if text else np.nan
    return values


def people(column: pa.Array, name: str, place: Place) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted ids of the people and, for every row, the position of its participant among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    refuse_missing(column, name, place)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or is_text(column)):
        raise InputError(
            f"column '{name}' has type {column.type}; a participant's id is a whole number or text", column=name
        )
    if is_text(column):
        # NumPy's text ends at zero characters: two people would become one.
        odd = np.flatnonzero(pc.match_substring(column, "\0").to_numpy(zero_copy_only=False))
        row = int(odd[0]) if odd.size else None
    else:
        row = first_failure(column, pa.int64())
    if row is not None:
        raise InputError(
            f"{place(row)}, column '{name}': {column[row].as_py()!r} is no participant's id; ids are whole numbers or text",
            row=row,
            column=name,
        )
    column = column if is_text(column) else column.cast(pa.int64())
    encoded = column.dictionary_encode()
    distinct = np.asarray(encoded.dictionary.to_pylist(), dtype=np.str_ if is_text(column) else np.int64)
    participants, position = np.unique(distinct, return_inverse=True)
    return participants, position.astype(np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def times(column: pa.Array, name: str, place: Place) -> NDArray[Any]:
    """Decision times as int64, float64 or (dates, timestamps, ISO 8601 text) datetime64; with a zone they become UTC."""
    import pyarrow as pa

    refuse_missing(column, name, place)
    kind = column.type
    if is_text(column):
        column = _instants(column, name, place)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = microseconds(column, name)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"column '{name}' has type {kind}; a decision time is a number, a date or a timestamp", column=name)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def microseconds(column: pa.Array, name: str) -> pa.Array:
    """Dates and timestamps of any unit as timestamps in microseconds; those with a zone become UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    try:
        column = column.cast(options=pc.CastOptions(pa.timestamp("us", zone), allow_time_truncate=True))
    except pa.ArrowException as error:
        raise InputError(f"column '{name}': {error}; correct the times", column=name) from error
    # An instant with a zone is stored by Arrow in UTC; dropping the label keeps the instant.
    return column.cast(pa.timestamp("us"))


def _instants(column: pa.Array, name: str, place: Place) -> pa.Array:
    """ISO 8601 text: all without a zone, or all with one (the zones may differ), which gives UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zoned = pc.match_substring_regex(column, r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$").to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(zoned != zoned[0])
    kind = pa.timestamp("us", "UTC") if zoned[0] else pa.timestamp("us")
    row = first_failure(column, kind)
    if odd.size and (row is None or row >= odd[0]):
        row = int(odd[0])
        what = f"'{column[row]}' {'has no' if zoned[0] else 'has a'} time zone, unlike the rows before it"
        remedy = "give all times a zone, or none"
    elif row is not None:
        what, remedy = f"'{column[row]}' is no time", "write times as numbers or in ISO 8601 (2015-07-22T16:30:00)"
    else:
        return column.cast(kind).cast(pa.timestamp("us"))
    raise InputError(f"{place(row)}, column '{name}': {what}; {remedy}", row=row, column=name)


def first_failure(column: pa.Array, kind: pa.DataType) -> int | None:
    """The first row that cannot be cast to that type; None when all can. Halves the rows until one is left."""
    import pyarrow as pa

    def fails(part: pa.Array) -> bool:
        try:
            part.cast(kind)
        except pa.ArrowException:
            return True
        return False

    if not fails(column):
        return None
    first, size = 0, len(column)
    while size > 1:
        half = size // 2
        if fails(column.slice(first, half)):
            size = half
        else:
            first, size = first + half, size - half
    return first


def refuse_missing(column: pa.Array, name: str, place: Place) -> None:
    """Missing means null, NaN or empty text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.equal(column, "") if is_text(column) else pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    rows = np.flatnonzero(pc.fill_null(missing, True).to_numpy(zero_copy_only=False))
    if rows.size:
        row = int(rows[0])
        raise InputError(
            f"{place(row)}, column '{name}': missing; every decision point needs one (fill it in or drop the row)",
            row=row,
            column=name,
        )


def is_text(column: pa.Array) -> bool:
    """Whether a column holds text of one of Arrow's kinds."""
    import pyarrow as pa

    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
