"""LogTable: the columns of a log as a file or a frame has them, with the participant and the name of every row."""

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from surefoot.data.file_formats import LOG_SUFFIXES, PARQUET, has_suffix, list_row_groups, read_table
from surefoot.data.locations import Location, find_size, list_parquet, locate
from surefoot.data.log_columns import (
    MISSING,
    PLAIN,
    TEXT_TYPES,
    FileSettings,
    LogColumn,
    Place,
    Problems,
    first_failure,
    frame_row,
    settle_missing,
    to_microseconds,
    whole_array,
)
from surefoot.errors import InputError

EXPORTED = ("decisions.parquet", "decisions.csv")
"""The decisions in the folder of a trial's export."""
SPLIT_BYTES = 2**25
"""Smaller files are read at once."""


class UnnamedAvailability(NamedTuple):
    """A column of availability that has no role."""

    name: str
    rows: int
    """Rows at which nothing could be sent."""
    sent: int
    """Those of them at which something was sent."""


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns in the input, for messages and for `to_frame`."""

    participant: str = "participant"
    time: str = "time"
    action: str = "action"
    outcome: str = "outcome"
    probability: str = "probability"
    available: str = "available"
    probability_of: str = "action taken"
    """What the probabilities of the input were of: the `action taken`, `sending`, or the `design`.
    `Trajectories` always hold those of the action taken."""
    unnamed: tuple[UnnamedAvailability, ...] = ()
    """Columns that look like availability, if none was named."""


@dataclass(frozen=True)
class LogLayout:
    """Which columns of a log are read, and how it spells "missing"."""

    participant: str
    time: str
    columns: tuple[str, ...]
    """All columns that are read, participant and time included."""
    missing: tuple[str, ...] = MISSING
    """Spellings of "missing" in every column."""
    missing_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further spellings by column."""
    meant: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By column, texts that are values even if they are spelled like "missing": levels of a category, actions."""
    settings: FileSettings = PLAIN
    also: str | None = None
    """A pattern of the names of further columns, which are read if the file has them."""

    def settle_missing(self, table: pa.Table) -> pa.Table:
        """The table without dictionaries and surrounding blanks, null where a cell spells "missing"."""
        settled = {}
        for name in table.column_names:
            everywhere = [word for word in self.missing if word not in self.meant.get(name, ())]
            settled[name] = settle_missing(whole_array(table[name]), [*everywhere, *self.missing_in.get(name, ())])
        return pa.table(settled)


@dataclass(frozen=True, eq=False)
class LogTable:
    """Rows of a log with their participants and their places in the input."""

    table: pa.Table
    name_row: Place
    """The name of a row of `table` in messages: `logs.csv: line 19`."""
    row: NDArray[np.int64]
    """For each row of `table` its number in the input, from 0."""
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
        name_row: Place = frame_row,
        first_row: int = 0,
        settings: FileSettings = PLAIN,
    ) -> "LogTable":
        """All rows of a table in memory."""
        ids = LogColumn(participant, whole_array(table[participant]), Problems(name_row))
        return cls(table, name_row, np.arange(first_row, first_row + len(table)), *ids.participants(), settings)

    def __len__(self) -> int:
        return len(self.row)

    def column(self, name: str, problems: Problems) -> LogColumn:
        return LogColumn(name, whole_array(self.table[name]), problems, self.settings)

    def select(self, participants: NDArray[Any]) -> "LogTable":
        """The rows of some participants, which keep their places."""
        chosen = np.isin(self.participants, participants)
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen[self.participant_index])
        return replace(
            self,
            table=self.table.take(pa.array(rows)),
            name_row=lambda row: self.name_row(int(rows[row])),
            row=self.row[rows],
            participants=self.participants[chosen],
            participant_index=(np.cumsum(chosen) - 1)[self.participant_index[rows]],
        )


def concatenate(tables: Sequence[LogTable]) -> LogTable:
    """The rows of several files one after the other; their columns must be of kinds that go together."""
    if len(tables) == 1:
        return tables[0]
    starts = np.cumsum([0, *map(len, tables)])

    def name_row(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        return tables[number].name_row(row - int(starts[number]))

    shared = [name for name in tables[0].table.column_names if all(name in table.table.column_names for table in tables)]
    try:
        joined = pa.concat_tables([table.table.select(shared) for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files do not go together ({error}); write all files with one schema") from error
    participants, position = np.unique(np.concatenate([table.participants for table in tables]), return_inverse=True)
    offsets = np.cumsum([0, *(len(table.participants) for table in tables)])
    index = [position[table.participant_index + offset] for table, offset in zip(tables, offsets[:-1], strict=True)]
    row = np.concatenate([table.row for table in tables])
    return LogTable(joined, name_row, row, participants, np.concatenate(index), tables[0].settings)


@dataclass(frozen=True, eq=False)
class LogFile:
    """One file, read once: its rows and its hash come from the same bytes. Or row groups of a large Parquet file."""

    path: Location
    groups: tuple[int, ...] = ()
    """Row groups to read; all if empty."""
    start: int = 0
    """Number of rows of the file before these."""

    def split(self, rows: int) -> "list[LogFile]":
        """A large Parquet file in pieces of about so many rows; any other file as it is."""
        sets = list_row_groups(self.path, rows) if self._is_large else []
        if len(sets) < 2:
            return [self]
        starts = np.cumsum([0, *(size for _, size in sets)]).tolist()
        return [LogFile(self.path, groups, start) for (groups, _), start in zip(sets, starts, strict=False)]

    @property
    def is_parquet(self) -> bool:
        return has_suffix(self.path, PARQUET)

    @property
    def _is_large(self) -> bool:
        return self.is_parquet and find_size(self.path) >= SPLIT_BYTES

    @cached_property
    def data(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or 'it is not there'})") from error

    def fingerprint(self, folder: str | Location, *, keep: bool = True) -> dict[str, Any]:
        """Name (within the folder, if it came from one), size and SHA-256.

        With `keep` the bytes are kept for `read`, except those of a large Parquet file.
        """
        location: Any = locate(folder)
        name = self.path.name if location == self.path else str(self.path.relative_to(location))
        if keep and not self.groups and not self._is_large:
            return {"name": name, "bytes": len(self.data), "sha256": hashlib.sha256(self.data).hexdigest()}
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"name": name, "bytes": file.seek(0, io.SEEK_END), "sha256": digest}

    def read_cells(
        self, settings: FileSettings = PLAIN, names: Sequence[str] | None = None, also: str | None = None
    ) -> tuple[pa.Table, Place]:
        """Columns as they are (text from text files, typed from Parquet), and the names of their rows."""
        # Unless the bytes were read to hash them, only the named columns of a Parquet file are read.
        data = self.__dict__.get("data") if self.is_parquet else self.data
        table, name_row = read_table(self.path, data, settings, names, also, self.groups)
        if self.groups:
            return table, lambda row: name_row(self.start + row)
        if len(table) == 0:
            raise InputError(f"{self.path}: the table has no rows; give it at least one decision point")
        return table, name_row

    def read(self, layout: LogLayout, first_row: int = 0) -> LogTable:
        """The layout's columns, null where a cell spells "missing"; `first_row` is the number of the first row."""
        cells, name_row = self.read_cells(layout.settings, layout.columns, layout.also)
        with name_file(self.path):
            settled = layout.settle_missing(cells)
            columns = {name: settled[name].chunk(0) for name in settled.column_names}
            ids = columns[layout.participant]
            time = columns.get(layout.time)
            if time is not None and pa.types.is_timestamp(time.type):
                # Files may differ in unit and zone.
                columns[layout.time] = to_microseconds(time, layout.time)
            elif time is not None and not self.is_parquet and time.type in TEXT_TYPES and not layout.settings.time_format:
                # Numbers if all times are.
                plain = LogColumn(layout.time, time, settings=layout.settings).plain_numbers()
                kind = next((kind for kind in (pa.int64(), pa.float64()) if first_failure(plain, kind) is None), None)
                columns[layout.time] = time if kind is None else plain.cast(kind)
            if not self.is_parquet and ids.type in TEXT_TYPES and ids.null_count < len(ids):
                # Whole numbers if all ids are plain whole numbers: 1.0 too, 007 not.
                is_whole = pc.match_substring_regex(ids, r"^(0|-?[1-9]\d{0,17})(\.0+)?$")
                plain = pc.replace_substring_regex(ids, r"\.0+$", "")
                columns[layout.participant] = plain.cast(pa.int64()) if pc.all(is_whole).as_py() else ids
            return LogTable.of(pa.table(columns), layout.participant, name_row, first_row, layout.settings)


def list_files(path: str | Location) -> list[Location]:
    """The file itself, the decisions of a trial's export, or the Parquet files of a folder by name, without hidden ones."""
    path = locate(path)
    if path.is_dir():
        exported = [path / name for name in EXPORTED if (path / name).is_file()]
        files = exported[:1] or list_parquet(path)
        if not files:
            raise InputError(f"{path}: a folder without Parquet files; give a folder that has some, or one file")
        return files
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the name and the folder")
    if path.suffix.lower() == ".toml":
        raise InputError(f"{path}: is a study, not logs; write surefoot fit LOGS --study {path}")
    if not has_suffix(path, LOG_SUFFIXES):
        known = ", ".join(LOG_SUFFIXES)
        raise InputError(f"{path}: logs are read from {known} or a folder of .parquet; convert or rename the file")
    return [path]


@contextmanager
def name_file(path: str | Location) -> Iterator[None]:
    """Put the name of the file before errors that do not have it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}", row=error.row, column=error.column, participant=error.participant) from error
