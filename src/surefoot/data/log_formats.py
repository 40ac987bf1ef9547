"""Formats of log files, by the end of their names; a new one is a class and a line."""

from __future__ import annotations

import gzip
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from surefoot.data.excel_files import excel_table
from surefoot.data.file_settings import FileSettings
from surefoot.data.locations import Location
from surefoot.data.parquet_files import list_row_groups, parquet_table
from surefoot.data.problems import Place
from surefoot.data.text_files import ColumnChoice, TextShape, decode_text, text_place, text_table
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


class LogFormat(ABC):
    """How a kind of file is read."""

    suffixes: ClassVar[tuple[str, ...]]
    typed: ClassVar[bool]
    """Whether cells have types of their own; else ids and times get them from the whole file."""
    is_text: ClassVar[bool] = False
    """Whether separator, decimal sign and encoding matter."""

    @abstractmethod
    def read(
        self, path: Location, data: bytes | None, columns: ColumnChoice, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        """The chosen columns, and how its rows are called; `data` are the file's bytes where they were read."""

    def list_groups(self, path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
        """Groups of rows that can be read by themselves, in sets of about so many rows, and the rows of each set."""
        return []

    def read_groups(self, path: Location, groups: Sequence[int], columns: ColumnChoice) -> pa.Table:
        """The chosen columns of some groups of rows."""
        raise NotImplementedError


class TextFormat(LogFormat):
    """Columns separated by commas, or by what the settings say."""

    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
    typed = False
    is_text = True

    def read(
        self, path: Location, data: bytes | None, columns: ColumnChoice, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        text = decode_text(path, unpack(path, data), settings.encoding)
        shape = find_shape(path, settings)
        return text_table(path, text, columns, shape), text_place(path, text, shape)


class ParquetFormat(LogFormat):
    """Apache Parquet; only the named columns are read, unless the bytes are at hand."""

    suffixes = (".parquet",)
    typed = True

    def read(
        self, path: Location, data: bytes | None, columns: ColumnChoice, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        return parquet_table(path, data, columns), lambda row: f"{path}: row {row}"

    def list_groups(self, path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
        return list_row_groups(path, rows)

    def read_groups(self, path: Location, groups: Sequence[int], columns: ColumnChoice) -> pa.Table:
        return parquet_table(path, None, columns, groups)


class ExcelFormat(LogFormat):
    """Excel workbooks; rows are called as Excel numbers them."""

    suffixes = (".xlsx",)
    typed = False

    def read(
        self, path: Location, data: bytes | None, columns: ColumnChoice, settings: FileSettings
    ) -> tuple[pa.Table, Place]:
        table = excel_table(path, path.read_bytes() if data is None else data, columns, settings)
        return table, lambda row: f"{path}: row {row + 1 + settings.header_rows}"


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


def unpack(path: Location, data: bytes | None) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    data = path.read_bytes() if data is None else data
    if path.suffix.lower() != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); compress it again with gzip") from error
