"""What real exports have: each is read as meant or refused with its place, exit code 2, and no output."""

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from surefoot import FitWarning, InputError, Study, Trajectories
from surefoot.cli import app
from surefoot.fitting import fit_study
from surefoot.study.draft import draft_study
from tests.cli.typed import type_command

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "p"
[state.mood]
range = [0, 10]
[state.place]
kind = "category"
levels = ["other", "home"]
[outcome]
column = "steps"
"""
HEADER = "participant,time,mood,place,available,action,p,steps\n"
ROWS = "".join(
    f"{participant},2020-01-{1 + t:02d}T0{t % 10}:00:00,{(3 * t + 1) % 10}.5,{place},1,{t * t % 5 % 2},0.5,{t * 7 % 11}\n"
    for participant in ("ann", "bob")
    for t, place in enumerate(["home", "other", "other", "home"] * 5)
)
LOGS = HEADER + ROWS


def damaged(old, new, count=1):
    assert old in LOGS
    return LOGS.replace(old, new, count)


BROKEN = {
    "semicolons": (LOGS.replace(",", ";"), "line 1: the columns are separated by semicolons"),
    "tabs": (LOGS.replace(",", "\t"), "line 1: the columns are separated by tabs"),
    "decimal commas, bare": (damaged("T01:00:00,4.5", "T01:00:00,4,5"), "line 3: 9 fields where the header has 8"),
    "decimal commas, quoted": (damaged("T01:00:00,4.5", 'T01:00:00,"4,5"'), "line 3, column 'mood', .*: '4,5' is not a num"),
    "semicolons and decimal commas": (LOGS.replace(",", ";").replace(".", ","), "line 1"),
    "a stray byte": (damaged("home", "ho\udc99me"), "line 2: byte 0x99 is not UTF-8"),
    "UTF-16": (LOGS.encode("utf-16"), "line 1: the file is written in UTF-16"),
    "a zero byte": (damaged("home", "ho\0me"), "line 2: a zero byte"),
    "mixed time zones": (damaged("T01:00:00", "T01:00:00+02:00"), "line 3, column 'time', .* has a time zone, unlike"),
    "a zone missing": (LOGS.replace(":00,", ":00Z,").replace("T01:00:00Z", "T01:00:00"), "line 3, column 'time', .* has no"),
    "duplicated rows": (LOGS + ROWS.splitlines()[0] + "\n", "line 42, column 'time', participant 'ann': a second"),
    "an action never declared": (damaged(",1,0.5,", ",7,0.5,"), "line 3, column 'action', .* action '7' was never declared"),
    "a category never seen": (damaged("home", "moon"), "line 2, column 'place', .* 'moon' was never declared"),
    "an empty file": ("", "the file is empty"),
    "blank lines only": ("\n\n  \n", "the file is empty"),
    "a header only": (HEADER, "no rows"),
    "a column twice": (LOGS.replace("mood", "steps", 1), "line 1: two columns are called 'steps'"),
    "a column missing": (LOGS.replace("mood", "mod", 1), "there is no column 'mood' .did you mean 'mod'"),
    "a row cut short": (LOGS[:-9], "line 41: [567] fields where the header has 8"),
    "an unclosed quote": (damaged("home", '"home'), "line 2"),
    "a line number after quoted newlines": (
        damaged("home", '"home\n\nalone"').replace("2020-01-03", "soon", 1),
        "line 6, column 'time', participant 'ann'",
    ),
    "no availability": (damaged("1,0,0.5", ",0,0.5"), "line 2, column 'available', participant 'ann': the avail"),
    "a probability above 1": (damaged("0.5,", "1.5,"), "line 2, column 'p', participant 'ann': probability 1.5 is outside"),
}  # fmt: skip


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def run(*arguments):
    """The command as a participant runs it, without a new interpreter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_their_place_and_leave_nothing(name, study, tmp_path):
    content, words = BROKEN[name]
    path = tmp_path / "logs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    before = sorted(tmp_path.iterdir())
    result = run("fit", path, "--study", study, "--out", tmp_path / "fitted")
    assert isinstance(result.exception, InputError)
    assert str(path) in str(result.exception)
    with pytest.raises(InputError, match=words):
        raise result.exception
    assert sorted(tmp_path.iterdir()) == before


