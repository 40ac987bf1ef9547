"""One bad value cannot take over: limits from the data, checks on coefficients and on the influence of single rows."""

import numpy as np
import pyarrow as pa
import pytest

from surefoot.data.log_table import LogTable
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from surefoot.study.log_reader import measure_logs
from surefoot.trial_rules import policy_checks
from surefoot.trial_rules.policy_checks import Influence, cook_distances
from surefoot.trial_rules.proposals import blank_implausible, find_limits
from tests.service.support.trials import STUDY, answer, fill, moment, update

POOLED = STUDY.replace('pooling = "person"', 'pooling = "all"').replace(
    "[state.weather]\nrange = [-10, 10]", "[state.weather]"
)


def tell(trial, decision_id, value, hours):
    from surefoot.service.trial.api_models import Outcome
    from surefoot.service.trial.decisions import record_outcomes

    given = Outcome(decision_id=decision_id, outcome=value, timestamp=moment(hours))
    return record_outcomes(trial, [given])[0]["status"]


def send_at_a_thousand(trial):
    """The index and the id of a decision point with an impossible value at which something was sent."""
    context = {"weather": 1000.0, "engagement": 0.0, "place": "home"}
    for index in range(500, 600):
        decided = answer(trial, "p0", index, timestamp=moment(300 + (index - 500) / 60), context=context)
        if decided["action"] == 1:
            return index, decided["decision_id"]
    raise AssertionError


def coefficient(trial, status, feature="weather"):
    rows = status["result"]["coefficients"]["rows"]
    return next(row["value"] for row in rows if row["feature"] == feature)


def test_a_state_of_a_thousand_does_not_change_the_policy(url):
    """Of 401 rows one with a value that no range forbids: the policy stays, and the row is named."""
    trial = open_trial(Study.parse(POOLED), url)
    fill(trial, people=4, points=100)
    _, before = update(trial)
    index, decision_id = send_at_a_thousand(trial)
    tell(trial, decision_id, 3.0, 301)
    state, after = update(trial)
    assert state == "done"
    assert coefficient(trial, after) == pytest.approx(coefficient(trial, before), rel=0.02)
    named = after["result"]["implausible_rows"][-1]
    assert (named["participant_id"], named["decision_idx"], named["variable"], named["value"]) == (
        "p0",
        index,
        "weather",
        1000.0,
    )
    trial.close()


def test_without_limits_from_the_data_the_row_is_found_by_its_influence(url):
    """The same row with limits and screen switched off: the update is refused, and the finding names the row."""
    text = POOLED.replace("[trial.guard_rails]", "[trial.guard_rails]\nplausible_widths = 1e9") + "\n[screen]\non = false\n"
    trial = open_trial(Study.parse(text), url)
    fill(trial, people=4, points=100)
    assert update(trial)[0] == "done"
    live = trial.policies.live()
    index, decision_id = send_at_a_thousand(trial)
    tell(trial, decision_id, -500.0, 301)
    state, status = update(trial)
    assert state == "refused" and trial.policies.live() == live
    failed = {finding["check"]: finding for finding in status["findings"] if not finding["passed"]}
    assert {"influence", "coefficients"} & set(failed)
    assert f"decision point {index} of participant p0" in failed["influence"]["message"]
    trial.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_absurd_outcome_neither_stops_learning_nor_goes_unnamed(url):
    trial = open_trial(Study.parse(POOLED), url)
    (first, *_) = fill(trial, people=4, points=40)
    _, before = update(trial)
    assert tell(trial, first.decision_id, 1e160, 2) == "implausible"
    assert tell(trial, first.decision_id, 9e8, 3) == "recorded"
    state, after = update(trial)
    assert state == "done"
    assert coefficient(trial, after) == pytest.approx(coefficient(trial, before), rel=0.1)
    named = after["result"]["implausible_rows"][-1]
    assert (named["participant_id"], named["decision_idx"], named["variable"], named["value"]) == ("p0", 0, "steps", 9e8)
    trial.close()


def test_limits_come_from_the_middle_of_the_data():
    study = Study.parse(POOLED)
    weather = np.append(np.linspace(-1, 1, 101), -18.2)
    assert find_limits(weather[:101], 10) == pytest.approx((-18.0, 18.0))
    assert find_limits(weather[:10], 10) is None and find_limits(np.ones(101), 10) is None
    frame = {name: np.ones(102) for name in ("participant", "time", "available", "probability", "action", "steps")}
    frame |= {"participant": ["p"] * 102, "time": np.arange(102), "weather": weather, "engagement": np.ones(102)}
    measured = measure_logs(study, LogTable.of(pa.table({**frame, "place": ["home"] * 102}), "participant"))
    kept, blanked = blank_implausible(study, measured, 10)
    assert [(one.row, one.variable, one.value) for one in blanked] == [(101, "weather", -18.2)]
    assert np.array_equal(kept.logs.state[:101], measured.logs.state[:101])
    assert np.isnan(kept.logs.state[101, 0]) and not np.isnan(measured.logs.state).any()


def test_coefficients_may_move_by_so_many_standard_errors():
    def rows(value, low, high):
        return [{"action": "send", "feature": "weather", "value": value, "standard_error": (high - low) / 3.92}]

    old = rows(0.705, 0.705 - 0.098, 0.705 + 0.098)  # standard error 0.05
    assert policy_checks.check_coefficients(rows(0.75, 0.7, 0.8), old, 6, is_live=True).passed
    finding = policy_checks.check_coefficients(rows(0.002, -0.01, 0.01), old, 6, is_live=True)
    assert not finding.passed and finding.measured == pytest.approx(14.06, abs=0.01) and "0.705 to 0.002" in finding.message
    assert policy_checks.check_coefficients(rows(5, 4, 6), [], 6, is_live=True).passed


def test_the_largest_influence_decides():
    few = [Influence("decision point 1 of participant a", 0.1), Influence("participant b", 0.4)]
    assert not policy_checks.check_influence(few, 0.3).passed and policy_checks.check_influence(few[:1], 0.3).passed
    assert "participant b" in policy_checks.check_influence(few, 0.3).message


def test_cooks_distance_is_the_textbooks(trial, study):
    """Against the definition: the change of all fitted values when a row is left out, in units of nothing."""
    fill(trial, people=1, points=40)
    from surefoot.service.trial import states

    with trial.database.snapshot() as connection:
        logs = states.make_study_logs(study, states.read_rows(connection))
    weights = logs.logs.usable.astype(float)
    found = cook_distances(logs.logs, weights, pooled=True)
    rows = np.flatnonzero(weights)
    data = logs.logs
    state = np.column_stack([np.ones(len(rows)), data.state[rows]])
    design = np.hstack([state, state * data.action[rows][:, None]])
    outcome = data.outcome[rows]
    place = 5
    whole = np.linalg.lstsq(design, outcome)[0]
    without = np.linalg.lstsq(np.delete(design, place, 0), np.delete(outcome, place))[0]
    leverage = design[place] @ np.linalg.pinv(design.T @ design) @ design[place]
    moved = ((design @ (whole - without)) ** 2).sum()
    assert found[rows[place]] - leverage == pytest.approx(moved, rel=1e-6)
