import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from surefoot import InputError, Study

STUDY = """
[columns]
participant = "who"
time = "when"
available = "free"
missing = ["unknown"]

[state.temperature]
range = [-30, 45]
scaling = { centre = 10, scale = 5 }

[state.rain]
kind = "yes/no"

[state.place]
column = "dec.place"
kind = "category"
levels = ["other", "home", "NA"]

[actions]
column = "sent"
names = ["nothing", "walk", "rest"]
values = ["none", "W", 2]
probabilities = [0.5, 0.3, 0.2]

[outcome]
column = "steps"
range = [0, 10000]
winsorise = [1, 1000]
transform = "log(x + 0.5)"
"""
CSV = """\
who,when,free,temperature,rain,dec.place,sent,steps,note
b,2,TRUE,15,yes,home,W,0,"quoted, with comma"
a,1,true,-1024,no,other,none,2000,"two
lines"
a,3,1,20.5,,NA,2,99999,
b,1,0,unknown,FALSE,unknown,,,x

a,2,yes, 10 ,1,,w,100,
"""


def write(tmp_path, text=CSV, name="logs.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def test_kinds_ranges_scaling_actions_and_the_reward(tmp_path):
    read = Study.parse(STUDY).read(write(tmp_path))
    logs = read.logs
    assert logs.participants.tolist() == ["a", "b"]
    assert logs.participant_index.tolist() == [1, 0, 0, 1, 0]
    assert logs.time.tolist() == [2, 1, 3, 1, 2]
    assert logs.state_names == ("temperature", "rain", "place=home", "place=NA")
    nan = np.nan
    assert_array_equal(logs.state, [[1, 1, 1, 0], [nan, 0, 0, 0], [2.1, nan, 0, 1], [nan, 0, nan, nan], [0, 1, nan, nan]])
    assert logs.available.tolist() == [True, True, True, False, True]
    assert logs.action.tolist() == [1, 0, 2, 0, 1]
    assert logs.probability.tolist() == [0.3, 0.5, 0.2, 1.0, 0.3]
    assert_array_equal(read.raw_outcome, [0, 2000, nan, nan, 100])
    assert_allclose(logs.outcome, np.log([1.5, 1000.5, nan, nan, 100.5]))
    assert {name: count.tolist() for name, count in read.implausible.items()} == {"temperature": [1, 0], "steps": [1, 0]}
    assert read.row.tolist() == [0, 1, 2, 3, 4]


def typed():
    """The same rows as a typed table; values that CSV spells are values here."""
    return pa.table(
        {
            "who": ["b", "a", "a", "b", "a"],
            "when": [2, 1, 3, 1, 2],
            "free": [True, True, True, False, True],
            "temperature": [15, -1024, 20.5, None, 10],
            "rain": [True, False, None, False, True],
            "dec.place": pa.array(["home", "other", "NA", None, None]).dictionary_encode(),
            "sent": ["W", "none", "2", None, "W"],
            "steps": pa.array([0, 2000, 99999, None, 100], pa.int32()),
        }
    )


def test_parquet_and_folders_give_the_same(tmp_path):
    study = Study.parse(STUDY)
    expected = study.read(write(tmp_path))
    pq.write_table(typed(), tmp_path / "logs.parquet")
    folder = tmp_path / "days"
    (folder / "deeper").mkdir(parents=True)
    (folder / "_not_this.parquet").write_text("left alone")
    pq.write_table(typed().slice(0, 2), folder / "a.parquet")
    # Another order of columns, other widths, and a column of nothing are harmless.
    rest = typed().slice(2).select(["steps", "when", "free", "temperature", "rain", "dec.place", "sent", "who"])
    rest = rest.set_column(0, "steps", rest["steps"].cast(pa.float64()))
    pq.write_table(rest.slice(0, 1), folder / "deeper" / "b.parquet")
    last = rest.slice(1)
    pq.write_table(last.set_column(5, "dec.place", pa.nulls(2)), folder / "deeper" / "c.parquet")
    for path in (tmp_path / "logs.parquet", folder):
        read = study.read(path)
        for name in ("participants", "participant_index", "time", "state", "available", "action", "probability", "outcome"):
            assert_array_equal(getattr(read.logs, name), getattr(expected.logs, name))
        assert_array_equal(read.raw_outcome, expected.raw_outcome)
        assert_array_equal(read.row, expected.row)


def test_what_is_harmless_is_read(tmp_path):
    """A byte order mark, CRLF, a last line without an end, blanks around values: the same logs."""
    study = Study.parse(STUDY)
    expected = study.read(write(tmp_path)).logs
    for text in ("\ufeff" + CSV, CSV.replace("\n", "\r\n"), "\ufeff" + CSV.replace("\n", "\r\n"), CSV.rstrip("\n")):
        logs = study.read(write(tmp_path, text)).logs
        assert_array_equal(logs.state, expected.state)
        assert_array_equal(logs.outcome, expected.outcome)


def test_ids_keep_their_leading_zeros_and_whole_numbers_are_numbers(tmp_path):
    plain = Study.parse('[columns]\nparticipant = "u"\ntime = "t"\n[state.s]\n')
    for first, second, participants in (
        ("1", "2", [1, 2]),
        ("01", "1", ["01", "1"]),
        ("1.0", "12", [1, 12]),
        ("1", "x", ["1", "x"]),
    ):
        text = f"u,t,s,action,outcome\n{first},0,1,0,1\n{second},0,1,1,1\n"
        assert plain.read(write(tmp_path, text)).logs.participants.tolist() == participants


def test_times_with_zones_are_instants(tmp_path):
    plain = Study.parse('[columns]\nparticipant = "u"\ntime = "t"\n[state.s]\n')
    times = ("2015-07-22T16:30:00+02:00,1,0", "2015-07-22 14:31:00Z,1,send", "2015-07-22T10:32:00-0400,1,nothing")
    text = "u,t,s,action,outcome\n" + "".join(f"1,{time},1\n" for time in times)
    logs = plain.read(write(tmp_path, text)).logs
    assert logs.time.astype("datetime64[m]").astype(str).tolist() == [f"2015-07-22T14:{minute}" for minute in (30, 31, 32)]
    assert logs.action.tolist() == [0, 1, 0]


def test_an_action_or_a_level_may_be_spelled_like_missing(tmp_path):
    text = """[columns]
    participant = "u"
    time = "t"
    [state.s]
    [state.region]
    kind = "category"
    levels = ["1", "NA"]
    [actions]
    names = ["null", "go"]
    """
    logs = Study.parse(text).read(write(tmp_path, "u,t,s,region,action,outcome\n1,0,NA,NA,null,1\n1,1,2,1.0,go,\n")).logs
    assert_array_equal(logs.state, [[np.nan, 1], [2, 0]])
    assert logs.action.tolist() == [0, 1]


@pytest.mark.parametrize("values", [[0, 1], [0.0, 1.0], [False, True], ["0", "1"], ["FALSE", "TRUE"], ["nothing", "send"]])
def test_two_actions_by_number_yes_or_no_or_name(values, tmp_path):
    plain = Study.parse('[columns]\nparticipant = "u"\ntime = "t"\n[state.s]\n')
    table = pa.table({"u": [1, 1], "t": [0, 1], "s": [1.0, 2.0], "action": values, "outcome": [1, 2]})
    pq.write_table(table, tmp_path / "logs.parquet")
    pc.write_csv(table, tmp_path / "logs.csv")
    for name in ("logs.parquet", "logs.csv"):
        assert plain.read(tmp_path / name).logs.action.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("-1024", "warm", "line 3, column 'temperature', participant 'a': 'warm' is not a number"),
        ("20.5", '"20,5"', "line 5, column 'temperature', participant 'a': '20,5' is not a number; write decimals"),
        ("15,yes", "15,perhaps", "line 2, column 'rain', participant 'b': 'perhaps' is neither yes nor no"),
        ("home,W", "hoem,W", "line 2, column 'dec.place', participant 'b': 'hoem' was never declared.*did you mean 'home'"),
        ("home,W", "home,Y", "line 2, column 'sent', participant 'b': action 'Y' was never declared"),
        ("1,0,unknown", "1,,unknown", "line 6, column 'free', participant 'b': the availability is missing"),
        ("a,3", "a,1", "line 5, column 'when', participant 'a': a second decision point"),
        ("a,3", ",3", "line 5, column 'who': missing"),
        ("a,3", "a,", "line 5, column 'when', participant 'a': missing"),
        ("a,3", "a,soon", "line 5, column 'when', participant 'a': 'soon' is not a number, unlike the times before"),
        ("15,yes", "inf,yes", None),
        ("2000", "inf", None),
        ("FALSE,unknown,", "FALSE,unknown,W", "line 6, column 'sent', participant 'b': action 1 at a decision point where"),
    ],
)  # fmt: skip
def test_a_wrong_cell_is_refused_with_its_line(old, new, words, tmp_path):
    assert old in CSV
    path = write(tmp_path, CSV.replace(old, new, 1))
    if words is None:
        assert Study.parse(STUDY).read(path).implausible["temperature"].sum() >= 1
        return
    with pytest.raises(InputError, match=words) as refused:
        Study.parse(STUDY).read(path)
    assert str(refused.value).startswith(f"{path}: line ")


