from datetime import UTC, datetime

from surefoot.linking.exports import find_profile, read_export
from tests.linking.example_exports import EXAMPLES, JUSTIN, ORALYTICS


def test_decisions_of_oralytics(tmp_path):
    path = EXAMPLES["oralytics"].write(tmp_path)
    assert find_profile(path).holds_decisions
    decisions = read_export(path).streams["decisions"]
    assert decisions["time"].to_pylist()[1] == datetime(2026, 3, 1, 20)
    assert decisions["zone"].to_pylist() == [None, None]
    assert decisions["quality"].to_pylist() == [120.5, None]


def test_the_number_of_a_row_gets_a_name(tmp_path):
    text = ORALYTICS.replace("user_id", ",user_id").replace("robas+1", "0,robas+1")
    (tmp_path / "a.csv").write_text(text)
    assert read_export(tmp_path / "a.csv").streams["decisions"]["unnamed"].to_pylist() == [0, 0]


def test_objects_of_justin_become_columns(tmp_path):
    decisions = read_export(EXAMPLES["justin"].write(tmp_path)).streams["decisions"]
    assert decisions["time"].to_pylist()[0] == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert decisions["context.temperature"].to_pylist() == [23, 19]
    assert decisions["context.place"].to_pylist() == ["home", None]
    assert decisions["outcome.clicks"].to_pylist() == [4, None]
    assert decisions["state"].to_pylist() == ["[23, 1]", "[19, 1]"]


def test_groups_and_times_of_requests(tmp_path):
    text = JUSTIN.replace("user_id", "group_id").replace("timestamp", "request_timestamp")
    (tmp_path / "a.csv").write_text(text)
    export = read_export(tmp_path / "a.csv")
    assert export.reason.endswith("participants are taken from group_id, times from request_timestamp")


def test_an_empty_column_stays(tmp_path):
    (tmp_path / "a.csv").write_text(JUSTIN.replace('"{""clicks"": 4}"', ""))
    decisions = read_export(tmp_path / "a.csv").streams["decisions"]
    assert decisions["outcome"].to_pylist() == [None, None]
