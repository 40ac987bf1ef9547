"""Files of logs as tables: separated text (also packed), Excel workbooks, Parquet; unreadable files are refused."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from itertools import islice
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefoot.data.locations import Location, find_store, map_files
from surefoot.data.log_columns import MOST_SHOWN, FileSettings, Place, spell, value_family
from surefoot.errors import InputError, did_you_mean

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET = (".parquet",)
EXCEL = (".xlsx",)
LOG_SUFFIXES = (*TEXT, *PARQUET, *EXCEL)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive (an Excel workbook is one too), not text; unpack it, or name it .xlsx if it is a workbook",
    b"PAR1": "a Parquet file, not text; name it .parquet",
    b"\x1f\x8b": "compressed; name it .csv.gz or .tsv.gz",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls), not text; save it as .xlsx or .csv",
    b"SQLite format 3": "a SQLite database, not text; export the table as .csv",
}
"""The first bytes of files that are not text."""
HEADER_RECORDS = 10
"""Records that are examined to find the header."""
MOST_HEADER_ROWS = 3
"""Qualtrics writes this many: names, questions, and where each came from."""
BLOCK_BYTES = 2**22
"""Bytes that pyarrow parses at a time; no record is longer."""


def has_suffix(path: Location, suffixes: tuple[str, ...]) -> bool:
    """Whether a file's name ends in one of these, in any case."""
    return path.name.lower().endswith(suffixes)


def read_table(
    path: Location,
    data: bytes | None,
    settings: FileSettings,
    names: Sequence[str] | None = None,
    also: str | None = None,
    groups: Sequence[int] = (),
) -> tuple[pa.Table, Place]:
    """Columns of a file as they are (text from text files, typed from Parquet), and the names of its rows.

    `data` are the file's bytes if they were read already, `names` the columns to read (all by default), `also` a pattern
    of the names of further columns, and `groups` the row groups of a Parquet file to read (all by default).
    """
    if has_suffix(path, PARQUET):
        return _read_parquet_table(path, data, names, also, groups), lambda row: f"{path}: row {row}"
    data = path.read_bytes() if data is None else data
    if has_suffix(path, EXCEL):
        table = _read_workbook(path, data, settings, names, also)
        return table, lambda row: f"{path}: row {row + 1 + settings.header_rows}"
    text = decode_text(path, data, settings.encoding)
    settings = choose_separator(path, settings)
    return read_text(path, text, settings, names, also), _name_lines(path, text, settings)


def choose_columns(
    path: Location | None, header: Sequence[str], names: Sequence[str] | None, also: str | None = None
) -> list[str]:
    """The columns of a file or a frame that are read: `names`, or all, and those that `also` matches."""
    if names is None:
        return list(header)
    for name in names:
        if name not in header:
            problem = f"there is no column '{name}'{did_you_mean(name, header)}; the table has {list(header)}"
            raise InputError(problem if path is None else f"{path}: {problem}", column=name)
    further = [] if also is None else [name for name in header if re.search(also, name) and name not in names]
    return [*names, *further]


# Text


def choose_separator(path: Location, settings: FileSettings) -> FileSettings:
    """The settings of a text file with a separator: a comma, or a tab in .tsv, unless the study says otherwise."""
    usual = "\t" if ".tsv" in path.name else ","
    return settings if settings.separator else replace(settings, separator=usual)


def unpack(path: Location, data: bytes) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    if path.suffix.lower() != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); compress it again with gzip") from error


def decode_text(path: Location, data: bytes, encoding: str) -> bytes:
    """The bytes of a text file, which may be packed, as UTF-8 without a byte order mark."""
    data = unpack(path, data)
    for beginning, problem in OTHER_FORMATS.items():
        if data.startswith(beginning):
            raise InputError(f"{path}: is {problem}")
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig"):
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            remedy = 'save it as UTF-8, or write encoding = "utf-16" in [file]'
            raise InputError(f"{path}: line 1: the file is written in UTF-16; {remedy}")
        data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{path}: the file is empty; it needs a header line and at least one decision point")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save the file as UTF-8, or name its encoding in [file] (surefoot init finds it)"
        problem = f"byte 0x{data[error.start]:02x} is not {error.encoding.upper()}"
        raise InputError(f"{path}: line {line}: {problem}; {remedy}") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line}: a zero byte, which no text holds; save the file as text")
    return data if encoding == "utf-8" else text.encode()


