"""Streamed arrays do what NumPy's do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.numerics import streamed_arrays
from surefoot.numerics.arrays import array_namespace
from surefoot.numerics.fences import adaptive_fence, gap_fence, has_few_values, normal_cdf, standardise
from surefoot.numerics.masked_quantiles import quantiles
from surefoot.numerics.streamed_arrays import Streamed, hold_rows, keep_rows, map_rows

ROWS = 50


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(streamed_arrays, "BLOCK_ROWS", 7)


def make(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, 3, ROWS)).round(1), rng.random((2, ROWS)) < 0.8


def change_some(values):
    values = values + 0.0
    before = values * 2
    values[np.array([True, False])] = -1.0
    values[:, 1, 3:40] = values[:, 2, 5:42]
    values[..., 0, :] = np.arange(float(ROWS))
    return values + 10 * before


OPERATIONS = [
    lambda v, p: (v * 2 - 1 / (v + 9.5)) ** 2 > 3,
    lambda v, p: np.where(p[:, None, :], v, np.inf),
    lambda v, p: array_namespace(v).sum(v, axis=-1, keepdims=True),
    lambda v, p: array_namespace(v).max(v, axis=2),
    lambda v, p: array_namespace(p).any(p, axis=1),
    lambda v, p: array_namespace(v).matrix_transpose(v)[..., None, :2],
    lambda v, p: array_namespace(v).permute_dims(v, (2, 0, 1)),
    lambda v, p: array_namespace(v).concat([v[:, :1, :], v], axis=1),
    lambda v, p: array_namespace(v).concat([v[..., 1:], v[..., :1]], axis=-1),
    lambda v, p: array_namespace(v).stack([v[:, 0], v[:, 2]], axis=-1),
    lambda v, p: array_namespace(v).sort(v, axis=-1),
    lambda v, p: array_namespace(p).argsort(array_namespace(p).astype(p, np.int8), axis=1, stable=True)[:, :30],
    lambda v, p: array_namespace(p).cumulative_sum(array_namespace(p).astype(p, np.int64), axis=1),
    lambda v, p: array_namespace(v).argmax(p, axis=1),
    lambda v, p: array_namespace(v).take(v, np.array([3, 1, 49]), axis=2),
    lambda v, p: array_namespace(v).take_along_axis(v[:, 0], np.array([[3, 44], [0, 9]]), axis=1),
    lambda v, p: v[:, [2, 0], 5],
    lambda v, p: (v * 1.0)[1, ..., 20:],
    lambda v, p: change_some(v),
    lambda v, p: normal_cdf(v),
    lambda v, p: np.stack(quantiles(v, p[:, None, :], (0.25, 0.5))),
    lambda v, p: standardise(v, p[:, None, :] & (v == v)),  # noqa: PLR0124
    lambda v, p: has_few_values(v, p[:, None, :] & (v == v), 0.05),  # noqa: PLR0124
    lambda v, p: adaptive_fence(abs(v[:, 0]), p, 1.0, 1.5, normal_cdf),
    lambda v, p: gap_fence(v[:, 1], p)[1],
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_give_what_numpy_gives(operation):
    values, present = make()
    expected = operation(values, present)
    found = operation(keep_rows(values), keep_rows(present))
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert_allclose(np.asarray(found), expected, rtol=1e-13, atol=1e-13)


def test_products_along_the_rows_are_sums():
    values, _ = make()
    streamed = keep_rows(values)
    turned = np.swapaxes(streamed, 1, 2)
    expected = values @ np.swapaxes(values, 1, 2)
    for found in (streamed @ turned, values @ turned, streamed @ np.swapaxes(values, 1, 2)):
        assert isinstance(found, np.ndarray)
        assert_allclose(found, expected, rtol=1e-13)
    assert_allclose(np.asarray(np.ones((2, 3)) @ streamed), np.ones((2, 3)) @ values, rtol=1e-13)


def test_rows_picked_by_rows():
    values, _ = make()
    places = np.sort(np.random.default_rng(1).integers(ROWS, size=(2, 90)), axis=1)
    expected = np.take_along_axis(values[:, 0], places, axis=1)
    for one, other in ((keep_rows(values)[:, 0], keep_rows(places)), (values[:, 0], keep_rows(places))):
        assert_array_equal(np.asarray(array_namespace(one).take_along_axis(one, other, axis=1)), expected)


def test_long_arrays_are_not_made():
    xp = array_namespace(keep_rows(np.zeros((1, ROWS))))
    assert isinstance(xp.zeros((1, 2, ROWS)), Streamed) and isinstance(xp.zeros((3, 3)), np.ndarray)
    assert_array_equal(np.asarray(xp.arange(ROWS)), np.arange(ROWS))
    assert_array_equal(np.asarray(xp.full((2, ROWS), 3)), np.full((2, ROWS), 3))


def test_what_needs_all_rows_at_once_is_refused():
    column = hold_rows(np.arange(float(ROWS)), 0)
    with pytest.raises(TypeError, match="all rows at once"):
        map_rows(np.median, column)
    with pytest.raises(TypeError, match="no implementation found"):
        np.median(column)
    with pytest.raises(TypeError, match="by numbers or a range"):
        column[::2]


def test_no_file_is_left(tmp_path):
    column = keep_rows(np.arange(float(ROWS))[None], tmp_path)
    assert np.sort(-column, axis=1)[0, 0] == -49
    assert list(tmp_path.iterdir()) == []  # A file without a name ends with the process, however that ends.
