"""The largest |t| against Tukey's studentized range, Dunnett's test, and draws of the multivariate t."""

import itertools

import numpy as np
import pytest
from scipy import stats

from surefoot import InputError
from surefoot.inference.simultaneous import LargestT


def _pairs(means):
    """Differences of independent means with equal variances."""
    return np.array([[float(i == a) - (i == b) for i in range(means)] for a, b in itertools.combinations(range(means), 2)])


@pytest.mark.parametrize(("means", "degrees", "tolerance"), [(3, 4, 1e-6), (3, 20, 1e-6), (4, 12, 5e-4), (6, 40, 5e-4)])
def test_all_pairs_of_equal_means_have_the_studentized_range(means, degrees, tolerance):
    signs = _pairs(means)
    largest = LargestT.of(signs @ signs.T, degrees)
    assert largest.critical(0.05) == pytest.approx(stats.studentized_range.ppf(0.95, means, degrees) / 2**0.5, abs=tolerance)
    # Equal eigenvalues leave it to LAPACK how the directions lie. Over 40 rotations the errors were below half of these.
    for size, error in ((1.0, 2e-4), (2.5, 2e-3), (6.0, 6e-3)):
        expected = stats.studentized_range.sf(size * 2**0.5, means, degrees)
        assert largest.exceed(size) == pytest.approx(expected, rel=error)


def test_comparisons_with_one_arm_are_those_of_dunnett():
    rng = np.random.default_rng(5)
    control, *treated = [rng.normal(0.4 * arm, 1, 12) for arm in range(4)]
    test = stats.dunnett(*treated, control=control, rng=np.random.default_rng(1))
    largest = LargestT.of(np.eye(3) + 1, 44)
    assert [largest.exceed(abs(value)) for value in test.statistic] == pytest.approx(test.pvalue.tolist(), abs=2e-4)


def test_a_single_comparison_is_an_ordinary_t():
    largest = LargestT.of(np.array([[7.0]]), 9)
    assert largest.critical(0.1) == pytest.approx(stats.t.ppf(0.95, 9), abs=1e-9)
    assert largest.exceed(3.0) == pytest.approx(2 * stats.t.sf(3.0, 9), rel=1e-9)
    assert np.isnan(largest.exceed(np.nan))


def test_units_and_copies_of_a_comparison_change_nothing():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    scale = np.diag([1e6, 1e-6])
    twice = np.array([[1, 0], [0, 1], [1, 0]]) @ covariance @ np.array([[1, 0], [0, 1], [1, 0]]).T
    sizes = [LargestT.of(matrix, 15).critical() for matrix in (covariance, scale @ covariance @ scale, twice)]
    assert sizes == pytest.approx([sizes[0]] * 3, abs=1e-6)
    assert stats.t.ppf(0.975, 15) < sizes[0] < stats.t.ppf(1 - 0.025 / 2, 15)  # Bonferroni is the upper limit.


def test_unequal_correlations_agree_with_draws():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 4))
    covariance = root @ root.T
    scale = np.sqrt(np.diagonal(covariance))
    draws = rng.normal(size=(200_000, 4)) @ root.T / scale / np.sqrt(rng.chisquare(8, 200_000) / 8)[:, None]
    share = (np.abs(draws).max(axis=1) > LargestT.of(covariance, 8).critical(0.05)).mean()
    assert share == pytest.approx(0.05, abs=0.002)


def test_a_comparison_without_a_standard_error_is_refused():
    with pytest.raises(InputError, match="no standard error"):
        LargestT.of(np.diag([1.0, 0.0]), 10)
