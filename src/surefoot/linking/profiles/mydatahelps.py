"""MyDataHelps: data of apps and wearables of a project, one file per kind of data and period."""

import re

import pyarrow.compute as pc

from surefoot.data.log_columns import MISSING, settle_missing, whole_array
from surefoot.linking.profiles.columns import parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

PARTICIPANT = "ParticipantIdentifier"
TIMES = ("DateTime", "EndDate", "Date", "StartDate", "ResultDate", "EventDate", "InsertedDate")


@register_profile
class MyDataHelps(Profile):
    """The CSV files of MyDataHelps Designer.

    `ParticipantIdentifier` names the participant. In Fitbit Intraday Combined every `Type` (steps, heart rate, …) becomes a
    stream, and `DateTime` is on the participant's clock, without the name of its zone. Other files become one stream each,
    named like the file without its dates; their time is the first of DateTime, EndDate, Date, StartDate and similar.

    Sources: support.mydatahelps.org, "Export file type and format summary", "Fitbit intraday data export formats",
    "Fitbit daily data export format".
    """

    name = "mydatahelps"
    title = "MyDataHelps"

    def recognize(self, file: ExportFile) -> str | None:
        time = next((name for name in TIMES if name in file.head.header), None)
        if PARTICIPANT not in file.head.header or time is None:
            return None
        return f"the columns ParticipantIdentifier and {time} are those of MyDataHelps"

    def read(self, file: ExportFile, streams: Streams) -> None:
        header = file.head.header
        name = next(name for name in TIMES if name in header)
        by_type = {"Type", "Value", "DateTime"} <= set(header)
        plain = re.sub(r"[_-]*\d[\d_T:-]*$", "", file.stem) or file.stem
        for table, name_row in read_tables(file, TableForm(file.head.separator)):
            times = parse_times(name, table[name], name_row)
            columns = [column for column in table.column_names if column not in (name, PARTICIPANT)]
            if not by_type:
                streams.add(plain, table[PARTICIPANT], times, {column: table[column] for column in columns})
                continue
            types = pc.fill_null(settle_missing(whole_array(table["Type"]), MISSING), plain)
            for kind in types.unique().to_pylist():
                rows = table.filter(pc.equal(types, kind))
                # A column that this type never fills would be a column of nothing.
                filled = [
                    column for column in columns if column != "Type" and pc.any(pc.not_equal(rows[column], "")).as_py()
                ]
                values = {column: rows[column] for column in {"Value": None, **dict.fromkeys(filled)}}
                streams.add(kind, rows[PARTICIPANT], times.filter(pc.equal(types, kind)), values)
