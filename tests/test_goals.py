"""The page of goals that `make bench` ends with, and its check against the committed figures."""

import copy
import json
from pathlib import Path

import pytest
from benchmarks.goals import GOALS, find_slower, list_goals

RESULTS = json.loads((Path(__file__).parents[1] / "benchmarks" / "results.json").read_text(encoding="utf-8"))


def test_every_goal_is_on_the_page_with_its_verdict():
    page = list_goals(RESULTS)
    rows = [line for line in page if line.startswith("| ") and "figure" not in line]
    assert len(rows) == len(GOALS)
    for goal, row in zip(GOALS, rows, strict=True):
        value = goal.measure(RESULTS)
        verdict = "not measured" if value is None else "holds" if goal.holds(value) else "does not hold"
        assert goal.figure in row and verdict in row


@pytest.mark.parametrize(("factor", "slower"), [(1.0, []), (1.10, []), (1.20, ["hb-accb / ro-accb"])])
def test_what_became_slower_is_named(factor, slower):
    now = copy.deepcopy(RESULTS)
    now["fitting"]["ratios"]["surefoot hb-accb / ro-accb"] *= factor
    found = find_slower(RESULTS, now)
    assert len(found) == len(slower)
    assert all(words in line for words, line in zip(slower, found, strict=True))


def test_a_ratio_that_should_be_large_is_worse_when_it_falls():
    now = copy.deepcopy(RESULTS)
    now["fitting"]["ratios"]["literal / surefoot ro-accb"] /= 1.3
    assert find_slower(RESULTS, now)[0].endswith("(30 % worse)")
    assert find_slower(now, RESULTS) == []
