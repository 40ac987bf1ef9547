"""Qualtrics: answers to surveys, one row per response, below up to three header rows."""

import json
import re
from typing import Any

from surefoot.data.file_detection import count_qualtrics_rows
from surefoot.linking.profiles.columns import parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

COLUMNS = {"StartDate", "EndDate", "ResponseId"}
PARTICIPANTS = ("ExternalReference", "ExternalDataReference")
NAMED_IDS = r"(?i)^(participant|subject|person|user|patient|prolific)[._ -]?(id|pid|code|number)?$|^PROLIFIC_PID$"
"""Embedded data by which studies name participants."""


@register_profile
class Qualtrics(Profile):
    """Qualtrics' CSV and TSV files.

    The first row names the columns, the second holds the questions and the third `{"ImportId": …}`; that of a date also
    names the time zone of all dates. The time is `EndDate`, when the answers were submitted. Participants are named by the
    external reference, by embedded data such as `participant_id`, or, if there is neither, every response is one.

    Source: "Understanding your dataset", qualtrics.com/support/survey-platform/data-and-analysis-module/data/download-data.
    """

    name = "qualtrics"
    title = "Qualtrics"

    def recognize(self, file: ExportFile) -> str | None:
        if not set(file.head.header) >= COLUMNS:
            return None
        rows = count_qualtrics_rows(file.head.records)
        extra = {1: "", 2: ", and row 2 holds the questions", 3: ", rows 2 and 3 hold the questions and ImportIds"}[rows]
        return f"the columns StartDate, EndDate and ResponseId are those of Qualtrics{extra}"

    def read(self, file: ExportFile, streams: Streams) -> None:
        rows = count_qualtrics_rows(file.head.records)
        zone = _find_zone(file.head.records[2]) if rows == 3 else None
        form = TableForm(file.head.separator, header_rows=rows)
        participant = ""
        if zone is None:
            streams.note("the file does not name the time zone of its dates")
        for table, name_row in read_tables(file, form):
            participant = participant or _choose_participant(table)
            streams.note(f"participants are taken from {participant}")
            time = parse_times("EndDate", table["EndDate"], name_row)
            values = {name: table[name] for name in table.column_names if name not in ("EndDate", participant)}
            streams.add("survey", table[participant], time, values, zone)


def _find_zone(imports: list[str]) -> str | None:
    """The zone in `{"ImportId":"startDate","timeZone":"America/Denver"}`."""
    for cell in imports:
        try:
            description: Any = json.loads(cell)
        except ValueError:
            continue
        if isinstance(description, dict) and description.get("timeZone"):
            zone = str(description["timeZone"])
            return "UTC" if zone == "Z" else zone
    return None


def _choose_participant(table: Any) -> str:
    named: list[str] = [name for name in table.column_names if re.match(NAMED_IDS, name)]
    for name in (*PARTICIPANTS, *named):
        if name in table.column_names and any(cell.strip() for cell in table[name].to_pylist()):
            return name
    return "ResponseId"
