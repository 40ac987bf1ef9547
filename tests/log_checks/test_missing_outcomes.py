import numpy as np
import pytest

import surefoot as sf
from surefoot.log_checks import check_logs
from tests.log_checks.logs import find_check, make_logs

NAME = "missing outcomes by action"


def lose(logs, share_after_nothing, share_after_prompt, seed=1):
    """The same logs with outcomes lost at random, at rates that depend on the action."""
    rng = np.random.default_rng(seed)
    rate = np.where(logs.action == 0, share_after_nothing, share_after_prompt)
    return logs.with_values(reward=np.where(rng.random(len(logs)) < rate, np.nan, logs.reward))


def test_outcomes_that_are_all_there_are_fine():
    check = find_check(check_logs(make_logs()), NAME)
    assert (check.verdict, check.reason) == ("fine", "no outcome is missing")


def test_half_missing_after_nothing_alone_is_unsafe():
    check = find_check(check_logs(lose(make_logs(), 0.49, 0.0)), NAME)
    assert check.verdict == "unsafe"
    assert "after 'nothing', 0.0 % after 'send'" in check.reason
    assert "make recording independent of the prompt" in check.remedy
    difference = check.numbers["differences"]["send"]
    assert difference["low"] < -0.49 < difference["high"]


def test_losses_that_ignore_the_action_are_fine_or_looked_at_rarely():
    logs = make_logs(participants=20, decision_points=40)
    verdicts = [find_check(check_logs(lose(logs, 0.3, 0.3, seed)), NAME).verdict for seed in range(100, 200)]
    assert verdicts.count("unsafe") <= 1
    assert verdicts.count("look") <= 12


@pytest.mark.parametrize(("participants", "decision_points"), [(1, 200), (2, 100)])
def test_one_or_two_people_are_judged_by_their_rows(participants, decision_points):
    logs = make_logs(participants=participants, decision_points=decision_points)
    assert find_check(check_logs(lose(logs, 0.49, 0.0)), NAME).verdict == "unsafe"
    assert find_check(check_logs(lose(logs, 0.3, 0.3)), NAME).verdict != "unsafe"


@pytest.mark.parametrize("decision_points", range(1, 6))
def test_a_handful_of_rows_is_judged_without_complaint(decision_points):
    logs = make_logs(participants=1, decision_points=decision_points)
    find_check(check_logs(lose(logs, 1.0, 0.0)), NAME)


def test_an_outcome_defined_where_it_is_missing_is_looked_at():
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\n[effects]\nmissing_as = 0\n'
    )
    check = find_check(check_logs(lose(make_logs(), 0.49, 0.0), study), NAME)
    assert check.verdict == "look"
    assert "missing_as" in check.reason


def test_each_of_several_actions_is_compared_with_nothing():
    rng = np.random.default_rng(3)
    shape = (20, 60)
    action = rng.integers(0, 3, shape)
    reward = np.where((action == 2) & (rng.random(shape) < 0.4), np.nan, rng.normal(size=shape))
    logs = sf.Trajectories.from_arrays(rng.normal(size=(*shape, 1)), action, reward, actions=["nothing", "walk", "rest"])
    check = find_check(check_logs(logs), NAME)
    assert check.verdict == "unsafe"
    assert abs(check.numbers["differences"]["rest"]["value"] - 0.4) < 0.06
    assert check.numbers["shares"]["walk"] == 0
