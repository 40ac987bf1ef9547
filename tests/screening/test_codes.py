import numpy as np
import pytest

from surefoot.screening.codes import Codes
from tests.screening.blocks import flagged, make_block, one

SHAPE = (1, 40, 100)


def draw(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("code", [999.0, -1.0, 99.0, 1234.5])
def test_a_code_among_continuous_values_is_found(code):
    rng = draw(5)
    coded = rng.random(SHAPE) < 0.1
    values = np.where(coded, code, rng.normal(1500, 1600, SHAPE))
    np.testing.assert_array_equal(flagged(Codes(), make_block((one(),), values))["x", "code"], coded[0])


def test_lonely_codes_among_whole_numbers_are_found_and_others_are_not():
    rng = draw(6)
    coded = rng.random(SHAPE) < 0.05
    answers = rng.integers(1, 8, SHAPE).astype(float)
    for code in (99.0, -99.0, 999.0):
        found = flagged(Codes(), make_block((one(),), np.where(coded, code, answers)))
        np.testing.assert_array_equal(found["x", "code"], coded[0])
    steps = np.round(rng.lognormal(5, 1, SHAPE))
    np.testing.assert_array_equal(
        flagged(Codes(), make_block((one(),), np.where(coded, -1.0, steps)))["x", "code"], coded[0]
    )
    assert list(flagged(Codes(), make_block((one(),), np.where(coded, 99.0, steps)))) == [("x", "possible code")]
    assert flagged(Codes(), make_block((one(),), np.where(coded, 8.0, answers))) == {}


def test_what_a_sensor_reads_at_its_limit_is_no_code():
    values = np.minimum(draw(7).normal(1500, 1600, SHAPE), 3000.0)
    assert flagged(Codes(), make_block((one(),), values)) == {}


@pytest.mark.parametrize("code", [-99.0, -1.0, -999.0])
@pytest.mark.parametrize("genuine", [[-3.0], [-120.0, -5.0], [-2.0, -4.0, -4.0, -7.0]])
def test_a_negative_code_is_found_beside_genuine_negatives(code, genuine):
    rng = draw(8)
    steps = np.maximum(np.round(rng.normal(150, 100, SHAPE)), 0.0)
    coded = rng.random(SHAPE) < 0.09
    values = np.where(coded, code, steps)
    values[0, : len(genuine), 0] = genuine
    coded[0, : len(genuine), 0] = False
    found = flagged(Codes(), make_block((one(),), values))
    assert set(found) == {("x", "code")}
    np.testing.assert_array_equal(found["x", "code"], coded[0])


def test_honest_numbers_that_look_like_codes_are_left_alone():
    """Degrees below zero, a change from -1 to 1, answers from -3 to 3, nine glasses of water."""
    rng = draw(9)
    honest = [
        np.round(rng.normal(-2, 6, SHAPE)),
        rng.integers(-1, 2, SHAPE).astype(float),
        rng.choice([-1.0, 1.0], SHAPE),
        rng.integers(-3, 4, SHAPE).astype(float),
        rng.poisson(8, SHAPE).astype(float),
        np.minimum(np.round(rng.normal(80, 20, SHAPE)), 99.0),
    ]
    for values in honest:
        assert flagged(Codes(), make_block((one(),), values)) == {}
