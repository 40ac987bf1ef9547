import numpy as np
import pytest

from surefoot.screening.stuck import Stuck
from tests.screening.blocks import flagged, make_block, one
from tests.step_trials import make_step_trial

RNG = np.random.default_rng(1)
BOTH = (one(), one("y", "outcome"))


def stick(values, start, length):
    values[..., start : start + length] = values[..., start - 1 : start]
    return values


def test_a_continuous_value_that_repeats_is_stuck_from_the_first_repeat():
    values = stick(RNG.standard_normal((2, 30, 100)), 45, 20)
    found = flagged(Stuck(), make_block(BOTH, values))
    for name in "xy":
        hit = found[name, "stuck"]
        assert hit[:, 46:65].mean() > 0.99
        assert hit[:, 45].mean() > 0.95
        assert not hit[:, :45].any()
        assert not hit[:, 65:].any()


def test_whole_numbers_repeat_honestly():
    answers = RNG.integers(1, 8, (1, 50, 210)).astype(float)
    assert sum(hit.sum() for hit in flagged(Stuck(), make_block((one(),), answers)).values()) < 0.003 * answers.size
    mostly = np.where(RNG.random(answers.shape) < 0.7, 4.0, answers)
    assert sum(hit.sum() for hit in flagged(Stuck(), make_block((one(),), mostly)).values()) < 0.003 * answers.size


def test_a_long_run_of_a_whole_number_is_stuck():
    answers = RNG.integers(1, 100, (1, 50, 210)).astype(float)
    answers[..., 99] = RNG.integers(10, 90, 50)
    answers = stick(answers, 100, 25)
    hit = flagged(Stuck(), make_block((one(),), answers))["x", "stuck"]
    assert hit[:, 105:125].mean() > 0.95
    assert hit[:, :100].sum() + hit[:, 126:].sum() < 0.003 * answers.size


def test_what_changes_slowly_by_nature_is_left_alone():
    age = np.broadcast_to(RNG.normal(40, 10, (1, 30, 1)), (1, 30, 210))
    daily = np.repeat(RNG.standard_normal((1, 30, 42)), 5, axis=2)
    weekly = np.repeat(RNG.standard_normal((1, 30, 6)), 35, axis=2)
    columns = (one("age"), one("daily"), one("weekly"))
    assert flagged(Stuck(), make_block(columns, np.concatenate([age, daily, weekly]))) == {}


def test_zeros_and_missing_values_are_not_judged():
    values = RNG.standard_normal((1, 20, 100))
    values[..., 30:60] = 0.0
    values[..., 70:90] = np.nan
    assert flagged(Stuck(), make_block((one(),), values)) == {}


@pytest.mark.parametrize("values", [2, 5, 11])
def test_columns_of_few_values_are_not_judged(values):
    answers = stick(RNG.integers(1, values + 1, (1, 50, 210)).astype(float), 100, 25)
    assert flagged(Stuck(), make_block((one(),), answers)) == {}


@pytest.mark.parametrize("decimals", [1, 9], ids=["rounded", "continuous"])
@pytest.mark.parametrize("beyond", [0, 3], ids=["floor", "a floor with values beyond it"])
def test_floor_and_ceiling_are_not_stuck_values(decimals, beyond):
    """People sit still for hours, and a scale has an end; a dead sensor beside them is still found."""
    for sign in (1.0, -1.0):
        values = np.round(RNG.normal(3, 1, (1, 40, 210)), decimals)
        values[:, ::2, 30:45] = np.log(0.5)
        values[:, ::3, 90:120] = np.log(0.5)
        values[0, 1, 20 : 20 + beyond] = -7.5 - np.arange(beyond)
        dead = stick(values, 150, 20)
        hit = flagged(Stuck(), make_block((one(),), sign * dead))["x", "stuck"]
        assert hit[:, 156:169].mean() > 0.95
        assert not hit[dead[0] == np.log(0.5)].any()


@pytest.mark.parametrize("outcome", ["logstep_30min", "sat", "steps"])
@pytest.mark.parametrize("seed", [0, 1])
def test_people_who_sit_still_lose_no_outcome(outcome, seed):
    """Log steps with spells of zeros, and a yes/no outcome, in a column of numbers: nothing becomes missing."""
    frame = make_step_trial(seed)
    values = frame[["logstep_pre30min", outcome]].to_numpy(dtype=float).T.reshape(2, 37, 210)
    assert flagged(Stuck(), make_block(BOTH, values)) == {}
