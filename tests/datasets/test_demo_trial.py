"""The trial of `surefoot demo` is as dirty as it says, and the truth is in it."""

import numpy as np
import pytest

from surefoot.datasets import demo_trial
from surefoot.rehearsal import RehearsalPlan
from surefoot.study import Study


@pytest.fixture(scope="module")
def logs():
    table = demo_trial.simulate_logs(seed=3)
    return {name: table[name].to_numpy() for name in table.column_names}


def test_nothing_is_sent_to_those_who_are_not_available(logs):
    assert not logs["sent"][~logs["available"]].any()
    assert (logs["probability"] == np.where(logs["available"], 0.5, 1.0)).all()
    assert abs(logs["sent"][logs["available"]].mean() - 0.5) < 0.03


def test_the_dirt_is_there_in_the_shares_that_are_told(logs):
    by_person = logs["temperature"].reshape(demo_trial.PEOPLE, -1)
    sliders = np.stack([logs["motivated"], logs["tired"], logs["stressed"]])
    assert abs((logs["steps"] == 0).mean() - demo_trial.UNWORN) < 0.02
    assert abs((np.diff(by_person) == 0).mean() - demo_trial.DEAD) < 0.02
    assert abs((sliders == sliders[0]).all(axis=0).mean() - demo_trial.CARELESS) < 0.02
    assert abs(np.isnan(logs["steps"]).mean() - demo_trial.LOST) < 0.01


def test_a_suggestion_helps_the_motivated(logs):
    honest = logs["available"] & (logs["steps"] > 0)
    outcome = np.log(logs["steps"][honest] + 50)
    sent, motivated = logs["sent"][honest] - 0.5, (logs["motivated"][honest] - 50) / 20
    x = np.column_stack([np.ones_like(sent), motivated, sent, sent * motivated])
    coefficients = np.linalg.lstsq(x, outcome)[0]
    assert coefficients[2] > 0
    assert coefficients[3] > 0


def test_the_same_seed_gives_the_same_trial():
    assert demo_trial.simulate_logs(5).equals(demo_trial.simulate_logs(5))
    assert not demo_trial.simulate_logs(5).equals(demo_trial.simulate_logs(6))


def test_its_study_can_be_served():
    study = Study.parse(demo_trial.study_text())
    assert study.trial is not None
    assert study.screen.on
    assert RehearsalPlan.parse(demo_trial.plan_text()).design.per_day == len(demo_trial.HOURS)
