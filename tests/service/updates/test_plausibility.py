"""One bad value cannot take over: limits from the data, checks on coefficients and on the influence of single rows."""

import json

import numpy as np
import pytest

from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import policy_checks
from surefoot.service.updates.influence import Influence, cook_distances
from surefoot.service.updates.plausibility import blank_implausible, find_limits
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, fill, moment, update

POOLED = STUDY.replace('pooling = "person"', 'pooling = "all"').replace(
    "[state.weather]\nrange = [-10, 10]", "[state.weather]"
)


def tell(trial, decision_id, value, hours):
    from surefoot.service.trial.api_models import Outcome
    from surefoot.service.trial.outcomes import record_outcomes

    record_outcomes(trial, [Outcome(decision_id=decision_id, proximal_outcome=value, timestamp=moment(hours))])


def send_at_a_thousand(trial):
    """The index and the id of a decision point with an impossible value at which something was sent."""
    context = {"weather": 1000.0, "engagement": 0.0, "place": "home"}
    for index in range(500, 600):
        decided = answer(trial, "p0", index, timestamp=moment(300), context=context)
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


def test_limits_come_from_the_middle_of_the_data():
    study = Study.parse(POOLED)
    contexts = [{"weather": value, "engagement": 1, "place": "home"} for value in np.linspace(-1, 1, 101)]
    limits = find_limits(study, contexts, 10)
    assert limits == {"weather": pytest.approx((-18.0, 18.0))}, "engagement never moves: it sets no limits"
    assert find_limits(study, contexts[:10], 10) == {}
    rows = [{"participant_id": "p", "decision_idx": i, "context": json.dumps(one)} for i, one in enumerate(contexts)]
    rows.append({"participant_id": "p", "decision_idx": 101, "context": json.dumps({**contexts[0], "weather": -18.2})})
    kept, blanked = blank_implausible(study, rows, 10)
    assert [one["decision_idx"] for one in blanked] == [101] and kept[:101] == rows[:101]
    assert json.loads(kept[101]["context"])["weather"] is None


def test_coefficients_may_move_by_so_many_standard_errors():
    def rows(value, low, high):
        return {"rows": [{"action": "send", "feature": "weather", "value": value, "low": low, "high": high, "note": ""}]}

    old = rows(0.705, 0.705 - 0.098, 0.705 + 0.098)  # standard error 0.05
    assert policy_checks.check_coefficients(rows(0.75, 0.7, 0.8), old, 6).passed
    finding = policy_checks.check_coefficients(rows(0.002, -0.01, 0.01), old, 6)
    assert not finding.passed and finding.found == pytest.approx(14.06, abs=0.01) and "0.705 to 0.002" in finding.message
    assert policy_checks.check_coefficients(rows(5, 4, 6), {}, 6).passed


def test_the_largest_influence_decides():
    few = [Influence("decision point 1 of participant a", 0.1), Influence("participant b", 0.4)]
    assert not policy_checks.check_influence(few, 0.3).passed and policy_checks.check_influence(few[:1], 0.3).passed
    assert "participant b" in policy_checks.check_influence(few, 0.3).message


def test_cooks_distance_is_the_textbooks(trial, study):
    """Against the definition: the change of all fitted values when a row is left out, in units of nothing."""
    fill(trial, people=1, points=40)
    from surefoot.service.updates import trial_logs

    with trial.database.snapshot() as connection:
        logs = trial_logs.make_study_logs(study, trial_logs.read_rows(connection))
    weights = logs.logs.usable.astype(float)
    found = cook_distances(logs, weights, pooled=True)
    rows = np.flatnonzero(weights)
    data = logs.logs
    state = np.column_stack([np.ones(len(rows)), data.state[rows]])
    design = np.hstack([state, state * data.action[rows][:, None]])
    reward = data.reward[rows]
    place = 5
    whole = np.linalg.lstsq(design, reward)[0]
    without = np.linalg.lstsq(np.delete(design, place, 0), np.delete(reward, place))[0]
    leverage = design[place] @ np.linalg.pinv(design.T @ design) @ design[place]
    moved = ((design @ (whole - without)) ** 2).sum()
    assert found[rows[place]] - leverage == pytest.approx(moved, rel=1e-6)
