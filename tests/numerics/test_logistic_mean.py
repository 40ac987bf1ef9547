import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import norm

from surefoot.numerics.logistic_mean import mean_of_logistic


def brute(mean, deviation, c, b, k):
    """A very fine sum over the normal variable."""
    z = np.linspace(-9, 9, 400_001)
    value = np.exp(-k * np.logaddexp(0, np.log(c) - b * (mean + deviation * z)))
    return float((norm.pdf(z) * value).sum() * (z[1] - z[0]))


@pytest.mark.parametrize("k", [0.5, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("c", [0.2, 1.0, 5.0])
def test_equals_a_fine_sum(c, k):
    for mean, deviation, b in ((0.3, 0.01, 20.0), (-0.2, 0.6, 1.6), (0.1, 0.5, 2.1), (0.4, 1.0, 20.0), (-1.0, 5.0, 9.0)):
        arrays = (np.array([value]) for value in (mean, deviation, c, b, k))
        assert_allclose(mean_of_logistic(*arrays)[0], brute(mean, deviation, c, b, k), atol=5e-7)


def test_without_doubt_it_is_the_curve():
    x = np.linspace(-3, 3, 7)
    one = np.ones(7)
    assert_allclose(mean_of_logistic(x, 0 * x, 5 * one, 2 * one, one), expit(2 * x - np.log(5)), rtol=1e-12)


def test_it_does_not_jump_where_the_rule_changes():
    sides = (np.array([1 - 1e-12, 1 + 1e-12]), *(np.ones(2) for _ in range(3)))
    below, above = mean_of_logistic(np.full(2, 0.3), *sides)
    assert below == pytest.approx(above, abs=5e-7)


def test_far_out_it_is_none_or_all_without_warnings():
    huge = np.array([-1e6, 1e6])
    one = np.ones(2)
    assert_allclose(mean_of_logistic(huge, one, one, one, one), [0, 1], atol=1e-12)
    assert_allclose(mean_of_logistic(huge, 0.01 * one, one, 20 * one, one), [0, 1], atol=1e-12)
