"""What the audit says about the data behind a fit."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.audit.screen_checks import check_screen, check_standing_still
from surefoot.screening import screen
from surefoot.simulators import contaminate


def study(seed, people=30):
    return sf.simulators.HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=210, seed=seed)


def still(logs):
    return check_standing_still(logs, logs.reward)


def test_identical_zeros_in_runs_are_named_even_without_a_screen():
    logs = contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs
    found = audit(sf.method("accb").fit(logs)).check("values that stand still")
    assert found.verdict == "unsafe"
    assert 0.15 < found.numbers["identical"] < 0.2
    assert found.numbers["zeros"] == pytest.approx(0.2, abs=0.005)
    assert found.numbers["zeros_in_runs"] > 0.8
    assert "[screen]" in found.remedy


def test_a_dead_sensor_is_named_and_the_screen_settles_it():
    logs = contaminate(study(3), mechanism="stuck", ratio=0.2, run_length=20, seed=4).logs
    assert "'reward', whose values hardly ever recur otherwise" in still(logs).reason
    assert still(screen(logs).logs).verdict == "fine"


def test_honest_data_may_repeat():
    clean = study(5)
    rng = np.random.default_rng(6)
    for reward in (clean.reward, np.maximum(np.round(clean.reward / 100), 0), rng.integers(0, 2, len(clean)).astype(float)):
        assert still(clean.with_values(reward=reward)).verdict == "fine"
    walk = sf.simulators.ChainWalk(participants=20).collect(sf.policies.coin(2), decision_points=210, seed=7)
    assert still(walk).verdict != "unsafe"


def test_the_chance_of_runs_is_that_of_independent_zeros():
    logs = study(8, people=200)
    zeros = np.random.default_rng(9).random(len(logs)) < 0.5
    numbers = still(logs.with_values(reward=np.where(zeros, 0.0, 1.0 + logs.reward**2))).numbers
    assert numbers["by_chance"] == pytest.approx(0.5**4 * (5 - 4 * 0.5), rel=0.1)
    assert numbers["zeros_in_runs"] == pytest.approx(numbers["by_chance"], rel=0.1)


def test_unworn_when_not_prompted_is_unsafe_in_every_study():
    for seed in range(10):
        logs = contaminate(study(seed), mechanism="nonwear", values="reward", ratio=0.2, after="nothing", seed=seed).logs
        found = check_screen(screen(logs))
        assert found.verdict == "unsafe"
        assert "effect of the prompt, not dirt" in found.remedy


def test_what_the_screen_marked_is_told():
    found = screen(contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs)
    check = audit(sf.method("accb").fit(found.logs), screen=found).check("screen")
    assert check.verdict == "look"
    assert "20.0 %" in check.reason
    assert check_screen(screen(study(2))).verdict == "fine"
