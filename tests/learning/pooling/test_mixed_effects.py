import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from surefoot.learning.pooling.mixed_effects import (
    LEAST,
    Likelihood,
    Moments,
    fit_mixed_effects,
    profile_spread,
    search_spread,
)
from tests.reference import mixed_effects as literal

STATSMODELS = {
    # MixedLM(y, x, groups, exog_re=x).fit(reml=True) of statsmodels 0.15.0, for `draw_people(seed, …)`: β, σ², Ψ, b of the
    # first participant; without correlations with free=MixedLMParams.from_components(np.ones(2), np.eye(2)).
    (0, False): (
        ([1.280828, -2.071677], 1.220670, [[0.642241, 0.0], [0.0, 0.390215]]),
        [0.413911, 0.300104],
    ),
    (0, True): (([1.294539, -2.102349], 1.223139, [[0.657508, 0.254285], [0.254285, 0.368819]]), [0.432082, 0.351476]),
    (1, False): (([0.569978, -2.261613], 1.010281, [[1.155773, 0.0], [0.0, 0.841057]]), [-0.392145, 0.690793]),
    (1, True): (([0.577419, -2.264994], 1.006751, [[1.144129, -0.425883], [-0.425883, 0.867755]]), [-0.426880, 0.716586]),
    (2, False): (([0.904955, -1.990966], 1.117827, [[0.666635, 0.0], [0.0, 0.054421]]), [0.469125, 0.004674]),
    (2, True): (([0.905480, -1.986202], 1.108193, [[0.673403, -0.078608], [-0.078608, 0.067084]]), [0.468048, -0.041451]),
}
SPREADS = ((1.0, 0.5), (2.0, 1.0), (0.7, 0.0))


