"""Log files and folders of them, read once: rows, whose they are, and where each stands."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_roles import read_participants, to_microseconds, type_participants, type_times
from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.locations import Location, find_size, list_parquet, locate
from surefoot.data.log_columns import MISSING, LogColumn, settle_missing, whole_array
from surefoot.data.log_formats import find_format
from surefoot.data.problems import Place, Problems, frame_row
from surefoot.data.text_files import EVERY_COLUMN, ColumnChoice
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


SPLIT_BYTES = 2**25
"""Smaller files are read at once."""


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
    settings: FileSettings = PLAIN
    also: str | None = None
    """A pattern of the names of further columns, which are read where the file has them."""

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
    settings: FileSettings = PLAIN

    @classmethod
    def of(
        cls,
        table: pa.Table,
        participant: str,
        place: Place = frame_row,
        first_row: int = 0,
        settings: FileSettings = PLAIN,
    ) -> LogRows:
        """All rows of a table in memory."""
        ids = LogColumn(participant, whole_array(table[participant]), Problems(place))
        return cls(table, place, np.arange(first_row, first_row + len(table)), *read_participants(ids), settings)

    def __len__(self) -> int:
        return len(self.row)

    def column(self, name: str, problems: Problems) -> LogColumn:
        return LogColumn(name, whole_array(self.table[name]), problems, self.settings)

    def of_participants(self, wanted: NDArray[Any]) -> LogRows:
        """The rows of some participants, which keep their places."""
        import pyarrow as pa

        chosen = np.isin(self.participants, wanted)
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen[self.participant_index])
        index = (np.cumsum(chosen) - 1)[self.participant_index[rows]]
        table = self.table.take(pa.array(rows))
        return replace(
            self,
            table=table,
            place=lambda row: self.place(int(rows[row])),
            row=self.row[rows],
            participants=self.participants[chosen],
            participant_index=index,
        )


def concatenate(parts: Sequence[LogRows]) -> LogRows:
    """Several files' rows one after the other; their columns must be of kinds that go together."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def place(row: int) -> str:
        which = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[which].place(row - int(starts[which]))

    shared = [name for name in parts[0].table.column_names if all(name in part.table.column_names for part in parts)]
    try:
        table = pa.concat_tables([part.table.select(shared) for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files do not go together ({error}); write all files with one schema") from error
    participants, position = np.unique(np.concatenate([part.participants for part in parts]), return_inverse=True)
    offsets = np.cumsum([0, *(len(part.participants) for part in parts)])
    index = [position[part.participant_index + offset] for part, offset in zip(parts, offsets[:-1], strict=True)]
    row = np.concatenate([part.row for part in parts])
    return LogRows(table, place, row, participants, np.concatenate(index), parts[0].settings)


@dataclass(frozen=True, eq=False)
class LogFile:
    """One file, read once: its rows and its hash come from the same bytes. Or some groups of its rows by themselves."""

    path: Location
    groups: tuple[int, ...] = ()
    """Where not all."""
    start: int = 0
    """How many rows of the file come before these."""

    def split(self, rows: int) -> list[LogFile]:
        """A large file in pieces of about so many rows, as far as its format has groups of rows; else the file itself."""
        if find_size(self.path) < SPLIT_BYTES:
            return [self]
        sets = find_format(self.path).list_groups(self.path, rows)
        if len(sets) < 2:
            return [self]
        starts = np.cumsum([0, *(size for _, size in sets)]).tolist()
        return [LogFile(self.path, one, start) for (one, _), start in zip(sets, starts, strict=False)]

    @cached_property
    def data(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or 'it is not there'})") from error

    def fingerprint(self, folder: str | Location, *, keep: bool = True) -> dict[str, Any]:
        """Name (within the folder, if it came from one), size and SHA-256; the bytes are kept for the rows, or pass by.

        Those of a large file with types pass by.
        """
        place: Any = locate(folder)
        name = self.path.name if place == self.path else str(self.path.relative_to(place))
        whole = not find_format(self.path).typed or find_size(self.path) < SPLIT_BYTES
        if keep and not self.groups and whole:  # Else it may be too large, and its rows are read without its bytes.
            return {"name": name, "bytes": len(self.data), "sha256": hashlib.sha256(self.data).hexdigest()}
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"name": name, "bytes": file.seek(0, io.SEEK_END), "sha256": digest}

    def table(self, columns: ColumnChoice = EVERY_COLUMN, settings: FileSettings = PLAIN) -> tuple[pa.Table, Place]:
        """The chosen columns as they are (text from CSV, typed from Parquet), and what rows are called."""
        # Of a file whose bytes nobody needed (to hash them) only these columns are read, if its format allows.
        found = find_format(self.path)
        if self.groups:
            return found.read_groups(self.path, self.groups, columns), lambda row: f"{self.path}: row {self.start + row}"
        data = self.__dict__.get("data") if found.typed else self.data
        table, place = found.read(self.path, data, columns, settings)
        if len(table) == 0:
            raise InputError(f"{self.path}: the table has no rows; give it at least one decision point")
        return table, place

    def rows(self, layout: LogLayout, first_row: int = 0) -> LogRows:
        """The rows of the layout's columns, with every spelling of "missing" settled; `first_row` numbers the first."""
        table, place = self.table(ColumnChoice(layout.columns, layout.also), layout.settings)
        with name_file(self.path):
            table = self._type_columns(layout.settle_missing(table), layout)
            return LogRows.of(table, layout.participant, place, first_row, layout.settings)

    def _type_columns(self, table: pa.Table, layout: LogLayout) -> pa.Table:
        """The table with types for the ids and times of a text file, and with times of one unit and no zone."""
        import pyarrow as pa

        typed = find_format(self.path).typed
        cells = {name: whole_array(table[name]) for name in table.column_names}
        time = cells.get(layout.time)
        if time is not None and pa.types.is_timestamp(time.type):
            # Files may differ in unit and zone.
            cells[layout.time] = to_microseconds(time, layout.time)
        elif time is not None and not typed:
            cells[layout.time] = type_times(LogColumn(layout.time, time, settings=layout.settings))
        if not typed:
            cells[layout.participant] = type_participants(cells[layout.participant])
        return pa.table(cells)


def list_files(path: str | Location) -> list[Location]:
    """The file itself, or the Parquet files of a folder in the order of their names; hidden ones are left alone."""
    path = locate(path)
    if path.is_dir():
        found = list_parquet(path)
        if not found:
            raise InputError(f"{path}: a folder without Parquet files; give a folder that has some, or one file")
        return found
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the name and the folder")
    if path.suffix.lower() == ".toml":
        raise InputError(f"{path}: is a study, not logs; write surefoot fit LOGS --study {path}")
    find_format(path)
    return [path]


@contextmanager
def name_file(path: str | Location) -> Iterator[None]:
    """Refusals from within name the file, also those that are about a whole column."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}", row=error.row, column=error.column, participant=error.participant) from error
