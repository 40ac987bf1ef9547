"""From one logged column to numbers, by what the study says it is: number, yes/no, category, action, participant, time.

Columns come as text (from CSV) or typed (from Parquet); both mean the same here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data import columns
from surefoot.data.columns import Place, is_text
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")
"""How files spell "missing", beside an empty cell; a study may add spellings of its own."""
YES, NO = ("1", "1.0", "true", "yes", "t", "y"), ("0", "0.0", "false", "no", "f", "n")


def blanked(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Text without surrounding blanks, missing where it is spelled so; other columns as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not is_text(column):
        return column
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return pc.if_else(pc.is_in(text, pa.array(missing, pa.large_string())), pa.scalar(None, pa.large_string()), text)


def numbers(column: pa.Array, name: str, place: Place) -> NDArray[np.float64]:
    """A number column; text is read as numbers with a decimal point."""
    import pyarrow as pa

    if is_text(column):
        row = columns.first_failure(column, pa.float64())
        if row is not None:
            text = column[row].as_py()
            comma = re.fullmatch(r"[-+]?[\d.]*,\d+", text)
            remedy = "write decimals with a point and no separators" if comma else "correct it or leave it empty (missing)"
            raise refused(place, row, name, f"'{text}' is no number; {remedy}")
        column = column.cast(pa.float64())
    return columns.numbers(column, name, place)


def yes_no(column: pa.Array, name: str, place: Place) -> NDArray[np.float64]:
    """1.0 for yes, 0.0 for no, NaN for missing."""
    if not is_text(column):
        values = columns.numbers(column, name, place)
        odd = np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))
        if odd.size:
            raise refused(place, int(odd[0]), name, f"{values[odd[0]]:g} is neither yes nor no; write 1 or 0")
        return values
    meaning = {**dict.fromkeys(YES, 1.0), **dict.fromkeys(NO, 0.0)}
    spelled = _distinct(column)
    codes = {text: meaning.get(text.lower()) for text in spelled}
    return _coded(column, codes, name, place, "'{}' is neither yes nor no; write yes or no, true or false, 1 or 0")


def categories(column: pa.Array, name: str, place: Place, levels: Sequence[str]) -> NDArray[np.float64]:
    """(rows, levels − 1): 1.0 where the row has that level, 0.0 where it has another, NaN where it is missing."""
    codes: dict[str, float | None] = {level: float(code) for code, level in enumerate(levels)}
    hint = f"'{{}}' was never declared; declared levels are {list(levels)}: add it, or leave the cell empty (missing)"
    code = _coded(as_text(column, name), codes, name, place, hint)
    taken = code[:, None] == np.arange(1, len(levels))
    return np.where(np.isnan(code)[:, None], np.nan, taken)


def actions(
    column: pa.Array, name: str, place: Place, names: Sequence[str], values: Sequence[str] | None
) -> NDArray[np.float64]:
    """Action codes by the values that stand for them, or, where the study gives none, by number, by name or by yes/no."""
    codes: dict[str, float | None] = {}
    if values is None and len(names) == 2:
        codes = {**dict.fromkeys(NO, 0.0), **dict.fromkeys(YES, 1.0)}
    if values is None:
        codes |= {str(code): float(code) for code in range(len(names))}
    codes |= {text: float(code) for code, text in enumerate(names if values is None else values)}
    text = as_text(column, name)
    for spelled in _distinct(text):
        # TRUE, True and true are one word, unless the study spells its actions so that they differ.
        same = {code for value, code in codes.items() if value.lower() == spelled.lower()}
        if spelled not in codes and len(same) == 1:
            codes[spelled] = same.pop()
    known = list(names if values is None else values)
    hint = f"action '{{}}' was never declared; declared are {known}: add it to the study's actions, or correct the row"
    return _coded(text, codes, name, place, hint)


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Whole numbers and yes/no as text; a float that is whole loses its `.0`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_text(column) or pa.types.is_null(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false").cast(pa.large_string())
    if pa.types.is_floating(column.type):
        return pa.array([None if v is None or math.isnan(v) else f"{v:.17g}" for v in column.to_pylist()], pa.large_string())
    if not pa.types.is_integer(column.type):
        raise InputError(f"column '{name}' has type {column.type} where text or whole numbers are needed", column=name)
    return column.cast(pa.large_string())


def family(kind: pa.DataType) -> str:
    """What columns of several files must have in common to be one column."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return "text" if is_text(pa.nulls(0, kind)) else str(kind)


def identities(column: pa.Array) -> pa.Array:
    """People as they are, except that text which is nothing but whole numbers (no leading zeros) becomes whole numbers.

    Whole numbers exported as 1.0 are whole numbers too.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(column):
        return column
    plain = pc.all(pc.match_substring_regex(column, r"^(0|-?[1-9]\d{0,17})(\.0+)?$"), min_count=0).as_py()
    if not plain or column.null_count == len(column):
        return column
    return pc.replace_substring_regex(column, r"\.0+$", "").cast(pa.int64())


def moments(column: pa.Array, name: str, place: Place) -> pa.Array:
    """Times as they are, except that text which is nothing but numbers becomes numbers."""
    import pyarrow as pa

    if not is_text(column):
        return column
    for kind in (pa.int64(), pa.float64()):
        if columns.first_failure(column, kind) is None:
            return column.cast(kind)
    row = columns.first_failure(column, pa.float64())
    if row and column.slice(0, row).null_count < row:
        what = f"'{column[row]}' is no number, unlike the times before it"
        raise refused(place, row, name, f"{what}; write all times as numbers, or all in ISO 8601")
    return column


def refused(place: Place, row: int, name: str, what: str) -> InputError:
    """The error for one cell."""
    return InputError(f"{place(row)}, column '{name}': {what}", row=row, column=name)


def _distinct(column: pa.Array) -> list[str]:
    return [text for text in column.unique().to_pylist() if text is not None]


def _coded(column: pa.Array, codes: dict[str, float | None], name: str, place: Place, hint: str) -> NDArray[np.float64]:
    """The code of every cell's text, NaN where it is missing; a text without a code is refused."""
    encoded = column.dictionary_encode()
    spelled: list[Any] = encoded.dictionary.to_pylist()
    # Whole numbers beside missing cells are often exported as 1.0.
    found = [codes.get(text, codes.get(re.sub(r"\.0+$", "", text))) for text in spelled]
    known = np.array([np.nan if code is None else code for code in found] + [np.nan], dtype=np.float64)
    indices = encoded.indices.fill_null(len(spelled)).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero((indices < len(spelled)) & np.isnan(known[indices]))
    if odd.size:
        text = spelled[indices[odd[0]]]
        more = f" ({odd.size} such rows)" if odd.size > 1 else ""
        near = did_you_mean(text, [level for level, code in codes.items() if code is not None])
        raise refused(place, int(odd[0]), name, hint.format(text) + near + more)
    values: NDArray[np.float64] = known[indices]
    return values
