"""Fitabase: Fitbit data of a study, one file per measure, in rows of minutes, hours, days or seconds."""

import re

import numpy as np
import pyarrow as pa

from surefoot.linking.profiles.columns import parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

TIMES = {
    "ActivityMinute": "minute",
    "ActivityHour": "hourly",
    "ActivityDay": "daily",
    "ActivityDate": "daily",
    "SleepDay": "daily",
}
FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y")
CLOCK = r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}:\d{2}( [AP]M)?$"
FILE_NAME = r"(?i)^(.+?)_(minute|hourly|daily|heartrate|sleep|30second|activit|battery|sync|weight)"


@register_profile
class Fitabase(Profile):
    """Fitabase's CSV files.

    `ActivityMinute,Steps` (narrow), `ActivityHour,Steps00,…,Steps59` (wide), `Time,Value` (heart rate), and hours and days.
    Times are the participant's local times in the form 4/12/2016 1:05:00 PM; no zone is named. Merged files have a column
    `Id`; in a file of one participant the id is the beginning of the file's name. Wide and narrow minutes are the same
    stream: `minuteSteps` with the column `Steps`, one row per minute; an empty cell is a minute without data.

    Source: "Fitabase Fitbit data dictionary" (fitabase.com/resources/knowledge-base).
    """

    name = "fitabase"
    title = "Fitabase"

    def recognize(self, file: ExportFile) -> str | None:
        header = file.head.header
        time = next((name for name in TIMES if name in header), None)
        if time is not None and header.index(time) <= 1 and len(header) > header.index(time) + 1:
            return f"the columns {time} and {header[header.index(time) + 1]} are those of Fitabase"
        if tuple(header[-2:]) != ("Time", "Value") or header[:-2] not in ((), ("Id",)):
            return None
        times = [row[-2] for row in file.head.records[1:] if len(row) == len(header)]
        if times and all(re.match(CLOCK, cell) for cell in times):
            return "the columns Time and Value are those of heart rates of Fitabase"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        time = next((name for name in TIMES if name in file.head.header), "Time")
        named = re.match(FILE_NAME, file.stem)
        for table, name_row in read_tables(file, TableForm(file.head.separator)):
            participant = table["Id"] if "Id" in table.column_names else named[1] if named else file.stem
            times = parse_times(time, table[time], name_row, FORMATS)
            names = [name for name in table.column_names if name not in ("Id", time)]
            measure = re.sub(r"00$", "", names[0])
            if names == [f"{measure}{minute:02d}" for minute in range(60)]:
                _add_minutes(table, participant, times, measure, streams)
            else:
                stream = "heartrate" if time == "Time" else f"{TIMES[time]}{names[0]}"
                streams.add(stream, participant, times, {name: table[name] for name in names})


def _add_minutes(table: pa.Table, participant: pa.Array | str, hours: pa.Array, measure: str, streams: Streams) -> None:
    """One row per minute from the sixty columns of an hour."""
    rows = np.repeat(np.arange(len(table)), 60)
    minutes = np.tile(np.arange(60) * 60_000_000, len(table))
    starts = hours.cast(pa.int64()).to_numpy(zero_copy_only=False)
    cells = np.stack([table[f"{measure}{minute:02d}"].to_numpy() for minute in range(60)], axis=1).ravel()
    missing = np.asarray(hours.is_null())[rows]
    offsets = np.where(missing, 0, starts[rows]).astype(np.int64) + minutes
    times = pa.array(offsets, pa.int64(), mask=missing).cast(pa.timestamp("us"))
    ids = participant if isinstance(participant, str) else participant.take(pa.array(rows))
    streams.add(f"minute{measure}", ids, times, {measure: pa.array(cells, pa.large_string())})
