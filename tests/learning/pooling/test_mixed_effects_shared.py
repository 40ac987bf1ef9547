"""Columns whose random coefficients everybody shares, next to coefficients that differ."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from surefoot.learning.pooling.mixed_effects import LEAST, Likelihood, Moments, SharedMoments, fit_mixed_effects
from tests.reference import mixed_effects as literal

GROUPS = np.array([0, 0, 0, 1, 1])
PACES = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.5, 0.1, 1.0, 3.0]])


def draw_rows(seed, people=6, shared_effect=1.0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 12, people)
    xs = [np.column_stack([np.ones(size), rng.standard_normal(size)]) for size in sizes]
    zs = [rng.standard_normal((size, 5)) for size in sizes]
    v = shared_effect * rng.standard_normal(5)
    ys = [
        x @ (np.array([1.0, -2.0]) + rng.standard_normal(2)) + z @ v + rng.standard_normal(len(x))
        for x, z in zip(xs, zs, strict=True)
    ]
    return xs, zs, ys, rng.standard_normal((people, 2, 5))


def gather(xs, zs, ys, currents, paces=PACES[:1]):
    moments = Moments(
        np.stack([x.T @ x for x in xs]),
        np.stack([(x.T @ y)[:, None] for x, y in zip(xs, ys, strict=True)]),
        np.array([[[y @ y]] for y in ys]),
    )
    z, y = np.concatenate(zs), np.concatenate(ys)
    between = np.stack([x.T @ z for x, z in zip(xs, zs, strict=True)])
    return moments, SharedMoments(between, z.T @ z, (z.T @ y)[:, None], GROUPS, currents, paces)


def read_variances(point):
    """Ψ and τ that an evaluation stands for, in the units of the data."""
    likelihood = point.likelihood
    transform = likelihood.basis * point.root
    tau = (point.shared_root * likelihood.unit[2:])[GROUPS] ** 2
    return point.noise * transform @ transform.T, point.noise * tau


@pytest.mark.parametrize("shared_root", [[0.7, 1.6], [0.0, 2.0], [0.0, 0.0]])
def test_everything_is_as_from_the_covariance_of_all_outcomes(shared_root):
    rows = draw_rows(0)
    moments, shared = gather(*rows)
    likelihood = Likelihood.of_moments(moments, 0, np.zeros(2), np.eye(2), shared=shared)
    deviances = []
    for root in ([0.4, 1.3], [2.0, 0.2]):
        point = likelihood.at(np.array(root), np.array(shared_root))
        psi, tau = read_variances(point)
        value, beta, v, mean, covariance = literal.solve_shared(*rows[:3], psi, tau, point.noise, rows[3])
        posterior = point.posterior(1, True)
        assert_allclose(posterior.population, beta, rtol=1e-8, atol=1e-9)
        assert_allclose(posterior.shared.mean, v, rtol=1e-8, atol=1e-9)
        assert_allclose(posterior.mean, mean, rtol=1e-8, atol=1e-9)
        assert_allclose(posterior.covariance, covariance, rtol=1e-7, atol=1e-9)
        deviances.append(point.deviance - value)
    assert deviances[0] == pytest.approx(deviances[1], abs=1e-8)


def test_slope_and_curvature_are_derivatives():
    moments, shared = gather(*draw_rows(1))
    likelihood = Likelihood.of_moments(moments, 0, np.zeros(2), np.eye(2), shared=shared)
    scale = np.array([0.5, 1.5, 0.3, 2.0])

    def at(values):
        return likelihood.at(np.sqrt(values[:2]), np.sqrt(values[2:]))

    center = at(scale)
    curvature = center.curvature()[0] / np.outer(scale, scale)
    for j in range(4):
        step = np.eye(4)[j] * 1e-5 * scale[j]
        up, down = at(scale + step), at(scale - step)
        slope = center.diagonal_slope()[j] / scale[j]
        assert (up.deviance - down.deviance) / (2 * step[j]) == pytest.approx(slope, rel=1e-5)
        slopes = [point.diagonal_slope() / point.scale for point in (up, down)]
        assert_allclose((slopes[0] - slopes[1]) / (2 * step[j]), curvature[j], rtol=1e-4, atol=1e-6 * abs(curvature).max())


@pytest.mark.parametrize("seed", range(20))
def test_the_search_ends_where_no_step_leads_down(seed):
    moments, shared = gather(*draw_rows(seed, people=2 + seed, shared_effect=seed % 3))
    best = fit_mixed_effects(moments, np.zeros(2), shared=shared)
    assert best.converged
    likelihood = best.likelihood
    scale = np.maximum(best.ratios[0] / likelihood.unit**2, LEAST)

    def deviance(values):
        return likelihood.at(np.sqrt(values[:2]), np.sqrt(values[2:])).deviance

    for j in range(4):
        for factor in (0.9, 1.1, 1e6):
            other = scale.copy()
            other[j] *= factor
            assert deviance(other) >= deviance(scale) - 1e-6


@pytest.mark.parametrize(("seed", "shared_effect"), [(1, 0.0), (4, 0.0), (2, 1.0)])
def test_variances_are_the_best_of_the_dense_likelihood_also_where_they_are_zero(seed, shared_effect):
    rows = draw_rows(seed, shared_effect=shared_effect)
    moments, shared = gather(*rows)
    best = fit_mixed_effects(moments, np.zeros(2), shared=shared)

    def deviance(values):
        psi, tau, noise = np.diag(values[:2]), values[2:4][GROUPS], values[4]
        return literal.solve_shared(*rows[:3], psi, tau, noise, rows[3])[0]

    bounds = [(0.0, None)] * 4 + [(1e-3, None)]
    starts = ([1.0, 1.0, 1.0, 1.0, 1.0], [0.1, 2.0, 0.01, 0.3, 0.5])
    optima = [minimize(deviance, start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14}) for start in starts]
    optimum = min(optima, key=lambda optimum: optimum.fun)
    variances = np.concatenate([np.diagonal(best.spread), best.shared.variances, [best.noise]])
    assert deviance(variances) <= optimum.fun + 1e-6
    assert_allclose(variances, optimum.x, rtol=2e-3, atol=2e-4)
    assert (variances == 0).any() or shared_effect


@pytest.mark.parametrize(("seed", "slowing"), [(2, False), (2, True), (6, True)])
def test_the_pace_is_the_one_with_the_higher_dense_likelihood(seed, slowing):
    xs, zs, ys, currents = draw_rows(seed, people=12, shared_effect=0.0)
    v = 3 * np.random.default_rng(seed).standard_normal(5) * PACES[int(slowing)]
    ys = [y + z @ v for y, z in zip(ys, zs, strict=True)]
    moments, shared = gather(xs, zs, ys, currents, PACES)
    best = fit_mixed_effects(moments, np.zeros(2), shared=shared)

    def solve(paced):
        tau = paced.shared.variances[GROUPS] * PACES[paced.likelihood.pace] ** 2
        return literal.solve_shared(xs, zs, ys, paced.spread, tau, paced.noise, currents)

    of_both = []
    for pace in PACES:
        # Columns that are multiplied by a pace have coefficients that are divided by it.
        alone, at_pace = gather(xs, [z * pace for z in zs], ys, currents * pace)
        fit = fit_mixed_effects(alone, np.zeros(2), shared=at_pace)
        of_both.append((fit, fit.shared.mean * pace))
    deviances = [fit.deviance for fit, _ in of_both]
    chosen = int(np.argmin(deviances))
    assert best.likelihood.pace == chosen
    assert_allclose(best.shared.mean, of_both[chosen][1], rtol=1e-5, atol=1e-7)
    value, beta, mean, means, covariances = solve(best)
    assert_allclose(best.population, beta, rtol=1e-6)
    assert_allclose(best.shared.mean, mean, rtol=1e-6, atol=1e-8)
    assert_allclose(best.mean, means, rtol=1e-6, atol=1e-8)
    assert_allclose(best.covariance, covariances, rtol=1e-6, atol=1e-8)
    other = best.likelihood.list_paces()[1 - chosen]
    rival = other.at_ratios(best.ratios[1 - chosen]).posterior(1, True)
    assert solve(rival)[0] - value == pytest.approx(rival.deviance - best.deviance, abs=1e-5)
    assert rival.deviance >= best.deviance


def test_people_who_differ_much_leave_shared_columns_their_information():
    rng = np.random.default_rng(0)
    xs = [np.column_stack([np.ones(3), rng.standard_normal((3, 3))]) for _ in range(40)]
    zs = [x @ rng.standard_normal((4, 5)) for x in xs]
    moments, shared = gather(xs, zs, [x[:, 1] for x in xs], np.zeros((40, 4, 5)))
    likelihood = Likelihood.of_moments(moments, 0, np.zeros(4), np.eye(4), shared=shared)
    information = likelihood.at(np.full(4, 1e4), np.full(2, 1e2)).information[4:, 4:]
    assert_allclose(information, information.T, atol=1e-9)
    assert np.linalg.eigvalsh(information).min() > 0


def test_a_search_from_a_similar_fit_ends_in_the_same_place():
    moments, shared = gather(*draw_rows(3, people=12))
    cold = fit_mixed_effects(moments, np.zeros(2), shared=shared)
    warm = fit_mixed_effects(moments, np.zeros(2), shared=shared, start=cold.ratios * np.array([3.0, 0.0, 1.0, 0.2]))
    assert_allclose(warm.mean, cold.mean, rtol=1e-6, atol=1e-7)


def test_people_who_are_alike_have_no_differences():
    rows = draw_rows(4)
    moments, shared = gather(*rows)
    alike = fit_mixed_effects(moments, np.zeros(2), shared=shared, alike=True)
    assert not alike.spread.any()
    _, beta, v, *_ = literal.solve_shared(*rows[:3], 0 * np.eye(2), alike.shared.variances[GROUPS], alike.noise, rows[3])
    assert_allclose(alike.population, beta, rtol=1e-6)
    assert_allclose(alike.shared.mean, v, rtol=1e-5, atol=1e-8)


def test_recombined_columns_are_those_of_recombined_rows():
    xs, zs, ys, currents = draw_rows(5)
    rng = np.random.default_rng(0)
    mixing, removed = rng.standard_normal((5, 5)), rng.standard_normal((2, 5))
    moments, shared = gather(xs, zs, ys, currents)
    ours = shared.recombine(moments, mixing, removed)
    theirs = gather(xs, [z @ mixing - x @ removed for x, z in zip(xs, zs, strict=True)], ys, currents @ mixing)[1]
    for name in ("between", "gram", "cross", "current"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-9)
