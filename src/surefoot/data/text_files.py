"""Text files with separated columns; what cannot be read is refused with its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


LOOKED_AT = 10
"""So many records are looked at to find the header."""
MOST_HEADER_ROWS = 3
"""Qualtrics writes so many: names, questions, and where each came from."""
BLOCK_BYTES = 2**22
"""Bytes that pyarrow parses at a time; no record is longer."""


def decode_text(path: Location, data: bytes, encoding: str = "utf-8") -> bytes:
    """The bytes of a text file as UTF-8 without a byte order mark."""
    data = _check_beginning(path, data, encoding)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save the file as UTF-8, or name its encoding in [file] (surefoot init finds it)"
        problem = f"byte 0x{data[error.start]:02x} is not {error.encoding.upper()}"
        raise InputError(f"{path}: line {line}: {problem}; {remedy}") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line}: a zero byte, which no text holds; save the file as text")
    return data if encoding == "utf-8" else text.encode()


def _check_beginning(path: Location, data: bytes, encoding: str) -> bytes:
    """The bytes without a byte order mark; refused when they are no text."""
    for beginning, problem in OTHER_FORMATS.items():
        if data.startswith(beginning):
            raise InputError(f"{path}: is {problem}")
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig"):
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(
                f'{path}: line 1: the file is written in UTF-16; save it as UTF-8, or write encoding = "utf-16" in [file]'
            )
        data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{path}: the file is empty; it needs a header line and at least one decision point")
    return data


def read_records(text: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every record that is not an empty line, as pyarrow counts them.

    A field of more than `BLOCK_BYTES` ends the records: a quote was opened there and never closed.
    """
    csv.field_size_limit(BLOCK_BYTES)
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline=""), delimiter=separator)
    begins = 1
    try:
        for fields in reader:
            if fields:
                yield begins, fields
            begins = reader.line_num + 1
    except csv.Error:
        yield begins, ["\n"]


class TextShape(NamedTuple):
    """How the lines of a text file become rows and columns."""

    separator: str
    header_rows: int = 1
    """Rows before the first decision point; the first of them names the columns."""
    ragged: bool = False
    """Whether fields at the end of a row may be left out, and empty ones added."""

    def fits(self, fields: list[str], expected: int) -> bool:
        """Whether a row with these fields can be read under a header with so many names."""
        if not self.ragged:
            return len(fields) == expected
        return not any(field.strip() for field in fields[expected:])


def read_header(path: Location, text: bytes, shape: TextShape) -> list[str]:
    """The names of the columns."""
    beginning = list(islice(read_records(text, shape.separator), LOOKED_AT))
    first = beginning[0][1] if beginning else [""]
    hint = shape.separator.join(first)
    if re.fullmatch("sep=.", hint):
        raise InputError(f"{path}: line 1: '{hint}' is a hint for Excel, not the header; delete that line")
    for other, name in SEPARATORS.items():
        if len(first) == 1 and other in first[0]:
            shown = "\\t" if other == "\t" else other
            raise InputError(
                f"{path}: line 1: the columns are separated by {name}, not by {name_separator(shape.separator)}; "
                f'write separator = "{shown}" in [file] (surefoot init finds it)'
            )
    wider = [(line, len(fields)) for line, fields in beginning if len(fields) > 1]
    if len(first) == 1 and wider:
        problem = f"{path}: line 1: one field ('{first[0]}') where line {wider[0][0]} has {wider[0][1]}"
        raise InputError(f"{problem}; delete the lines above the header")
    header = beginning[:MOST_HEADER_ROWS]
    for number, (line, fields) in enumerate(header[shape.header_rows :], shape.header_rows + 1):
        if is_import_row(fields):
            raise InputError(
                f"{path}: line {line}: belongs to the header, as Qualtrics writes it; "
                f"write header_rows = {number} in [file] (surefoot init finds it)"
            )
    return name_columns(f"{path}: line 1", first)


def is_import_row(fields: Sequence[str]) -> bool:
    """Whether a row is the last row of a header of Qualtrics: `{"ImportId":"QID1"}` in every column."""
    return any(re.match(r'\s*\{"ImportId"', field) for field in fields)


def name_columns(place: str, fields: Sequence[str]) -> list[str]:
    """The names of a header without surrounding blanks; of several without a name, the second and later get one."""
    names: list[str] = []
    for number, field in enumerate(fields, 1):
        name = field.strip()
        if name in names and name:
            is_data = re.fullmatch(r"[-+]?[\d.]+", name)
            remedy = "write a line with the names of the columns above it" if is_data else "rename one"
            raise InputError(f"{place}: two columns are called '{name}'; {remedy}", column=name)
        names.append(f"column {number}" if name in names else name)
    return names


def name_separator(separator: str) -> str:
    """In words: `commas`."""
    return SEPARATORS.get(separator, separator)