def draw_people(seed, spread, people=12):
    """[1, x] and y of people with 6 to 14 decision points."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(people), rng.integers(6, 15, people))
    x = np.column_stack([np.ones(len(group)), rng.standard_normal(len(group))])
    b = rng.standard_normal((people, 2)) * np.array(spread)
    y = x @ np.array([1.0, -2.0]) + (x * b[group]).sum(axis=1) + rng.standard_normal(len(group))
    return [x[group == i] for i in range(people)], [y[group == i] for i in range(people)]


def gather(xs, ys):
    gram, cross = np.stack([x.T @ x for x in xs]), np.stack([(x.T @ y)[:, None] for x, y in zip(xs, ys, strict=True)])
    return Moments(gram, cross, np.array([[[y @ y]] for y in ys]))


def draw_moments(seed, *, people=None, identified=True):
    """A random problem: some coefficients differ, by much or little, in any units."""
    rng = np.random.default_rng(seed)
    people, d = people or int(rng.integers(2, 60)), int(rng.integers(1, 7))
    points = int(rng.integers(2 * d + 2 if identified else 3, 80))
    spread, scale = np.exp(rng.normal(0, 1.5, d)) * (rng.random(d) < 0.7), np.exp(rng.normal(0, 2, d))
    x = rng.standard_normal((people, points, d)) * scale
    x[..., 0] = 1.0
    w = rng.standard_normal(d) + rng.standard_normal((people, d)) * spread / scale
    y = (x * w[:, None, :]).sum(axis=-1) + rng.standard_normal((people, points)) * np.exp(rng.normal())
    return Moments.of_rows(x, y[..., None], np.ones((people, points)))


@pytest.mark.parametrize(("seed", "correlated"), STATSMODELS)
def test_agrees_with_statsmodels(seed, correlated):
    (beta, noise, spread), first = STATSMODELS[seed, correlated]
    found = fit_mixed_effects(gather(*draw_people(seed, SPREADS[seed])), np.zeros(2), correlated=correlated)
    assert found.converged
    assert_allclose(found.population, beta, atol=1e-4)
    assert found.noise == pytest.approx(noise, abs=1e-4)
    assert_allclose(found.spread, spread, atol=1e-4)
    assert_allclose(found.mean[0] - found.population, first, atol=1e-4)


@pytest.mark.parametrize(("seed", "correlated"), [(0, False), (1, True), (2, False)])
def test_is_where_em_ends(seed, correlated):
    xs, ys = draw_people(seed, SPREADS[seed])
    found = fit_mixed_effects(gather(xs, ys), np.zeros(2), correlated=correlated)
    beta, psi, noise, deviations = literal.em(xs, ys, steps=600, diagonal=not correlated)
    assert_allclose(found.population, beta, atol=1e-5)
    assert_allclose(found.spread, psi, atol=2e-4)
    assert found.noise == pytest.approx(noise, abs=1e-4)
    assert_allclose(found.mean - found.population, deviations, atol=1e-4)


def test_the_deviance_is_that_of_all_outcomes_together():
    xs, ys = draw_people(3, (1.0, 1.0), people=5)
    likelihood = Likelihood.of_moments(gather(xs, ys), 0, np.zeros(2), np.eye(2))
    roots = (np.array([0.3, 2.0]), np.array([[1.0, 0.0], [-0.4, 0.5]]))
    ours, theirs = [], []
    for root in roots:
        point = likelihood.at(root)
        here = likelihood.basis * root if root.ndim == 1 else likelihood.basis @ root
        ours.append(point.deviance)
        theirs.append(literal.deviance(xs, ys, point.noise * here @ here.T, point.noise))
    assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], abs=1e-9)


def test_slope_and_curvature_are_derivatives():
    moments = draw_moments(5, people=9)
    d = moments.gram.shape[-1]
    likelihood = Likelihood.of_moments(moments, 0, np.zeros(d), np.eye(d))
    scale = np.exp(np.linspace(-1, 1, d))
    here = likelihood.at(np.sqrt(scale))
    curvature = here.curvature()[0] / np.outer(scale, scale)
    assert_allclose(here.diagonal_slope(), np.diagonal(here.slope()), rtol=1e-9)
    for j in range(d):
        step = np.eye(d)[j] * 1e-5 * scale[j]
        up, down = (likelihood.at(np.sqrt(scale + sign * step)) for sign in (1, -1))
        assert (up.deviance - down.deviance) / (2 * step[j]) == pytest.approx(here.slope()[j, j] / scale[j], rel=1e-5)
        slopes = [np.diagonal(point.slope()) / point.root**2 for point in (up, down)]
        assert_allclose(
            (slopes[0] - slopes[1]) / (2 * step[j]), curvature[j], rtol=1e-4, atol=1e-6 * np.abs(curvature).max()
        )


@pytest.mark.parametrize("seed", range(0, 1000, 10))
def test_random_problems_converge_where_no_step_leads_down(seed):
    moments = draw_moments(seed)
    d = moments.gram.shape[-1]
    point, _, converged = search_spread(Likelihood.of_moments(moments, 0, np.zeros(d), np.eye(d)))
    slope, at_zero = np.diagonal(point.slope()), point.root**2 <= LEAST
    assert converged
    assert_allclose(slope[~at_zero], 0, atol=1e-4)
    assert (slope[at_zero] >= 0).all()


@given(st.integers(0, 200), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_the_order_of_people_does_not_matter(seed, random):
    moments = draw_moments(seed)
    d, people = moments.gram.shape[-1], len(moments.gram)
    order = np.array(random.sample(range(people), people))
    one, other = fit_mixed_effects(moments, np.zeros(d)), fit_mixed_effects(moments.of(order), np.zeros(d))
    scale = np.sqrt(one.spread.diagonal() + one.population_covariance.diagonal())
    assert_allclose(other.population / scale, one.population / scale, rtol=1e-6, atol=1e-6)
    assert_allclose(other.mean / scale, one.mean[order] / scale, rtol=1e-6, atol=1e-5)


@given(st.integers(0, 200))
@settings(max_examples=15, deadline=None)
def test_units_change_nothing(seed):
    moments = draw_moments(seed)
    d = moments.gram.shape[-1]
    unit = np.exp(np.linspace(0, 5, d))
    other = Moments(moments.gram * np.outer(unit, unit), 60 * unit[:, None] * moments.cross, 3600 * moments.squares)
    one, again = fit_mixed_effects(moments, np.zeros(d)), fit_mixed_effects(other, np.zeros(d))
    scale = np.sqrt(one.spread.diagonal() + one.population_covariance.diagonal())
    assert_allclose(again.mean * unit / 60 / scale, one.mean / scale, rtol=1e-6, atol=1e-5)


def test_people_who_have_nothing_in_common_are_fitted_each_by_themselves():
    xs, ys = draw_people(4, (1e5, 1e5))
    found = fit_mixed_effects(gather(xs, ys), np.zeros(2))
    for mean, x, y in zip(found.mean, xs, ys, strict=True):
        assert_allclose(mean, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-5)


def test_people_who_do_not_differ_are_fitted_all_together():
    xs, ys = draw_people(7, (0.0, 0.0))
    whole = np.linalg.lstsq(np.concatenate(xs), np.concatenate(ys), rcond=None)[0]
    residuals = [y - x @ whole for x, y in zip(xs, ys, strict=True)]
    # Everybody's own residuals are made orthogonal to x: nobody could be more alike.
    alike = [x @ whole + e - x @ np.linalg.lstsq(x, e, rcond=None)[0] for x, e in zip(xs, residuals, strict=True)]
    found = fit_mixed_effects(gather(xs, alike), np.zeros(2))
    assert_allclose(found.spread, 0)
    assert_allclose(found.population, whole, atol=1e-8)
    assert_allclose(found.mean, np.broadcast_to(whole, found.mean.shape), atol=1e-8)


def test_somebody_without_decision_points_is_like_somebody_new():
    moments = gather(*draw_people(1, SPREADS[1]))
    more = Moments(*(np.concatenate([part, np.zeros_like(part[:1])]) for part in vars(moments).values()))
    one, other = fit_mixed_effects(moments, np.zeros(2)), fit_mixed_effects(more, np.zeros(2))
    assert_allclose(other.population, one.population, rtol=1e-9)
    assert_allclose(other.mean[-1], other.population)
    assert_allclose(other.covariance[-1], other.new_covariance, rtol=1e-9)


def test_one_participant_does_not_differ_from_anybody():
    moments = gather(*draw_people(1, SPREADS[1]))
    found = fit_mixed_effects(moments.of(slice(0, 1)), np.zeros(2))
    assert_allclose(found.spread, 0)
    assert_allclose(found.mean[0], moments.of(slice(0, 1)).solve(np.zeros(2))[0][0, :, 0], rtol=1e-8)


def test_a_column_that_nobody_has_gets_no_coefficient():
    moments = gather(*draw_people(1, SPREADS[1]))
    wider = Moments(
        np.pad(moments.gram, ((0, 0), (0, 1), (0, 1))), np.pad(moments.cross, ((0, 0), (0, 1), (0, 0))), moments.squares
    )
    one, other = fit_mixed_effects(moments, np.zeros(2)), fit_mixed_effects(wider, np.zeros(3))
    assert_allclose(other.mean[:, :2], one.mean, rtol=1e-9)
    assert_allclose(other.mean[:, 2], 0)
    assert_allclose(other.covariance[:, 2, 2], 0, atol=1e-9)
    assert_allclose(other.spread[:2, :2], one.spread, rtol=1e-8)


def test_intervals_of_coefficients_cover():
    """Posterior and population intervals of 95 %, over 60 studies of 30 people."""
    own, whole = [], []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        x = np.concatenate([np.ones((30, 25, 1)), rng.standard_normal((30, 25, 2))], axis=-1)
        w = np.array([1.0, -1.0, 0.0]) + rng.standard_normal((30, 3)) * np.array([1.0, 0.5, 0.3])
        y = (x * w[:, None, :]).sum(axis=-1) + rng.standard_normal((30, 25))
        found = fit_mixed_effects(Moments.of_rows(x, y[..., None], np.ones((30, 25))), np.zeros(3))
        errors = np.sqrt(np.stack([cov.diagonal() for cov in found.covariance]))
        own.append(np.abs(found.mean - w) < 1.96 * errors)
        whole.append(np.abs(found.population - [1.0, -1.0, 0.0]) < 2.045 * np.sqrt(found.population_covariance.diagonal()))
    assert_allclose(np.mean(own, axis=(0, 1)), 0.95, atol=0.03)
    assert np.mean(whole) == pytest.approx(0.95, abs=0.04)


def test_the_spread_has_intervals_of_the_profile_likelihood():
    from scipy.optimize import brentq, minimize_scalar

    rng = np.random.default_rng(11)
    xs = [np.ones((8, 1)) for _ in range(15)]
    ys = [rng.standard_normal() + rng.standard_normal(8) for _ in range(15)]
    found = fit_mixed_effects(gather(xs, ys), np.zeros(1))
    spread = profile_spread(found)

    def profile(ratio):
        """The deviance at ψ = ratio σ², with the best σ²."""
        best = minimize_scalar(lambda log: literal.deviance(xs, ys, np.array([[ratio]]) * np.exp(log), np.exp(log)))
        return best.fun

    at_best = profile(found.spread[0, 0] / found.noise)
    low, high = (
        np.sqrt(found.noise * brentq(lambda ratio: profile(ratio) - at_best - 3.8415, *ends)) for ends in ((0, 1), (1, 9))
    )
    assert_allclose([spread.low[0], spread.deviation[0], spread.high[0]], [low, found.spread[0, 0] ** 0.5, high], rtol=2e-3)


def test_the_spread_of_people_who_do_not_differ_begins_at_zero():
    xs, ys = draw_people(2, (0.7, 0.0))
    spread = profile_spread(fit_mixed_effects(gather(xs, ys), np.zeros(2)))
    assert spread.low[0] > 0 and spread.low[1] == 0 and spread.high[1] > spread.deviation[1]
    alone = profile_spread(fit_mixed_effects(gather(xs[:1], ys[:1]), np.zeros(2)))
    assert_allclose(alone.deviation, 0)
