"""Large files, spread over files of some participants each: no more than a block, or one of those, is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.atomic_files import refuse_unwritable
from surefoot.data.column_roles import NUMBER_TYPES, find_time_types, read_participants, type_participants
from surefoot.data.locations import Location
from surefoot.data.log_columns import LogColumn, whole_array
from surefoot.data.log_files import ColumnTypes, LogLayout, LogRows, name_file, type_columns
from surefoot.data.log_formats import find_format
from surefoot.data.problems import Place, Problems
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class SpreadRows:
    """The rows of some participants of a large file, in a file of their own; they keep their places."""

    path: Location
    """The large file."""
    file: Path
    """Streams of Arrow, one behind the other; the last column is the number of the row."""

    def rows(self, layout: LogLayout, first_row: int = 0) -> LogRows:
        """What `LogFile.rows` gives of the large file, of these participants."""
        import pyarrow as pa

        with pa.OSFile(str(self.file)) as source:
            found = []
            while source.tell() < source.size():
                found.append(pa.ipc.open_stream(source).read_all())
        table = pa.concat_tables(found)
        row = table.column(table.num_columns - 1).to_numpy()
        place = find_format(self.path).place(self.path, layout.settings)
        own = LogRows.of(
            table.select(range(table.num_columns - 1)),
            layout.participant,
            lambda number: place(int(row[number])),
            settings=layout.settings,
        )
        return replace(own, row=first_row + row)


@dataclass(frozen=True, eq=False)
class LargeFile:
    """Who is in a file, and of what types its columns are: what a first pass over it finds."""

    path: Location
    layout: LogLayout
    participants: NDArray[Any]
    """Sorted ids."""
    counts: NDArray[np.int64]
    """Of their rows."""
    types: ColumnTypes | None
    """As all rows together have them; None where the format has types."""

    @classmethod
    def survey(cls, path: Location, layout: LogLayout) -> LargeFile:
        """Read ids and times, block after block."""
        found, seen, known, missing = find_format(path), 0, None, []
        times: Sequence[str] = NUMBER_TYPES
        for block in found.read_blocks(path, (layout.participant, layout.time), layout.settings):
            with name_file(path):
                table = layout.settle_missing(block)
                ids = LogColumn(layout.participant, whole_array(table[layout.participant]))
                missing += [seen + int(row) for row in ids.find_missing()]
                known = _count_rows(known, ids.cells, seen)
                own = LogColumn(layout.time, whole_array(table[layout.time]), settings=layout.settings)
                times = find_time_types(own, times)
            seen += len(table)
        if known is None:
            raise InputError(f"{path}: the table has no rows; give it at least one decision point")
        place = find_format(path).place(path, layout.settings)
        _refuse_missing(layout.participant, missing, place)
        first, ids = known["row"].to_numpy(), whole_array(known["id"])
        ids = ids if found.typed else type_participants(ids)
        column = LogColumn(layout.participant, ids, Problems(lambda number: place(int(first[number]))))
        with name_file(path):
            participants, index = read_participants(column)
        counts = np.bincount(index, weights=known["rows"].to_numpy()).astype(np.int64)
        types = None if found.typed else ColumnTypes(times, text_ids=participants.dtype.kind == "U")
        return cls(path, layout, participants, counts, types)

    def spread(self, number: NDArray[np.int64], folder: Path) -> list[SpreadRows]:
        """Read everything, block after block; each participant's rows go to the file of their number."""
        import pyarrow as pa

        files = [SpreadRows(self.path, folder / f"{place:06d}.arrows") for place in range(int(number.max()) + 1)]
        seen = 0
        for block in find_format(self.path).read_blocks(self.path, self.layout.columns, self.layout.settings):
            with name_file(self.path):
                table = type_columns(self.layout.settle_missing(block), self.layout, self.types)
                own = LogRows.of(table, self.layout.participant)
            target = number[np.searchsorted(self.participants, own.participants)][own.participant_index]
            order = np.argsort(target, kind="stable")
            columns = [*table.columns, pa.chunked_array([pa.array(seen + own.row)])]
            table = pa.table(columns, names=[*table.column_names, "row"]).take(pa.array(order))
            present, begins = np.unique(target[order], return_index=True)
            for place, begin, end in zip(present, begins, [*begins[1:], len(order)], strict=True):
                _append(files[place].file, table.slice(begin, end - begin))
            seen += len(table)
        return files


def _count_rows(known: pa.Table | None, ids: pa.Array, first: int) -> pa.Table:
    """Every id once, in the order of its first row, with the number of its rows; `known` are those of earlier blocks."""
    import pyarrow as pa

    own = pa.table({"id": ids, "rows": np.ones(len(ids), dtype=np.int64), "row": np.arange(first, first + len(ids))})
    both = own if known is None else pa.concat_tables([known, own])
    found = both.group_by("id").aggregate([("rows", "sum"), ("row", "min")])
    return pa.table({"id": found["id"], "rows": found["rows_sum"], "row": found["row_min"]}).sort_by("row")


def _refuse_missing(column: str, rows: list[int], place: Place) -> None:
    import pyarrow as pa

    problems = Problems(lambda number: place(rows[number]))
    LogColumn(column, pa.nulls(len(rows)), problems).refuse_missing()
    problems.raise_any()


def _append(file: Path, table: pa.Table) -> None:
    """Write rows behind those that are there."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        refuse_unwritable(file),
        file.open("ab") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as stream,
    ):
        stream.write_table(table)