def test_the_command_says_it_in_one_line_with_exit_code_2(study, tmp_path, monkeypatch):
    (tmp_path / "logs.csv").write_text(damaged("home", "moon"))
    monkeypatch.chdir(tmp_path)
    done = type_command("fit", "logs.csv", "--out", "fitted")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("surefoot: logs.csv: line 2, column 'place', participant 'ann': 'moon' was never declared")
    assert done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"logs.csv", "study.toml"}


def test_no_rewards_for_a_person_is_a_warning_with_a_name(study, tmp_path, monkeypatch):
    lines = [line.rsplit(",", 1)[0] + "," if line.startswith("bob") else line for line in LOGS.splitlines()]
    (tmp_path / "logs.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    done = type_command("fit", "logs.csv", "--out", "fitted")
    assert done.returncode == 0
    assert "warning: participant 'bob': no usable decision point" in done.stderr
    with pytest.warns(FitWarning, match="participant 'bob': no usable"):
        fitted = fit_study(tmp_path / "logs.csv", study)
    assert fitted.policies["bob"].probabilities([[1.0, 0.0]]).tolist() == [[0.5, 0.5]]


def table():
    rows = [line.split(",") for line in ROWS.splitlines()]
    columns = dict(zip(HEADER.strip().split(","), zip(*rows, strict=True), strict=True))
    numbers = {name: [float(value) for value in columns[name]] for name in ("mood", "available", "action", "p", "steps")}
    return pa.table({**{name: list(values) for name, values in columns.items()}, **numbers})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.set_column(7, "steps", pa.array(["5"] * 20)), r"b\.parquet: column 'steps' holds text, but numbers in"),
        (lambda t: t.drop_columns(["mood"]), r"b\.parquet: there is no column 'mood'"),
        (lambda t: t.set_column(1, "time", pa.array(range(20))), r"b\.parquet: column 'time' holds numbers, but text in"),
        (
            lambda t: t.set_column(3, "place", pa.array(["moon"] * 20)),
            r"b\.parquet: row 0, column 'place', .* 'moon'",
        ),
        (
            lambda t: t.set_column(0, "participant", pa.array(["ann"] * 20)),
            r"b\.parquet: row 0, column 'time', participant 'ann': a second",
        ),
        (None, r"b\.parquet: cannot be read as Parquet"),
    ],
)
def test_a_folder_of_parquet_with_one_wrong_file(change, words, study, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    pq.write_table(table().slice(0, 20), folder / "a.parquet")
    if change is None:
        (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-20])
    else:
        pq.write_table(change(table().slice(20)), folder / "b.parquet")
    before = sorted(tmp_path.iterdir())
    result = run("fit", folder, "--study", study, "--out", tmp_path / "fitted")
    with pytest.raises(InputError, match=words):
        raise result.exception
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(InputError, match=words):
        Study.load(study).read(folder)


def test_an_empty_part_of_a_folder_is_harmless_unless_all_are(study, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    pq.write_table(table().slice(0, 0), folder / "a.parquet")
    pq.write_table(table().slice(0, 0), folder / "b.parquet")
    with pytest.raises(InputError, match="no rows"):
        fit_study(folder, study, tmp_path / "fitted")
    pq.write_table(table(), folder / "b.parquet")
    assert fit_study(folder, study, tmp_path / "fitted").manifest["people"] == 2


def test_what_is_not_there_or_is_no_table(study, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "logs.sas7bdat").write_text("x")
    for path, words in (
        (tmp_path / "empty", "without Parquet"),
        (tmp_path / "x.csv", "no such file"),
        (tmp_path / "logs.sas7bdat", ".csv"),
    ):
        with pytest.raises(InputError, match=words):
            fit_study(path, study, tmp_path / "fitted")


PIECES = st.sampled_from(
    [
        *(
            b"",
            b",",
            b'"',
            b"\n",
            b"\r",
            b"\r\n",
            b";",
            b"\0",
            b"\x99",
            b"\xef\xbb\xbf",
            b"\xe2\x80\xa8",
            b"\xf0\x9f\x9a\xb6",
        ),
        *(b"1e999", b"-inf", b"nan", b"NA", b"1,5", b"9" * 40, b"1" * 25 + b".5", b"-0", b"0x1F", b"1_000", b"true"),
        *(
            b"2020-13-45T99:00:00",
            b"0001-01-01T00:00:00Z",
            b"294277-01-01T00:00:00",
            b"+02:00",
            b"ann",
            b"home",
            b"participant",
        ),
    ]
)
DAMAGE = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 12), st.one_of(PIECES, st.binary(max_size=8))),
    min_size=1,
    max_size=6,
)
ROLES = {
    "participant": "participant",
    "time": "time",
    "state": ["mood"],
    "action": "action",
    "outcome": "steps",
    "available": "available",
    "probability": "p",
}
IN_PLACE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refuses_at_most(path, from_file):
    """Every way to read the file either works or says what is wrong with it, by its name."""
    for read in (Study.parse(STUDY).read, lambda file: from_file(file, **ROLES), draft_study):
        try:
            read(path)
        except InputError as error:
            assert str(error).startswith(str(path))


