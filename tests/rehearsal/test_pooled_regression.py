import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, ndtri

from surefoot.rehearsal.pooled_regression import ScoreTable, draw_within, fit_between, fit_linear, fit_yes_no

EVEN = ndtri((np.arange(20_000) + 0.5) / 20_000)


def design(people, points, seed):
    rng = np.random.default_rng(seed)
    return rng, np.stack([np.ones((people, points)), rng.standard_normal((people, points))], axis=-1)


def test_a_balanced_random_intercept_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(1)
    y = 3 + rng.standard_normal((40, 1)) + 2 * rng.standard_normal((40, 25))
    found = fit_linear(np.ones((40, 25, 1)), y, np.ones((40, 25)))
    within = y.var(axis=1, ddof=1).mean()
    between = y.mean(axis=1).var(ddof=1) - within / 25
    pull = between / (between + within / 25)
    assert_allclose(found.coefficients.individual[0], y.mean() + pull * (y.mean(axis=1) - y.mean()), rtol=1e-6)
    assert_allclose(found.coefficients.spread[0] ** 2, pull**2 * y.mean(axis=1).var() + between * (1 - pull), rtol=1e-6)
    assert_allclose(np.exp(found.log_noise.population[0]), 2, rtol=0.05)


def test_the_noise_of_people_differs_as_it_does():
    rng = np.random.default_rng(2)
    noise = np.exp(0.5 * rng.standard_normal((200, 1)))
    found = fit_linear(np.ones((200, 80, 1)), noise * rng.standard_normal((200, 80)), np.ones((200, 80)))
    assert_allclose(found.log_noise.spread[0], 0.5, atol=0.06)
    same = fit_linear(np.ones((200, 80, 1)), rng.standard_normal((200, 80)), np.ones((200, 80)))
    assert same.log_noise.spread[0] < 0.05


def test_logistic_coefficients_and_their_spread_are_found():
    rng, x = design(150, 150, 3)
    own = np.array([-1.0, 0.8]) + np.array([0.7, 0.3]) * rng.standard_normal((150, 2))
    y = rng.random((150, 150)) < expit(np.einsum("ptd,pd->pt", x, own))
    found = fit_yes_no(x, y.astype(float), np.ones((150, 150)))
    assert_allclose(found.population, own.mean(axis=0), atol=0.08)
    assert_allclose(found.spread, [0.7, 0.3], atol=0.1)
    assert np.corrcoef(found.individual[0], own[:, 0])[0, 1] > 0.9


def test_runs_of_rare_events_do_not_run_away():
    rng = np.random.default_rng(4)
    marks = np.zeros((40, 200))
    for t in range(1, 200):
        marks[:, t] = rng.random(40) < np.where(marks[:, t - 1] > 0, 0.9, 0.02)
    x = np.stack([np.ones((40, 199)), marks[:, :-1], marks[:, :-1]], axis=-1)  # twice the same column
    found = fit_yes_no(x, marks[:, 1:], np.ones((40, 199)), common=(1, 2))
    assert_allclose(expit(found.population[0]), 0.02, atol=0.01)
    assert_allclose(expit(found.population.sum()), 0.9, atol=0.03)


def test_rows_of_weight_zero_do_not_count():
    rng, x = design(20, 30, 5)
    y = x[..., 1] + rng.standard_normal((20, 30))
    weight = (rng.random((20, 30)) < 0.7).astype(float)
    wrong = np.where(weight > 0, y, 1e6)
    assert_allclose(fit_linear(x, y, weight).coefficients.individual, fit_linear(x, wrong, weight).coefficients.individual)


def test_what_is_known_only_up_to_limits_gives_the_same_line():
    rng, x = design(60, 60, 6)
    y = x @ np.array([0.2, 0.9]) + 0.5 * rng.standard_normal((60, 60))
    cuts = np.array([-np.inf, -0.5, 0.5, np.inf])
    place = np.searchsorted(cuts, y) - 1
    start = np.array([-1.0, 0.0, 1.0])[place]
    found = fit_between(x, cuts[place], cuts[place + 1], start, np.ones((60, 60)), rng)
    assert_allclose(found.coefficients.population, [0.2, 0.9], atol=0.05)
    assert_allclose(np.exp(found.log_noise.population[0]), 0.5, atol=0.05)


def test_numbers_drawn_within_limits_lie_there_and_are_normal():
    uniform = (np.arange(20_000) + 0.5) / 20_000
    drawn = draw_within(np.zeros(20_000), np.ones(20_000), np.full(20_000, 0.5), np.full(20_000, 9.0), uniform)
    assert drawn.min() >= 0.5
    assert_allclose(drawn.mean(), 1.1411, atol=1e-3)  # φ(0.5) / (1 − Φ(0.5))


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
