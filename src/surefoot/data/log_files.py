"""Log files: CSV, Parquet, folders of Parquet. What cannot be read is refused with its place in the file."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_roles import read_participants, to_microseconds, type_participants, type_times
from surefoot.data.log_columns import MISSING, LogColumn, settle_missing, value_family, whole_array
from surefoot.data.problems import MOST_SHOWN, Place, Problems, frame_row
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


LOG_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class LogLayout:
    """Which columns of a log are read, and how it spells "missing"."""

    participant: str
    time: str
    columns: tuple[str, ...]
    """All that are read, these two included."""
    missing: tuple[str, ...] = MISSING
    """Spellings of "missing" in every column."""
    missing_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further ones by column."""
    meant: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By column, texts that are values even if they are spelled like "missing": levels of a category, actions."""

    def settle_missing(self, table: pa.Table) -> pa.Table:
        """The table without dictionaries and without surrounding blanks, null where "missing" is spelled."""
        import pyarrow as pa

        return pa.table(
            {name: settle_missing(whole_array(table[name]), self.spellings(name)) for name in table.column_names}
        )

    def spellings(self, column: str) -> list[str]:
        """Of "missing" in a column."""
        everywhere = [word for word in self.missing if word not in self.meant.get(column, ())]
        return [*everywhere, *self.missing_in.get(column, ())]


@dataclass(frozen=True, eq=False)
class LogRows:
    """Some rows of a log, where each of them stands there, and whose they are."""

    table: pa.Table
    place: Place
    """How a row of `table` is called in messages: `logs.csv: line 19`."""
    row: NDArray[np.int64]
    """For each row of `table` its number in the whole input, from 0."""
    participants: NDArray[Any]
    """Sorted ids."""
    participant_index: NDArray[np.int64]
    """For each row the position of its participant in `participants`."""

    @classmethod
    def of(cls, table: pa.Table, participant: str, place: Place = frame_row, first_row: int = 0) -> LogRows:
        """All rows of a table in memory."""
        ids = LogColumn(participant, whole_array(table[participant]), Problems(place))
        return cls(table, place, np.arange(first_row, first_row + len(table)), *read_participants(ids))

    def __len__(self) -> int:
        return len(self.row)

    def cells(self, column: str) -> pa.Array:
        return whole_array(self.table[column])

    def of_participants(self, wanted: NDArray[Any]) -> LogRows:
        """The rows of some participants, which keep their places."""
        import pyarrow as pa

        chosen = np.isin(self.participants, wanted)
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen[self.participant_index])
        index = (np.cumsum(chosen) - 1)[self.participant_index[rows]]
        table = self.table.take(pa.array(rows))
        return LogRows(table, lambda row: self.place(int(rows[row])), self.row[rows], self.participants[chosen], index)


def concatenate(parts: Sequence[LogRows]) -> LogRows:
    """Several files' rows one after the other; their columns must be of kinds that go together."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def place(row: int) -> str:
        which = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[which].place(row - int(starts[which]))

    try:
        table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files do not go together ({error}); write all files with one schema") from error
    participants, position = np.unique(np.concatenate([part.participants for part in parts]), return_inverse=True)
    offsets = np.cumsum([0, *(len(part.participants) for part in parts)])
    index = [position[part.participant_index + offset] for part, offset in zip(parts, offsets[:-1], strict=True)]
    return LogRows(table, place, np.concatenate([part.row for part in parts]), participants, np.concatenate(index))


