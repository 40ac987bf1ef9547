"""m-Path: answers to beeps, one row per questionnaire that was sent, in semicolon-separated files."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefoot.data.log_columns import MISSING, FileSettings, LogColumn, Place, Problems, settle_missing, whole_array
from surefoot.errors import InputError
from surefoot.linking.profiles.columns import LOCAL, is_filled, parse_epoch
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile

META = ("columnName", "fullQuestion", "typeQuestion")
FORM = TableForm(";", decimal=",", ragged=True, escapes=True)
TIMES = ("timeStampStop", "timeStampStart", "timeStampSent", "timeStampScheduled")


@register_profile
class MPath(Profile):
    """m-Path's basic.csv, with meta.csv or without.

    Numbers have decimal commas, rows leave out fields at their end, and quotes within texts are escaped as in JSON. Times
    are seconds since 1970 on the participant's own clock; adding `timeZoneOffset` gives UTC. The time is `timeStampStop`,
    when the answers were complete, or the next that there is; beeps without one were not answered. Every questionnaire is a
    stream.

    Source: the R package mpathr of m-Path (github.com/m-path-io/mpathr: `read_mpath`, `timestamps_to_datetime`).
    """

    name = "m-path"
    title = "m-Path"

    def recognize(self, file: ExportFile) -> str | None:
        header = file.head.header
        if {"connectionId", "questionListName"} <= set(header) and set(header) & set(TIMES):
            return "the columns connectionId and questionListName are those of m-Path"
        if header[: len(META)] == META:
            return "the columns columnName, fullQuestion and typeQuestion are those of m-Path's meta data"
        if len(header) == 1 and header[0].startswith("connectionId;"):
            return "the column connectionId is that of m-Path"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        header = file.head.header
        if len(header) == 1:
            raise InputError(
                f"{file}: line 1: a spreadsheet put every row into one field; download the file from m-Path again"
            )
        for table, name_row in read_tables(file, FORM):
            if header[: len(META)] == META:
                streams.leave_out("rows of the meta data, which describe columns", len(table))
            else:
                _add_answers(table, name_row, streams)


def _add_answers(table: pa.Table, name_row: Place, streams: Streams) -> None:
    name = next(name for name in TIMES if name in table.column_names)
    times = _apply_offsets(table, parse_epoch(name, table[name], name_row), name_row)
    if times.type == LOCAL:
        streams.note("times are those of the participant's clock")
    lists = pc.fill_null(settle_missing(whole_array(table["questionListName"]), MISSING), "questions")
    answered = times.is_valid()
    streams.leave_out(f"beeps without an answer (no {name})", times.null_count)
    for questions in lists.filter(answered).unique().to_pylist():
        chosen = pc.and_(answered, pc.equal(lists, questions))
        rows = table.filter(chosen)
        # The columns of other questionnaires are empty.
        names = [column for column in rows.column_names if column not in ("connectionId", name)]
        values = {column: rows[column] for column in names if is_filled(rows[column])}
        settings = FileSettings(decimal=FORM.decimal)
        streams.add(questions, rows["connectionId"], times.filter(chosen), values, settings=settings)


def _apply_offsets(table: pa.Table, stamps: pa.Array, name_row: Place) -> pa.Array:
    """Times in UTC if every row with a time says its offset; else local ones."""
    if "timeZoneOffset" not in table.column_names:
        return stamps.cast(LOCAL)
    problems = Problems(name_row)
    texts = settle_missing(whole_array(table["timeZoneOffset"]), MISSING)
    seconds = LogColumn("timeZoneOffset", texts, problems).numbers()
    problems.raise_any()
    unknown = np.isnan(seconds)
    if (unknown & np.asarray(stamps.is_valid())).any():
        return stamps.cast(LOCAL)
    offsets = np.where(unknown, 0, seconds * 1e6).astype("timedelta64[us]")
    return pc.add(stamps, pa.array(offsets, pa.duration("us")))
