"""All problems of a file come out of one run."""

import pytest

from surefoot import InputError, Study
from surefoot.data.log_columns import Problems

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
[state.mood]
[state.place]
kind = "category"
levels = ["other", "home"]
"""


def test_one_run_names_every_problem_in_the_order_of_the_rows(tmp_path):
    path = tmp_path / "logs.csv"
    path.write_text(
        "participant,time,available,mood,place,action,outcome\n"
        "ann,1,1,4,home,0,1\n"
        "ann,2,perhaps,4,hoem,1,1\n"
        "ann,3,1,fine,home,1,inf\n"
        "ann,3,1,4,hoem,,1\n"
        "ann,4,1,fine,home,1,2\n"
    )
    with pytest.raises(InputError) as refused:
        Study.parse(STUDY).read(path)
    found = str(refused.value).splitlines()
    assert found == [
        f"{path}: line 3, column 'place', participant 'ann': 'hoem' was never declared (did you mean 'home'?) "
        "(and 1 more row); declared levels are ['other', 'home']: add it, or leave the cell empty (missing)",
        f"{path}: line 3, column 'available', participant 'ann': 'perhaps' is neither yes nor no; "
        "write yes or no, true or false, 1 or 0",
        f"{path}: line 4, column 'mood', participant 'ann': 'fine' is not a number (and 1 more row); "
        "correct it or leave it empty (missing)",
        f"{path}: line 4, column 'outcome', participant 'ann': inf is not finite; "
        "correct the value or leave it empty (missing)",
        f"{path}: line 5, column 'action', participant 'ann': the action is missing at an available decision point; "
        "fill it in, or mark the participant as not available",
        f"{path}: line 5, column 'time', participant 'ann': a second decision point at 3; "
        "drop the duplicate or correct its time",
    ]
    assert (refused.value.row, refused.value.column, refused.value.participant) == (1, "place", "ann")


def test_the_first_twenty_are_named_and_the_others_counted(tmp_path):
    path = tmp_path / "logs.csv"
    rows = "".join(f"ann,{t},1,4,moon{t},0,1\n" for t in range(30))
    path.write_text("participant,time,available,mood,place,action,outcome\n" + rows)
    with pytest.raises(InputError) as refused:
        Study.parse(STUDY).read(path)
    lines = str(refused.value).splitlines()
    assert len(lines) == 21
    assert "line 21, " in lines[19]
    assert lines[20] == "These are the first 20 of 30 problems."
    path.write_text("participant,time,available,mood,place,action,outcome\n" + "ann,1\n" * 25)
    with pytest.raises(InputError) as refused:
        Study.parse(STUDY).read(path)
    assert str(refused.value).splitlines()[20] == "These are the first 20 of 25 problems."


def test_a_habit_of_a_file_is_one_problem(tmp_path):
    path = tmp_path / "logs.csv"
    rows = "".join(f'ann,{t},1,"{t},5",home,0,1\n' for t in range(30))
    path.write_text("participant,time,available,mood,place,action,outcome\n" + rows)
    with pytest.raises(
        InputError, match=r"'0,5' is not a number \(and 29 more rows\); write decimals with a point"
    ) as refused:
        Study.parse(STUDY).read(path)
    assert "\n" not in str(refused.value)


def test_a_cell_is_reported_once():
    problems = Problems()
    problems.report("x", [1], "first", "mend it")
    problems.report("x", [1], "a consequence of the first", "mend it")
    with pytest.raises(InputError, match=r"^row 1, column 'x': first; mend it$"):
        problems.raise_any()
