from datetime import UTC, datetime

import pytest

import surefoot as sf
from surefoot.linking.exports import read_export
from surefoot.linking.profiles import Streams, apple_health
from tests.linking.example_exports import APPLE, EXAMPLES


def test_types_are_streams_in_utc(tmp_path):
    streams = read_export(EXAMPLES["apple-health"].write(tmp_path)).streams
    steps = streams["StepCount"]
    assert steps["participant"].to_pylist() == ["P02", "P02"]
    assert steps["time"].to_pylist()[0] == datetime(2026, 3, 1, 15, 0, tzinfo=UTC)
    assert steps["endDate"].to_pylist()[0] == datetime(2026, 3, 1, 15, 5, tzinfo=UTC)
    assert steps["value"].to_pylist() == [120, 98]
    assert steps["sourceName"].to_pylist() == ["Ann’s Watch", "Ann’s iPhone"]
    assert streams["SleepAnalysis"]["value"].to_pylist() == ["HKCategoryValueSleepAnalysisAsleepCore"]
    assert streams["Workout"]["duration"].to_pylist() == [31.5]


def test_records_after_a_correlation_are_read(tmp_path):
    steps = APPLE[APPLE.index(" <Record") : APPLE.index('value="120"/>') + len('value="120"/>')]
    (tmp_path / "export.xml").write_text(APPLE.replace("</HealthData>", f"{steps}\n</HealthData>"))
    export = read_export(tmp_path / "export.xml")
    assert export.streams["StepCount"]["value"].to_pylist() == [120, 98, 120]
    assert export.left_out["records that a Correlation repeats"] == 1


LAUGHS = (
    '<!DOCTYPE HealthData [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    '<HealthData><Record type="T" startDate="2026-03-01 08:00:00 -0700" value="&b;"/></HealthData>'
)
OUTSIDE = '<!DOCTYPE HealthData [<!ENTITY a SYSTEM "file:///etc/passwd">]><HealthData>&a;</HealthData>'


@pytest.mark.parametrize("text", [LAUGHS, OUTSIDE])
def test_entities_are_refused(text, tmp_path):
    (tmp_path / "export.xml").write_text(text)
    with pytest.raises(sf.InputError, match="declares the entity 'a', which no export does"):
        read_export(tmp_path / "export.xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (APPLE[: APPLE.index("</HealthData>")], r"line \d+: is not complete XML \(no element found\)"),
        (APPLE.replace('value="98">', 'value="98'), r"line \d+: is not complete XML \(not well-formed"),
        (APPLE.replace("2026-03-01 08:01:00 -0700", "yesterday"), r"line 9, column 'startDate': 'yesterday' is not a time"),
    ],
)
def test_damaged_files_are_refused(text, message, tmp_path):
    (tmp_path / "export.xml").write_text(text)
    with pytest.raises(sf.InputError, match=message):
        read_export(tmp_path / "export.xml")


def test_large_files_are_read_in_bounded_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(apple_health, "BATCH_RECORDS", 50)
    monkeypatch.setattr(apple_health, "CHUNK_BYTES", 1_000)
    sizes = []
    add_records = Streams.add_records

    def add_and_measure(streams, stream, participant, time, records):
        sizes.append(len(records))
        add_records(streams, stream, participant, time, records)

    monkeypatch.setattr(Streams, "add_records", add_and_measure)
    record = APPLE[APPLE.index(" <Record") : APPLE.index('value="120"/>') + len('value="120"/>')] + "\n"
    (tmp_path / "export.xml").write_text("<HealthData>\n" + record * 120 + "</HealthData>\n")
    assert read_export(tmp_path / "export.xml").rows_out == 120
    assert sizes == [50, 50, 20]
