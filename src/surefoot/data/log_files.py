"""Tables from files: CSV, Parquet, folders of Parquet; what cannot be read is refused with its place in the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.columns import Place
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a file (or of several), and where each of them stands there."""

    table: pa.Table
    place: Place
    """How a row of `table` is called in messages: `logs.csv: line 19`."""
    row: NDArray[np.int64]
    """For each row of `table` its number in the whole input, from 0."""

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Some of the rows, which keep their places."""
        import pyarrow as pa

        return Rows(self.table.take(pa.array(rows)), lambda row: self.place(int(rows[row])), self.row[rows])


def files_of(path: str | Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder in the order of their names; hidden ones are left alone."""
    path = Path(path)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.parquet") if not _hidden(file.relative_to(path)))
        if not found:
            raise InputError(f"{path}: a folder without Parquet files; give a folder that has some, or one file")
        return found
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: logs are read from .csv, .parquet or a folder of .parquet; convert or rename the file")
    return [path]


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Refusals from within name the file, also those that are about a whole column."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}", row=error.row, column=error.column, participant=error.participant) from error


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def read_rows(path: Path, columns: Sequence[str], first_row: int = 0) -> Rows:
    """The named columns of one CSV file (as text) or Parquet file; `first_row` is the number of its first row."""
    if path.suffix.lower() == ".csv":
        data = read_text(path)
        table, place = csv_table(path, data, columns), csv_place(path, data)
    else:
        table = parquet_table(path, columns)

        def place(row: int) -> str:
            return f"{path}: row {row}"

    if len(table) == 0:
        raise InputError(f"{path}: the table has no rows; give it at least one decision point")
    return Rows(table, place, np.arange(first_row, first_row + len(table)))


def joined(parts: Sequence[Rows]) -> Rows:
    """Several files' rows one after the other; their columns must be of kinds that go together."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.table) for part in parts)])

    def place(row: int) -> str:
        which = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[which].place(row - int(starts[which]))

    try:
        table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files do not go together ({error}); write all files with one schema") from error
    return Rows(table, place, np.concatenate([part.row for part in parts]))


def header_of(path: Path) -> list[str]:
    """The names of the columns of one file."""
    if path.suffix.lower() == ".csv":
        return _header(path, read_text(path))
    return list(parquet_file(path).schema_arrow.names)


def read_text(path: Path) -> bytes:
    """The bytes of a UTF-8 text file without its byte order mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: line 1: the file is written in UTF-16; save it as UTF-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{path}: the file is empty; it needs a header line and at least one decision point")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from error
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise InputError(f"{path}: line {line}: a zero byte, which no text holds; save the file as UTF-8 text")
    return data


def _records(data: bytes) -> Any:
    """(line, fields) of every record that is not an empty line, as pyarrow counts them."""
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
    begins = 1
    for fields in reader:
        if fields:
            yield begins, fields
        begins = reader.line_num + 1


def _header(path: Path, data: bytes) -> list[str]:
    first = next(_records(data), (1, [""]))[1]
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(first) == 1 and separator in first[0]:
            raise InputError(f"{path}: line 1: the columns are separated by {name}; save the file with commas between them")
    repeated = [name for name in first if first.count(name) > 1]
    if repeated:
        raise InputError(f"{path}: line 1: two columns are called '{repeated[0]}'; rename one", column=repeated[0])
    return first


def csv_place(path: Path, data: bytes) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    def place(row: int) -> str:
        for record, (line, _) in enumerate(_records(data)):
            if record == row + 1:
                return f"{path}: line {line}"
        return f"{path}: line {row + 2}"

    return place


def csv_table(path: Path, data: bytes, columns: Sequence[str] | None) -> pa.Table:
    """The named columns as text; with None all of them, each with the type that pyarrow infers."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = _header(path, data)
    check_columns(path, header, columns or ())
    text = {name: pa.large_string() for name in columns or ()}
    # Types are inferred from one block, so that all of a column is seen; text needs no inference.
    block = min(max(len(data) + 1, 2**16), 2**31 - 1) if columns is None else 2**24
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(block_size=block),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=text, include_columns=list(columns or ()), strings_can_be_null=columns is None
            ),
        )
    except pa.ArrowException as error:
        for line, fields in _records(data):
            if len(fields) != len(header):
                raise InputError(
                    f"{path}: line {line}: cannot be read as comma-separated values: {len(fields)} fields where the "
                    f"header has {len(header)}; write decimals with a point, and put quotes around text with commas"
                ) from error
        raise InputError(f"{path}: cannot be read as comma-separated values ({error})") from error


def parquet_file(path: Path) -> Any:
    """An open Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        # The names of a damaged file may not be text.
        _ = file.schema_arrow.names
        return file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error


def parquet_table(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """The named columns of a Parquet file (all with None), checked down to the encoding of their text."""
    import pyarrow as pa

    file = parquet_file(path)
    check_columns(path, list(file.schema_arrow.names), columns or ())
    try:
        # A column called "a.b" is a column, not a field of "a": pick by position in what was read.
        table = file.read() if columns is None else file.read(columns=list(columns)).select(list(columns))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error
    return table


def check_columns(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column."""
    for name in columns:
        if name not in header:
            raise InputError(
                f"{path}: there is no column '{name}'{did_you_mean(name, header)}; the table has {list(header)}", column=name
            )
