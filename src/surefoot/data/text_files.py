"""Text files with separated columns; what cannot be read is refused with its line."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

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


def read_header(path: Location, text: BinaryIO, separator: str) -> list[str]:
    """The names of the columns."""
    first = next(read_records(text, separator), (1, [""]))[1]
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


def text_place(path: Location, open_text: OpenText, separator: str) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    @cache
    def lines() -> NDArray[np.int64]:
        return np.fromiter((line for line, _ in read_records(open_text(), separator)), dtype=np.int64)

    def place(row: int) -> str:
        line = lines()[row + 1] if row + 1 < len(lines()) else row + 2
        return f"{path}: line {line}"

    return place


def text_table(path: Location, data: bytes, columns: Sequence[str] | None, separator: str) -> pa.Table:
    """The named columns, or all of them, as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def open_text() -> BinaryIO:
        return io.BytesIO(data)

    header = _find_columns(path, open_text, columns, separator)
    try:
        return arrow_csv.read_csv(pa.BufferReader(data), **_arrow_options(header if columns is None else columns, separator))
    except pa.ArrowException as error:
        raise _explain_fields(path, open_text, separator, len(header), error) from error


def text_blocks(path: Location, open_text: OpenText, columns: Sequence[str], separator: str) -> Iterator[pa.Table]:
    """The named columns as text, some rows after the other."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header, options = _find_columns(path, open_text, columns, separator), _arrow_options(columns, separator)
    options["read_options"].use_threads = False  # Fewer blocks are on their way at a time.
    try:
        source = pa.PythonFile(open_text(), "r")
        for batch in arrow_csv.open_csv(source, **options):
            yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        raise _explain_fields(path, open_text, separator, len(header), error) from error


def _find_columns(path: Location, open_text: OpenText, columns: Sequence[str] | None, separator: str) -> list[str]:
    """The header, which has the columns."""
    header = read_header(path, open_text(), separator)
    check_columns(path, header, columns or ())
    return header


def _arrow_options(columns: Sequence[str], separator: str) -> dict[str, Any]:
    """How pyarrow reads columns as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
        "parse_options": arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: pa.large_string() for name in columns},
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    }


def _explain_fields(path: Location, open_text: OpenText, separator: str, expected: int, error: Exception) -> InputError:
    wrong: list[tuple[int, list[str]]] = []
    count = 0
    for line, fields in read_records(open_text(), separator):
        if len(fields) != expected:
            count += 1
            wrong += [(line, fields)][: MOST_SHOWN - len(wrong)]
    if not wrong:
        return InputError(f"{path}: cannot be read as separated columns ({error})")
    lines = [
        f"{path}: line {line}: {len(fields)} field{'s' * (len(fields) != 1)} where the header has {expected}; "
        + _remedy(fields, expected, separator)
        for line, fields in wrong
    ]
    if count > MOST_SHOWN:
        lines.append(f"These are the first {MOST_SHOWN} of {count} problems.")
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
