import numpy as np
import pytest

from surefoot.screening.codes import Codes
from surefoot.screening.units import Units
from tests.screening.blocks import flagged, make_block, one

SHAPE = (1, 40, 100)


def draw(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("factor", [10.0, 100.0, 1000.0, 0.1, 0.001])
def test_a_weight_in_another_unit_is_found(factor):
    rng = draw(1)
    weight = rng.normal(75, 12, (1, 40, 1)) + rng.normal(0, 0.8, SHAPE)
    wrong = rng.random(SHAPE) < 0.1
    hit = flagged(Units(), make_block((one(),), np.where(wrong, weight * factor, weight)))["x", "unit"]
    assert (hit == wrong[0]).mean() > 0.999


def test_one_wrong_value_is_found_when_it_could_be_nothing_else():
    weight = draw(2).normal(75, 1, SHAPE)
    weight[0, 3, 50] *= 1000
    hit = flagged(Units(), make_block((one(),), weight))["x", "unit"]
    assert np.argwhere(hit).tolist() == [[3, 50]]


@pytest.mark.parametrize(
    "values",
    [
        lambda rng: rng.normal(1500, 1600, SHAPE),
        lambda rng: rng.lognormal(5, 1.3, SHAPE),
        lambda rng: rng.lognormal(0, 1.3, SHAPE) - 0.3,
        lambda rng: rng.exponential(1, SHAPE) - 0.1,
        lambda rng: rng.standard_t(3, SHAPE),
        lambda rng: rng.integers(0, 8, SHAPE).astype(float),
        lambda rng: np.where(rng.random(SHAPE) < 0.4, 0.0, rng.lognormal(5, 1, SHAPE)),
        lambda rng: np.full(SHAPE, 7.0),
        lambda rng: np.full(SHAPE, np.nan),
    ],
    ids=["normal", "log-normal", "log-normal, both sides", "exponential", "t", "answers", "zeros", "constant", "missing"],
)
def test_honest_values_of_any_shape_are_left_alone(values):
    block = make_block((one(),), values(draw(3)))
    assert sum(hit.mean() for hit in flagged(Units(), block).values()) < 5e-4
    assert flagged(Codes(), block) == {}


def test_a_unit_that_cannot_be_told_apart_is_left_to_the_critic():
    """Steps spread over a factor of a thousand hide a factor of ten."""
    rng = draw(4)
    steps = rng.lognormal(5, 1.5, SHAPE)
    wrong = rng.random(SHAPE) < 0.1
    found = flagged(Units(), make_block((one(),), np.where(wrong, 10 * steps, steps)))
    assert sum((hit & ~wrong[0]).mean() for hit in found.values()) < 1e-3
