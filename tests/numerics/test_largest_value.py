"""Which value is the largest: every way to find it against integrals, SciPy, draws, closed forms and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from surefoot.numerics import orthants
from surefoot.numerics.largest_value import probability_of_largest, scalar_probability_of_largest
from tests.problems import effect_problems
from tests.reference.largest_value import by_draws, by_integral, by_scipy


def effects_of(values_mean, values_covariance):
    """Means and covariances of the differences from the first value."""
    mean = values_mean[..., 1:] - values_mean[..., :1]
    v = values_covariance
    return mean, v[..., 1:, 1:] - v[..., 1:, :1] - v[..., :1, 1:] + v[..., :1, :1]


def independent(rng, actions, count, dependence=0.0):
    """Nearly independent values of different widths: their covariances are so many times those of any others."""
    width = 10.0 ** rng.uniform(-1, 0, (count, actions))
    root = rng.standard_normal((count, actions, actions + 2)) * width[..., None] / np.sqrt(actions + 2)
    covariance = dependence * root @ np.swapaxes(root, 1, 2) + (1 - dependence) * width[..., None] ** 2 * np.eye(actions)
    return effects_of(rng.standard_normal((count, actions)) * rng.choice([0.0, 0.1, 1.0], (count, 1)), covariance)


@pytest.mark.parametrize("actions", [4, 5, 8])
def test_independent_values_are_one_integral(actions):
    rng = np.random.default_rng(actions)
    for ratio in (1.0, 3.0, 10.0):
        mean, deviation = 0.7 * rng.standard_normal(actions), ratio ** rng.uniform(-1, 0, actions)
        found = probability_of_largest(*effects_of(mean, np.diag(deviation**2)))
        assert_allclose(found, by_integral(mean, deviation), atol=2e-5)


@pytest.mark.parametrize("actions", [4, 5])
@pytest.mark.parametrize("dependence", [0.0, 1e-5, 3e-3, 0.02, 0.2])
def test_values_that_are_nearly_independent(actions, dependence):
    mean, covariance = independent(np.random.default_rng(1), actions, 60, dependence)
    expected = orthants.probability_of_largest(mean, covariance)
    assert_allclose(probability_of_largest(mean, covariance), expected, atol=5e-5)


@pytest.mark.parametrize("kind", ["ordinary", "nearly singular", "different widths"])
@pytest.mark.parametrize(("size", "count"), [(3, 150), (4, 100), (5, 10)])
def test_few_nodes_or_24(size, count, kind):
    mean, covariance = effect_problems(np.random.default_rng(size), size, count, kind)
    expected = orthants.probability_of_largest(mean, covariance)
    assert_allclose(probability_of_largest(mean, covariance), expected, atol=6e-5)


def test_equals_scipys_integrals():
    mean, covariance = effect_problems(np.random.default_rng(7), 4, 3, "ordinary")
    for found, m, v in zip(probability_of_largest(mean, covariance), mean, covariance, strict=True):
        assert_allclose(found, by_scipy(m, v), atol=4e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size"), [("ordinary", 1), ("ordinary", 2), ("ordinary", 4), ("independent", 4)])
def test_equals_ten_million_draws_within_their_error(kind, size):
    rng = np.random.default_rng(20 + size)
    mean, covariance = independent(rng, 5, 1, 1e-3) if kind == "independent" else effect_problems(rng, size, 1, kind)
    share = np.mean([by_draws(mean[0], covariance[0], 10**6, rng)[0] for _ in range(10)], axis=0)
    error = np.sqrt(share * (1 - share) / 10**7)
    assert (np.abs(probability_of_largest(mean, covariance)[0] - share) <= 4.5 * error + 1e-6).all()


def test_equal_chances_in_closed_form():
    for actions in range(2, 9):
        found = probability_of_largest(*effects_of(np.full(actions, 3.0), np.eye(actions)))
        assert_allclose(found, 1 / actions, atol=2e-6)


def test_very_different_widths():
    """A value that is known to 1e-6 beside wide ones is, for them, a number that they must exceed."""
    mean, deviation = np.array([0.3, 0.0, 0.1, -0.2, 0.2]), np.array([1e-6, 1.0, 1.0, 1.0, 1.0])
    found = probability_of_largest(*effects_of(mean, np.diag(deviation**2)))
    assert_allclose(found[0], np.prod(norm.cdf(0.3, mean[1:])), atol=1e-4)
    assert_allclose(found, by_integral(mean, np.where(deviation < 1, 1e-3, 1.0)), atol=2e-4)
    # Left behind by the others, however narrow it is.
    low = probability_of_largest(*effects_of(np.where(deviation < 1, -9.0, mean), np.diag(deviation**2)))
    assert_allclose(low[1:], by_integral(mean[1:], deviation[1:]), atol=2e-5)
    assert low[0] == 0


def test_what_is_known_and_ties():
    mean = np.array([[1.0, 2.0, 0.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0], [3.0, 3.0, 1.0]])
    assert_array_equal(probability_of_largest(mean, np.zeros((4, 3, 3))), np.eye(4)[[2, 0, 0, 1]])
    one = probability_of_largest(np.array([0.0, -0.2, -5.0]), np.diag([1.0, 0.0, 0.0]))
    assert_allclose(one, [0.5, 0.5, 0, 0], atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 5), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 0.3]))
def test_laws(actions, seed, dependence):
    rng = np.random.default_rng(seed)
    mean, covariance = independent(rng, actions, 4, dependence)
    found = probability_of_largest(mean, covariance)
    assert_allclose(found.sum(axis=1), 1, rtol=1e-10)
    assert ((found >= 0) & (found <= 1)).all()
    order = rng.permutation(actions - 1)
    other = probability_of_largest(mean[:, order], covariance[:, order][:, :, order])
    assert_allclose(other[:, 1:], found[:, 1:][:, order], atol=5e-5)
    assert_allclose(probability_of_largest(1024 * mean, 1024.0**2 * covariance), found, atol=1e-12)
    assert_array_equal(probability_of_largest(mean[2:3], covariance[2:3])[0], found[2])
    assert_array_equal(scalar_probability_of_largest(mean[1].tolist(), covariance[1].tolist()), found[1])
    # Another value may stand first: the differences from it say the same.
    swapped = np.eye(actions - 1)
    swapped[:, 0] = -1.0
    first = probability_of_largest(mean @ swapped.T, swapped @ covariance @ swapped.T)
    assert_allclose(first[:, [1, 0, *range(2, actions)]], found, atol=5e-5)
    more = mean.copy()
    more[:, 1] += 0.1 * np.sqrt(covariance[:, 1, 1])
    assert (probability_of_largest(more, covariance)[:, 2] >= found[:, 2] - 1e-4).all()


def test_blocks_and_company_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    kinds = [effect_problems(rng, 3, 20, "ordinary"), independent(rng, 4, 20), independent(rng, 4, 20, 1e-3)]
    mean, covariance = (np.concatenate(parts) for parts in zip(*kinds, strict=True))
    whole = probability_of_largest(mean, covariance)
    monkeypatch.setattr("surefoot.numerics.largest_value.BLOCK", 7)
    monkeypatch.setattr("surefoot.numerics.largest_value.CELLS", 300)
    assert_array_equal(probability_of_largest(mean, covariance), whole)
    assert probability_of_largest(mean.reshape(5, 12, 3), covariance.reshape(5, 12, 3, 3)).shape == (5, 12, 4)
    assert probability_of_largest(mean[:0], covariance[:0]).shape == (0, 4)
