import numpy as np

from surefoot.screening.stuck import Stuck
from tests.screening.blocks import flagged, make_block, one

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
    answers = stick(RNG.integers(1, 100, (1, 50, 210)).astype(float), 100, 25)
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
