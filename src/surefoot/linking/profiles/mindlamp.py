"""mindLAMP: events of sensors and activities as JSON, as its API gives them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from surefoot.errors import InputError
from surefoot.linking.profiles.columns import parse_epoch
from surefoot.linking.profiles.files import AGAIN, ExportFile, iterate_objects
from surefoot.linking.profiles.profile import Profile, Streams, find_folder_name, in_batches, register_profile

OF_PLATFORM = ("activity_event", "activityevent", "sensor_event", "sensorevent", "events", "data", "lamp")
SENSOR = {"timestamp", "sensor", "data"}
ACTIVITY = {"timestamp", "activity", "temporal_slices"}


@register_profile
class MindLamp(Profile):
    """Lists of `SensorEvent` and `ActivityEvent`, by participant or of one.

    A sensor (`lamp.steps`) becomes a stream (`steps`) with the entries of `data` as columns. Activities become the stream
    `activity`, one row per answer (temporal slice), with `item`, `value`, `type`, `level`; an event without answers has one
    row. `timestamp` is in milliseconds since 1970. The participant is the key of the list, as in the API's replies for a
    whole study, or else the folder or the name of the file.

    Sources: docs.lamp.digital; ActivityEvent, SensorEvent and TemporalSlice in the API's description
    (github.com/BIDMCDigitalPsychiatry/LAMP-platform).
    """

    name = "mindlamp"
    title = "mindLAMP"

    def recognize(self, file: ExportFile) -> str | None:
        names = set(file.head.first_object)
        if names >= SENSOR:
            return "its entries have timestamp, sensor and data, as a SensorEvent of mindLAMP"
        if names >= ACTIVITY:
            return "its entries have timestamp, activity and temporal_slices, as an ActivityEvent of mindLAMP"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        for participant, events in _list_participants(file):
            start = 1
            for batch in in_batches(iter(events)):
                by_stream: dict[str, list[tuple[int, dict[str, Any]]]] = {}
                for number, event in enumerate(batch, start):
                    for stream, record in _list_records(event):
                        by_stream.setdefault(stream, []).append((number, record))
                for stream, numbered in by_stream.items():
                    _add_records(file, stream, participant, numbered, streams)
                start += len(batch)


def _list_participants(file: ExportFile) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    if file.head.text.startswith("["):
        yield find_folder_name(file, OF_PLATFORM), iterate_objects(file)
        return
    try:
        content = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: is not complete JSON ({error}); {AGAIN}") from error
    for key, events in content.items():
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise InputError(f"{file}: entry '{key}': is not a list of events; {AGAIN}")
        # The API wraps the reply for one participant in "data".
        yield (find_folder_name(file, OF_PLATFORM) if key == "data" else key), events


def _list_records(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of an event, each with its stream."""
    if "sensor" in event:
        data = event.get("data")
        values = data if isinstance(data, dict) else {"data": data}
        # Sensors repeat the time, or have another one of the device.
        renamed = {("data_timestamp" if name == "timestamp" else name): value for name, value in values.items()}
        yield str(event["sensor"]).removeprefix("lamp."), {"timestamp": event.get("timestamp"), **renamed}
        return
    shared = {name: value for name, value in event.items() if name != "temporal_slices"}
    for answer in event.get("temporal_slices") or [{}]:
        renamed = {("answer_duration" if name == "duration" else name): value for name, value in answer.items()}
        yield "activity", {**shared, **renamed}


def _add_records(
    file: ExportFile, stream: str, participant: str, numbered: list[tuple[int, dict[str, Any]]], streams: Streams
) -> None:
    texts = pa.array(["" if record.get("timestamp") is None else str(record["timestamp"]) for _, record in numbered])
    times = parse_epoch("timestamp", texts, lambda row: f"{file}: entry {numbered[row][0]}", per_second=1_000)
    records = [{name: value for name, value in record.items() if name != "timestamp"} for _, record in numbered]
    streams.add_records(stream, participant, times, records)
