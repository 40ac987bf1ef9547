"""Intervals written out a second time, term by term."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

import surefoot as sf
from surefoot.inference.intervals import (
    Interval,
    difference_interval,
    jackknife_interval,
    mean_interval,
    ratio_interval,
    sum_by_participant,
    t_interval,
)
from surefoot.inference.participant_bootstrap import bootstrap_coefficients
from surefoot.numerics.random_streams import streams


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


def test_draws_of_a_participant_are_refitted_and_their_percentiles_taken():
    logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=30, seed=0)
    reward = logs.reward.copy()
    reward[logs.participant_index == 1] = np.nan
    reward[logs.order[:4]] = np.nan
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(logs.with_values(reward=reward))
    found = bootstrap_coefficients(fitted, draws=11, seed=5)
    for place in (0, 2):
        rows = [row for row in logs.order if logs.participant_index[row] == place and not np.isnan(reward[row])]
        rng = next(iter(streams(5, "bootstrap", logs.participants[[place]])))
        critics, policies = [], []
        picks = rng.integers(0, len(rows), size=11 * len(rows)).reshape(11, -1)
        for pick in picks:
            taken = np.array(rows)[pick]
            drawn = sf.Trajectories.from_arrays(
                logs.state[taken][None], logs.action[taken][None], reward[taken][None], state_names=logs.state_names
            )
            again = sf.method("ro-accb").fit(drawn)
            critics.append(again.critic_coef_[0])
            policies.append(again.coef_[0])
        assert_allclose(found.critic_low[place], np.quantile(critics, 0.025, axis=0), rtol=1e-6, atol=1e-9)
        assert_allclose(found.critic_high[place], np.quantile(critics, 0.975, axis=0), rtol=1e-6, atol=1e-9)
        assert_allclose(found.policy_low[place], np.quantile(policies, 0.025, axis=0), rtol=1e-4, atol=1e-6)
        assert_allclose(found.policy_high[place], np.quantile(policies, 0.975, axis=0), rtol=1e-4, atol=1e-6)
    assert np.isnan(found.critic_low[1]).all()
    assert np.isnan(found.policy_high[1]).all()
    greedy = bootstrap_coefficients(sf.method("linucb").fit(logs), draws=5)
    assert greedy.policy_low is None
    assert greedy.policy_high is None
    with pytest.raises(sf.InputError, match="sandwich"):
        bootstrap_coefficients(sf.method("accb", pooling="all").fit(logs))


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
