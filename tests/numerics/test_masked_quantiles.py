import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.numerics.masked_quantiles import (
    LONG,
    SmallestHalf,
    median,
    median_in_order,
    quantiles,
    scaled_mad,
    sort_present,
)

rows = hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.floats(-1e6, 1e6))


@given(rows, st.integers(0, 2**32 - 1))
def test_agrees_with_numpy_on_what_is_present(values, seed):
    present = np.random.default_rng(seed).random(values.shape) < 0.7
    found = quantiles(values, present, (0.0, 0.25, 0.5, 0.75, 1.0))
    for row in range(len(values)):
        if present[row].any():
            expected = np.quantile(values[row, present[row]], [0.0, 0.25, 0.5, 0.75, 1.0])
            assert_allclose([level[row] for level in found], expected, rtol=1e-12, atol=1e-9)
        else:
            assert all(level[row] == np.inf for level in found)


def test_scaled_mad_estimates_the_standard_deviation_of_normal_noise():
    noise = np.random.default_rng(0).normal(3.0, 2.0, size=(1, 100_000))
    present = np.ones(noise.shape, dtype=bool)
    assert_allclose(scaled_mad(noise, present, median(noise, present)), 2.0, rtol=0.02)


def test_long_rows_are_sorted_no_further_than_needed_and_give_the_same():
    rng = np.random.default_rng(1)
    values, present = rng.normal(size=(1, 3, LONG + 5)), rng.random((1, 1, LONG + 5)) < 0.9
    found = quantiles(values, present, (0.25, 0.5, 0.75))
    expected = np.quantile(values[..., present[0, 0]], (0.25, 0.5, 0.75), axis=-1)
    assert_allclose(np.stack(found), expected, rtol=1e-12)
    by_row = np.repeat(values, 5, axis=0), np.repeat(present, 5, axis=0)  # More places than are looked for one by one.
    assert np.array_equal(np.stack(quantiles(*by_row, (0.25, 0.5, 0.75)))[:, :1], np.stack(found))


def test_the_smallest_half_is_of_those_present():
    values = np.array([[5.0, 1.0, 4.0, 2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 7.0, 7.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    present = np.array([[True] * 5 + [False], [True] * 6, [False] * 6])
    expected = [[False, True, False, True, True, False], [True] * 4 + [False] * 2, [False] * 6]
    found = SmallestHalf.of_present(present, 0, values.dtype)
    assert_array_equal(found.choose(values), expected)
    assert_array_equal(found.choose(np.stack([values, values]))[1], expected)
    assert_array_equal(found.of(np.array([1])).choose(values[1:2]), expected[1:2])


@given(st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_the_median_of_what_is_in_order_already(seed, present):
    values = np.random.default_rng(seed).standard_normal((3, 12))
    there = np.arange(12)[None, :] < np.array([[present], [12], [1]])
    found = median_in_order(sort_present(values, there), there.sum(axis=1, keepdims=True))
    assert_allclose(found, median(values, there), rtol=1e-14, atol=1e-15)
