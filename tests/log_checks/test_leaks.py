import numpy as np
import pytest

import surefoot as sf
from surefoot.log_checks import check_logs
from surefoot.log_checks.leaks import check_leaks
from surefoot.study import StudyLogs
from tests.log_checks.logs import find_check, make_logs


def judge(logs):
    return check_leaks(StudyLogs(logs, logs.reward, {}, np.arange(len(logs))), None)


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


def test_honest_logs_are_fine():
    assert find_check(check_logs(make_logs()), "leaks").verdict == "fine"


@pytest.mark.parametrize(("noise", "verdict"), [(0.078, "unsafe"), (0.4, "look"), (1.5, "fine")])
def test_a_state_measured_after_the_decision_is_judged_by_how_much_it_says(noise, verdict):
    rng = np.random.default_rng(2)
    outcome = rng.normal(size=(20, 60))
    logs = make([rng.normal(size=(20, 60)), outcome + noise * rng.normal(size=(20, 60))], outcome)
    check = judge(logs)
    assert check.verdict == verdict
    assert ("'x1'" in check.reason) == (verdict != "fine")
    assert "'x0'" not in check.reason


def test_a_monotone_function_of_the_outcome_is_seen():
    outcome = np.random.default_rng(3).normal(size=(20, 60))
    assert judge(make([np.exp(4 * outcome)], outcome)).verdict == "unsafe"


def test_two_copies_of_the_outcome_do_not_hide_each_other():
    rng = np.random.default_rng(4)
    outcome = rng.normal(size=(20, 60))
    copies = [outcome + 0.05 * rng.normal(size=outcome.shape) for _ in range(2)]
    assert judge(make(copies, outcome)).verdict == "unsafe"


def test_the_outcome_before_is_an_honest_state():
    outcome = walk(0.95)
    lagged = np.concatenate([np.zeros((20, 1)), outcome[:, :-1]], axis=1)
    assert judge(make([lagged], outcome)).verdict == "fine"


def test_a_trait_of_the_person_is_an_honest_state():
    rng = np.random.default_rng(5)
    level = rng.normal(0, 50, (20, 1))
    assert judge(make([level + np.zeros((20, 60))], level + rng.normal(size=(20, 60)))).verdict == "fine"


def test_a_yes_no_outcome_and_its_copy():
    rng = np.random.default_rng(6)
    outcome = (rng.random((20, 60)) < 0.4).astype(float)
    flipped = np.where(rng.random(outcome.shape) < 0.01, 1 - outcome, outcome)
    assert judge(make([flipped], outcome)).verdict != "fine"
    assert judge(make([rng.random((20, 60))], outcome)).verdict == "fine"


def test_a_state_that_says_which_action_was_taken():
    logs = make([walk(0.0)], walk(0.0, seed=9))
    given_away = logs.with_values(state=np.column_stack([logs.action.astype(float)]))
    assert "which action" in judge(given_away).reason


@pytest.mark.parametrize("points", range(1, 6))
def test_a_handful_of_rows_says_nothing(points):
    outcome = np.random.default_rng(7).normal(size=(1, points))
    assert judge(make([outcome], outcome)).verdict == "fine"


def test_many_variables_and_few_rows_raise_no_alarm():
    rng = np.random.default_rng(8)
    columns = [rng.normal(size=(5, 20)) for _ in range(40)]
    assert judge(make(columns, rng.normal(size=(5, 20)))).verdict == "fine"
