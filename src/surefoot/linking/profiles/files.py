"""The files of an export: one file, a folder, or a zip archive that is read without unpacking it to disk."""

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile

import pyarrow as pa

from surefoot.data import file_formats
from surefoot.data.file_detection import detect_encoding
from surefoot.data.log_columns import FileSettings, Place
from surefoot.errors import InputError

HEAD_BYTES = 2**18
"""Bytes by which a file is recognised; wide surveys have long headers."""
HEAD_RECORDS = 20
MOST_BYTES = 2**30
"""A file that can only be read at once is no larger, unpacked."""
BATCH_BYTES = 2**24
"""A larger table is read in batches of this size."""
JSON_BYTES = 2**20
MOST_OBJECT_BYTES = 2**26
AGAIN = "export it again, and do not save it with a spreadsheet"
ARCHIVE = b"PK\x03\x04"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OF_SYSTEMS = re.compile(r"(^|/)(\.|__MACOSX(/|$)|~\$|Thumbs\.db$|desktop\.ini$)")
"""Files that operating systems and spreadsheets leave behind."""


@dataclass(frozen=True)
class ExportFile:
    """One file of an export, on disk or in an archive; `.gz` is unpacked."""

    path: Path
    member: str | None = None
    """Its name in the archive at `path`."""

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    @property
    def name(self) -> str:
        """Without folders and without `.gz`."""
        return PurePosixPath(self.member or self.path.name).name.removesuffix(".gz")

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of its folders, the outermost first; an archive is one, by its name without `.zip`."""
        outside = self.path.resolve().parent.parts[1:]
        return outside if self.member is None else (*outside, self.path.stem, *PurePosixPath(self.member).parent.parts)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes as a stream; a damaged file is refused, also while it is read."""
        with ExitStack() as stack:
            try:
                if self.member is None:
                    stream: IO[bytes] = stack.enter_context(self.path.open("rb"))
                else:
                    stream = stack.enter_context(stack.enter_context(ZipFile(self.path)).open(self.member))
                if (self.member or self.path.name).lower().endswith(".gz"):
                    stream = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=stream)))
                yield stream
            except (OSError, EOFError, zlib.error, BadZipFile, NotImplementedError) as error:
                raise InputError(f"{self}: cannot be read ({error}); copy or export it again") from error

    def read(self) -> bytes:
        """All bytes, unpacked."""
        with self.open() as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{self}: holds more than 1 GB; export fewer participants or days at a time")
        return data

    @cached_property
    def head(self) -> "FileHead":
        with self.open() as stream:
            return FileHead(stream.read(HEAD_BYTES))

    @property
    def is_large(self) -> bool:
        """Whether a table is read in batches; packed text is assumed to become five times as long."""
        size = self.path.stat().st_size
        if self.member is not None:
            with ZipFile(self.path) as archive:
                size = archive.getinfo(self.member).file_size
        return size * (5 if str(self).endswith(".gz") else 1) > BATCH_BYTES


@dataclass(frozen=True)
class FileHead:
    """The beginning of a file, by which profiles recognise it."""

    data: bytes

    @property
    def encoding(self) -> str:
        return "utf-16" if self.data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"

    @cached_property
    def text(self) -> str:
        return self.data.decode(self.encoding, errors="replace").lstrip()

    @cached_property
    def separator(self) -> str:
        """The one that cuts the first line into most fields."""
        line = self.text.partition("\n")[0]
        return max(file_formats.SEPARATORS, key=line.count)

    @cached_property
    def records(self) -> list[list[str]]:
        """The first rows of a table; none for a file in another form."""
        if self.text.startswith(("[", "{", "<")) or "\0" in self.text:
            return []
        csv.field_size_limit(file_formats.BLOCK_BYTES)
        rows = csv.reader(io.StringIO(self.text, newline=""), delimiter=self.separator)
        return [[field.strip() for field in fields] for fields in islice(filter(None, rows), HEAD_RECORDS)]

    @cached_property
    def header(self) -> tuple[str, ...]:
        return tuple(self.records[0]) if self.records else ()

    @cached_property
    def first_object(self) -> dict[str, Any]:
        """The first object of a JSON list, also of a list in an object; empty for a file in another form."""
        beginning = re.match(r"(\[|\{\s*\"[^\"]*\"\s*:\s*\[)\s*(?=\{)", self.text)
        if beginning is None:
            return {}
        try:
            value, _ = json.JSONDecoder().raw_decode(self.text, beginning.end())
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", value)


