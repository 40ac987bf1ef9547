"""How a file of logs writes things: between columns, in numbers, in times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSettings:
    """What `[file]` in a study says; the defaults are those of a plain CSV file."""

    separator: str | None = None
    """Between columns of a text file; by default a comma, and a tab in `.tsv`."""
    header_rows: int = 1
    """Rows before the first decision point; the first names the columns, the others are not read."""
    ragged: bool = False
    """Whether rows of a text file may end early: what they leave out is missing. Empty fields at their end are ignored."""
    decimal: str = "."
    thousands: str | None = None
    """Between thousands; by default nothing, and a point where decimals have a comma."""
    encoding: str = "utf-8"
    time_format: str | None = None
    """As strptime has it, such as `%d.%m.%Y %H:%M`; by default numbers or ISO 8601."""
    percent: tuple[str, ...] = ()
    """Columns whose numbers are percentages, with or without the sign: they are divided by 100."""
    sheet: str | None = None
    """Of an Excel workbook; by default the first."""


PLAIN = FileSettings()
