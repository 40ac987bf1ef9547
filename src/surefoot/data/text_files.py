"""Text files with separated columns; what cannot be read is refused with its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from surefoot.data.locations import Location
from surefoot.data.problems import MOST_SHOWN, Place
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive (an Excel workbook is one too), not text; unpack it, or name it .xlsx if it is a workbook",
    b"PAR1": "a Parquet file, not text; name it .parquet",
    b"\x1f\x8b": "compressed; name it .csv.gz or .tsv.gz",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls), not text; save it as .xlsx or .csv",
    b"SQLite format 3": "a SQLite database, not text; export the table as .csv",
}
"""How files begin that are no text, and what they are."""


def decode_text(path: Location, data: bytes, encoding: str = "utf-8") -> bytes:
    """A text file as UTF-8 without a byte order mark."""
    for beginning, what in OTHER_FORMATS.items():
        if data.startswith(beginning):
            raise InputError(f"{path}: is {what}")
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig"):
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(
                f'{path}: line 1: the file is written in UTF-16; save it as UTF-8, or write encoding = "utf-16" in [file]'
            )
        data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{path}: the file is empty; it needs a header line and at least one decision point")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save the file as UTF-8, or name its encoding in [file] (surefoot init finds it)"
        what = f"byte 0x{data[error.start]:02x} is not {error.encoding.upper()}"
        raise InputError(f"{path}: line {line}: {what}; {remedy}") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line}: a zero byte, which no text holds; save the file as text")
    return data if encoding == "utf-8" else text.encode()


def read_records(data: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every record that is not an empty line, as pyarrow counts them."""
    csv.field_size_limit(2**31 - 1)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter=separator)
    begins = 1
    for fields in reader:
        if fields:
            yield begins, fields
        begins = reader.line_num + 1


def read_header(path: Location, data: bytes, separator: str) -> list[str]:
    """The names of the columns."""
    first = next(read_records(data, separator), (1, [""]))[1]
    for other, name in SEPARATORS.items():
        if len(first) == 1 and other in first[0]:
            shown = "\\t" if other == "\t" else other
            raise InputError(
                f"{path}: line 1: the columns are separated by {name}, not by {SEPARATORS.get(separator, separator)}; "
                f'write separator = "{shown}" in [file] (surefoot init finds it)'
            )
    repeated = [name for name in first if first.count(name) > 1]
    if repeated:
        raise InputError(f"{path}: line 1: two columns are called '{repeated[0]}'; rename one", column=repeated[0])
    return first


def text_place(path: Location, data: bytes, separator: str) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    @cache
    def lines() -> list[int]:
        return [line for line, _ in read_records(data, separator)]

    def place(row: int) -> str:
        line = lines()[row + 1] if row + 1 < len(lines()) else row + 2
        return f"{path}: line {line}"

    return place


def text_table(path: Location, data: bytes, columns: Sequence[str] | None, separator: str) -> pa.Table:
    """The named columns, or all of them, as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = read_header(path, data, separator)
    columns = header if columns is None else columns
    check_columns(path, header, columns)
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(block_size=2**24),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.large_string() for name in columns},
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        raise _explain_fields(path, data, separator, len(header), error) from error


def _explain_fields(path: Location, data: bytes, separator: str, expected: int, error: Exception) -> InputError:
    wrong = [(line, fields) for line, fields in read_records(data, separator) if len(fields) != expected]
    if not wrong:
        return InputError(f"{path}: cannot be read as separated columns ({error})")
    lines = [
        f"{path}: line {line}: {len(fields)} field{'s' * (len(fields) != 1)} where the header has {expected}; "
        + _remedy(fields, expected, separator)
        for line, fields in wrong[:MOST_SHOWN]
    ]
    if len(wrong) > MOST_SHOWN:
        lines.append(f"These are the first {MOST_SHOWN} of {len(wrong)} problems.")
    return InputError("\n".join(lines))


def _remedy(fields: list[str], expected: int, separator: str) -> str:
    if "\n" in fields[-1]:
        return "a quote is opened there and never closed"
    if len(fields) < expected:
        return "complete the row, or delete it"
    quotes = f"put quotes around text with {SEPARATORS.get(separator, separator)}"
    return f"write decimals with a point, and {quotes}" if separator == "," else quotes


def check_columns(path: Location, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    for name in columns:
        if name not in header:
            raise InputError(
                f"{path}: there is no column '{name}'{did_you_mean(name, header)}; the table has {list(header)}", column=name
            )
