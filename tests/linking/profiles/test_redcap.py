from datetime import datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from tests.linking.example_exports import REDCAP


def read(tmp_path, text):
    path = tmp_path / "data.csv"
    path.write_text(text)
    return read_export(path)


def test_every_instrument_is_a_stream_with_its_columns(tmp_path):
    export = read(tmp_path, REDCAP)
    ema = export.streams["ema"]
    assert ema["participant"].to_pylist() == ["1"]
    assert ema["time"].to_pylist() == [datetime(2026, 3, 2, 8, 15)]
    assert ema["zone"].to_pylist() == [None]
    assert ema.column_names[3:] == [
        "redcap_event_name",
        "redcap_repeat_instrument",
        "redcap_repeat_instance",
        "stress",
        "note",
        "ema_complete",
    ]
    visit = export.streams["visit"]
    assert visit["time"].to_pylist() == [datetime(2026, 3, 1)]
    assert visit["weight"].to_pylist() == [80.5]
    assert "the time of 'visit' is visit_date, in the zone of the server" in export.reason


def test_boxes_that_nobody_ticked_are_no_answers(tmp_path):
    # Record 3 has zeros in boxes and states only; record 2 has an age.
    left_out = read(tmp_path, REDCAP).left_out
    assert left_out["rows without an answer of any instrument"] == 1
    ticked = read(tmp_path, REDCAP.replace("3,start_arm_1,,,,0,0,0", "3,start_arm_1,,,,1,0,0")).left_out
    assert "rows without an answer of any instrument" not in ticked


def test_a_project_without_events_and_repeats(tmp_path):
    export = read(tmp_path, "record_id,when,mood,daily_complete\n7,2026-03-01 08:00,4,2\n8,2026-03-01 09:30,,1\n")
    assert export.streams["daily"]["mood"].to_pylist() == [4, None]
    assert export.streams["daily"]["time"].to_pylist()[1] == datetime(2026, 3, 1, 9, 30)


def test_a_date_of_birth_is_no_time(tmp_path):
    text = "id,redcap_survey_identifier,dob,birth_date,seen,intake_complete\n7,,1999-01-01,1999-01-01,2026-03-01,2\n"
    assert read(tmp_path, text).streams["intake"]["time"].to_pylist() == [datetime(2026, 3, 1)]
    with pytest.raises(sf.InputError, match="1 rows of instrument 'intake', which has no column of times or dates"):
        read(tmp_path, text.replace("2026-03-01", ""))
