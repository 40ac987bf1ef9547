from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from tests.linking.example_exports import EXAMPLES, RADAR


def test_topics_are_streams_and_times_are_seconds_or_milliseconds(tmp_path):
    streams = read_export(EXAMPLES["radar-base"].write(tmp_path)).streams
    battery = streams["android_phone_battery_level"]
    assert battery["participant"].to_pylist() == ["u-1", "u-1"]
    assert battery["time"].to_pylist()[0] == datetime(2020, 1, 28, 13, 57, 0, 30_000, tzinfo=UTC)
    assert battery["value.batteryLevel"].to_pylist() == [0.81, None]
    window = streams["android_window"]
    assert window["time"].to_pylist() == [datetime(2020, 1, 28, 13, 57, tzinfo=UTC)]
    assert window["key.end"].to_pylist() == [1580219830000]


def test_a_topic_without_a_time_of_measurement(tmp_path):
    (tmp_path / "a.csv").write_text(RADAR.replace("value.time,", "value.other,"))
    export = read_export(tmp_path / "a.csv")
    assert "has no time of measurement, so value.timeReceived is its time" in export.reason
    (tmp_path / "a.csv").write_text("key.projectId,key.userId,value.level\ntrial,u,1\n")
    with pytest.raises(
        sf.InputError, match=r"line 1: there is no column of times such as value\.time; extract the topic again"
    ):
        read_export(tmp_path / "a.csv")
