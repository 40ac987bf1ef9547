"""REDCap: one wide table of all instruments, which becomes one stream per instrument."""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from surefoot.data.log_columns import MISSING, Place, settle_missing, whole_array
from surefoot.linking.profiles.columns import DATE_AND_TIME, DAY, parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

STRUCTURE = (
    *("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"),
    *("redcap_data_access_group", "redcap_survey_identifier"),
)
NOT_COMPLETED = "[not completed]"
BIRTH = r"(?i)(^|_)(dob|birth\w*|born)(_|$)"
"""Dates that are no time of an answer."""


@register_profile
class Redcap(Profile):
    """REDCap's raw CSV export.

    The first column names the record. `X_complete` is the last column of instrument X, so the columns before it, back to
    the previous `…_complete`, are those of X. In a row with `redcap_repeat_instrument` only that instrument has values.
    The time is `X_timestamp`, when the survey was completed, or else the first column of the instrument that holds dates
    with times, or dates, other than dates of birth. It is that of the server, whose zone the export does not name.

    Sources: the help text of REDCap's API method "Export Records" (exportSurveyFields, `instrument_timestamp`,
    `redcap_repeat_instrument`), and the packages REDCapR and REDCapTidieR, which take such tables apart.
    """

    name = "redcap"
    title = "REDCap"

    def recognize(self, file: ExportFile) -> str | None:
        header = file.head.header
        structure = [name for name in STRUCTURE if name in header]
        complete = [name for name in header if name.endswith("_complete")]
        if not complete or not (structure or header[0] == "record_id"):
            return None
        marks = ", ".join(structure or ["record_id"])
        return f"the columns {marks} and {complete[0]} are those of REDCap"

    def read(self, file: ExportFile, streams: Streams) -> None:
        for table, name_row in read_tables(file, TableForm(file.head.separator)):
            cells = {
                name: settle_missing(whole_array(table[name]), (*MISSING, NOT_COMPLETED)) for name in table.column_names
            }
            used = np.zeros(len(table), dtype=bool)
            for instrument, fields in _split_instruments(table.column_names[1:]).items():
                rows = np.flatnonzero(_find_filled(cells, instrument, fields))
                used[rows] = True
                _add_instrument(cells, instrument, fields, rows, name_row, streams)
            streams.leave_out("rows without an answer of any instrument", int((~used).sum()))


def _add_instrument(
    cells: dict[str, pa.Array],
    instrument: str,
    fields: Sequence[str],
    rows: NDArray[np.int64],
    name_row: Place,
    streams: Streams,
) -> None:
    time = _choose_time(cells, instrument, fields)
    if time is None:
        streams.leave_out(f"rows of instrument '{instrument}', which has no column of times or dates", len(rows))
        return
    streams.note(f"the time of '{instrument}' is {time}, in the zone of the server")
    record = next(iter(cells))
    structure = [name for name in STRUCTURE if name in cells]
    chosen = {name: cells[name].take(pa.array(rows)) for name in (record, *structure, *fields)}
    times = parse_times(time, chosen[time], lambda row: name_row(int(rows[row])))
    values = {name: texts for name, texts in chosen.items() if name not in (record, time)}
    streams.add(instrument, chosen[record], times, values)


def _split_instruments(columns: Sequence[str]) -> dict[str, list[str]]:
    """The columns of every instrument; those after the last `…_complete` are of the instrument `record`."""
    instruments: dict[str, list[str]] = {}
    fields: list[str] = []
    for name in columns:
        if name in STRUCTURE:
            continue
        fields.append(name)
        if name.endswith("_complete"):
            instruments[name.removesuffix("_complete")] = fields
            fields = []
    return instruments | ({"record": fields} if fields else {})


def _find_filled(cells: dict[str, pa.Array], instrument: str, fields: Sequence[str]) -> NDArray[np.bool_]:
    """The rows that hold something of the instrument: boxes that are not ticked and the status 0 are written anyway."""
    repeated = cells.get("redcap_repeat_instrument")
    filled = np.zeros(len(cells[fields[0]]), dtype=bool)
    for name in fields:
        is_written = name.endswith("_complete") or re.search(r"___\w+$", name)
        missing = cells[name].is_null()
        blank = pc.or_(missing, pc.fill_null(pc.equal(cells[name], "0"), True)) if is_written else missing
        filled |= ~np.asarray(blank)
    if repeated is None:
        return filled
    of_instrument = pc.fill_null(pc.equal(repeated, instrument), True)
    return filled & np.asarray(of_instrument, dtype=np.bool_)


def _choose_time(cells: dict[str, pa.Array], instrument: str, fields: Sequence[str]) -> str | None:
    named = f"{instrument}_timestamp"
    if named in cells and cells[named].null_count < len(cells[named]):
        return named
    for pattern in (DATE_AND_TIME, DAY):
        for name in (name for name in fields if not re.search(BIRTH, name)):
            texts = cells[name].drop_null()
            if len(texts) and pc.all(pc.match_substring_regex(texts, pattern)).as_py():
                return name
    return None
