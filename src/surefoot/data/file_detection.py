"""How a file writes things, found by looking at its bytes: what `surefoot init` puts into `[file]`."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.log_columns import EUROPEAN_NUMBER, MISSING, first_failure, is_text, settle_missing, whole_array
from surefoot.data.log_files import LogFile
from surefoot.data.log_formats import find_format, unpack
from surefoot.data.text_files import SEPARATORS, decode_text, read_records

if TYPE_CHECKING:
    import pyarrow as pa

DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
LOOKED_AT = 50
"""So many lines are looked at to find the separator."""


def detect_settings(file: LogFile) -> FileSettings:
    """The settings with which a file can be read; for a typed format the plain ones."""
    if not find_format(file.path).is_text:
        return PLAIN
    data = unpack(file.path, file.data)
    encoding = _detect_encoding(data)
    (text,) = decode_text(file.path, io.BytesIO(data), encoding)
    usual = "\t" if ".tsv" in file.path.suffixes else ","
    separator = _detect_separator(text, usual)
    settings = FileSettings(separator=None if separator == usual else separator, encoding=encoding)
    table, _ = file.table(settings=settings)
    return _detect_numbers(table, settings)


def detect_time_format(cells: pa.Array) -> list[str]:
    """The formats of strptime that fit all of a column's times; none for numbers and for ISO 8601."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = settle_missing(cells, MISSING).drop_null()
    if not is_text(cells.type) or not len(cells):
        return []
    if any(first_failure(cells, kind) is None for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))):
        return []
    return [
        day + clock
        for day in DAYS
        for clock in CLOCKS
        if pc.strptime(cells, format=day + clock, unit="us", error_is_null=True).null_count == 0
    ]


def _detect_encoding(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for encoding in ("utf-8", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _detect_separator(text: bytes, usual: str) -> str:
    """The one that cuts the first lines into equally many fields, and into most of them."""
    beginning = b"\n".join(text.splitlines()[:LOOKED_AT])
    fields = {}
    for separator in SEPARATORS:
        lengths = [len(record) for _, record in read_records(io.BytesIO(beginning), separator)]
        fields[separator] = lengths[0] if len(set(lengths)) == 1 else 1
    most = max(fields.values())
    return usual if fields[usual] == most else max(fields, key=lambda separator: fields[separator])


def _detect_numbers(table: pa.Table, settings: FileSettings) -> FileSettings:
    """Decimal commas, and columns of percentages."""
    columns = {
        name: settle_missing(whole_array(table[name]), MISSING).unique().drop_null().to_pylist()
        for name in table.column_names
    }
    percent = tuple(
        name for name, cells in columns.items() if cells and all(re.fullmatch(r"[-+]?[\d.,]+\s*%", cell) for cell in cells)
    )
    numbers = [[cell.rstrip(" %") for cell in cells] for cells in columns.values()]
    european = [cells for cells in numbers if cells and all(re.fullmatch(EUROPEAN_NUMBER, cell) for cell in cells)]
    comma = any(re.search(r",\d{1,2}$|,\d{4,}$", cell) for cells in european for cell in cells)
    return replace(settings, decimal="," if comma else ".", percent=percent)
