import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, stats

from surefoot.inference.intervals import (
    Interval,
    adjust_p_values,
    describe_roughness,
    difference_interval,
    jackknife_interval,
    mean_interval,
    ratio_interval,
    sum_by_participant,
    t_interval,
    t_quantile,
    wilson_interval,
)


def test_the_standard_error_of_a_mean_is_the_textbook_one():
    values = np.random.default_rng(0).standard_normal(30)
    found = ratio_interval(values, np.ones(30))
    assert_allclose(found.value, values.mean())
    assert_allclose(found.standard_error, values.std(ddof=1) / np.sqrt(30))
    expected = stats.t.interval(0.95, 29, values.mean(), found.standard_error)
    assert_allclose([found.low, found.high], expected, atol=0.15 * found.standard_error)


def test_a_difference_is_that_of_resampled_ratios():
    rng = np.random.default_rng(1)
    totals = rng.exponential(size=(4, 25)) + 0.5
    found = difference_interval(*totals)
    drawn = totals[:, rng.integers(0, 25, size=(4000, 25))].sum(axis=2)
    assert_allclose(found.value, totals[0].sum() / totals[1].sum() - totals[2].sum() / totals[3].sum())
    assert_allclose(found.standard_error, np.std(drawn[0] / drawn[1] - drawn[2] / drawn[3]), rtol=0.12)


@given(st.integers(2, 40), st.floats(-100, 100), st.floats(0.1, 100))
def test_scaling_and_shifting_carry_through(people, shift, scale):
    values = np.random.default_rng(people).exponential(size=people)
    count = np.ones(people)
    plain = ratio_interval(values, count)
    moved = ratio_interval(scale * values + shift, count)
    assert_allclose(moved, [*(np.array(plain) * scale + [shift, 0, shift, shift])], rtol=1e-6, atol=1e-6)


def test_too_little_gives_no_interval_and_many_people_a_normal_one():
    assert np.isnan(ratio_interval(np.ones(1), np.ones(1)).low)
    assert np.isnan(ratio_interval(np.ones(3), np.zeros(3)).low)
    values = np.random.default_rng(2).standard_normal(2000)
    found = ratio_interval(values, np.ones(2000))
    assert_allclose(found.high - found.low, 2 * 1.96 * found.standard_error, rtol=1e-2)
    one_event = ratio_interval(np.eye(30)[0], np.ones(30))
    assert_allclose(one_event[:2], (1 / 30, 1 / 30))
    wilson = wilson_interval(np.ones(1), np.full(1, 30.0))
    assert_allclose(one_event.high, wilson[1][0], atol=0.04)


@pytest.mark.parametrize("size", [2, 3, 20])
def test_the_interval_of_a_mean_is_students(size):
    values = np.random.default_rng(size).standard_normal(size)
    found = mean_interval(values)
    assert_allclose((found.low, found.high), stats.t.interval(0.95, size - 1, loc=values.mean(), scale=stats.sem(values)))
    assert_allclose((found.value, found.standard_error), (values.mean(), stats.sem(values)))
    assert np.isnan(mean_interval(values[:1])[1:]).all()


def test_wilsons_interval_is_scipys():
    cases = [(0, 5), (3, 8), (50, 60), (7, 7)]
    low, high = wilson_interval(*np.array(cases, dtype=float).T)
    expected = [stats.binomtest(*case).proportion_ci(method="wilson") for case in cases]
    assert_allclose(low, [found.low for found in expected], atol=1e-12)
    assert_allclose(high, [found.high for found in expected])


def test_quantile_and_sums():
    assert_allclose(t_quantile(7), stats.t.ppf(0.975, 7))
    assert sum_by_participant(np.array([0, 2, 2]), 3, np.array([1.0, 2.0, 3.0])).tolist() == [1, 0, 5]
    assert not t_interval(1.0, 1.0, 10).excludes_zero
    assert t_interval(5.0, 1.0, 10).excludes_zero


@pytest.mark.parametrize("people", [12, 30])
def test_intervals_of_a_skewed_ratio_cover(people):
    """Totals over people of very different length; truth 1."""
    rng, hits = np.random.default_rng(3), 0
    for _ in range(1500):
        length = rng.integers(5, 60, size=people)
        total = np.array([rng.exponential(size=n).sum() + n * rng.normal(0, 0.3) for n in length])
        found = ratio_interval(total, length)
        hits += found.low <= 1 <= found.high
    assert 0.92 <= hits / 1500 <= 0.98


@pytest.mark.parametrize("people", [9, 29, 200])
def test_the_standard_error_is_that_of_scipys_bootstrap(people):
    totals = np.random.default_rng(people).exponential(size=(4, people)) + 0.5
    found = difference_interval(*totals)
    assert_allclose(found.standard_error, stats.bootstrap(totals, _difference, paired=True).standard_error, rtol=0.25)


def test_few_people_are_called_rough():
    assert describe_roughness(29) == "29 people: rough"
    assert describe_roughness(30) == ""


def _difference(top, bottom, top_2, bottom_2, axis=-1):
    return top.sum(axis) / bottom.sum(axis) - top_2.sum(axis) / bottom_2.sum(axis)


@pytest.mark.parametrize(("people", "least"), [(9, 0.92), (15, 0.93), (40, 0.94)])
def test_intervals_of_the_mean_of_few_skewed_values_cover(people, least):
    """Plain Student intervals of exponential values cover 0.895, 0.912 and 0.925."""
    rng = np.random.default_rng(4)
    found = [ratio_interval(rng.exponential(size=people), np.ones(people)) for _ in range(2000)]
    assert least <= np.mean([one.low <= 1 <= one.high for one in found]) <= 0.98


