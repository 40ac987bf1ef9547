import pyarrow as pa
import pytest

import surefoot as sf
from surefoot.linking.profiles.profile import Streams

NOON = pa.array([1_772_366_400_000_000], pa.timestamp("us", "UTC"))


def test_columns_of_the_export_do_not_replace_participant_and_time():
    streams = Streams()
    streams.add("a", "P1", NOON, {"time": pa.array(["before"]), "participant": pa.array(["7"])})
    table = streams.join()["a"]
    assert table["participant"].to_pylist() == ["P1"]
    assert table["time"].type == NOON.type
    assert table["export_time"].to_pylist() == ["before"]
    assert table["export_participant"].to_pylist() == [7]


def test_files_of_one_stream_may_have_other_columns_and_types():
    streams = Streams()
    streams.add("a", "P1", NOON, {"x": pa.array(["1"]), "y": pa.array(["3"])})
    streams.add("a", "P2", NOON, {"x": pa.array(["1.5"]), "z": pa.array(["b"])})
    streams.add("a", "P3", NOON, {"y": pa.array(["few"])})
    table = streams.join()["a"]
    assert table["x"].to_pylist() == [1.0, 1.5, None]
    assert table["y"].to_pylist() == ["3", None, "few"]
    assert table["z"].to_pylist() == [None, "b", None]
    streams.add("a", "P4", NOON.cast(pa.timestamp("us")), {})
    with pytest.raises(sf.InputError, match="stream 'a': some files hold times with a zone and some without"):
        streams.join()
