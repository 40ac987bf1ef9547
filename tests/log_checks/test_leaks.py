"""Leaks are named in every analysis, and the logs of honest studies pass."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.log_checks import check_logs
from surefoot.log_checks.leaks import check_leaks
from surefoot.study import StudyLogs
from tests.log_checks.logs import find_check, make_logs


def check(logs):
    return find_check(check_logs(logs), "leaks")


def with_column(logs, values, name="extra"):
    return replace(logs, state=np.column_stack([logs.state, values]), state_names=(*logs.state_names, name))


@pytest.mark.parametrize("seed", range(6))
def test_honest_logs_are_fine(seed):
    people = sf.simulators.HeartSteps(participants=20, seed=seed)
    logs = people.collect(sf.policies.coin(2), decision_points=60, seed=seed + 100)
    verdict = check(logs)
    assert (verdict.verdict, verdict.remedy) == ("fine", "")
    assert verdict.reason == "no state variable says which action was taken or what the outcome was"
    assert max(verdict.numbers["outcome"].values()) < 0.9


@pytest.mark.parametrize(("noise", "verdict", "words"), [(0.05, "unsafe", "says"), (0.3, "look", "nearly says")])
def test_a_variable_that_holds_the_outcome_is_named(noise, verdict, words):
    logs = make_logs()
    rng = np.random.default_rng(0)
    leak = logs.reward + noise * logs.reward.std() * rng.standard_normal(len(logs))
    answer = check(with_column(logs, leak, "steps after"))
    assert answer.verdict == verdict
    assert answer.reason.startswith(f"'steps after' {words} what the outcome was: correlation 0.9")
    assert "hides the effect of the action" in answer.remedy
    assert answer.numbers["outcome"]["steps after"] > 0.9


def test_the_effect_that_a_leak_hides_comes_with_the_verdict_first():
    """A correlation of 0.997 used to pass, and the effect was gone."""
    logs = make_logs(decision_points=100)
    rng = np.random.default_rng(1)
    leak = logs.reward + 0.077 * logs.reward.std() * rng.standard_normal(len(logs))
    assert np.corrcoef(leak, logs.reward)[0, 1] > 0.996
    assert check(with_column(logs, leak)).verdict == "unsafe"


def test_a_total_that_holds_the_outcome_is_named_with_its_parts():
    logs = make_logs()
    rng = np.random.default_rng(2)
    elsewhere = 5 * logs.reward.std() * rng.standard_normal(len(logs))
    answer = check(with_column(with_column(logs, elsewhere, "elsewhere"), logs.reward + elsewhere, "total"))
    assert answer.verdict == "unsafe"
    assert "'total', together with the others, says what the outcome was" in answer.reason


def test_a_variable_that_says_the_action_is_unsafe():
    logs = make_logs()
    answer = check(with_column(logs, logs.action * 3.0, "dose"))
    assert (answer.verdict, answer.numbers["action"]) == ("unsafe", ["dose"])
    assert answer.reason == "'dose' says which action was taken"
    assert answer.remedy == "leave it out unless it was known before the decision"


def test_the_same_code_in_state_and_outcome_is_no_leak():
    logs = make_logs()
    rng = np.random.default_rng(3)
    failed = rng.random(len(logs)) < 0.1
    measured = np.where(failed, -9999.0, rng.normal(70, 10, len(logs)))
    read = StudyLogs(with_column(logs, measured), np.where(failed, -9999.0, logs.reward), {}, np.arange(len(logs)))
    assert check_leaks(read, None).verdict == "fine"


def test_of_many_people_some_are_looked_at(monkeypatch):
    from surefoot.log_checks import leaks

    logs = make_logs(participants=60, decision_points=20)
    monkeypatch.setattr(leaks, "MOST_ROWS", 400)
    leaking = with_column(logs, logs.reward)
    looked_at = leaks._choose_rows(leaking)
    assert len(looked_at) == 400
    assert len(np.unique(leaking.participant_index[looked_at])) == 20
    assert check(leaking).verdict == "unsafe"


def test_too_few_decision_points_are_said_to_be_too_few():
    answer = check(make_logs(participants=3, decision_points=8))
    assert answer.verdict == "fine"
    assert "cannot be told from fewer than 30 decision points within people" in answer.reason


def make(columns, outcome, seed=0):
    """Logs of (people, points) arrays under a coin."""
    action = np.random.default_rng(seed).integers(0, 2, outcome.shape)
    return sf.Trajectories.from_arrays(
        np.stack(columns, axis=-1), action, outcome, state_names=[f"x{j}" for j in range(len(columns))]
    )


def walk(correlation, people=20, points=100, seed=1):
    rng = np.random.default_rng(seed)
    values = np.zeros((people, points))
    for t in range(1, points):
        values[:, t] = correlation * values[:, t - 1] + rng.normal(size=people)
    return values


@pytest.mark.parametrize(("noise", "verdict"), [(0.078, "unsafe"), (0.4, "look"), (1.5, "fine")])
def test_a_state_measured_after_the_decision_is_judged_by_how_much_it_says(noise, verdict):
    rng = np.random.default_rng(2)
    outcome = rng.normal(size=(20, 60))
    logs = make([rng.normal(size=(20, 60)), outcome + noise * rng.normal(size=(20, 60))], outcome)
    answer = check(logs)
    assert answer.verdict == verdict
    assert ("'x1'" in answer.reason) == (verdict != "fine")
    assert "'x0'" not in answer.reason


def test_two_copies_of_the_outcome_do_not_hide_each_other():
    rng = np.random.default_rng(4)
    outcome = rng.normal(size=(20, 60))
    copies = [outcome + 0.05 * rng.normal(size=outcome.shape) for _ in range(2)]
    assert check(make(copies, outcome)).verdict == "unsafe"


def test_the_outcome_before_is_an_honest_state():
    outcome = walk(0.95)
    lagged = np.concatenate([np.zeros((20, 1)), outcome[:, :-1]], axis=1)
    assert check(make([lagged], outcome)).verdict == "fine"


def test_a_yes_no_outcome_and_its_copy():
    rng = np.random.default_rng(6)
    outcome = (rng.random((20, 60)) < 0.4).astype(float)
    flipped = np.where(rng.random(outcome.shape) < 0.01, 1 - outcome, outcome)
    assert check(make([flipped], outcome)).verdict != "fine"
    assert check(make([rng.random((20, 60))], outcome)).verdict == "fine"


@pytest.mark.parametrize("points", range(1, 6))
def test_a_handful_of_rows_says_nothing(points):
    outcome = np.random.default_rng(7).normal(size=(1, points))
    assert check(make([outcome], outcome)).verdict == "fine"


def test_many_variables_and_few_rows_raise_no_alarm():
    rng = np.random.default_rng(8)
    columns = [rng.normal(size=(5, 20)) for _ in range(40)]
    assert check(make(columns, rng.normal(size=(5, 20)))).verdict == "fine"
