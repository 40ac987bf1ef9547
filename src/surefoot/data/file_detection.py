"""How a file writes things, detected from its bytes: `surefoot init` puts it into `[file]`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefoot.data import file_formats, log_columns
from surefoot.data.log_table import LogFile
from surefoot.errors import InputError

DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
MONTH_NAMES = ("%d-%b-%Y", "%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d-%b-%y", "%d. %b %Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
EXAMINED_LINES = 50
"""Lines that are examined to find the separator and the header."""
LINES_SHOWN = 3
OTHER_SEPARATORS = ("~", "^", " ")
ANY_NUMBER = r"[-+]?[\d.,]*\d[\d.,]*([eE][-+]?\d+)?\s*%?"
ENGLISH_NUMBER = r"^[-+]?(\d{1,3}(,\d{3})+|\d*)(\.\d*)?([eE][-+]?\d+)?$"
MISSING_CELLS = {word.lower() for word in (*log_columns.MISSING, *log_columns.MISSING_SIGNS, *log_columns.MISSING_ANSWERS)}
PERCENT_NAME = r"(?i)prob|propens|chance"


def detect_settings(file: LogFile) -> tuple[log_columns.FileSettings, list[str]]:
    """The settings with which a file can be read, and warnings about them."""
    settings = log_columns.PLAIN
    warnings: list[str] = []
    if file_formats.has_suffix(file.path, file_formats.TEXT):
        encoding = detect_encoding(file_formats.unpack(file.path, file.data))
        text = file_formats.decode_text(file.path, file.data, encoding)
        usual = str(file_formats.choose_separator(file.path, log_columns.PLAIN).separator)
        separator = _detect_separator(text, usual)
        records = [fields for _, fields in islice(file_formats.read_records(text, separator), EXAMINED_LINES)]
        settings = log_columns.FileSettings(
            separator=None if separator == usual else separator, header_rows=count_header_rows(records), encoding=encoding
        )
        try:
            file.read_cells(settings)
        except InputError as error:
            settings = replace(settings, ragged=True)
            warnings.append(_explain_ragged(file, text, settings, error))
    elif file_formats.has_suffix(file.path, file_formats.EXCEL):
        table, _ = file.read_cells(settings)
        rows = table.slice(0, EXAMINED_LINES).to_pylist()
        cells = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
        settings = replace(settings, header_rows=count_header_rows([table.column_names, *cells]))
    if settings.header_rows > 1:
        further = "row 2 belongs" if settings.header_rows == 2 else f"rows 2 to {settings.header_rows} belong"
        verb = "is" if settings.header_rows == 2 else "are"
        warnings.append(f"{further} to the header and {verb} not read (header_rows in [file])")
    table, _ = file.read_cells(settings)
    settings, doubts = _detect_numbers(table, settings)
    return settings, warnings + doubts


def detect_time_format(cells: pa.Array) -> list[str]:
    """The formats of strptime that fit all times of a column; none for numbers and for ISO 8601."""
    cells = cells.drop_null()
    known = (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    is_text = cells.type in log_columns.TEXT_TYPES and len(cells)
    if not is_text or any(log_columns.first_failure(cells, kind) is None for kind in known):
        return []
    formats = [day + clock for day in (*DAYS, *MONTH_NAMES) for clock in CLOCKS]
    return [layout for layout in formats if not pc.strptime(cells, format=layout, unit="us", error_is_null=True).null_count]


def detect_encoding(data: bytes) -> str:
    """The encoding of a text; single bytes that are not UTF-8 are taken for Windows text."""
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
    """The one that cuts most of the first lines into as many fields as the first, and into most fields."""
    beginning = b"\n".join(text.splitlines()[:EXAMINED_LINES])
    for candidates in (file_formats.SEPARATORS, OTHER_SEPARATORS):
        fields = dict.fromkeys(candidates, 1)
        for separator in candidates:
            lengths = np.array([len(record) for _, record in file_formats.read_records(beginning, separator)])
            # Rows of R may have one field more than the header.
            alike = max(np.sum(lengths == lengths[0]), np.sum(lengths[1:] == lengths[0] + 1))
            if alike >= len(lengths) / 2:
                fields[separator] = int(lengths[0])
        most = max(fields.values())
        if most > 1:
            return usual if fields.get(usual) == most else max(fields, key=lambda separator: fields[separator])
    return usual


def count_header_rows(records: Sequence[Sequence[str]]) -> int:
    """The number of rows that name the columns.

    Beyond the first: up to the row with which Qualtrics ends its header, and rows of words above columns of numbers.

    >>> count_header_rows([["id", "steps", "mood"], ["", "per hour", "0-10 points"], *[["ann", "12", "4"]] * 5])
    2
    """
    rows = count_qualtrics_rows(records)
    if rows > 1:
        return rows
    below = records[file_formats.MOST_HEADER_ROWS :]
    numeric = []
    for column in range(len(records[0])):
        words = _list_words([row[column] for row in below if column < len(row)])
        if len(words) > 1 and all(re.fullmatch(ANY_NUMBER, word) for word in words):
            numeric.append(column)
    rows = 1
    while rows < min(file_formats.MOST_HEADER_ROWS, len(records)) and len(below) >= file_formats.MOST_HEADER_ROWS:
        words = _list_words([records[rows][column] for column in numeric if column < len(records[rows])])
        if len(words) < 2 or any(re.fullmatch(ANY_NUMBER, word) for word in words):
            break
        rows += 1
    return rows


def count_qualtrics_rows(records: Sequence[Sequence[str]]) -> int:
    """The number of rows that name the columns of a file of Qualtrics: up to that of the ImportIds, or of the questions if
    somebody deleted that.

    >>> count_qualtrics_rows([["StartDate", "ResponseId"], ["Start Date", "Response ID"], ["2026-03-01 08:00:00", "R_1"]])
    2
    """
    for number, fields in enumerate(records[1 : file_formats.MOST_HEADER_ROWS], 2):
        if file_formats.is_import_row(fields):
            return number
    header = list(records[0])
    if "StartDate" not in header or "ResponseId" not in header or len(records) == 1:
        return 1
    label = "".join(records[1][header.index("StartDate") :][:1])
    return 2 if label and not re.search(r"\d", label) else 1


def _list_words(cells: Sequence[str]) -> list[str]:
    """Cells without those that are missing."""
    return [cell.strip() for cell in cells if cell.strip().lower() not in MISSING_CELLS]


def _explain_ragged(file: LogFile, text: bytes, settings: log_columns.FileSettings, error: InputError) -> str:
    """A warning about rows that leave out fields at their end; a file that cannot be read even so is refused."""
    settings = file_formats.choose_separator(file.path, settings)
    records = list(file_formats.read_records(text, settings.separator))
    width = len(records[0][1])
    uneven = [line for line, fields in records if len(fields) != width]
    short = [line for line, fields in records if len(fields) < width]
    readable = all(file_formats.fits_header(fields, width, settings) and "\n" not in fields[-1] for _, fields in records)
    if not uneven or not readable or len(short) > len(records) / 2:
        raise error
    if short == [records[-1][0]] and not text.endswith((b"\n", b"\r")):
        problem = f"{file.path}: line {short[0]}: the file ends in the middle of this row"
        raise InputError(f"{problem}; get the whole file, or delete the row") from None
    lines = ", ".join(map(str, uneven[:LINES_SHOWN])) + (", …" if len(uneven) > LINES_SHOWN else "")
    problem = f"{len(uneven):,} rows have fewer or more fields than the header (line {lines})"
    return f"{problem}; left out fields count as missing (ragged in [file])"


def _detect_numbers(table: pa.Table, settings: log_columns.FileSettings) -> tuple[log_columns.FileSettings, list[str]]:
    """Decimal sign, separator of thousands and columns of percentages, and warnings about them."""
    columns: dict[str, list[str]] = {}
    for name in table.column_names:
        cells = log_columns.settle_missing(log_columns.whole_array(table[name]), log_columns.MISSING)
        if log_columns.value_family(cells.type) in ("text", "numbers"):
            columns[name] = _list_words([log_columns.spell(cell) for cell in cells.unique().drop_null().to_pylist()])
    percent = tuple(name for name, cells in columns.items() if _is_percent(name, cells))
    numbers = [[cell.rstrip(" %") for cell in cells] for cells in columns.values() if cells]
    # A file has one decimal sign: that of most columns. Lists of answers (3,1) look like decimals too.
    commas = sum(_has_decimals(cells, log_columns.EUROPEAN_NUMBER, ",") for cells in numbers)
    points = sum(_has_decimals(cells, ENGLISH_NUMBER, r"\.") for cells in numbers)
    detected = replace(settings, decimal="," if commas > points else ".", percent=percent)
    dotted = [] if commas or points else _list_dotted(numbers)
    if dotted:
        value = dotted[0].replace(".", "")
        warning = f"{dotted[0]} is read as {value}; delete decimal = ',' in [file] if it is not"
        return replace(detected, decimal=","), [warning]
    decimal = re.escape(detected.decimal)
    plain = rf"[-+]?\d*({decimal}\d*)?([eE][-+]?\d+)?"
    for thousands, between in log_columns.THOUSANDS.items():
        in_groups = rf"[-+]?\d{{1,3}}({between}\d{{3}})+({decimal}\d*)?"
        only_numbers = [cells for cells in numbers if all(re.fullmatch(f"{plain}|{in_groups}", cell) for cell in cells)]
        grouped = [cell for cells in only_numbers for cell in cells if re.fullmatch(in_groups, cell)]
        if thousands != detected.decimal and grouped:
            # A group of three digits after a comma may be decimals, unless something says otherwise.
            sure = thousands != "," or points or any(re.search(r",.*[,.]", cell) for cell in grouped)
            value = re.sub(between, "", grouped[0])
            warning = f"{grouped[0]} is read as {value} (thousands in [file]); write decimal = ',' if it is a decimal comma"
            return replace(detected, thousands=thousands), [] if sure else [warning]
    return detected, []


def _has_decimals(cells: Sequence[str], number: str, sign: str) -> bool:
    """Whether cells are numbers with this decimal sign, and some can be nothing else."""
    decimals = rf"{sign}\d{{1,2}}$|{sign}\d{{4,}}$|^[-+]?0?{sign}\d+$"
    return all(re.fullmatch(number, cell) for cell in cells) and any(re.search(decimals, cell) for cell in cells)


def _list_dotted(columns: Sequence[Sequence[str]]) -> list[str]:
    """Numbers with points between thousands: in columns of whole numbers and of three digits behind every point.

    >>> _list_dotted([["860", "5.440", "11.200"], ["0.125", "0.250"]])
    ['5.440', '11.200']
    """
    dotted: list[str] = []
    for cells in columns:
        grouped = [cell for cell in cells if re.fullmatch(r"[-+]?[1-9]\d{0,2}(\.\d{3})+", cell)]
        ungrouped = [cell for cell in cells if re.fullmatch(r"[-+]?\d{1,3}", cell)]
        is_rounded = bool(ungrouped) and any(cell.endswith("0") for cell in grouped)
        if len(grouped) + len(ungrouped) == len(cells) and (is_rounded or any(cell.count(".") > 1 for cell in grouped)):
            dotted += grouped
    return dotted


def _is_percent(name: str, cells: Sequence[str]) -> bool:
    """Whether all cells have the sign, or are numbers up to 100 in a column with the name of a probability."""
    if cells and all(re.fullmatch(r"[-+]?[\d.,]+\s*%", cell) for cell in cells):
        return True
    if not cells or not re.search(PERCENT_NAME, name) or not all(re.fullmatch(r"\d{1,3}(\.\d+)?", cell) for cell in cells):
        return False
    values = np.array([float(cell) for cell in cells])
    return bool(1 < values.max() <= 100 and (values[values > 0] >= 1).all())
