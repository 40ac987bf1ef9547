from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from tests.linking.example_exports import BEIWE_GPS, BEIWE_TIMINGS, EXAMPLES


def test_folders_name_participants_and_streams(tmp_path):
    streams = read_export(EXAMPLES["beiwe"].write(tmp_path)).streams
    gps = streams["gps"]
    assert gps["participant"].to_pylist() == ["43l6b8dp"] * 2 + ["9xl6b8dq"] * 2
    assert gps["time"].to_pylist()[0] == datetime(2026, 3, 1, 8, 0, 0, 250_000, tzinfo=UTC)
    assert gps["altitude"].to_pylist() == [-4.3, None] * 2
    assert gps.column_names == ["participant", "time", "latitude", "longitude", "altitude", "accuracy"]
    timings = streams["survey_timings"]
    assert timings["answer"].to_pylist() == ["good", "7", None]
    assert set(timings["participant"].to_pylist()) == {"43l6b8dp"}


def test_a_single_file_is_of_its_folder(tmp_path):
    folder = tmp_path / "43l6b8dp"
    folder.mkdir()
    (folder / "timings.csv").write_text(BEIWE_TIMINGS)
    streams = read_export(folder / "timings.csv").streams
    assert streams["survey_timings"]["participant"].to_pylist() == ["43l6b8dp"] * 3
    (folder / "gps").mkdir()
    (folder / "gps" / "a.csv").write_text(BEIWE_GPS)
    assert read_export(folder / "gps" / "a.csv").streams["gps"]["participant"].to_pylist() == ["43l6b8dp"] * 2


def test_times_that_a_spreadsheet_rounded_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(BEIWE_GPS.replace("1772352010250", "1.77E+09"))
    with pytest.raises(
        sf.InputError, match=r"line 3, column 'timestamp': '1.77E\+09' is not a time in milliseconds since 1970"
    ):
        read_export(tmp_path / "a.csv")
