"""Text files with separated columns; what cannot be read is refused with its line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

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


MOST_HEADER_ROWS = 3
"""Qualtrics writes so many: names, questions, and where each came from."""
BLOCK_BYTES = 2**22
"""What is parsed at once, and more than any record holds; while one is worked on, some thirty may wait in memory."""
OpenText = Callable[[], BinaryIO]
"""Opens a text at its beginning, as UTF-8."""


def decode_text(path: Location, file: BinaryIO, encoding: str = "utf-8", size: int = -1) -> Iterator[bytes]:
    """A text file as UTF-8 without a byte order mark, in blocks of about so many bytes, or as one."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines, final = 0, False
    data = _check_beginning(path, file.read(size), encoding)
    while not final:
        final = size < 0 or not data
        try:
            text = decoder.decode(data, final)
        except UnicodeDecodeError as error:
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            remedy = "save the file as UTF-8, or name its encoding in [file] (surefoot init finds it)"
            what = f"byte 0x{error.object[error.start]:02x} is not {error.encoding.upper()}"
            raise InputError(f"{path}: line {line}: {what}; {remedy}") from error
        if "\0" in text:
            line = lines + text.count("\n", 0, text.index("\0")) + 1
            raise InputError(f"{path}: line {line}: a zero byte, which no text holds; save the file as text")
        yield data if encoding == "utf-8" else text.encode()
        if not final:
            lines, data = lines + text.count("\n"), file.read(size)


def _check_beginning(path: Location, data: bytes, encoding: str) -> bytes:
    """The first bytes without a byte order mark; refused when they are no text."""
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
    return data


class BlockReader(io.RawIOBase):
    """Blocks of bytes as a file, each made when it is read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def read_records(text: BinaryIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every record that is not an empty line, as pyarrow counts them.

    A field of more than a block ends the records: a quote was opened there and never closed.
    """
    csv.field_size_limit(BLOCK_BYTES)
    reader = csv.reader(io.TextIOWrapper(text, encoding="utf-8", newline=""), delimiter=separator)
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


def read_header(path: Location, text: BinaryIO, shape: TextShape) -> list[str]:
    """The names of the columns."""
    beginning = list(islice(read_records(text, shape.separator), MOST_HEADER_ROWS))
    first = beginning[0][1] if beginning else [""]
    for other, name in SEPARATORS.items():
        if len(first) == 1 and other in first[0]:
            shown = "\\t" if other == "\t" else other
            raise InputError(
                f"{path}: line 1: the columns are separated by {name}, not by {name_separator(shape.separator)}; "
                f'write separator = "{shown}" in [file] (surefoot init finds it)'
            )
    if len(first) == 1 and len(beginning) > 1 and len(beginning[1][1]) > 1:
        what = f"{path}: line 1: one field ('{first[0]}') where the next line has {len(beginning[1][1])}"
        raise InputError(f"{what}; delete the lines above the header")
    for number, (line, fields) in enumerate(beginning[shape.header_rows :], shape.header_rows + 1):
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
            raise InputError(f"{place}: two columns are called '{name}'; rename one", column=name)
        names.append(f"column {number}" if name in names else name)
    return names


def name_separator(separator: str) -> str:
    """In words: `commas`."""
    return SEPARATORS.get(separator, separator)


def text_place(path: Location, open_text: OpenText, shape: TextShape) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    @cache
    def lines() -> NDArray[np.int64]:
        return np.fromiter((line for line, _ in read_records(open_text(), shape.separator)), dtype=np.int64)

    def place(row: int) -> str:
        record = row + shape.header_rows
        line = lines()[record] if record < len(lines()) else record + 1
        return f"{path}: line {line}"

    return place


