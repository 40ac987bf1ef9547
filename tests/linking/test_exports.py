"""Every profile recognises its export by content, and every row comes out or is counted."""

import gzip
import shutil
import zipfile

import numpy as np
import pyarrow as pa
import pytest

import surefoot as sf
from surefoot.linking.exports import find_profile, read_export
from surefoot.linking.profiles import PROFILES, files, list_export_files
from tests.linking.example_exports import EXAMPLES, FITABASE_NARROW, QUALTRICS, REDCAP

every_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
every_table = pytest.mark.parametrize("name", ["qualtrics", "redcap", "m-path alone", "mydatahelps", "oralytics", "justin"])


def test_every_profile_has_an_example():
    assert {example.profile for example in EXAMPLES.values()} == set(PROFILES)


@every_example
def test_every_row_comes_out_or_is_counted(example, tmp_path):
    export = read_export(example.write(tmp_path))
    assert {name: len(table) for name, table in export.streams.items()} == example.streams
    assert export.left_out == example.left_out
    assert export.rows_in == sum(example.streams.values()) + sum(example.left_out.values())


@every_example
def test_streams_have_typed_columns(example, tmp_path):
    for table in read_export(example.write(tmp_path)).streams.values():
        participant, time, *others = table.schema
        assert (participant.name, participant.type, time.name) == ("participant", pa.string(), "time")
        assert table["participant"].null_count == table["time"].null_count == 0
        if time.type != pa.timestamp("us", "UTC"):
            assert time.type == pa.timestamp("us")
            assert (others[0].name, others[0].type) == ("zone", pa.string())
        assert {column.type for column in others} <= {
            *(pa.int64(), pa.float64(), pa.string(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
        }


@every_example
def test_only_its_profile_fits(example, tmp_path):
    match = find_profile(example.write(tmp_path))
    assert (match.profile, match.rivals) == (example.profile, ())
    assert str(match).startswith(f"{PROFILES.find(example.profile).title}: ")
    assert read_export(example.write(tmp_path)).reason.startswith(match.reason)


@every_example
def test_an_archive_is_read_like_its_folder(example, tmp_path):
    folder = tmp_path / "P7"
    example.write(folder)
    plain = read_export(folder)
    archive = shutil.make_archive(str(tmp_path / "packed" / "P7"), "zip", folder)
    packed = read_export(archive)
    assert packed.streams == plain.streams
    assert packed.left_out == plain.left_out


@pytest.mark.parametrize("change", ["bom", "utf-16", "crlf", "mixed line endings", "gzip", "no last line end"])
@every_table
def test_the_same_table_written_otherwise(name, change, tmp_path):
    text = next(iter(EXAMPLES[name].files.values()))
    plain = read_export(EXAMPLES[name].write(tmp_path))
    other = tmp_path / ("other.csv.gz" if change == "gzip" else "other.csv")
    lines = text.split("\n")
    data = {
        "bom": text.encode("utf-8-sig"),
        "utf-16": text.encode("utf-16"),
        "crlf": text.replace("\n", "\r\n").encode(),
        "mixed line endings": "".join(line + ("\r\n" if row % 2 else "\n") for row, line in enumerate(lines[:-1])).encode(),
        "gzip": gzip.compress(text.encode()),
        "no last line end": text.rstrip("\n").encode(),
    }[change]
    other.write_bytes(data)
    export = read_export(other)
    assert export.profile == plain.profile
    assert export.left_out == plain.left_out
    for stream, table in plain.streams.items():
        for column in table.column_names:
            ours = [str(cell).replace("\r\n", "\n") for cell in export.streams[stream][column].to_pylist()]
            assert ours == [str(cell) for cell in table[column].to_pylist()], column


@pytest.mark.parametrize("name", ["redcap", "mydatahelps", "oralytics", "justin"])
def test_large_tables_are_read_in_batches(name, tmp_path, monkeypatch):
    path = EXAMPLES[name].write(tmp_path)
    plain = read_export(path)
    monkeypatch.setattr(files, "BATCH_BYTES", path.stat().st_size * 2 // 3)
    assert list_export_files(path)[0].is_large
    export = read_export(path)
    assert export.left_out == plain.left_out
    assert {stream: table.to_pylist() for stream, table in export.streams.items()} == {
        stream: table.to_pylist() for stream, table in plain.streams.items()
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no profile fits"),
        (b"  \n", "no profile fits"),
        (b"participant,time,steps\na,1,2\n", "no profile fits"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "no profile fits"),
        (b"PK\x03\x04broken", "is a damaged zip archive"),
        (b"[{]", "no profile fits"),
        (b"<html></html>", "no profile fits"),
        (QUALTRICS.splitlines()[0].encode(), r"no row can be used \(it has none\); export it with participants and times"),
        (FITABASE_NARROW.encode()[:-6], r"line 5: 2 fields where the header has 3; the file ends in the middle of this row"),
        (
            FITABASE_NARROW.replace("1:02", "25:02").encode(),
            r"line 4, column 'ActivityMinute': '4/12/2016 25:02:00 PM' is not a time",
        ),
        (REDCAP.replace("1,start_arm_1,ema,1,", "1,start_arm_1,ema,").encode(), "line 3: 14 fields where the header has 15"),
    ],
)
def test_messages_name_file_row_column_and_remedy(content, message, tmp_path):
    (tmp_path / "file.csv").write_bytes(content)
    with pytest.raises(sf.InputError, match=message) as error:
        read_export(tmp_path / "file.csv")
    assert str(error.value).startswith(str(tmp_path / "file.csv"))


@every_example
def test_damaged_exports_are_read_or_refused_with_a_message(example, tmp_path):
    """Never another error, and never a row that is neither read nor counted."""
    rng = np.random.default_rng(0)
    example.write(tmp_path)
    damaged = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    whole = damaged.read_bytes()
    for _ in range(6):
        data = bytearray(whole)
        position = rng.integers(len(data))
        if rng.random() < 0.5:
            del data[position:]
        else:
            data[position : position + rng.integers(3)] = rng.choice(list(b'\n,";{[<0x\xff'), 2).astype("u1").tobytes()
        damaged.write_bytes(data)
        try:
            export = read_export(tmp_path)
        except sf.InputError:
            continue
        assert export.rows_out + sum(export.left_out.values()) == export.rows_in


def test_one_row_is_enough(tmp_path):
    (tmp_path / "a.csv").write_text("".join(FITABASE_NARROW.splitlines(keepends=True)[:2]))
    assert read_export(tmp_path / "a.csv").rows_out == 1


def test_two_platforms_in_one_folder_are_said(tmp_path):
    (tmp_path / "a.csv").write_text(QUALTRICS)
    (tmp_path / "b.csv").write_text(REDCAP)
    assert find_profile(tmp_path).rivals == ("redcap",)
    with pytest.raises(sf.InputError, match="but redcap would fit too; say which with profile = 'qualtrics'"):
        read_export(tmp_path)
    export = read_export(tmp_path, profile="redcap")
    assert export.left_out["lines of a.csv, which is in another form"] == QUALTRICS.count("\n")
    with pytest.raises(sf.InputError, match=r"there is no profile 'redcaps' \(did you mean 'redcap'\?\)"):
        read_export(tmp_path, profile="redcaps")
    with pytest.raises(sf.InputError, match="nothing in it is as Fitabase writes it"):
        read_export(tmp_path, profile="fitabase")


def test_a_missing_file_and_an_encrypted_archive(tmp_path):
    with pytest.raises(sf.InputError, match="there is no such file or folder"):
        find_profile(tmp_path / "nothing.csv")
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", FITABASE_NARROW)
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(sf.InputError, match="is an encrypted zip archive; unpack it with its password"):
        find_profile(path)


def test_files_of_operating_systems_are_ignored(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("study/a.csv", FITABASE_NARROW)
        archive.writestr("__MACOSX/study/._a.csv", "x")
        archive.writestr("study/.DS_Store", "x")
    assert [file.name for file in list_export_files(tmp_path / "a.zip")] == ["a.csv"]


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(FITABASE_NARROW.encode() + b"1,4/12/2016 12:00:00 AM,0\n" * 1000))
    with pytest.raises(sf.InputError, match="holds more than 1 GB"):
        read_export(tmp_path / "a.csv.gz")


def test_link_reads_an_export_by_its_profile_and_reports_its_counts(tmp_path):
    pytest.importorskip("polars", reason="needs Polars: pip install 'surefoot[link]' to run this")
    (tmp_path / "survey.csv").write_text(QUALTRICS)
    (tmp_path / "decisions.csv").write_text(
        "participant,time\np01,2026-03-01T15:02:00Z\np01,2026-03-01T16:00:00Z\np02,2026-03-02T15:30:00Z\n"
    )
    (tmp_path / "link.toml").write_text(
        '[decisions]\nzone = "America/Denver"\n[streams.survey]\nfile = "survey.csv"\nprofile = "qualtrics"\n'
        '[states.stress]\nstream = "survey"\ncolumn = "Q1"\nfeature = "last"\nminutes = 600\n'
    )
    linked = sf.linking.link(tmp_path / "decisions.csv", plan=tmp_path / "link.toml")
    # The first answer was submitted at 08:02:10 in Denver, 15:02:10 UTC, ten seconds after the first decision.
    assert linked.table["stress"].to_pylist() == [None, 4, 2]
    assert ("survey", "in the export: rows without a participant", 1) in linked.list_left_out()
