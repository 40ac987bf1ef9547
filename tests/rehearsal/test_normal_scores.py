import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

from surefoot.rehearsal.normal_scores import ScoreTable

EVEN = ndtri((np.arange(20_000) + 0.5) / 20_000)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=3, max_size=60).filter(lambda values: len(set(values)) > 1))
def test_scores_of_piles_become_the_values_they_came_from(values):
    table = ScoreTable.of_values(np.array(values, dtype=float))
    inside = (table.low.clip(-5, 5) + table.high.clip(-5, 5)) / 2
    assert_allclose(table.to_values(inside), table.values, atol=1e-2)
    low, high = table.limits(table.values)
    scores = table.to_scores(table.values)
    assert ((low <= scores) & (scores <= high)).all()
    assert (np.diff(scores) > 0).all()


@pytest.mark.parametrize("size", [300, 5000])
def test_normal_numbers_get_the_distribution_back(size):
    rng = np.random.default_rng(0)
    values = np.where(rng.random(size) < 0.4, 0.0, rng.exponential(10, size))
    back = ScoreTable.of_values(values).to_values(EVEN)
    assert abs((back == 0).mean() - (values == 0).mean()) < 0.01
    assert_allclose(np.quantile(back, (0.5, 0.75, 0.95)), np.quantile(values, (0.5, 0.75, 0.95)), rtol=0.05, atol=0.2)
    assert_allclose(back.mean(), values.mean(), rtol=0.03)
    assert back.max() <= values.max()


def test_missing_values_have_no_scores():
    table = ScoreTable.of_values(np.array([1.0, np.nan, 2.0, 3.0]))
    assert_array_equal(np.isnan(table.to_scores(np.array([np.nan, 2.0]))), [True, False])
