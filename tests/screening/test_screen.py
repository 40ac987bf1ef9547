"""Laws of the screen as a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.inference.intervals import Interval
from surefoot.screening import Questionnaire, TreatmentDifference, screen
from surefoot.simulators import contaminate

CLEAN = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=120, seed=3)
DEVICES = dict.fromkeys((*CLEAN.state_names, "outcome"), "wrist")


def steps(logs):
    """The same study with an outcome that has honest zeros and repeats, as steps have."""
    return logs.with_values(outcome=np.maximum(np.round(logs.outcome / 100), 0.0))


def mixed(seed=0):
    """A little of everything."""
    logs = steps(CLEAN)
    for place, how in enumerate(
        (
            {"mechanism": "nonwear", "run_length": 8},
            {"mechanism": "stuck", "values": "both", "run_length": 8},
            {"mechanism": "code", "values": "state", "strength": 99},
        )
    ):
        logs = contaminate(logs, ratio=0.05, seed=seed + place, **how).logs
    return logs


MIXED = mixed()
FOUND = screen(MIXED, devices=DEVICES)


def test_values_become_missing_and_nothing_else_changes():
    flags = FOUND.flags.row[FOUND.marks]
    for before, after in ((MIXED.state, FOUND.logs.state), (MIXED.outcome, FOUND.logs.outcome)):
        gone = np.isnan(after) & ~np.isnan(before)
        assert_array_equal(after[~gone], before[~gone])
        assert np.isin(np.unique(np.nonzero(gone)[0]), flags).all()
    assert_array_equal(FOUND.logs.action, MIXED.action)
    assert len(FOUND.logs) == len(MIXED)
    assert {"not worn", "stuck", "code"} <= set(FOUND.counts())


def test_the_action_is_not_looked_at():
    other = sf.Trajectories.from_frame(
        MIXED.to_frame("pyarrow").set_column(
            MIXED.to_frame("pyarrow").column_names.index("action"), "action", [np.roll(MIXED.action, 17)]
        ),
        participant="participant",
        time="time",
        state=list(MIXED.state_names),
        action="action",
        outcome="outcome",
    )
    again = screen(other, devices=DEVICES)
    for one, two in zip(FOUND.flags, again.flags, strict=True):
        assert_array_equal(one, two)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 117), st.integers(0, 1000))
def test_nothing_after_the_next_decision_is_looked_at(last, seed):
    """Given what is usual, flags up to a decision point stay when everything after the next one's state changes."""
    rng = np.random.default_rng(seed)
    rows = MIXED.order.reshape(30, 120)
    state, outcome = MIXED.state.copy(), MIXED.outcome.copy()
    later = rows[:, last + 1 :]
    outcome[later] = rng.choice([0.0, 7.0, 5000.0, np.nan], later.shape)
    later = rows[:, last + 2 :]
    state[later] = rng.choice([0.0, 1.5, 99.0, -300.0], (*later.shape, 3))
    changed = screen(MIXED.with_values(state=state, outcome=outcome), devices=DEVICES, usual=FOUND.usual)
    seen = rows[:, : last + 1].ravel()
    assert_array_equal(np.isnan(FOUND.logs.outcome)[seen], np.isnan(changed.logs.outcome)[seen])
    assert_array_equal(np.isnan(FOUND.logs.state)[seen], np.isnan(changed.logs.state)[seen])


