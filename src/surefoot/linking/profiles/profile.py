"""Profile: how to recognise and read what one platform exports; and the streams that profiles fill."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from surefoot.data.log_columns import MISSING, PLAIN, FileSettings, settle_missing, whole_array
from surefoot.errors import InputError
from surefoot.linking.profiles.columns import join_types, type_cells
from surefoot.linking.profiles.files import ExportFile
from surefoot.registry import Registry

BATCH_RECORDS = 50_000
NO_TIME = "rows without a time"
NO_PARTICIPANT = "rows without a participant"
RESERVED = ("participant", "time", "zone")


class Profile(ABC):
    """What one platform exports: how its files are recognised, and how their rows become streams.

    The time of a row is the time at which it was complete (a survey's end), except in sensor data, where it is the
    beginning of the interval.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The platform's name in sentences."""
    ends: ClassVar[str | None] = None
    """The column with the ends of rows that are about intervals of any length."""
    holds_decisions: ClassVar[bool] = False
    """Whether the rows are decision points, not measurements to link to them."""

    @abstractmethod
    def recognize(self, file: ExportFile) -> str | None:
        """What in a file, not in its name, is as this platform writes it; None if the file is not of this platform."""

    @abstractmethod
    def read(self, file: ExportFile, streams: "Streams") -> None:
        """Add the rows of a file that was recognised."""


PROFILES = Registry[Profile]("profile")


def register_profile(profile: type[Profile]) -> type[Profile]:
    """Make a platform's exports known to `read_export` and to `surefoot init`."""
    PROFILES.register(profile())
    return profile


@dataclass
class Streams:
    """The streams of an export while its files are read: every row is added, or left out for a reason."""

    rows_in: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """Choices that a reader of the data must know, such as which column names the participants."""
    batches: dict[str, list[pa.Table]] = field(default_factory=dict)

    def leave_out(self, reason: str, rows: int) -> None:
        """Count rows that become part of no stream."""
        self.rows_in += rows
        if rows:
            self.left_out[reason] += rows

    def note(self, sentence: str) -> None:
        """Say a choice once, however many files it was made in."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def add(
        self,
        stream: str,
        participant: pa.Array | str,
        time: pa.Array,
        values: Mapping[str, pa.Array],
        zone: str | None = None,
        settings: FileSettings = PLAIN,
    ) -> None:
        """Add rows, whose `values` are texts that get their types here.

        Times without a zone are local, with the name of the `zone`, None if the export does not say it.
        """
        rows = len(time)
        cells = pa.array([participant] * rows, pa.string()) if isinstance(participant, str) else whole_array(participant)
        ids = settle_missing(cells, MISSING).cast(pa.string())
        columns = {"participant": ids, "time": time}
        if time.type.tz is None:
            columns["zone"] = pa.array([zone] * rows, pa.string())
        for name, texts in values.items():
            columns[f"export_{name}" if name in RESERVED else name or "unnamed"] = type_cells(texts, settings)
        unnamed = ids.null_count
        untimed = pc.sum(pc.and_(ids.is_valid(), time.is_null())).as_py() or 0
        self.leave_out(NO_PARTICIPANT, unnamed)
        self.leave_out(NO_TIME, untimed)
        self.rows_in += rows - unnamed - untimed
        table = pa.table(columns)
        if unnamed or untimed:
            table = table.filter(pc.and_(ids.is_valid(), time.is_valid()))
        self.batches.setdefault(stream, []).append(table)

    def add_records(
        self, stream: str, participant: str, time: pa.Array, records: Sequence[Mapping[str, Any]], zone: str | None = None
    ) -> None:
        """Add objects of JSON or XML; what is neither a number nor a text stays JSON."""
        names = dict.fromkeys(name for record in records for name in record)
        values = {name: pa.array([spell_value(record.get(name)) for record in records], pa.string()) for name in names}
        self.add(stream, participant, time, values, zone)

    def join(self) -> dict[str, pa.Table]:
        """Every stream as one table."""
        return {stream: _join_batches(stream, batches) for stream, batches in self.batches.items()}


def in_batches(records: Iterator[Any]) -> Iterator[list[Any]]:
    """Records in lists of bounded length."""
    while batch := list(islice(records, BATCH_RECORDS)):
        yield batch


def find_folder_name(file: ExportFile, of_platform: Sequence[str]) -> str:
    """The participant of a file: its innermost folder, or its own name, that the platform did not name itself.

    `of_platform` are the beginnings of the platform's names, in lower case.
    """
    candidates = [*file.folders, file.stem]
    usual = [name for name in candidates if not name.lower().startswith(tuple(of_platform))]
    return (usual or candidates)[-1]


def spell_value(value: Any) -> str | None:
    """A value of JSON as a text that keeps it."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _join_batches(stream: str, batches: Sequence[pa.Table]) -> pa.Table:
    if len({batch.schema.field("time").type for batch in batches}) > 1:
        raise InputError(f"stream '{stream}': some files hold times with a zone and some without; read them one by one")
    kinds: dict[str, list[pa.DataType]] = {}
    for batch in batches:
        for column in batch.schema:
            kinds.setdefault(column.name, []).append(column.type)
    schema = pa.schema([(name, join_types(types)) for name, types in kinds.items()])
    return pa.concat_tables([_fit_schema(batch, schema) for batch in batches])


def _fit_schema(batch: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        batch[column.name].cast(column.type) if column.name in batch.column_names else pa.nulls(len(batch), column.type)
        for column in schema
    ]
    return pa.table(columns, schema=schema)