def list_export_files(path: Path) -> list[ExportFile]:
    """The file itself, or the files of a folder or of an archive, by name; archives in a folder are opened too."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder; check the name")
    paths = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    files = []
    for file in paths:
        if path.is_dir() and OF_SYSTEMS.search(file.relative_to(path).as_posix()):
            continue
        files += _list_members(file) if _is_archive(file) else [ExportFile(file)]
    return files


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE and path.suffix.lower() not in (".xlsx", ".docx", ".ods")


def _list_members(path: Path) -> list[ExportFile]:
    try:
        with ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
    except BadZipFile as error:
        raise InputError(f"{path}: is a damaged zip archive ({error}); copy or export it again") from error
    if any(member.flag_bits & 1 for member in members):
        raise InputError(f"{path}: is an encrypted zip archive; unpack it with its password and give the folder")
    names = sorted(member.filename for member in members)
    return [ExportFile(path, name) for name in names if not OF_SYSTEMS.search(name)]


@dataclass(frozen=True)
class TableForm:
    """How a platform writes tables."""

    separator: str = ","
    header_rows: int = 1
    decimal: str = "."
    ragged: bool = False
    escapes: bool = False
    """Quotes within texts are written as backslash and quote, as in JSON."""


def read_tables(file: ExportFile, form: TableForm) -> Iterator[tuple[pa.Table, Place]]:
    """The columns of a table as text, and the names of their rows: at once, or in batches if the file is large."""
    if file.is_large and not form.ragged and not form.escapes:
        yield from _stream_tables(file, form)
        return
    shown = Path(str(file).removesuffix(".gz"))
    data = file.read().removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise InputError(f"{file}: the file is empty; export it again")
    text = file_formats.decode_text(shown, data, detect_encoding(data))
    if form.escapes:
        text = text.replace(b'\\"', b'""')
    settings = FileSettings(form.separator, form.header_rows, form.ragged)
    try:
        yield file_formats.read_table(shown, text, settings)
    except InputError as error:
        raise _explain_rows(file, text, settings, error) from error


def _stream_tables(file: ExportFile, form: TableForm) -> Iterator[tuple[pa.Table, Place]]:
    from pyarrow import csv as arrow_csv

    names = list(file.head.header)
    # Arrow skips a byte order mark by itself, and is slow with any other encoding.
    encoding = file.head.encoding.removesuffix("-sig")
    start = 1
    with file.open() as stream:
        try:
            batches = arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(
                    block_size=BATCH_BYTES,
                    column_names=names,
                    skip_rows_after_names=form.header_rows,
                    encoding=encoding,
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
                ),
            )
            for batch in batches:
                yield pa.Table.from_batches([batch]), partial(_name_row, file, start)
                start += batch.num_rows
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{file}: after row {start - 1:,}: {error}; export it again") from error


def _name_row(file: ExportFile, first: int, row: int) -> str:
    return f"{file}: row {first + row}"


def _explain_rows(file: ExportFile, text: bytes, settings: FileSettings, error: InputError) -> InputError:
    """The first row that does not fit the header, with the remedy for an export; else the error as it is."""
    records = list(file_formats.read_records(text, settings.separator))
    width = len(records[0][1]) if records else 0
    for line, fields in records:
        if not file_formats.fits_header(fields, width, settings):
            problem = f"{file}: line {line}: {len(fields)} fields where the header has {width}"
            is_cut = line == records[-1][0] and not text.endswith((b"\n", b"\r"))
            remedy = "the file ends in the middle of this row: " if is_cut else ""
            return InputError(f"{problem}; {remedy}{AGAIN}", row=line)
    return error


def iterate_objects(file: ExportFile) -> Iterator[dict[str, Any]]:
    """The objects of a JSON list, one after the other."""
    decoder = json.JSONDecoder()
    with file.open() as stream:
        text = io.TextIOWrapper(stream, encoding=file.head.encoding, errors="replace")
        buffer = text.read(JSON_BYTES).lstrip()
        position = 1
        number = 0
        while True:
            position = _skip_commas(buffer, position)
            if buffer[position : position + 1] == "]":
                return
            try:
                value, position = decoder.raw_decode(buffer, position)
            except (ValueError, RecursionError) as error:
                chunk = text.read(JSON_BYTES)
                if not chunk or len(buffer) - position > MOST_OBJECT_BYTES:
                    problem = f"{file}: entry {number + 1}: is cut off or damaged ({error})"
                    raise InputError(f"{problem}; export it again", row=number) from error
                buffer = buffer[position:] + chunk
                position = 0
                continue
            number += 1
            if not isinstance(value, dict):
                raise InputError(f"{file}: entry {number}: is not an object; export it again", row=number - 1)
            yield value


def name_entry(file: ExportFile, first: int, row: int) -> str:
    """The name of an entry of a list in messages."""
    return f"{file}: entry {first + row}"


def _skip_commas(text: str, position: int) -> int:
    match = re.compile(r"[\s,]*").match(text, position)
    return position if match is None else match.end()
