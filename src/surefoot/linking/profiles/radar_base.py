"""RADAR-base: one folder per participant and Kafka topic, with hourly CSV files."""

from surefoot.errors import InputError
from surefoot.linking.profiles.columns import parse_epoch, parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

PARTICIPANT = "key.userId"
SECONDS = ("value.time", "key.timeStart")
MILLISECONDS = ("key.start",)
DATES = ("value.dateTime", "value.date")
RECEIVED = ("value.timeReceived", "value.timeCompleted")


@register_profile
class RadarBase(Profile):
    """RADAR-base's files PROJECT/PARTICIPANT/TOPIC/20260301_0800.csv.gz.

    Columns begin with `key.` and `value.`; `key.userId` names the participant. The time is the first that the file has of
    value.time and key.timeStart (seconds, UTC), key.start (milliseconds), value.dateTime, value.date, and, if there is no
    other, value.timeReceived or value.timeCompleted. The stream is the topic, the name of the folder.

    Sources: radar-base.org/docs/accessing-data, and the README of github.com/RADAR-base/radar-output-restructure.
    """

    name = "radar-base"
    title = "RADAR-base"

    def recognize(self, file: ExportFile) -> str | None:
        header = file.head.header
        if PARTICIPANT in header and any(name.startswith("value.") for name in header):
            return "the columns key.userId and value.… are those of RADAR-base"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        header = file.head.header
        name = next((name for name in (*SECONDS, *MILLISECONDS, *DATES, *RECEIVED) if name in header), None)
        if name is None:
            raise InputError(f"{file}: line 1: there is no column of times such as value.time; extract the topic again")
        if name in RECEIVED:
            streams.note(f"topic '{file.folders[-1]}' has no time of measurement, so {name} is its time")
        for table, name_row in read_tables(file, TableForm()):
            if name in DATES:
                time = parse_times(name, table[name], name_row)
            else:
                time = parse_epoch(name, table[name], name_row, per_second=1_000 if name in MILLISECONDS else 1)
            values = {column: table[column] for column in table.column_names if column not in (name, PARTICIPANT)}
            streams.add(file.folders[-1], table[PARTICIPANT], time, values)
