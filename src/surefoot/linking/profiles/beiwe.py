"""Beiwe: raw data of phones, in hourly files below a folder per participant and data stream."""

import re

from surefoot.linking.profiles.columns import parse_epoch
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

TIME_COLUMNS = ("timestamp", "UTC time")
STREAM_NAMES = (
    *("accelerometer", "ambient_audio", "android_log", "app_log", "audio_recordings", "bluetooth", "calls", "devicemotion"),
    *("gps", "gyro", "identifiers", "image_survey", "ios_log", "magnetometer", "power_state", "proximity", "reachability"),
    *("survey_answers", "survey_timings", "texts", "wifi"),
)
SURVEY_ID = r"^[0-9a-zA-Z]{24}$"


@register_profile
class Beiwe(Profile):
    """Beiwe's files PARTICIPANT/STREAM/…/2026-03-01 08_00_00+00_00.csv.

    All begin with `timestamp`, in milliseconds since 1970 (UTC), and most have `UTC time` too, which says the same and is
    left out. A stream is named after its folder; survey_timings has a further folder per survey, and one row for every
    answer that was given or changed.

    Sources: Beiwe's wiki, "Active data" and "Passive data" (github.com/onnela-lab/beiwe-backend/wiki), and the headers in
    that repository.
    """

    name = "beiwe"
    title = "Beiwe"

    def recognize(self, file: ExportFile) -> str | None:
        if file.head.header[:2] == TIME_COLUMNS and len(file.head.header) > 2:
            return "the first columns are Beiwe's timestamp and UTC time"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        folders = [name for name in file.folders if not re.match(SURVEY_ID, name)]
        position = next(
            (number for number, name in reversed(list(enumerate(folders))) if name in STREAM_NAMES), len(folders)
        )
        unnamed = "survey_timings" if "question id" in file.head.header else "-".join(file.head.header[2:])
        stream = folders[position] if position < len(folders) else unnamed
        participant = folders[position - 1]
        for table, name_row in read_tables(file, TableForm()):
            time = parse_epoch("timestamp", table["timestamp"], name_row, per_second=1_000)
            values = {name: table[name] for name in table.column_names if name not in TIME_COLUMNS}
            streams.add(stream, participant, time, values)
