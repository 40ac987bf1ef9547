"""Formats of log files, by the end of their names; a new one is a class and a line."""

from __future__ import annotations

import gzip
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, ClassVar, cast

from surefoot.data.excel_files import excel_table
from surefoot.data.file_settings import FileSettings
from surefoot.data.locations import Location, find_size
from surefoot.data.parquet_files import list_row_groups, parquet_blocks, parquet_table
from surefoot.data.problems import Place
from surefoot.data.text_files import BlockReader, TextShape, decode_text, text_blocks, text_place, text_table
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 2**20
"""What is read of a file at once where it is read in blocks."""
USUAL_COMPRESSION = 8
"""So many times smaller gzip makes logs."""
LARGE_GROUPS = 4
"""Row groups of a part's rows so many times are read in blocks."""


class LogFormat(ABC):
    """How a kind of file is read."""

    suffixes: ClassVar[tuple[str, ...]]
    typed: ClassVar[bool]
    """Whether cells have types of their own; else ids and times get them from the whole file."""
    is_text: ClassVar[bool] = False
    """Whether separator, decimal sign and encoding matter."""

    @abstractmethod
    def read(
        self, path: Location, data: bytes | None, columns: Sequence[str] | None, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        """The named columns, or all, and how its rows are called; `data` are the file's bytes where they were read."""

    def list_groups(self, path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
        """Groups of rows that can be read by themselves, in sets of about so many rows, and the rows of each set."""
        return []

    def read_groups(self, path: Location, groups: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        """The named columns, or all, of some groups of rows."""
        raise NotImplementedError

    def needs_blocks(self, path: Location, size: int, rows: int) -> bool:
        """Whether a file of more than `size` bytes as it stands, or of groups of many times so many rows, is to be read in
        blocks."""
        return False

    def read_blocks(self, path: Location, columns: Sequence[str], settings: FileSettings) -> Iterator[pa.Table]:
        """The named columns, some rows after the other; of a format that `needs_blocks` of no file, all at once."""
        yield self.read(path, None, columns, settings)[0]

    @abstractmethod
    def place(self, path: Location, settings: FileSettings) -> Place:
        """How the rows of a file are called."""


class TextFormat(LogFormat):
    """Columns separated by commas, or by what the settings say."""

    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
    typed = False
    is_text = True

    def read(
        self, path: Location, data: bytes | None, columns: Sequence[str] | None, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        (text,) = decode_text(path, io.BytesIO(unpack(path, data)), settings.encoding)
        shape = find_shape(path, settings)
        return text_table(path, text, columns, shape), text_place(path, lambda: io.BytesIO(text), shape)

    def needs_blocks(self, path: Location, size: int, rows: int) -> bool:
        return find_size(path) * (USUAL_COMPRESSION if is_packed(path) else 1) >= size

    def read_blocks(self, path: Location, columns: Sequence[str], settings: FileSettings) -> Iterator[pa.Table]:
        return text_blocks(path, lambda: open_text(path, settings), columns, find_shape(path, settings))

    def place(self, path: Location, settings: FileSettings) -> Place:
        return text_place(path, lambda: open_text(path, settings), find_shape(path, settings))


class ParquetFormat(LogFormat):
    """Apache Parquet; only the named columns are read, unless the bytes are at hand."""

    suffixes = (".parquet",)
    typed = True

    def read(
        self, path: Location, data: bytes | None, columns: Sequence[str] | None, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        return parquet_table(path, data, columns), self.place(path, settings)

    def list_groups(self, path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
        return list_row_groups(path, rows)

    def read_groups(self, path: Location, groups: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        return parquet_table(path, None, columns, groups)

    def needs_blocks(self, path: Location, size: int, rows: int) -> bool:
        if find_size(path) < size:
            return False
        return any(count > LARGE_GROUPS * rows for _, count in list_row_groups(path, rows))

    def read_blocks(self, path: Location, columns: Sequence[str], settings: FileSettings) -> Iterator[pa.Table]:
        return parquet_blocks(path, columns)

    def place(self, path: Location, settings: FileSettings) -> Place:
        return lambda row: f"{path}: row {row}"


class ExcelFormat(LogFormat):
    """Excel workbooks; rows are called as Excel numbers them."""

    suffixes = (".xlsx",)
    typed = False

    def read(
        self, path: Location, data: bytes | None, columns: Sequence[str] | None, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        table = excel_table(path, path.read_bytes() if data is None else data, columns, settings)
        return table, self.place(path, settings)

    def place(self, path: Location, settings: FileSettings) -> Place:
        return lambda row: f"{path}: row {row + 1 + settings.header_rows}"


FORMATS: tuple[LogFormat, ...] = (TextFormat(), ParquetFormat(), ExcelFormat())
LOG_SUFFIXES = tuple(suffix for one in FORMATS for suffix in one.suffixes)


def find_format(path: Location) -> LogFormat:
    """The format of a file, by its name."""
    name = path.name.lower()
    found = next((one for one in FORMATS if name.endswith(one.suffixes)), None)
    if found is None:
        raise InputError(
            f"{path}: logs are read from {', '.join(LOG_SUFFIXES)} or a folder of .parquet; convert or rename the file"
        )
    return found


def find_shape(path: Location, settings: FileSettings) -> TextShape:
    """How a text file is cut into rows and columns."""
    separator = settings.separator or usual_separator(path)
    return TextShape(separator, settings.header_rows, settings.ragged)


def usual_separator(path: Location) -> str:
    """Between the columns of a text file, unless its study says otherwise."""
    return "\t" if ".tsv" in path.suffixes else ","


def is_packed(path: Location) -> bool:
    """Whether a file's name says that it is compressed."""
    return path.suffix.lower() == ".gz"


def unpack(path: Location, data: bytes | None) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    data = path.read_bytes() if data is None else data
    if not is_packed(path):
        return data
    with refuse_damage(path):
        return gzip.decompress(data)


def open_text(path: Location, settings: FileSettings) -> BinaryIO:
    """A text file as UTF-8, unpacked if its name ends in .gz; it is checked as it is read."""

    def read_blocks() -> Iterator[bytes]:
        with path.open("rb") as file, refuse_damage(path):
            unpacked = gzip.GzipFile(fileobj=file) if is_packed(path) else file
            yield from decode_text(path, cast(BinaryIO, unpacked), settings.encoding, READ_BYTES)

    return io.BufferedReader(BlockReader(read_blocks()), READ_BYTES)


@contextmanager
def refuse_damage(path: Location) -> Iterator[None]:
    """What cannot be read, or unpacked, is one line about the file."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        remedy = f"unpacked ({error}); compress it again with gzip" if is_packed(path) else f"read ({error})"
        raise InputError(f"{path}: cannot be {remedy}") from error
