import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.datasets import heartsteps_v1
from surefoot.datasets.heartsteps_v1 import DEVICES, SOURCE, read_zero_filled
from surefoot.screening import screen

FILE = Path(__file__).parents[3] / "shared" / "heartsteps_v1" / "suggestions.csv"
needs_file = pytest.mark.skipif(not FILE.is_file(), reason=f"needs the public HeartSteps V1 file at {FILE}")
FUNNEL = [8274, 7884, 7544, 7541, 7540, 6061, 5235]


@pytest.fixture(scope="module")
def data():
    return heartsteps_v1(FILE)


def row(**changes):
    plain = dict.fromkeys(SOURCE.values(), "")
    plain |= {"user.index": "1", "decision.index": "0", "decision.index.nogap": "0", "sugg.select.slot": "2"}
    plain |= {"avail": "TRUE", "send": "TRUE", "send.active": "TRUE", "send.sedentary": "FALSE"}
    plain |= {"jbsteps30": "10", "jbsteps30pre": "0", "dec.temperature": "20.5", "dec.location.category": "home"}
    return plain | {SOURCE[name]: value for name, value in changes.items()}


def write(path, rows, newline="\r\n"):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator=newline)
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


@needs_file
def test_the_funnel_count_by_count(data):
    assert list(data.funnel.values()) == FUNNEL
    assert len(data.frame) == len(data.logs) == 7540
    assert len(data.logs.participants) == 37
    assert data.logs.usable.sum() == 5235


@needs_file
def test_steps_look_as_the_trial_reported_them(data):
    free = data.logs.available
    steps = data.logs.outcome[free & ~np.isnan(data.logs.outcome)]
    assert (np.median(steps), steps.max()) == (74, 5527)
    assert steps.mean() == pytest.approx(243, abs=1)
    assert np.mean(steps == 0) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean((steps - steps.mean()) ** 3) / steps.std() ** 3 == pytest.approx(4.3, abs=0.05)
    assert np.isnan(data.logs.outcome[free]).mean() == pytest.approx(0.09, abs=0.005)
    of_29 = free & (data.logs.participant == 29)
    assert np.isnan(data.logs.outcome[of_29]).mean() == pytest.approx(0.61, abs=0.02)
    assert data.logs.action[free].mean() == pytest.approx(0.6, abs=0.02)
    assert set(data.logs.probability[free]) == {0.4, 0.6}


@needs_file
def test_no_sentinel_and_no_stack_trace_is_left(data):
    table = data.frame
    assert table["temperature"].min() > -40
    for name in ("wind", "precipitation", "snow"):
        assert table[name].min() == 0
    weather = set(table["weather"].dropna())
    assert {"Clear", "Overcast"} < weather
    assert not [text for text in weather if "java" in text or text in ("unknown", "")]
    assert set(table["location"].dropna()) == {"home", "work", "other"}
    assert table["day"].between(0, 41).all()
    assert (table.groupby("participant")["decision"].diff().dropna() > 0).all()


@needs_file
def test_the_spelling_of_the_published_file_gives_the_same(data, tmp_path):
    """Dates and booleans as in the original; line ends of another system."""
    text = FILE.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    text = re.sub(r"\bTRUE\b", "True", text)
    text = re.sub(r"\bFALSE\b", "False", text)
    stamp = re.compile(r"(\d{4})/(\d+)/(\d+) (\d+):(\d+)")
    text = stamp.sub(lambda found: "{}-{:0>2}-{:0>2} {:0>2}:{:0>2}:00".format(*found.groups()), text)
    path = tmp_path / "suggestions.csv"
    path.write_text(text, encoding="utf-8", newline="")
    again = heartsteps_v1(path)
    assert again.funnel == data.funnel
    assert again.frame.equals(data.frame)