def test_a_reward_without_a_logarithm_is_refused(tmp_path):
    text = STUDY.replace("range = [0, 10000]\nwinsorise = [1, 1000]", "")
    with pytest.raises(InputError, match=r"line 2, column 'steps', participant 'b': -3 has no log\(x \+ 0.5\)"):
        Study.parse(text).read(write(tmp_path, CSV.replace("W,0", "W,-3")))


def test_times_of_any_unit_and_zone_in_a_folder(tmp_path):
    plain = Study.parse('[columns]\nparticipant = "u"\ntime = "t"\n[state.s]\n')
    kinds = [pa.timestamp("ns", "UTC"), pa.timestamp("s", "Europe/Berlin"), pa.timestamp("us", "America/Detroit")]
    for number, kind in enumerate(kinds):
        time = pa.array([1_600_000_000 + number], pa.timestamp("s", kind.tz)).cast(kind)
        table = pa.table({"u": [1], "t": time, "s": [1.0], "action": [0], "outcome": [1]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    read = plain.read(tmp_path).logs.time
    assert read.astype("datetime64[s]").astype(int).tolist() == [1_600_000_000, 1_600_000_001, 1_600_000_002]
    fine = table.set_column(1, "t", pa.array([1_600_000_000_000_000_001], pa.timestamp("ns")))
    pq.write_table(fine, tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2\.parquet: column 't' holds times, but times with a zone in"):
        plain.read(tmp_path)
    assert plain.read(tmp_path / "2.parquet").logs.time.astype(int).tolist() == [1_600_000_000_000_000]