def read_records(text: bytes, separator: str | None) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every record that is not an empty line, as pyarrow counts them.

    A field of more than `BLOCK_BYTES` ends the records: a quote was opened there and never closed.
    """
    csv.field_size_limit(BLOCK_BYTES)
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline=""), delimiter=separator or ",")
    begins = 1
    try:
        for fields in reader:
            if fields:
                yield begins, fields
            begins = reader.line_num + 1
    except csv.Error:
        yield begins, ["\n"]


def fits_header(fields: list[str], width: int, settings: FileSettings) -> bool:
    """Whether a row with these fields can be read below a header of that width."""
    return not any(field.strip() for field in fields[width:]) if settings.ragged else len(fields) == width


def read_text(
    path: Location, text: bytes, settings: FileSettings, names: Sequence[str] | None = None, also: str | None = None
) -> pa.Table:
    """Columns of separated text as text."""
    from pyarrow import csv as arrow_csv

    header = _read_header(path, text, settings)
    columns = choose_columns(path, header, names, also)
    padded = text
    if settings.ragged:
        # As many fields in every row as the header has; wider rows that hold something stay as they are.
        rows = io.StringIO(newline="")
        writer = csv.writer(rows, delimiter=settings.separator or ",", quoting=csv.QUOTE_ALL, lineterminator="\n")
        for _, fields in read_records(text, settings.separator):
            row = fields + [""] * (len(header) - len(fields))
            writer.writerow(row[: len(header)] if fits_header(fields, len(header), settings) else row)
        padded = rows.getvalue().encode()
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(padded),
            # Column names are given, so that the rows of the header are read with the others.
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, column_names=header),
            parse_options=arrow_csv.ParseOptions(delimiter=settings.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()), include_columns=columns, strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise _explain_fields(path, text, settings, len(header), error) from error
    table = table.slice(settings.header_rows)
    # Files put together from several repeat the names of the columns.
    repeated = np.arange(len(table))
    for name in filter(None, table.column_names):
        repeated = repeated[pc.equal(pc.utf8_trim_whitespace(table[name].take(repeated)), name).to_numpy()]
    if repeated.size and any(table.column_names):
        others = f" (and {repeated.size - 1} more)" if repeated.size > 1 else ""
        line = _name_lines(path, text, settings)(int(repeated[0]))
        raise InputError(f"{line}: a second header{others}; delete that line")
    return table


def _read_header(path: Location, text: bytes, settings: FileSettings) -> list[str]:
    """The names of the columns."""
    records = list(islice(read_records(text, settings.separator), HEADER_RECORDS))
    first = records[0][1] if records else [""]
    hint = str(settings.separator).join(first)
    if re.fullmatch("sep=.", hint):
        raise InputError(f"{path}: line 1: '{hint}' is a hint for Excel, not the header; delete that line")
    for other, name in SEPARATORS.items():
        if len(first) == 1 and other in first[0]:
            shown = "\\t" if other == "\t" else other
            raise InputError(
                f"{path}: line 1: the columns are separated by {name}, not by {_describe_separator(settings)}; "
                f'write separator = "{shown}" in [file] (surefoot init finds it)'
            )
    wider = [(line, len(fields)) for line, fields in records if len(fields) > 1]
    if len(first) == 1 and wider:
        problem = f"{path}: line 1: one field ('{first[0]}') where line {wider[0][0]} has {wider[0][1]}"
        raise InputError(f"{problem}; delete the lines above the header")
    for number, (line, fields) in enumerate(records[settings.header_rows : MOST_HEADER_ROWS], settings.header_rows + 1):
        if is_import_row(fields):
            remedy = f"write header_rows = {number} in [file] (surefoot init finds it)"
            raise InputError(f"{path}: line {line}: belongs to the header, as Qualtrics writes it; {remedy}")
    return _name_columns(f"{path}: line 1", first)


def is_import_row(fields: Sequence[str]) -> bool:
    """Whether a row is the last row of a header of Qualtrics: `{"ImportId":"QID1"}` in every column."""
    return any(re.match(r'\s*\{"ImportId"', field) for field in fields)


def _name_columns(header: str, fields: Sequence[str]) -> list[str]:
    """The names of a header without surrounding blanks; the second and later columns without a name get one."""
    names: list[str] = []
    for number, field in enumerate(fields, 1):
        name = field.strip()
        if name in names and name:
            is_data = re.fullmatch(r"[-+]?[\d.]+", name)
            remedy = "write a line with the names of the columns above it" if is_data else "rename one"
            raise InputError(f"{header}: two columns are called '{name}'; {remedy}", column=name)
        names.append(f"column {number}" if name in names else name)
    return names


def _describe_separator(settings: FileSettings) -> str:
    return SEPARATORS.get(str(settings.separator), str(settings.separator))


def _name_lines(path: Location, text: bytes, settings: FileSettings) -> Place:
    """Row → line of the file, found only when a message needs it (quoted fields may run over several lines)."""

    @cache
    def list_lines() -> list[int]:
        return [line for line, _ in read_records(text, settings.separator)]

    def name_row(row: int) -> str:
        record = row + settings.header_rows
        return f"{path}: line {list_lines()[record] if record < len(list_lines()) else record + 1}"

    return name_row


def _explain_fields(path: Location, text: bytes, settings: FileSettings, width: int, error: Exception) -> InputError:
    """The rows that do not have as many fields as the header, each with its remedy."""
    records = list(read_records(text, settings.separator))
    wrong = [(line, fields) for line, fields in records if not fits_header(fields, width, settings)]
    if not wrong:
        return InputError(f"{path}: cannot be read as separated columns ({error})")
    lengths = {len(fields) for _, fields in wrong}
    if len(wrong) == len(records) - 1 and lengths == {width + 1} and any(fields[-1].strip() for _, fields in wrong):
        problem = f"{path}: line 1: the header has {width} fields and every row below {width + 1}"
        return InputError(f"{problem}; give the first column a name (R writes row names without one)")
    lines = []
    for line, fields in wrong[:MOST_SHOWN]:
        remedy = f"put quotes around text with {_describe_separator(settings)}"
        if "\n" in fields[-1]:
            remedy = "a quote is opened there and never closed"
        elif len(fields) < width:
            remedy = "complete the row or delete it, or write ragged = true in [file] if its last fields are missing"
        elif not any(field.strip() for field in fields[width:]):
            remedy = "delete the separators at its end, or write ragged = true in [file]"
        elif settings.separator == ",":
            remedy = f"write decimals with a point, and {remedy}"
        count = f"{len(fields)} field{'s' * (len(fields) != 1)}"
        lines.append(f"{path}: line {line}: {count} where the header has {width}; {remedy}")
    if len(wrong) > MOST_SHOWN:
        lines.append(f"These are the first {MOST_SHOWN} of {len(wrong)} problems.")
    return InputError("\n".join(lines))


# Excel


def _read_workbook(
    path: Location, data: bytes, settings: FileSettings, names: Sequence[str] | None, also: str | None
) -> pa.Table:
    """Columns of a sheet; its first row is the header."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise InputError(f"{path}: Excel workbooks need openpyxl; install it with: pip install 'surefoot[excel]'") from None
    try:
        book = load_workbook(io.BytesIO(data), data_only=True)
    except (BadZipFile, InvalidFileException, KeyError, ValueError, OSError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as an Excel workbook ({error})") from error
    sheet = book.sheetnames[0] if settings.sheet is None else settings.sheet
    if sheet not in book.sheetnames:
        near = did_you_mean(sheet, book.sheetnames)
        raise InputError(f"{path}: there is no sheet '{sheet}'{near}; the workbook has {book.sheetnames}")
    rows = list(book[sheet].iter_rows(values_only=True))
    cells = ["" if cell is None else str(cell).strip() for cell in (rows[0] if rows else ())]
    while cells and cells[-1] == "":
        cells.pop()
    header = _name_columns(f"{path}: row 1", cells)
    # Excel keeps formatted but empty rows at the end.
    while len(rows) > 1 and all(cell is None for cell in rows[-1]):
        rows.pop()
    columns = {name: header.index(name) for name in choose_columns(path, header, names, also)}
    body = rows[settings.header_rows :]
    return pa.table({name: _type_cells([row[position] for row in body]) for name, position in columns.items()})


def _type_cells(cells: list[Any]) -> pa.Array:
    """Numbers, yes/no values or times if all cells are, else text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} or kinds <= {bool}:
        return pa.array(cells, pa.float64() if float in kinds else None)
    if kinds == {datetime}:
        return pa.array(cells, pa.timestamp("us"))
    texts = [cell.isoformat() if isinstance(cell, date) else None if cell is None else spell(cell) for cell in cells]
    return pa.array(texts, pa.large_string())


# Parquet


def open_parquet(path: Location, data: bytes | None = None) -> Any:
    """An open Parquet file, or its bytes opened as one."""
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
    """A table that this package wrote: a file, or a folder of files that are one table."""
    from pyarrow import parquet

    source, store = find_store(path)
    return parquet.read_table(source, columns=columns, filesystem=store)


def list_row_groups(path: Location, rows: int) -> list[tuple[tuple[int, ...], int]]:
    """The row groups of a Parquet file in sets of about so many rows, and the number of rows of each set."""
    metadata = open_parquet(path).metadata
    sizes = np.array([metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)], dtype=np.int64)
    middle = np.cumsum(sizes) - sizes / 2
    sets = np.minimum(middle // rows, max(round(sizes.sum() / rows), 1) - 1)
    return [(tuple(np.flatnonzero(sets == number).tolist()), int(sizes[sets == number].sum())) for number in np.unique(sets)]


def _read_parquet_table(
    path: Location, data: bytes | None, names: Sequence[str] | None, also: str | None, groups: Sequence[int]
) -> pa.Table:
    """Columns of a Parquet file, checked down to the encoding of their text."""
    file = open_parquet(path, data)
    columns = choose_columns(path, list(file.schema_arrow.names), names, also)
    try:
        # A column called "a.b" is a column, not a field of "a": select by name from what was read.
        numbers = list(groups) or range(file.metadata.num_row_groups)
        table = file.read_row_groups(list(numbers), columns=columns).select(columns)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error
    return table


def check_files(files: list[Location], columns: Sequence[str]) -> list[Location]:
    """The Parquet files of a folder that have rows.

    Files whose columns of one name hold different kinds of values are refused; an empty column goes with any.
    """

    def read_footer(file: Location) -> tuple[pa.Schema, int]:
        with open_parquet(file) as opened:
            return opened.schema_arrow, opened.metadata.num_rows

    first: dict[str, tuple[str, Location]] = {}
    filled = []
    for file, (schema, rows) in zip(files, map_files(read_footer, files), strict=True):
        for name in choose_columns(file, schema.names, columns):
            family = value_family(schema.field(name).type)
            known, source = first.setdefault(name, (family, file))
            if known == "nothing":
                first[name] = (family, file)
            elif family not in (known, "nothing"):
                reason = f"column '{name}' holds {family}, but {known} in {source}"
                raise InputError(f"{file}: {reason}; write all files with one schema", column=name)
        if rows:
            filled.append(file)
    return filled
