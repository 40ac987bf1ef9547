"""Fitbit's export of an account: JSON files per day or month and measure."""

import re
from functools import partial
from typing import Any

import pyarrow as pa

from surefoot.linking.profiles.columns import UTC, parse_times
from surefoot.linking.profiles.files import ExportFile, iterate_objects, name_entry
from surefoot.linking.profiles.profile import Profile, Streams, find_folder_name, in_batches, register_profile

DATE = r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d$"
FORMATS = ("%m/%d/%y %H:%M:%S",)
WITHIN_DAYS = ("altitude", "calories", "distance", "heart_rate", "steps")
DAILY = (
    *("demographic_vo2_max", "lightly_active_minutes", "moderately_active_minutes", "resting_heart_rate"),
    *("sedentary_minutes", "time_in_heart_rate_zones", "very_active_minutes"),
)
OF_PLATFORM = (
    *("takeout", "fitbit", "global export data", "user-site-export", "physical activity", "myfitbitdata"),
    *(WITHIN_DAYS + DAILY),
)


@register_profile
class Fitbit(Profile):
    """`steps-2026-03-01.json` and the like, from "Export your account archive" or Google Takeout.

    Entries are `{"dateTime": "03/01/26 08:00:00", "value": …}`. Those within days are in UTC; totals of days carry the
    participant's own date. The measure is the beginning of the file's name, the participant the innermost folder or archive
    that Fitbit did not name. A value of several numbers (heart rate: bpm and confidence) becomes several columns.

    Fitbit does not document these files. Source: public code that reads them, such as
    github.com/adamlporter/Fitbit_Analysis, which takes their times for UTC.
    """

    name = "fitbit"
    title = "Fitbit's account export"

    def recognize(self, file: ExportFile) -> str | None:
        entry = file.head.first_object
        if set(entry) != {"dateTime", "value"} or not re.match(DATE, str(entry["dateTime"])):
            return None
        return "it is a list of dateTime (MM/DD/YY) and value, as in Fitbit's account export"

    def read(self, file: ExportFile, streams: Streams) -> None:
        measure = re.split(r"[-.]", file.name)[0]
        if measure not in WITHIN_DAYS + DAILY:
            reason = f"entries of {file.name}, whose name says no known measure"
            streams.leave_out(reason, sum(1 for _ in iterate_objects(file)))
            return
        participant = find_folder_name(file, OF_PLATFORM)
        streams.note("times within days are taken for UTC")
        start = 1
        for batch in in_batches(iterate_objects(file)):
            texts = pa.array([str(entry.get("dateTime") or "") for entry in batch], pa.string())
            times = parse_times("dateTime", texts, partial(name_entry, file, start), FORMATS)
            records = [_flatten(measure, entry.get("value")) for entry in batch]
            streams.add_records(measure, participant, times.cast(UTC) if measure in WITHIN_DAYS else times, records)
            start += len(batch)


def _flatten(measure: str, value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {measure: value}
