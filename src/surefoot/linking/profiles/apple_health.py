"""Apple Health: the export.xml of a phone, which may hold gigabytes, read as a stream."""

from typing import Any
from xml.parsers import expat

import pyarrow as pa

from surefoot.errors import InputError
from surefoot.linking.profiles.columns import parse_times
from surefoot.linking.profiles.files import AGAIN, ExportFile
from surefoot.linking.profiles.profile import BATCH_RECORDS, Profile, Streams, find_folder_name, register_profile

CHUNK_BYTES = 2**20
PREFIXES = ("HKQuantityTypeIdentifier", "HKCategoryTypeIdentifier", "HKDataType")
OF_PLATFORM = ("apple_health_export", "export", "exportieren", "exportar")
LEFT_OUT = ("device", "sourceVersion", "creationDate", "startDate", "type")


@register_profile
class AppleHealth(Profile):
    """Apple Health's export.xml, also in export.zip.

    Every type of record becomes a stream (`StepCount`, `HeartRate`, `SleepAnalysis`, …), and so do workouts; the time is
    `startDate` in UTC, and `endDate` its end. The offsets in the file are those of the phone when it exported and do not
    tell where the participant was. Records inside a `Correlation` stand in the file a second time and are counted as such.
    Phone and watch both count steps: `sourceName` tells them apart.

    Sources: the DTD at the top of every export.xml; "In defence of XML" (tdda.info) and "Apple Health export"
    (johngoldin.com/blog/apple-health-export-1) describe it.
    """

    name = "apple-health"
    title = "Apple Health"
    ends = "endDate"

    def recognize(self, file: ExportFile) -> str | None:
        if file.head.text.startswith("<") and ("<HealthData" in file.head.text or "<!DOCTYPE HealthData" in file.head.text):
            return "its root element is HealthData, as Apple Health writes it"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        _HealthReader(file, streams).read()


class _HealthReader:
    """Collects the records of one file, type by type, and hands them over in batches."""

    def __init__(self, file: ExportFile, streams: Streams) -> None:
        self.file = file
        self.streams = streams
        self.participant = find_folder_name(file, OF_PLATFORM)
        self.correlations = 0
        self.pending: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        # Entities can make a small file endless and reach other files; the export has none.
        self.parser.EntityDeclHandler = self._refuse_entity

    def read(self) -> None:
        with self.file.open() as stream:
            try:
                while chunk := stream.read(CHUNK_BYTES):
                    self.parser.Parse(chunk, False)
                self.parser.Parse(b"", True)
            except expat.ExpatError as error:
                problem = expat.errors.messages.get(error.code, str(error.code))
                raise InputError(f"{self.file}: line {error.lineno}: is not complete XML ({problem}); {AGAIN}") from error
        for kind in list(self.pending):
            self._hand_over(kind)

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if element == "Correlation":
            self.correlations += 1
        if element == "Record" and self.correlations:
            self.streams.leave_out("records that a Correlation repeats", 1)
        elif element in ("Record", "Workout"):
            kind = attributes.get("type", element)
            for prefix in PREFIXES:
                kind = kind.removeprefix(prefix)
            batch = self.pending.setdefault(kind, [])
            batch.append((self.parser.CurrentLineNumber, attributes))
            if len(batch) >= BATCH_RECORDS:
                self._hand_over(kind)
        elif element in ("ActivitySummary", "ClinicalRecord", "Audiogram", "VisionPrescription"):
            self.streams.leave_out(f"elements {element}, which are not read", 1)

    def _end(self, element: str) -> None:
        self.correlations -= element == "Correlation"

    def _hand_over(self, kind: str) -> None:
        batch = self.pending.pop(kind)
        texts = pa.array([attributes.get("startDate", "") for _, attributes in batch], pa.string())
        times = parse_times("startDate", texts, lambda row: f"{self.file}: line {batch[row][0]}")
        records = [{name: text for name, text in attributes.items() if name not in LEFT_OUT} for _, attributes in batch]
        self.streams.add_records(kind, self.participant, times, records)

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise InputError(f"{self.file}: declares the entity '{name}', which no export does; {AGAIN}")
