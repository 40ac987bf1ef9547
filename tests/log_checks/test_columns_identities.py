"""Ids that look alike, ids that number rows and unnamed availability are named by every command and in Python."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.log_checks import check_logs
from surefoot.log_checks.columns import IDENTITIES_NAME as NAME
from tests.log_checks.logs import find_check

ROLES = {"participant": "id", "time": "t", "action": "sent", "outcome": "steps", "state": ["mood"]}
STUDY = """
[columns]
participant = "id"
time = "t"
probability = "p"
[state.mood]
[actions]
column = "sent"
[outcome]
column = "steps"
"""


def make_table(people=12, points=30, ids="P{:02d}"):
    rng = np.random.default_rng(0)
    rows = people * points
    sent = rng.integers(0, 2, rows)
    return {
        "id": np.repeat([ids.format(number) for number in range(people)], points).astype(object),
        "t": np.tile(np.arange(points), people),
        "mood": rng.normal(size=rows),
        "sent": sent,
        "p": np.full(rows, 0.5),
        "steps": 100 + 20 * sent + rng.normal(0, 30, rows),
    }


def spell_twice(table):
    """Every second row of three people has their id in another case."""
    other = (table["t"] % 2 == 1) & np.isin(table["id"], ["P01", "P02", "P03", "P04"])
    return {**table, "id": np.where(other, np.char.lower(table["id"].astype(str)), table["id"])}


def number_rows(table):
    return {**table, "id": np.arange(len(table["t"]))}


def hide_availability(table, name="avail_now"):
    free = np.arange(len(table["t"])) % 10 != 0
    sent = np.where(free, table["sent"], 0)
    return {**table, "sent": sent, name: free.astype(int) if "un" not in name else 1 - free.astype(int)}


def add_total(table):
    return {
        name: np.append(values, {"id": "Total", "t": 99, "sent": 0, "p": 0.5}.get(name, 50.0))
        for name, values in table.items()
    }


SPELLED_TWICE = (
    "participants 'P01' and 'p01', 'P02' and 'p02', 'P03' and 'p03' and 1 more pairs differ only in case, blanks or "
    "leading zeros, and count as different people; write each id in one way if they are the same participant"
)
NUMBERED = (
    "every participant of column 'id' has exactly one row, so it seems to number the rows; name the column that "
    "identifies the participant"
)
UNNAMED = (
    "column 'avail_now' looks like availability (nothing could be sent in 36 rows), but has no role, so that these rows "
    "count as decisions to send nothing; name it as available"
)
TOTAL = "participant 'Total' looks like a summary of others; delete such rows"
CASES = {
    "spelled twice": (spell_twice, SPELLED_TWICE, "look"),
    "numbered": (number_rows, NUMBERED, "unsafe"),
    "unnamed availability": (hide_availability, UNNAMED, "unsafe"),
    "total": (add_total, TOTAL, "look"),
}


def to_arrow(table):
    return pa.table({name: pa.array(list(values)) for name, values in table.items()})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_reading_with_a_study_finds_it(case, suffix, tmp_path):
    spoil, message, verdict = CASES[case]
    table = to_arrow(spoil(make_table()))
    path = tmp_path / f"logs{suffix}"
    if suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        openpyxl = pytest.importorskip("openpyxl", reason="Excel is optional: pip install 'surefoot[excel]' to run this")
        book = openpyxl.Workbook()
        for row in (table.column_names, *zip(*table.to_pydict().values(), strict=True)):
            book.active.append(row)
        book.save(path)
    study = sf.Study.parse(STUDY)
    check = find_check(check_logs(study.read(path), study), NAME)
    assert check.verdict == verdict
    assert str(check) == f"{NAME}: {message}"


@pytest.mark.parametrize("case", CASES)
def test_a_frame_in_python_is_warned_of(case):
    spoil, message, verdict = CASES[case]
    table = to_arrow(spoil(make_table()))
    with pytest.warns(sf.FitWarning) as caught:
        logs = sf.Trajectories.from_frame(table, **ROLES)
    assert [str(warning.message) for warning in caught] == [message]
    assert find_check(check_logs(logs), NAME).verdict == verdict


def test_an_analysis_of_a_frame_says_it_too():
    table = to_arrow(hide_availability(spell_twice(make_table()), "avail"))
    roles = {"participant": "id", "time": "t", "treatment": "sent", "outcome": "steps", "probability": "p"}
    report = sf.effects.analyse(table, **roles, probability_of="sending")
    check = find_check(report.checks, NAME)
    assert "'P01' and 'p01'" in check.reason and "column 'avail' looks like availability" in check.reason
    named = sf.effects.analyse(table, **roles, probability_of="sending", available="avail")
    assert "avail" not in find_check(named.checks, NAME).reason
    with pytest.warns(sf.FitWarning) as caught:
        sf.effects.wcls(table, **roles, probability_of="sending")
    messages = [str(warning.message) for warning in caught]
    assert messages == [SPELLED_TWICE, UNNAMED.replace("avail_now", "avail")]


def test_sound_logs_are_fine_and_nothing_is_said(tmp_path):
    table = make_table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logs = sf.Trajectories.from_frame(to_arrow(table), **ROLES)
        named = hide_availability(table, "available")
        sf.Trajectories.from_frame(to_arrow(named), available="available", **ROLES)
        # One that is always 1, one that holds text and one that is a state variable are no availability.
        rows = len(table["t"])
        other = {
            **table,
            "available": np.ones(rows),
            "availability_note": np.full(rows, "ok"),
            "eligible": table["sent"] % 2,
        }
        sf.Trajectories.from_frame(to_arrow(other), **{**ROLES, "state": ["mood", "eligible"]})
    assert find_check(check_logs(logs), NAME).verdict == "fine"


def test_something_sent_where_nothing_could_be_sent_is_no_sure_sign(tmp_path):
    table = {**make_table(), "eligible": np.arange(360) % 3 // 2}
    with pytest.warns(sf.FitWarning, match=r"something was sent in \d+ of these rows; name it as available if it says so"):
        logs = sf.Trajectories.from_frame(to_arrow(table), **ROLES)
    assert find_check(check_logs(logs), NAME).verdict == "look"
    with pytest.warns(sf.FitWarning, match="column 'unavailable' looks like availability"):
        sf.Trajectories.from_frame(to_arrow(hide_availability(make_table(), "unavailable")), **ROLES)


@pytest.mark.parametrize("command", ["init", "fit", "screen", "effects", "audit"])
def test_every_command_names_both_spellings(command, tmp_path):
    path = tmp_path / "logs.csv"
    pyarrow.csv.write_csv(to_arrow(spell_twice(make_table(people=8, points=20))), path)
    (tmp_path / "study.toml").write_text(STUDY, "utf-8")
    arguments = {"init": ["--out", tmp_path / "new.toml"], "fit": ["--out", tmp_path / "fitted"]}.get(command, [])
    study = [] if command == "init" else ["--study", tmp_path / "study.toml"]
    result = CliRunner().invoke(app, [command, str(path), *map(str, (*study, *arguments))])
    assert result.exit_code == 0, result.output
    assert "participants 'P01' and 'p01'" in " ".join(result.output.split())
