import json
from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from surefoot.linking.profiles import files
from tests.linking.example_exports import EXAMPLES, FITBIT_STEPS


def test_measures_are_streams_and_the_folder_names_the_participant(tmp_path):
    streams = read_export(EXAMPLES["fitbit"].write(tmp_path)).streams
    assert streams["steps"]["steps"].to_pylist() == [0, 1, 2]
    assert set(streams["steps"]["participant"].to_pylist()) == {"P01"}
    assert streams["steps"]["time"].to_pylist()[1] == datetime(2026, 3, 1, 8, 1, tzinfo=UTC)
    assert streams["heart_rate"]["bpm"].to_pylist() == [70]
    assert streams["heart_rate"]["confidence"].to_pylist() == [2]
    assert streams["sedentary_minutes"]["time"].to_pylist() == [datetime(2026, 3, 1)]


def test_archives_of_several_participants(tmp_path):
    import zipfile

    for name in ("P01", "P02"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("Takeout/Fitbit/Global Export Data/steps-2026-03-01.json", FITBIT_STEPS)
    assert read_export(tmp_path).streams["steps"]["participant"].to_pylist() == ["P01"] * 3 + ["P02"] * 3


@pytest.mark.parametrize("size", [16, 50, 10_000])
def test_lists_are_read_piece_by_piece(size, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "JSON_BYTES", size)
    entries = [
        {"dateTime": f"03/01/26 08:00:{second:02d}", "value": {"bpm": second, "confidence": 1}} for second in range(60)
    ]
    (tmp_path / "heart_rate-2026-03-01.json").write_text(json.dumps(entries, indent=1))
    heart = read_export(tmp_path).streams["heart_rate"]
    assert heart["bpm"].to_pylist() == list(range(60))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FITBIT_STEPS[:-20], "entry 3: is cut off or damaged .*; export it again"),
        (FITBIT_STEPS[:-1] + ", 5]", "entry 4: is not an object"),
        (FITBIT_STEPS.replace("08:01:00", "soon"), "entry 2, column 'dateTime': '03/01/26 soon' is not a time"),
    ],
)
def test_damaged_lists_are_refused(text, message, tmp_path):
    (tmp_path / "steps-2026-03-01.json").write_text(text)
    with pytest.raises(sf.InputError, match=message):
        read_export(tmp_path)