def text_place(path: Location, text: bytes, shape: TextShape) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    @cache
    def lines() -> NDArray[np.int64]:
        return np.fromiter((line for line, _ in read_records(text, shape.separator)), dtype=np.int64)

    def place(row: int) -> str:
        record = row + shape.header_rows
        line = lines()[record] if record < len(lines()) else record + 1
        return f"{path}: line {line}"

    return place


def text_table(path: Location, text: bytes, columns: ColumnChoice, shape: TextShape) -> pa.Table:
    """The chosen columns as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = read_header(path, text, shape)
    chosen = columns.pick(path, header)
    padded = _pad_rows(text, shape, len(header)) if shape.ragged else text
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(padded),
            # The rows of the header come with the others, because column names are given.
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=header),
            parse_options=arrow_csv.ParseOptions(delimiter=shape.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.large_string() for name in chosen},
                include_columns=chosen,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        raise _explain_fields(path, text, shape, len(header), error) from error
    table = table.slice(shape.header_rows)
    _refuse_second_header(table, text_place(path, text, shape))
    return table


def _pad_rows(text: bytes, shape: TextShape, width: int) -> bytes:
    """The text with as many fields in every row as the header has; rows that hold more than that stay as they are."""
    padded = io.StringIO(newline="")
    writer = csv.writer(padded, delimiter=shape.separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for _, fields in read_records(text, shape.separator):
        row = fields + [""] * (width - len(fields))
        writer.writerow(row[:width] if shape.fits(fields, width) else row)
    return padded.getvalue().encode()


def _refuse_second_header(table: pa.Table, place: Place) -> None:
    """Refuse rows that repeat the names of the columns, as files do that were put together from several."""
    import pyarrow.compute as pc

    rows = np.arange(len(table))
    for name in (name for name in table.column_names if name):
        if not rows.size:
            return
        cells = pc.utf8_trim_whitespace(table[name].take(rows))
        rows = rows[pc.equal(cells, name).to_numpy()]
    if rows.size:
        others = f" (and {rows.size - 1} more)" if rows.size > 1 else ""
        raise InputError(f"{place(int(rows[0]))}: the header stands there again{others}; delete that line")


def _explain_fields(path: Location, text: bytes, shape: TextShape, expected: int, error: Exception) -> InputError:
    records = list(read_records(text, shape.separator))
    wrong = [(line, fields) for line, fields in records if not shape.fits(fields, expected)]
    if not wrong:
        return InputError(f"{path}: cannot be read as separated columns ({error})")
    lengths = {len(fields) for _, fields in wrong}
    if len(wrong) == len(records) - 1 and lengths == {expected + 1} and any(fields[-1].strip() for _, fields in wrong):
        problem = f"{path}: line 1: the header has {expected} fields and every row below {expected + 1}"
        return InputError(f"{problem}; give the first column a name (R writes row names without one)")
    lines = [
        f"{path}: line {line}: {len(fields)} field{'s' * (len(fields) != 1)} where the header has {expected}; "
        + _remedy(fields, expected, shape)
        for line, fields in wrong[:MOST_SHOWN]
    ]
    if len(wrong) > MOST_SHOWN:
        lines.append(f"These are the first {MOST_SHOWN} of {len(wrong)} problems.")
    return InputError("\n".join(lines))


def _remedy(fields: list[str], expected: int, shape: TextShape) -> str:
    if "\n" in fields[-1]:
        return "a quote is opened there and never closed"
    if len(fields) < expected:
        return "complete the row or delete it, or write ragged = true in [file] if its last fields are missing"
    if not any(field.strip() for field in fields[expected:]):
        return "delete the separators at its end, or write ragged = true in [file]"
    quotes = f"put quotes around text with {name_separator(shape.separator)}"
    return f"write decimals with a point, and {quotes}" if shape.separator == "," else quotes


class ColumnChoice(NamedTuple):
    """Which columns of a file are read."""

    names: Sequence[str] | None = None
    """All, unless given."""
    also: str | None = None
    """A pattern of the names of further columns, which are read where the file has them."""

    def pick(self, path: Location, header: Sequence[str]) -> list[str]:
        """The chosen ones of the columns that the file has; one that it lacks is refused."""
        if self.names is None:
            return list(header)
        check_columns(path, header, self.names)
        return [*self.names, *match_names(self.also, header, self.names)]


EVERY_COLUMN = ColumnChoice()


def match_names(pattern: str | None, header: Sequence[str], without: Sequence[str]) -> list[str]:
    """The names that a pattern finds among others, apart from some."""
    return [] if pattern is None else [name for name in header if re.search(pattern, name) and name not in without]


def check_columns(path: Location, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    for name in columns:
        if name not in header:
            raise InputError(
                f"{path}: there is no column '{name}'{did_you_mean(name, header)}; the table has {list(header)}", column=name
            )