@dataclass(frozen=True, eq=False)
class LogFile:
    """One file, read once: its rows and its hash come from the same bytes."""

    path: Path

    @cached_property
    def data(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error

    @cached_property
    def text(self) -> bytes:
        """UTF-8 without a byte order mark."""
        return clean_text(self.path, self.data)

    @property
    def is_text(self) -> bool:
        return self.path.suffix.lower() == ".csv"

    def fingerprint(self, folder: str | Path) -> dict[str, Any]:
        """Name (within the folder, if it came from one), size and SHA-256."""
        within = Path(folder) if Path(folder).is_dir() else self.path.parent
        digest = hashlib.sha256(self.data).hexdigest()
        return {"name": str(self.path.relative_to(within)), "bytes": len(self.data), "sha256": digest}

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The named columns, or all of them, as they are: text from CSV, typed from Parquet."""
        if self.is_text:
            table = csv_table(self.path, self.text, columns)
        else:
            # Of a Parquet file whose bytes nobody needed (to hash them) only these columns are read.
            table = parquet_table(self.path, self.__dict__.get("data"), columns)
        if len(table) == 0:
            raise InputError(f"{self.path}: the table has no rows; give it at least one decision point")
        return table

    def rows(self, layout: LogLayout, first_row: int = 0) -> LogRows:
        """The rows of the layout's columns, with every spelling of "missing" settled; `first_row` numbers the first.

        Participants and times of a text file get their types from the whole file, so that parts of it agree on them.
        """
        table = self.table(layout.columns)
        place = csv_place(self.path, self.text) if self.is_text else lambda row: f"{self.path}: row {row}"
        with name_file(self.path):
            table = self._type_columns(layout.settle_missing(table), layout)
            return LogRows.of(table, layout.participant, place, first_row)

    def _type_columns(self, table: pa.Table, layout: LogLayout) -> pa.Table:
        import pyarrow as pa

        cells = {name: whole_array(table[name]) for name in table.column_names}
        time = cells.get(layout.time)
        if time is not None and pa.types.is_timestamp(time.type):
            # Files may differ in unit and zone.
            cells[layout.time] = to_microseconds(time, layout.time)
        elif time is not None and self.is_text:
            cells[layout.time] = type_times(time)
        if self.is_text:
            cells[layout.participant] = type_participants(cells[layout.participant])
        return pa.table(cells)


def list_files(path: str | Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder in the order of their names; hidden ones are left alone."""
    path = Path(path)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.parquet") if not _hidden(file.relative_to(path)))
        if not found:
            raise InputError(f"{path}: a folder without Parquet files; give a folder that has some, or one file")
        return found
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix.lower() == ".toml":
        raise InputError(f"{path}: is a study, not logs; write surefoot fit LOGS --study {path}")
    if path.suffix.lower() not in LOG_SUFFIXES:
        raise InputError(f"{path}: logs are read from .csv, .parquet or a folder of .parquet; convert or rename the file")
    return [path]


def check_files(files: list[Path], columns: Sequence[str]) -> list[Path]:
    """The Parquet files of a folder without those that have no rows.

    Files whose columns of one name hold different kinds of values are refused; a column of nothing goes with any.
    """
    first: dict[str, tuple[str, Path]] = {}
    filled = []
    for file in files:
        opened = parquet_file(file)
        schema = opened.schema_arrow
        check_columns(file, schema.names, columns)
        for name in columns:
            family = value_family(schema.field(name).type)
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
    return filled


@contextmanager
def name_file(path: str | Path) -> Iterator[None]:
    """Refusals from within name the file, also those that are about a whole column."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}", row=error.row, column=error.column, participant=error.participant) from error


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def clean_text(path: Path, data: bytes) -> bytes:
    """The bytes of a UTF-8 text file without its byte order mark."""
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
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""))
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

    @cache
    def lines() -> list[int]:
        return [line for line, _ in _records(data)]

    def place(row: int) -> str:
        line = lines()[row + 1] if row + 1 < len(lines()) else row + 2
        return f"{path}: line {line}"

    return place


def csv_table(path: Path, data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The named columns, or all of them, as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = _header(path, data)
    columns = header if columns is None else columns
    check_columns(path, header, columns)
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(block_size=2**24),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.large_string() for name in columns},
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        wrong = [(line, len(fields)) for line, fields in _records(data) if len(fields) != len(header)]
        if not wrong:
            raise InputError(f"{path}: cannot be read as comma-separated values ({error})") from error
        lines = [
            f"{path}: line {line}: cannot be read as comma-separated values: {count} fields where the "
            f"header has {len(header)}; write decimals with a point, and put quotes around text with commas"
            for line, count in wrong[:MOST_SHOWN]
        ]
        if len(wrong) > MOST_SHOWN:
            lines.append(f"These are the first {MOST_SHOWN} of {len(wrong)} problems.")
        raise InputError("\n".join(lines)) from error


def parquet_file(path: Path, data: bytes | None = None) -> Any:
    """An open Parquet file, or its bytes opened as one."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path if data is None else pa.BufferReader(data))
        # The names of a damaged file may not be text.
        _ = file.schema_arrow.names
        return file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error


def parquet_table(path: Path, data: bytes | None, columns: Sequence[str] | None = None) -> pa.Table:
    """The named columns of a Parquet file, or all of them, checked down to the encoding of their text."""
    import pyarrow as pa

    file = parquet_file(path, data)
    columns = list(file.schema_arrow.names) if columns is None else columns
    check_columns(path, list(file.schema_arrow.names), columns)
    try:
        # A column called "a.b" is a column, not a field of "a": pick by position in what was read.
        table = file.read(columns=list(columns)).select(list(columns))
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
