from datetime import UTC, datetime

from surefoot.linking.exports import read_export
from tests.linking.example_exports import EXAMPLES


def test_every_type_is_a_stream_with_the_columns_it_fills(tmp_path):
    streams = read_export(EXAMPLES["mydatahelps"].write(tmp_path)).streams
    assert streams["steps"]["Value"].to_pylist() == [12, None]
    assert streams["steps"]["zone"].to_pylist() == [None, None]
    assert streams["steps"].column_names == ["participant", "time", "zone", "Value", "ParticipantID"]
    assert streams["calories"]["Mets"].to_pylist() == [10]
    assert streams["heart"]["participant"].to_pylist() == ["MDH-2"]


def test_times_with_an_offset_are_utc(tmp_path):
    logs = read_export(EXAMPLES["mydatahelps log"].write(tmp_path)).streams["FitbitActivityLogs"]
    assert logs["time"].to_pylist() == [datetime(2026, 3, 1, 23, 23, 2, tzinfo=UTC)]
    assert logs["StartDate"].to_pylist() == [datetime(2026, 3, 1, 23, 5, 8, tzinfo=UTC)]
