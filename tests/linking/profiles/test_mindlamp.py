import json
from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from tests.linking.example_exports import EXAMPLES, LAMP_ACTIVITIES, LAMP_SENSORS


def test_sensors_and_answers(tmp_path):
    streams = read_export(EXAMPLES["mindlamp"].write(tmp_path)).streams
    steps = streams["steps"]
    assert steps["participant"].to_pylist() == ["U1", "U2"]
    assert steps["value"].to_pylist() == [12, None]
    assert steps["time"].to_pylist()[1] == datetime(2026, 3, 1, 8, 1, tzinfo=UTC)
    assert streams["gps"]["data_timestamp"].to_pylist() == [5]
    activity = streams["activity"]
    assert activity["participant"].to_pylist() == ["U3", "U3"]
    assert activity["item"].to_pylist() == ["Stressed?", "Where?"]
    assert activity["value"].to_pylist() == ["3", "home"]
    assert activity["answer_duration"].to_pylist() == [4000, 5000]


def test_replies_for_one_participant(tmp_path):
    (tmp_path / "U9.json").write_text(json.dumps({"data": json.loads(LAMP_ACTIVITIES)}))
    assert set(read_export(tmp_path / "U9.json").streams["activity"]["participant"].to_pylist()) == {"U9"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAMP_SENSORS[:-5], "is not complete JSON"),
        (LAMP_SENSORS[:-1] + ', "U3": 4}', "entry 'U3': is not a list of events"),
        (LAMP_ACTIVITIES[:-5], "entry 2: is cut off or damaged"),
        (
            LAMP_ACTIVITIES.replace("1772352000000", "1772352000"),
            "entry 1, column 'timestamp': '1772352000' is not a time in milli",
        ),
    ],
)
def test_damaged_files_are_refused(text, message, tmp_path):
    (tmp_path / "U1.json").write_text(text)
    with pytest.raises(sf.InputError, match=message):
        read_export(tmp_path / "U1.json")