def test_quirks_one_by_one(tmp_path):
    rows = [
        row(),
        row(decision="1", nogap="1", temperature="-1024", wind="-9999", precipitation="-1", snow="-1"),
        row(decision="2", nogap="2", location="unknown", weather="unknown", wind="unknown"),
        row(decision="3", nogap="3", location="store,point_of_interest", weather="a.b.C.get(C.java:516)"),
        row(decision="4", nogap="4", available="FALSE", send="", active="FALSE"),
        row(decision="5", nogap="5", steps="", decided_at="2015/7/2 9:05"),
        row(decision="6", nogap=""),
        row(decision="7", nogap="6", available="FALSE"),
        row(decision="8", nogap="7", active=""),
        row(decision="9", nogap="209"),
        row(participant="2", slot="1", decided_at="2015-07-02 09:05:00"),
    ]
    data = heartsteps_v1(write(tmp_path / "suggestions.csv", rows), backend="pandas")
    assert list(data.funnel.values()) == [11, 10, 9, 8, 7, 6, 3]
    table = data.frame
    assert table["temperature"].isna().tolist() == [False, True, False, False, False, False, False]
    assert table["wind"].isna().all()
    assert table["location"].fillna("missing").tolist() == ["home", "home", "missing", "other", "home", "home", "home"]
    assert table["weather"].isna().all()
    # The first decision point was in slot 2 of day 0, so the fourth after it is slot 1 of day 1.
    assert table["day"].tolist() == [0, 0, 0, 0, 1, 1, 0]
    assert table["decided_at"].dropna().astype(str).unique().tolist() == ["2015-07-02 09:05:00"]
    assert np.isnan(table["steps"][5])
    assert data.logs.action.tolist() == [1, 1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"send": "maybe"}, "line 2: 'maybe' is neither true nor false"),
        ({"decided_at": "yesterday"}, "line 2: 'yesterday' is not a date"),
        ({"steps": "many"}, "line 2: could not convert"),
        ({"participant": ""}, "line 2: user.index is missing"),
    ],
)
def test_another_file_is_refused(changes, words, tmp_path):
    path = write(tmp_path / "suggestions.csv", [row(**changes)])
    with pytest.raises(sf.InputError, match=words):
        heartsteps_v1(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(sf.InputError, match=r"there is no column 'user\.index'"):
        heartsteps_v1(path)
    with pytest.raises(sf.InputError, match="cannot be read"):
        heartsteps_v1(tmp_path / "nothing.csv")


@pytest.fixture(scope="module")
def filled():
    return read_zero_filled(FILE)


def rates(filled, found, column):
    flagged = np.isnan(found.logs.outcome if column == "steps" else found.logs.state[:, 0])
    truth = filled.not_recorded[column]
    hits = (flagged & truth).sum()
    return hits / flagged.sum(), hits / truth.sum(), (flagged & ~truth).sum() / (~truth).sum()


@needs_file
def test_the_file_is_the_one_that_is_meant(filled):
    assert len(filled.logs) == 8274
    assert filled.not_recorded["steps"].sum() == 1041
    assert (filled.logs.outcome[filled.not_recorded["steps"]] == 0).all()


@needs_file
def test_what_was_not_recorded_is_found(filled):
    found = screen(filled.logs, devices=DEVICES)
    precision, recall, wrong = rates(filled, found, "steps")
    assert precision >= 0.90
    assert recall >= 0.70
    assert wrong <= 0.02
    precision, recall, wrong = rates(filled, found, "steps_before")
    assert precision >= 0.90
    assert recall >= 0.70
    assert wrong <= 0.02
    assert found.blind


@needs_file
def test_other_thresholds_would_do_as_well(filled):
    """The default was not fitted to this file: around it the answer hardly changes."""
    for threshold in (0.88, 0.92):
        found = screen(filled.logs, devices=DEVICES, detectors={"not_worn": {"threshold": threshold}})
        precision, recall, _ = rates(filled, found, "steps")
        assert precision >= 0.90
        assert recall >= 0.70


@needs_file
def test_both_zero_alone_is_far_less_precise(filled):
    both = (filled.logs.outcome == 0) & (filled.logs.state[:, 0] == 0)
    assert round(float(filled.not_recorded["steps"][both].mean()), 2) == 0.51
