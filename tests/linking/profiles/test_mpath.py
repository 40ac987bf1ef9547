from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from tests.linking.example_exports import EXAMPLES, MPATH


def read(tmp_path, text):
    path = tmp_path / "basic.csv"
    path.write_text(text)
    return read_export(path)


def test_answers_have_decimal_commas_escaped_quotes_and_fields_that_are_left_out(tmp_path):
    streams = read_export(EXAMPLES["m-path"].write(tmp_path)).streams
    morning = streams["Morning"]
    assert morning["participant"].to_pylist() == ["228325", "228999"]
    assert morning["stress"].to_pylist() == [4, None]
    assert morning["pain"].to_pylist() == [2.5, 0.25]
    assert morning["why"].to_pylist() == ['a "bad"; long night', None]
    assert "pain" not in streams["Evening"].column_names


def test_times_of_the_clock_become_utc_by_their_offsets(tmp_path):
    # 1772352060 is 08:01:00 on the clock: in Belgium (offset -3600) that is 07:01 UTC, in New York (18000) 13:01.
    times = read(tmp_path, MPATH).streams["Morning"]["time"].to_pylist()
    assert times == [datetime(2026, 3, 1, 7, 1, tzinfo=UTC), datetime(2026, 3, 1, 13, 1, 30, tzinfo=UTC)]
    export = read(tmp_path, MPATH.replace("timeZoneOffset", "somethingElse"))
    assert export.streams["Morning"]["time"].to_pylist()[0] == datetime(2026, 3, 1, 8, 1)
    assert export.reason.endswith("times are those of the participant's clock")
    missing = read(tmp_path, MPATH.replace("1772352090;18000", "1772352090;"))
    assert missing.streams["Morning"]["time"].to_pylist()[1] == datetime(2026, 3, 1, 8, 1, 30)


def test_a_file_that_a_spreadsheet_saved_is_refused(tmp_path):
    with pytest.raises(sf.InputError, match="line 1: a spreadsheet put every row into one field; download the file"):
        read(tmp_path, "".join('"' + line.replace('"', '""') + '"\n' for line in MPATH.splitlines()))


def test_milliseconds_instead_of_seconds_are_refused(tmp_path):
    wrong = MPATH.replace("1772391760;", "1772391760000;")
    with pytest.raises(sf.InputError, match="line 3, column 'timeStampStop': '1772391760000' is not a time in seconds"):
        read(tmp_path, wrong)
