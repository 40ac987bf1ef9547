"""Orthant probabilities against Monte Carlo, SciPy's integrator, closed forms, and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from surefoot.numerics.orthants import (
    normal_cdf,
    orthant_probability,
    probability_of_largest,
    scalar_normal_cdf,
    scalar_probability_of_largest,
)
from tests.problems import effect_problems
from tests.reference.largest_value import by_draws, by_scipy


@pytest.mark.parametrize("kind", ["ordinary", "nearly singular", "different widths"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_equals_scipys_integrals(size, kind):
    mean, covariance = effect_problems(np.random.default_rng(size), size, 6 // size, kind)
    found = probability_of_largest(mean, covariance)
    for row, m, v in zip(found, mean, covariance, strict=True):
        assert_allclose(row, by_scipy(m, v), atol=2e-5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_equals_monte_carlo_within_its_error(size):
    rng = np.random.default_rng(10 + size)
    mean, covariance = effect_problems(rng, size, 3, "ordinary")
    for m, v, found in zip(mean, covariance, probability_of_largest(mean, covariance), strict=True):
        share, error = by_draws(m, v, 200_000, rng)
        assert (np.abs(found - share) <= 4.5 * error + 1e-5).all()


def test_two_actions_are_exact():
    mean, deviation = np.array([[-2.0], [0.0], [3.0]]), np.array([0.5, 2.0, 0.1])
    found = probability_of_largest(mean, deviation[:, None, None] ** 2)
    assert_allclose(found[:, 1], norm.cdf(mean[:, 0] / deviation), rtol=1e-14)
    assert_allclose(found[:, 0], norm.cdf(-mean[:, 0] / deviation), rtol=1e-14)


def test_equal_chances_in_closed_form():
    """Effects of d equal actions over a first that is no different: correlation ½, and each of d + 1 is as likely."""
    for size in range(1, 6):
        covariance = (np.eye(size) + np.ones((size, size)))[None]
        assert_allclose(probability_of_largest(np.zeros((1, size)), covariance), 1 / (size + 1), atol=1e-7)


def test_two_variables_in_closed_form():
    """P(X ≤ 0, Y ≤ 0) = ¼ + arcsin(ρ) / 2π (Sheppard)."""
    rho = np.linspace(-0.999999, 0.999999, 41)
    zero, one = np.zeros(41), np.ones(41)
    found = orthant_probability([zero, zero], [[one, rho], [rho, one]])
    assert_allclose(found, 0.25 + np.arcsin(rho) / (2 * np.pi), atol=1e-6)


def test_what_is_certain_is_certain_and_ties_go_to_the_first():
    mean = np.array([[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [3.0, 3.0], [0.0, -1.0]])
    found = probability_of_largest(mean, np.zeros((5, 2, 2)))
    assert_array_equal(found, np.eye(3)[[2, 0, 0, 1, 0]])
    # One effect is known, the other is not.
    half = probability_of_largest(np.array([[0.0, -0.2]]), np.diag([1.0, 0.0])[None])
    assert_allclose(half, [[0.5, 0.5, 0.0]], atol=1e-5)


def test_effects_that_move_together():
    """Perfectly correlated: the larger mean always wins over the other."""
    for size in (2, 3, 4):
        found = probability_of_largest(np.arange(1.0, size + 1)[None] - 2, np.ones((1, size, size)))
        expected = np.zeros(size + 1)
        expected[[0, size]] = norm.cdf(2 - size), norm.cdf(size - 2)
        assert_allclose(found[0], expected, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_order_units_and_company_change_nothing(size, seed):
    rng = np.random.default_rng(seed)
    mean, covariance = effect_problems(rng, size, 5, "ordinary")
    found = probability_of_largest(mean, covariance)
    assert_allclose(found.sum(axis=1), 1, rtol=1e-14)
    assert ((found >= 0) & (found <= 1)).all()
    order = rng.permutation(size)
    other = probability_of_largest(mean[:, order], covariance[:, order][:, :, order])
    assert_allclose(other[:, 1:], found[:, 1:][:, order], atol=1e-5)
    assert_allclose(probability_of_largest(1e3 * mean, 1e6 * covariance), found, atol=1e-9)
    assert_array_equal(probability_of_largest(mean[2:3], covariance[2:3])[0], found[2])


def test_blocks_change_nothing(monkeypatch):
    mean, covariance = effect_problems(np.random.default_rng(0), 3, 50, "ordinary")
    whole = probability_of_largest(mean, covariance)
    monkeypatch.setattr("surefoot.numerics.orthants.BLOCK_CELLS", 500)
    assert_array_equal(probability_of_largest(mean, covariance), whole)
    assert probability_of_largest(mean.reshape(5, 10, 3), covariance.reshape(5, 10, 3, 3)).shape == (5, 10, 4)


def test_one_number_or_many():
    values = np.linspace(-40, 40, 81)
    assert_allclose([scalar_normal_cdf(value) for value in values], normal_cdf(values), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("kind", ["ordinary", "nearly singular", "different widths"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_problem_or_many(size, kind):
    mean, covariance = effect_problems(np.random.default_rng(3), size, 20, kind)
    covariance[0], mean[1] = 0.0, 0.0
    together = probability_of_largest(mean, covariance)
    for m, v, expected in zip(mean.tolist(), covariance.tolist(), together, strict=True):
        assert_allclose(scalar_probability_of_largest(m, v), expected, rtol=1e-9, atol=1e-13)