def ratio_difference(totals):
    return totals[0].sum() / totals[1].sum() - totals[2].sum() / totals[3].sum()


def linearised_error(totals):
    """√(n/(n − 1) Σ ψ²), ψ = (top − ratio · bottom) / Σ bottom, of one ratio less the other."""
    people = totals.shape[1]
    own = [(top - top.sum() / bottom.sum() * bottom) / bottom.sum() for top, bottom in (totals[:2], totals[2:])]
    return np.sqrt(people / (people - 1) * ((own[0] - own[1]) ** 2).sum())


def test_zero_is_excluded_only_beyond_an_end():
    assert Interval(1, 1, 0.1, 2).excludes_zero
    assert Interval(-1, 1, -2, -0.1).excludes_zero
    for low, high in ((0, 2), (-2, 0), (-1, 1), (np.nan, np.nan)):
        assert not Interval(0.5, 1, low, high).excludes_zero
    assert -Interval(1, 2, 3, 4) == Interval(-1, 2, -4, -3)


def test_without_degrees_of_freedom_there_are_no_ends():
    assert np.isnan(t_interval(1.0, 1.0, 0)[2:]).all()
    assert_allclose(t_interval(1.0, 2.0, 1), (1, 2, *stats.t.interval(0.95, 1, 1, 2)))
    for values in ([], [3.0]):
        found = mean_interval(np.array(values))
        assert np.isnan(found[1:]).all()
        assert_allclose(found.value, values[0] if values else np.nan)


@pytest.mark.parametrize("people", [3, 10, 29, 300])
def test_people_have_halls_corrected_jackknife(people):
    """The ends are value − se · T with g(T) = ± t, g solved numerically."""
    totals = np.random.default_rng(people).exponential(size=(4, people)) + 0.2
    value = ratio_difference(totals)
    left_out = np.array([ratio_difference(np.delete(totals, one, axis=1)) for one in range(people)])
    spread = left_out.mean() - left_out
    error = np.sqrt((people - 1) / people * (spread**2).sum())
    a, t = stats.skew(spread) / np.sqrt(people), stats.t.ppf(0.975, people - 1)

    def solve(goal):
        return optimize.brentq(lambda T: T + a * T**2 / 3 + a**2 * T**3 / 27 + a / 6 - goal, -200, 200)

    expected = (value, error, value - error * solve(t), value - error * solve(-t))
    assert_allclose(jackknife_interval(value, left_out), expected, rtol=1e-9)
    assert_allclose(difference_interval(*totals), expected, rtol=1e-7)


def test_a_symmetric_jackknife_is_students():
    assert_allclose(jackknife_interval(5.0, np.array([4.0, 5.0, 6.0])), t_interval(5.0, np.sqrt(4 / 3), 2))
    assert jackknife_interval(5.0, np.array([4.0, 4.0, 4.0])) == Interval(5.0, 0.0, 5.0, 5.0)


def test_one_participant_or_a_division_by_nothing_has_no_ends():
    one = ratio_interval(np.array([3.0]), np.array([2.0]))
    assert one.value == 1.5
    assert np.isnan(one[1:]).all()
    nothing = ratio_interval(np.ones(3), np.zeros(3))
    assert np.isnan(nothing[1:]).all()
    two = ratio_interval(np.array([1.0, 2.0]), np.ones(2))
    assert_allclose(two, t_interval(1.5, 0.5, 1))
    only = ratio_interval(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 0.0]))
    assert_allclose(only, t_interval(6.0, np.sqrt(3 / 2 * (25 + 4 + 9)), 2))


def test_who_alone_has_decision_points_cannot_be_left_out():
    """Without the first participant one ratio is 0 / 0 and, turned round, the other: Student's interval then."""
    only, values, ones = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]), np.ones(3)
    totals = np.stack([only, only, values, ones])
    expected = t_interval(-1.0, linearised_error(totals), 2)
    assert_allclose(difference_interval(*totals), expected)
    assert_allclose(difference_interval(*totals[[2, 3, 0, 1]]), -expected)


def test_everybody_must_leave_something_to_divide_by():
    """Of 30 people one has all decision points of the second ratio."""
    rng = np.random.default_rng(3)
    only = np.zeros(30)
    only[4] = 2.0
    totals = np.stack([rng.exponential(size=30), np.ones(30), 3 * only, only])
    expected = t_interval(ratio_difference(totals), linearised_error(totals), 29)
    assert_allclose(difference_interval(*totals), expected)


def test_rounding_is_no_spread():
    """Ratios that are equal to the last digits have no standard error."""
    bottom = np.array([1.0, 3.0, 7.0])
    found = ratio_interval(0.1 * bottom, bottom)
    assert found == Interval(found.value, 0.0, found.value, found.value)
    assert found.value == pytest.approx(0.1)
    spread = ratio_interval(0.1 * bottom * [1, 1, 1 + 1e-9], bottom)
    assert 0 < spread.standard_error < 1e-9 and spread.low < spread.value < spread.high


def test_sums_by_participant():
    assert_allclose(sum_by_participant(np.array([2, 0, 2]), 4, np.array([1, 2, 3])), [2.0, 0.0, 4.0, 0.0])
    assert sum_by_participant(np.array([0]), 2, np.array([True])).dtype == np.float64


def test_holm_by_hand():
    assert_allclose(adjust_p_values(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    assert adjust_p_values(np.array([])).shape == (0,)