def text_table(path: Location, data: bytes, columns: Sequence[str] | None, shape: TextShape) -> pa.Table:
    """The named columns, or all of them, as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def open_text() -> BinaryIO:
        return io.BytesIO(data)

    header = _find_columns(path, open_text, columns, shape)
    source = pa.PythonFile(_pad_rows(open_text(), shape, len(header)), "r") if shape.ragged else pa.BufferReader(data)
    try:
        table = arrow_csv.read_csv(source, **_arrow_options(header, columns, shape))
    except pa.ArrowException as error:
        raise _explain_fields(path, open_text, shape, len(header), error) from error
    table = table.slice(shape.header_rows)
    _refuse_second_header(table, 0, text_place(path, open_text, shape))
    return table


def text_blocks(path: Location, open_text: OpenText, columns: Sequence[str], shape: TextShape) -> Iterator[pa.Table]:
    """The named columns as text, some rows after the other."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = _find_columns(path, open_text, columns, shape)
    options = _arrow_options(header, columns, shape)
    options["read_options"].use_threads = False  # Fewer blocks are on their way at a time.
    text = _pad_rows(open_text(), shape, len(header)) if shape.ragged else open_text()
    first_row = -shape.header_rows
    try:
        for batch in arrow_csv.open_csv(pa.PythonFile(text, "r"), **options):
            table = pa.Table.from_batches([batch]).slice(max(0, -first_row))
            _refuse_second_header(table, max(0, first_row), text_place(path, open_text, shape))
            first_row += len(batch)
            if len(table):
                yield table
    except pa.ArrowException as error:
        raise _explain_fields(path, open_text, shape, len(header), error) from error


def _find_columns(path: Location, open_text: OpenText, columns: Sequence[str] | None, shape: TextShape) -> list[str]:
    """The header, which has the columns."""
    header = read_header(path, open_text(), shape)
    check_columns(path, header, columns or ())
    return header


def _arrow_options(header: Sequence[str], columns: Sequence[str] | None, shape: TextShape) -> dict[str, Any]:
    """How pyarrow reads columns as text; the rows of the header come with them."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    columns = header if columns is None else columns
    return {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=list(header)),
        "parse_options": arrow_csv.ParseOptions(delimiter=shape.separator, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: pa.large_string() for name in columns},
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    }


def _pad_rows(text: BinaryIO, shape: TextShape, width: int) -> BinaryIO:
    """The text with as many fields in every row as the header has; rows that hold more than that stay as they are."""

    def read_blocks() -> Iterator[bytes]:
        block = io.StringIO(newline="")
        writer = csv.writer(block, delimiter=shape.separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for _, fields in read_records(text, shape.separator):
            padded = fields + [""] * (width - len(fields))
            writer.writerow(padded[:width] if shape.fits(fields, width) else padded)
            if block.tell() > BLOCK_BYTES // 4:
                yield block.getvalue().encode()
                block.seek(0)
                block.truncate()
        yield block.getvalue().encode()

    return io.BufferedReader(BlockReader(read_blocks()))


def _refuse_second_header(table: pa.Table, first_row: int, place: Place) -> None:
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
        raise InputError(f"{place(first_row + int(rows[0]))}: the header stands there again{others}; delete that line")


def _explain_fields(path: Location, open_text: OpenText, shape: TextShape, expected: int, error: Exception) -> InputError:
    wrong: list[tuple[int, list[str]]] = []
    rows = 0
    count = 0
    for line, fields in read_records(open_text(), shape.separator):
        rows += 1
        if not shape.fits(fields, expected):
            count += 1
            wrong += [(line, fields)][: MOST_SHOWN - len(wrong)]
    if not wrong:
        return InputError(f"{path}: cannot be read as separated columns ({error})")
    lengths = {len(fields) for _, fields in wrong}
    if count == rows - 1 and lengths == {expected + 1}:
        what = f"{path}: line 1: the header has {expected} fields and every row below {expected + 1}"
        return InputError(f"{what}; give the first column a name (R writes row names without one)")
    lines = [
        f"{path}: line {line}: {len(fields)} field{'s' * (len(fields) != 1)} where the header has {expected}; "
        + _remedy(fields, expected, shape)
        for line, fields in wrong
    ]
    if count > MOST_SHOWN:
        lines.append(f"These are the first {MOST_SHOWN} of {count} problems.")
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


def check_columns(path: Location, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    for name in columns:
        if name not in header:
            raise InputError(
                f"{path}: there is no column '{name}'{did_you_mean(name, header)}; the table has {list(header)}", column=name
            )
