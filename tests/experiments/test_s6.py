import pytest

from surefoot.experiments.s6 import ARTEFACTS, METHODS, OURS, run_study, summarise
from surefoot.experiments.s6_outputs import draw_errors, judge_rows, make_runs_frame


@pytest.fixture(scope="module")
def rows():
    """Few people; other seeds than those of the committed table, which holds the limits."""
    return summarise([run_study(ARTEFACTS, (0.2,), participants=15, replicate=0, seed=41)])


def test_the_screen_brings_every_artefact_near_the_oracle(rows):
    by_name = {row.artefact: row for row in rows}
    assert set(by_name) == {"clean", *(artefact.name for artefact in ARTEFACTS)}
    assert by_name["clean"].wrong <= 0.003
    for artefact in ARTEFACTS:
        row = by_name[artefact.name]
        if artefact.limit is not None:
            assert row.to_oracle < artefact.limit + 0.1
        assert row.wrong <= 0.003
    unit = by_name["reward × 10 (unit)"]
    assert unit.plain["accb"] > 3
    assert unit.screened["accb"] < 1.7


def test_zeros_after_nothing_only_are_called_unsafe(rows):
    assert {row.artefact: row.unsafe for row in rows}["reward 0 after nothing only"] == 1.0


def test_verdicts_name_what_is_held(rows):
    found = {row["data"]: row for row in judge_rows(rows)}
    assert found["clean"]["held"]
    assert found["reward 0 after nothing only"]["held"]
    assert {row["limit"] for row in found.values()} == {0.003, 1.05, 1.1, 1.15, 0.95}


def test_the_frame_and_the_figure_hold_every_method(rows):
    frame = make_runs_frame(rows).to_pylist()
    assert len(frame) == len(rows) * (2 * len(METHODS) + 1)
    assert {row["method"] for row in frame} == {"oracle", *METHODS}
    drawn = [axes for axes in draw_errors(rows).axes if axes.has_data()]
    assert [axes.get_title(loc="left") for axes in drawn] == [artefact.name for artefact in ARTEFACTS]
    assert OURS in METHODS