def test_blocks_and_company_change_nothing(monkeypatch):
    monkeypatch.setattr(sf.Trajectories.blocks, "__defaults__", (500,))
    again = screen(MIXED, devices=DEVICES)
    for one, two in zip(FOUND.flags, again.flags, strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize("logs", [CLEAN, steps(CLEAN)], ids=["as simulated", "rounded with honest zeros"])
def test_clean_data_are_left_alone(logs):
    found = screen(logs, devices=DEVICES)
    assert found.marks.sum() <= 0.003 * len(logs) * 4
    assert found.blind


def test_skewed_and_time_varying_data_are_left_alone():
    """The examples that the critics are tested with."""
    from surefoot.experiments.coefficient_errors import log_normal_logs

    skewed = log_normal_logs(CLEAN, 5)
    place = np.empty(len(CLEAN))
    place[CLEAN.order] = np.tile(np.linspace(0, 1, 120), 30)
    moving = CLEAN.with_values(state=CLEAN.state + np.column_stack([place, place**2, np.sin(20 * place)]))
    for logs in (skewed, moving):
        assert not screen(logs).marks.any()


@pytest.mark.parametrize("after", ["nothing", "prompt"])
def test_flags_that_depend_on_the_action_are_named(after):
    logs = contaminate(CLEAN, mechanism="nonwear", values="outcome", ratio=0.2, after=after, seed=4).logs
    found = screen(logs)
    (difference,) = found.treatment
    assert difference.differs
    assert not found.blind
    assert (difference.difference.value > 0) == (after == "prompt")
    assert "effect of the prompt, not dirt" in found.warnings()[0]
    assert not screen(contaminate(CLEAN, mechanism="nonwear", ratio=0.2, run_length=10, seed=5).logs).warnings()


def test_flags_as_a_frame_and_as_totals():
    frame = FOUND.to_frame("pandas")
    assert list(frame.columns) == ["row", "participant", "time", "column", "reason", "score"]
    assert len(frame) == len(FOUND.flags.row)
    totals = FOUND.to_dict()
    assert (totals["flagged_values"], totals["people"]) == (len(frame), 30)
    rows = totals["counts"]
    for row in rows:
        chosen = (frame["column"] == row["column"]) & (frame["reason"] == row["reason"])
        action = MIXED.action[frame["row"][chosen]]
        assert row["after"] == dict(zip(("nothing", "send"), np.bincount(action), strict=True))
        assert row["missing"] == (0 if "shift" in row["reason"] else row["values"])


def test_flagged_outcomes_stay_where_the_outcome_is_only_reported():
    reported = screen(MIXED, devices=DEVICES, outcome=False)
    for name in ("row", "column", "detector", "reason", "score", "value"):
        assert_array_equal(getattr(FOUND.flags, name), getattr(reported.flags, name))
    assert_array_equal(reported.logs.outcome, MIXED.outcome)
    assert_array_equal(reported.logs.state, FOUND.logs.state)
    assert all(row["missing"] == 0 for row in reported.to_dict()["counts"] if row["column"] == "outcome")


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        (Interval(0.004, 0.0025, -0.001, 0.009), "fine"),
        (Interval(0.009, 0.002, 0.005, 0.013), "look"),
        (Interval(-0.05, 0.02, -0.09, -0.01), "look"),
        (Interval(0.05, 0.01, 0.03, 0.07), "unsafe"),
    ],
    ids=["includes zero", "small", "less than three standard errors", "large"],
)
def test_the_verdict_is_look_wherever_the_interval_excludes_zero(difference, verdict):
    assert TreatmentDifference("stuck", "send", 0.01, 0.01 + difference.value, difference).verdict == verdict


def test_questionnaires_among_the_state():
    straight = contaminate(CLEAN, mechanism="straightlining", ratio=0.1, seed=6)
    found = screen(straight.logs, questionnaires=(Questionnaire("mood", CLEAN.state_names),))
    assert_array_equal(np.isnan(found.logs.state).all(axis=1), straight.touched)


def test_only_the_columns_that_are_named():
    found = screen(MIXED, devices=DEVICES, columns=["outcome"])
    assert set(found.to_frame("pandas")["column"]) == {"outcome"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"devices": {"wether": "wrist"}}, "did you mean 'weather'"),
        ({"columns": ["steps"]}, "no column 'steps'"),
        ({"detectors": {"unit": {}}}, "did you mean 'units'"),
        ({"detectors": {"units": {"factor": 3}}}, "factor"),
        ({"detectors": {"stuck": {"threshold": 2.0}}}, "threshold"),
        ({"detectors": {"clock": {"until": "soon"}}}, "not a time"),
    ],
)
def test_wrong_arguments_are_refused(wrong, words):
    with pytest.raises(sf.InputError, match=words):
        screen(CLEAN, **wrong)


def test_one_participant_with_one_decision_point():
    tiny = sf.Trajectories.from_arrays(np.zeros((1, 1, 2)), np.zeros((1, 1)), np.zeros((1, 1)))
    assert len(screen(tiny, devices={"s1": "wrist", "outcome": "wrist"}).logs) == 1
