import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from surefoot.numerics import fences


def everywhere(values):
    return np.ones(values.shape, dtype=bool)


def literal_fence(scores, start, end):
    """Gervini and Yohai's rule as they write it, on one list of scores."""
    ordered, n = sorted(scores), len(scores)
    excess = max([0.0] + [2 * stats.norm.cdf(s) - 1 - i / n for i, s in enumerate(ordered) if s >= start])
    kept = ordered[: n - int(n * excess)]
    fence = max(kept[-1], start) if len(kept) == n else (kept[-1] + ordered[len(kept)]) / 2
    return min(max(fence, start), end)


def test_normal_cdf_is_scipys():
    values = np.concatenate([np.linspace(-9, 9, 1001), [-np.inf, np.inf, 1e200]])
    assert_allclose(fences.normal_cdf(values), stats.norm.cdf(values), atol=1e-7)


def test_skewness_of_normal_values_is_rarely_clear():
    z = np.random.default_rng(3).standard_normal((4000, 150))
    assert (fences.core_skewness(z, everywhere(z)) != 0).mean() < 0.01
    core = np.where(np.abs(z) < fences.WINDOW, z, np.nan)
    found = stats.skew(core, axis=1, nan_policy="omit")
    assert_allclose(found.std() * np.sqrt(150), fences.SKEWNESS_DEVIATION, rtol=0.03)


@pytest.mark.parametrize("g", [0.6, 0.8, 1.0])
def test_a_log_normal_variable_is_straightened(g):
    z = np.random.default_rng(4).standard_normal((50, 2000))
    x = np.exp(g * z)
    for sign in (1, -1):
        straight = sign * fences.standardise(sign * x, everywhere(x))
        assert_allclose(np.quantile(straight, 0.99, axis=1).mean(), stats.norm.ppf(0.99), rtol=0.2)


def test_artefacts_and_padding_do_not_make_skewness():
    z = np.random.default_rng(5).standard_normal((300, 200))
    z[:, :60] += 6.0
    z[:, 190:] = 1e9
    present = np.broadcast_to(np.arange(200) < 190, z.shape)
    assert (fences.core_skewness(z, present) != 0).mean() < 0.02
    assert_array_equal(fences.core_skewness(z, present & False), 0)


def test_unskewed_makes_the_long_side_normal_and_leaves_the_short():
    z = np.linspace(-2, 2, 9)[None]
    for g in (0.7, -0.7):
        skewed = (np.exp(g * z) - 1) / g
        back = fences.remove_skewness(skewed, np.array([g]))
        long = z * g > 0
        assert_allclose(back[long], z[long], rtol=1e-12)
        assert_array_equal(back[~long], skewed[~long])
    assert_array_equal(fences.remove_skewness(z, np.zeros(1)), z)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 120), st.floats(0, 0.5))
def test_adaptive_fence_is_the_literal_rule(seed, count, outlying):
    rng = np.random.default_rng(seed)
    scores = np.abs(rng.standard_normal(count) + 5 * (rng.random(count) < outlying))
    padded = np.concatenate([scores, [77.0] * 9])[None]
    fence = fences.adaptive_fence(padded, np.arange(count + 9)[None] < count, 2.5, 3.5, fences.half_normal_cdf)
    assert_allclose(fence[0], literal_fence(scores, 2.5, 3.5), atol=1e-5)


def test_adaptive_fence_of_a_tail_that_is_shorter_than_expected():
    scores = np.append(np.linspace(0, 1, 287), 2.6)[None]
    assert fences.adaptive_fence(scores, everywhere(scores), 2.5, 3.5, fences.half_normal_cdf) == [2.6]


def test_adaptive_fence_keeps_clean_values_and_finds_outliers():
    rng = np.random.default_rng(5)
    scores = np.abs(rng.standard_normal((200, 200)))
    outside = scores > fences.adaptive_fence(scores, everywhere(scores), 2.5, 3.5, fences.half_normal_cdf)[:, None]
    assert outside.mean() < 0.01
    scores[:, :60] += 6
    outside = scores > fences.adaptive_fence(scores, everywhere(scores), 2.5, 3.5, fences.half_normal_cdf)[:, None]
    assert outside[:, :60].mean() > 0.99
    assert outside[:, 60:].mean() < 0.01


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.floats(0.05, 0.9))
def test_few_valued_counts_the_commonest_value(values, share):
    x = np.array([[*values, 0, 0, 0]], dtype=float)
    present = np.arange(x.shape[1])[None] < len(values)
    commonest = np.unique(values, return_counts=True)[1].max()
    assert fences.has_few_values(x, present, share)[0] == (commonest > np.floor(share * len(values)))


def test_values_in_order_already_are_not_put_in_order_again():
    rng = np.random.default_rng(3)
    values, present = np.round(rng.lognormal(size=(6, 3, 50)), 1), rng.random((6, 1, 50)) < 0.8
    there = present & (values > 0.2)
    in_order = np.sort(np.where(there, values, np.inf), axis=-1)
    few = fences.has_few_values(values, there, 0.12)
    assert few.any() and not few.all()
    assert_array_equal(fences.has_few_values(values, there, 0.12, in_order), few)
    assert_array_equal(fences.standardise(values, there, in_order), fences.standardise(values, there))


def test_a_gap_sets_artefacts_apart_and_nothing_else_does():
    rng = np.random.default_rng(6)
    rare = (rng.random((1, 100)) < 0.12).astype(float)
    zeros = np.where(rng.random((1, 200)) < 0.4, 0.0, rng.lognormal(sigma=0.8, size=(1, 200)))
    for clean in (rare, zeros, rng.integers(1, 8, (1, 100)).astype(float)):
        size, fence = fences.gap_fence(clean, everywhere(clean))
        assert (size <= fence[:, None]).all()
        dirty = clean.copy()
        dirty[0, ::4] += 50 * (1 + np.abs(clean).max())
        size, fence = fences.gap_fence(dirty, everywhere(dirty))
        assert_array_equal(size > fence[:, None], (np.arange(dirty.shape[1]) % 4 == 0)[None])
