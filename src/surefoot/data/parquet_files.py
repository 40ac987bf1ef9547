"""Parquet files; what cannot be read is refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from surefoot.data.locations import Location, find_store, map_files
from surefoot.data.log_columns import value_family
from surefoot.data.text_files import ColumnChoice, check_columns
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def open_parquet(path: Location, data: bytes | None = None) -> Any:
    """An open Parquet file, or its bytes opened as one."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        source, store = find_store(path) if data is None else (pa.BufferReader(data), None)
        file = parquet.ParquetFile(source, filesystem=store)
        # The names of a damaged file may not be text.
        _ = file.schema_arrow.names
        return file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error


def read_parquet(path: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of ours: a file, or a folder of files that are one table."""
    from pyarrow import parquet

    source, store = find_store(path)
    return parquet.read_table(source, columns=columns, filesystem=store)


def list_row_groups(path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
    """The row groups of a file in sets of about so many rows, and how many rows each set has."""
    metadata = open_parquet(path).metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    sets: dict[int, list[int]] = {}
    for number in range(len(sizes)):
        sets.setdefault(sum(sizes[:number]) // rows, []).append(number)
    found = [(tuple(one), sum(sizes[number] for number in one)) for one in sets.values()]
    if len(found) > 1 and found[-1][1] < rows // 2:  # What is left at the end goes with the groups before it.
        (before, size), (rest, left) = found[-2:]
        found[-2:] = [(before + rest, size + left)]
    return found


def parquet_table(
    path: Location, data: bytes | None, columns: ColumnChoice, groups: Sequence[int] | None = None
) -> pa.Table:
    """The chosen columns of a Parquet file, of all row groups or some, checked down to the encoding of their text."""
    import pyarrow as pa

    file = open_parquet(path, data)
    chosen = columns.pick(path, list(file.schema_arrow.names))
    try:
        # A column called "a.b" is a column, not a field of "a": pick by position in what was read.
        read = file.read if groups is None else partial(file.read_row_groups, list(groups))
        table = read(columns=chosen).select(chosen)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error
    return table


def _read_footer(file: Location) -> tuple[pa.Schema, int]:
    """Names and kinds of columns, and the number of rows."""
    with open_parquet(file) as opened:
        return opened.schema_arrow, opened.metadata.num_rows


def check_files(files: list[Location], columns: Sequence[str]) -> list[Location]:
    """The Parquet files of a folder without those that have no rows.

    Files whose columns of one name hold different kinds of values are refused; a column of nothing goes with any.
    """
    first: dict[str, tuple[str, Location]] = {}
    filled = []
    for file, (schema, rows) in zip(files, map_files(_read_footer, files), strict=True):
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
        if rows:
            filled.append(file)
    return filled
