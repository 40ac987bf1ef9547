"""Excel workbooks (.xlsx), with the extra `excel`."""

from __future__ import annotations

import io
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from surefoot.data.file_settings import FileSettings
from surefoot.data.locations import Location
from surefoot.data.log_columns import spell
from surefoot.data.text_files import ColumnChoice, name_columns
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


def excel_table(path: Location, data: bytes, columns: ColumnChoice, settings: FileSettings) -> pa.Table:
    """The chosen columns of a sheet; its first row is the header."""
    import pyarrow as pa

    rows = _read_sheet(path, data, settings.sheet)
    cells = ["" if cell is None else str(cell).strip() for cell in (rows[0] if rows else ())]
    while cells and cells[-1] == "":
        cells.pop()
    header = name_columns(f"{path}: row 1", cells)
    chosen = columns.pick(path, header)
    # Excel keeps formatted but empty rows at the end.
    while len(rows) > 1 and all(cell is None for cell in rows[-1]):
        rows.pop()
    places = [header.index(name) for name in chosen]
    filled = rows[settings.header_rows :]
    return pa.table({name: _column([row[place] for row in filled]) for name, place in zip(chosen, places, strict=True)})


def _read_sheet(path: Location, data: bytes, sheet: str | None) -> list[tuple[Any, ...]]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise InputError(f"{path}: Excel workbooks need openpyxl; install it with: pip install 'surefoot[excel]'") from None
    try:
        book = load_workbook(io.BytesIO(data), data_only=True)
    except (BadZipFile, InvalidFileException, KeyError, ValueError, OSError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as an Excel workbook ({error})") from error
    if sheet is not None and sheet not in book.sheetnames:
        known = book.sheetnames
        raise InputError(f"{path}: there is no sheet '{sheet}'{did_you_mean(sheet, known)}; the workbook has {known}")
    chosen = book[sheet] if sheet is not None else book.worksheets[0]
    return list(chosen.iter_rows(values_only=True))


def _column(cells: list[Any]) -> pa.Array:
    """Numbers, yes/no and times as such where all are, else text."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} or kinds <= {bool}:
        return pa.array(cells, pa.float64() if float in kinds else None)
    if kinds == {datetime}:
        return pa.array(cells, pa.timestamp("us"))
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.large_string())


def _text(cell: Any) -> str:
    return cell.isoformat() if isinstance(cell, date) else spell(cell)