def spoil(data, damage):
    for place, removed, added in damage:
        at = place % (len(data) + 1)
        data = data[:at] + added + data[at + removed :]
    return data


@IN_PLACE
@given(DAMAGE)
def test_nothing_but_an_input_error_comes_out_of_a_damaged_csv_file(tmp_path, damage):
    path = tmp_path / "logs.csv"
    path.write_bytes(spoil(LOGS.encode(), damage))
    refuses_at_most(path, Trajectories.from_file)


@IN_PLACE
@given(DAMAGE)
def test_nothing_but_an_input_error_comes_out_of_a_damaged_parquet_file(tmp_path, damage):
    path = tmp_path / "logs.parquet"
    pq.write_table(table(), path, compression="none")
    path.write_bytes(spoil(path.read_bytes(), damage))
    refuses_at_most(path, Trajectories.from_file)


def typed_column(size):
    """A column of any type that Parquet keeps, with missing values, and values at the ends of what the type holds."""
    instants = st.integers(-(2**63), 2**63 - 1)
    kinds = [
        *((kind, st.integers(-128, 127)) for kind in (pa.int8(), pa.int64())),
        *((kind, st.integers(0, 1)) for kind in (pa.uint8(), pa.int32(), pa.float32())),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float64(), st.floats()),
        (pa.bool_(), st.booleans()),
        *((kind, st.text(max_size=4)) for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))),
        (pa.string(), st.sampled_from(["1", "0", "TRUE", "2020-01-01", "2020-01-01T00:00:00Z", "1e400", "NA", "home"])),
        (pa.binary(), st.binary(max_size=3)),
        (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
        *((pa.timestamp(unit, zone), instants) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
        (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
        (pa.list_(pa.int64()), st.lists(st.integers(0, 1), max_size=2)),
        (pa.struct({"x": pa.int64()}), st.fixed_dictionaries({"x": st.integers(0, 1)})),
        (pa.null(), st.none()),
    ]
    columns = [
        st.lists(st.one_of(st.none(), values) if holes else values, min_size=size, max_size=size).map(
            lambda cells, kind=kind: pa.array(cells, kind)
        )
        for kind, values in kinds
        for holes in (False, True)
    ]
    return st.one_of(columns)


@IN_PLACE
@given(st.dictionaries(st.sampled_from(HEADER.strip().split(",")), typed_column(3), min_size=1, max_size=3))
def test_nothing_but_an_input_error_comes_out_of_columns_of_any_type(tmp_path, changed):
    path = tmp_path / "logs.parquet"
    sound = table().slice(0, 3)
    pq.write_table(pa.table({name: changed.get(name, sound[name]) for name in sound.column_names}), path)
    refuses_at_most(path, Trajectories.from_file)


@IN_PLACE
@given(DAMAGE)
def test_nothing_but_an_input_error_comes_out_of_a_damaged_study(tmp_path, damage):
    path = tmp_path / "study.toml"
    path.write_bytes(spoil(STUDY.encode(), damage))
    try:
        Study.load(path)
    except InputError as error:
        assert str(error).startswith(str(path))
