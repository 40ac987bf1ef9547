"""Which value is the largest, compared with Owen's T, integrals, SciPy, draws, closed forms and laws."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, ndtr, owens_t
from scipy.stats import norm

from surefoot.numerics import action_probabilities
from surefoot.numerics.action_probabilities import mean_of_logistic, probability_of_largest
from tests.problems import effect_problems
from tests.reference.largest_value import by_draws, by_integral, by_scipy

KINDS = ["ordinary", "nearly singular", "different widths"]


def effects_of(values_mean, values_covariance):
    """Means and covariances of the differences from the first value."""
    mean = values_mean[..., 1:] - values_mean[..., :1]
    v = values_covariance
    return mean, v[..., 1:, 1:] - v[..., 1:, :1] - v[..., :1, 1:] + v[..., :1, :1]


def test_two_actions_are_exact():
    mean, deviation = np.array([[-2.0], [0.0], [3.0]]), np.array([0.5, 2.0, 0.1])
    probabilities = probability_of_largest(mean, deviation[:, None, None] ** 2)
    assert_allclose(probabilities[:, 1], norm.cdf(mean[:, 0] / deviation), rtol=1e-14)
    assert_allclose(probabilities[:, 0], norm.cdf(-mean[:, 0] / deviation), rtol=1e-14)


@pytest.mark.parametrize("inflation", [1.5, 5.9, 6.1, 19.9, 20.1, 99.0, 101.0, 999.0, 1001.0, 1e4, 1e6, 1e9, 1e12])
def test_three_actions_by_owens_t(inflation):
    """P(X ≤ h, Y ≤ k) over a grid of limits, close ones among them, at both ends of every number of nodes."""
    grid, apart = np.linspace(-3, 3, 31) + 1e-9, np.logspace(-6, 0, 13)
    for rho in np.sqrt(1 - 1 / inflation) * np.array([1, -1]):
        h = np.concatenate([np.repeat(grid, 31), np.repeat(grid, 26)])
        k = np.concatenate([np.tile(grid, 31), np.sign(rho) * (np.repeat(grid, 26) + np.tile(np.append(apart, -apart), 31))])
        root = np.sqrt(1 - rho**2)
        expected = (ndtr(h) + ndtr(k)) / 2 - owens_t(h, (k / h - rho) / root) - owens_t(k, (h / k - rho) / root)
        expected -= np.where(h * k > 0, 0.0, 0.5)
        covariance = np.broadcast_to(np.array([[1.0, rho], [rho, 1.0]]), (len(h), 2, 2))
        assert_allclose(probability_of_largest(-np.stack([h, k], axis=1), covariance)[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "count"), [(2, 300), (3, 60), (4, 6)])
def test_more_nodes_change_nothing(size, count, kind, monkeypatch):
    mean, covariance = effect_problems(np.random.default_rng(size), size, count, kind)
    probabilities = probability_of_largest(mean, covariance)
    monkeypatch.setattr(action_probabilities, "NODES", {inf: (72, 6)})
    assert_allclose(probabilities, probability_of_largest(mean, covariance), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_equals_scipys_integrals(size, kind):
    """SciPy's own error is up to 2e-5."""
    mean, covariance = effect_problems(np.random.default_rng(size), size, 6 // size, kind)
    for probabilities, m, v in zip(probability_of_largest(mean, covariance), mean, covariance, strict=True):
        assert_allclose(probabilities, by_scipy(m, v), atol=2e-5)


@pytest.mark.parametrize("actions", [4, 5, 6])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 10.0])
def test_independent_values_by_one_integral(actions, ratio):
    rng = np.random.default_rng(actions)
    mean, deviation = 0.7 * rng.standard_normal(actions), ratio ** rng.uniform(-1, 0, actions)
    probabilities = probability_of_largest(*effects_of(mean, np.diag(deviation**2)))
    assert_allclose(probabilities, by_integral(mean, deviation), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("actions", [2, 3, 4, 5, 6])
def test_equals_a_million_draws_within_their_error(actions, kind):
    rng = np.random.default_rng(20 + actions)
    mean, covariance = effect_problems(rng, actions - 1, 1, kind)
    share, error = by_draws(mean[0], covariance[0], 10**6, rng)
    assert (np.abs(probability_of_largest(mean, covariance)[0] - share) <= 4.5 * error + 1e-6).all()


def test_equal_chances_in_closed_form():
    for actions in range(2, 9):
        probabilities = probability_of_largest(*effects_of(np.full(actions, 3.0), np.eye(actions)))
        assert_allclose(probabilities, 1 / actions, atol=1e-7)


def test_effects_that_move_together():
    """Perfectly correlated: the larger mean always wins over the other."""
    for size in (2, 3, 4):
        probabilities = probability_of_largest(np.arange(1.0, size + 1)[None] - 2, np.ones((1, size, size)))
        expected = np.zeros(size + 1)
        expected[[0, size]] = norm.cdf(2 - size), norm.cdf(size - 2)
        assert_allclose(probabilities[0], expected, atol=1e-6)


def test_very_different_widths():
    """A value that is known to 1e-6 among wide ones is, for them, a number that they must exceed."""
    mean, deviation = np.array([0.3, 0.0, 0.1, -0.2, 0.2]), np.array([1e-6, 1.0, 1.0, 1.0, 1.0])
    probabilities = probability_of_largest(*effects_of(mean, np.diag(deviation**2)))
    assert_allclose(probabilities[0], np.prod(norm.cdf(0.3, mean[1:])), atol=1e-6)
    low = probability_of_largest(*effects_of(np.where(deviation < 1, -9.0, mean), np.diag(deviation**2)))
    assert_allclose(low[1:], by_integral(mean[1:], deviation[1:]), atol=1e-6)
    assert low[0] == 0


def test_what_is_certain_is_certain_and_ties_go_to_the_first():
    mean = np.array([[1.0, 2.0, 0.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0], [3.0, 3.0, 1.0]])
    assert_array_equal(probability_of_largest(mean, np.zeros((4, 3, 3))), np.eye(4)[[2, 0, 0, 1]])
    half = probability_of_largest(np.array([0.0, -0.2, -5.0]), np.diag([1.0, 0.0, 0.0]))
    assert_allclose(half, [0.5, 0.5, 0, 0], atol=1e-6)


def test_what_is_not_a_number_does_not_become_one():
    mean, covariance = np.zeros((2, 3)), np.stack([np.eye(3), np.eye(3)])
    mean[0, 1] = covariance[1, 2, 2] = np.nan
    assert np.isnan(probability_of_largest(mean, covariance)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_laws(size, seed):
    rng = np.random.default_rng(seed)
    mean, covariance = effect_problems(rng, size, 4, "ordinary")
    probabilities = probability_of_largest(mean, covariance)
    assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    order = rng.permutation(size)
    reordered = probability_of_largest(mean[:, order], covariance[:, order][:, :, order])
    assert_allclose(reordered[:, 1:], probabilities[:, 1:][:, order], atol=1e-6)
    assert_allclose(probability_of_largest(1024 * mean, 1024.0**2 * covariance), probabilities, atol=1e-12)
    assert_array_equal(probability_of_largest(mean[2:3], covariance[2:3])[0], probabilities[2])
    assert_array_equal(probability_of_largest(mean[1], covariance[1]), probabilities[1])
    # Another value may stand first: the differences from it say the same.
    swapped = np.eye(size)
    swapped[:, 0] = -1.0
    first = probability_of_largest(mean @ swapped.T, swapped @ covariance @ swapped.T)
    assert_allclose(first[:, [1, 0, *range(2, size + 1)]], probabilities, atol=1e-6)
    higher = mean.copy()
    higher[:, 1] += 0.1 * np.sqrt(covariance[:, 1, 1])
    assert (probability_of_largest(higher, covariance)[:, 2] >= probabilities[:, 2] - 1e-6).all()


def test_blocks_and_company_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    kinds = [effect_problems(rng, 3, 20, kind) for kind in KINDS]
    mean, covariance = (np.concatenate(arrays) for arrays in zip(*kinds, strict=True))
    probabilities = probability_of_largest(mean, covariance)
    monkeypatch.setattr(action_probabilities, "BLOCK", 7)
    monkeypatch.setattr(action_probabilities, "CELLS", 300)
    assert_array_equal(probability_of_largest(mean, covariance), probabilities)
    assert probability_of_largest(mean.reshape(5, 12, 3), covariance.reshape(5, 12, 3, 3)).shape == (5, 12, 4)
    assert probability_of_largest(mean[:0], covariance[:0]).shape == (0, 4)


def test_one_problem_or_many():
    mean, covariance = effect_problems(np.random.default_rng(3), 1, 20, "ordinary")
    covariance[0], mean[1] = 0.0, 0.0
    for m, v, expected in zip(mean, covariance, probability_of_largest(mean, covariance), strict=True):
        assert_array_equal(probability_of_largest(m, v), expected)


def brute(mean, deviation, c, b, k):
    """A very fine sum over the normal variable."""
    z = np.linspace(-9, 9, 400_001)
    value = np.exp(-k * np.logaddexp(0, np.log(c) - b * (mean + deviation * z)))
    return float((norm.pdf(z) * value).sum() * (z[1] - z[0]))


@pytest.mark.parametrize("k", [0.5, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("c", [0.2, 1.0, 5.0])
def test_the_logistic_mean_equals_a_fine_sum(c, k):
    for mean, deviation, b in ((0.3, 0.01, 20.0), (-0.2, 0.6, 1.6), (0.1, 0.5, 2.1), (0.4, 1.0, 20.0), (-1.0, 5.0, 9.0)):
        arrays = (np.array([value]) for value in (mean, deviation, c, b, k))
        assert_allclose(mean_of_logistic(*arrays)[0], brute(mean, deviation, c, b, k), atol=5e-7)


def test_the_logistic_mean_without_doubt_is_the_curve():
    x = np.linspace(-3, 3, 7)
    one = np.ones(7)
    assert_allclose(mean_of_logistic(x, 0 * x, 5 * one, 2 * one, one), expit(2 * x - np.log(5)), rtol=1e-12)


def test_the_logistic_mean_does_not_jump_where_the_rule_changes():
    sides = (np.array([1 - 1e-12, 1 + 1e-12]), *(np.ones(2) for _ in range(3)))
    below, above = mean_of_logistic(np.full(2, 0.3), *sides)
    assert below == pytest.approx(above, abs=5e-7)


def test_the_logistic_mean_far_out_is_none_or_all_without_warnings():
    huge = np.array([-1e6, 1e6])
    one = np.ones(2)
    assert_allclose(mean_of_logistic(huge, one, one, one, one), [0, 1], atol=1e-12)
    assert_allclose(mean_of_logistic(huge, 0.01 * one, one, 20 * one, one), [0, 1], atol=1e-12)
