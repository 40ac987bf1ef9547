"""A prior of the population's coefficients: against the literal likelihood of all outcomes, and where it goes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import surefoot as sf
from surefoot.learning.pooling.mixed_effects import Moments, fit_mixed_effects

MEAN, SCALE = np.array([0.0, 1.0, 0.5]), np.array([np.inf, 0.2, 0.4])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    people, points = 8, 9
    x = rng.standard_normal((people, points, 3))
    x[..., 0] = 1.0
    w = np.array([2.0, 0.3, 0.0]) + rng.standard_normal((people, 3)) * [1.0, 0.7, 0.5]
    y = np.einsum("ptd,pd->pt", x, w) + 1.5 * rng.standard_normal((people, points))
    return x, y


def literal(x, y, psi, noise):
    """−2 log likelihood of y with β integrated out, N(m, s²) or flat, and the posterior of β and of everybody's w."""
    people, points, d = x.shape
    flat, long = np.where(np.isfinite(SCALE), SCALE, 300.0), x.reshape(-1, d)
    own = np.kron(np.eye(people), np.ones((points, points)))
    between = own * (long @ np.diag(psi) @ long.T)
    whole = noise * np.eye(len(long)) + between + long @ np.diag(flat**2) @ long.T
    left, inverse = y.ravel() - long @ MEAN, np.linalg.inv(whole)
    deviance = np.linalg.slogdet(whole)[1] + left @ inverse @ left
    beta = MEAN + np.diag(flat**2) @ long.T @ inverse @ left
    beta_covariance = np.diag(flat**2) - np.diag(flat**2) @ long.T @ inverse @ long @ np.diag(flat**2)
    first = (np.arange(people) == 0).repeat(points)
    toward = np.diag(flat**2) @ long.T + np.diag(psi) @ (long * first[:, None]).T
    mean = MEAN + toward @ inverse @ left
    covariance = np.diag(flat**2 + psi) - toward @ inverse @ toward.T
    return deviance, beta, beta_covariance, mean, covariance


def test_it_is_the_best_of_the_literal_likelihood(problem):
    x, y = problem
    moments = Moments.of_rows(x, y[..., None], np.ones(y.shape))
    found = fit_mixed_effects(moments, np.zeros(3), prior=(MEAN, SCALE))
    best = minimize(
        lambda values: literal(x, y, np.exp(values[:3]), np.exp(values[3]))[0],
        np.array([-0.5, 0.5, -0.5, 0.5]),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 4000, "maxfev": 4000},
    )
    psi, noise = np.diagonal(found.spread), found.noise
    assert found.converged
    assert_allclose(np.append(psi, noise), np.exp(best.x), rtol=2e-4)
    _, beta, beta_covariance, mean, covariance = literal(x, y, psi, noise)
    assert_allclose(found.population, beta, rtol=1e-5)
    assert_allclose(found.population_covariance, beta_covariance, atol=1e-4)  # "Flat" is 300² there.
    assert_allclose(found.mean[0], mean, rtol=1e-5)
    assert_allclose(found.covariance[0], covariance, atol=1e-4)


def test_a_prior_of_infinite_scale_is_none_and_a_narrow_one_decides(problem):
    x, y = problem
    moments = Moments.of_rows(x, y[..., None], np.ones(y.shape))
    plain = fit_mixed_effects(moments, np.full(3, 1e-3))
    none = fit_mixed_effects(moments, np.full(3, 1e-3), prior=(np.zeros(3), np.full(3, np.inf)))
    for name in ("population", "population_covariance", "spread", "noise", "mean", "covariance"):
        assert_allclose(getattr(none, name), getattr(plain, name), rtol=1e-6, atol=1e-9)
    narrow = fit_mixed_effects(moments, np.full(3, 1e-3), prior=(MEAN, np.full(3, 1e-4)))
    assert_allclose(narrow.population, MEAN, atol=1e-3)
    assert_allclose(np.diagonal(narrow.population_covariance), 1e-8, rtol=0.01)


@pytest.mark.filterwarnings("ignore:people do not differ")
def test_an_action_that_nobody_took_keeps_its_prior():
    logs = sf.simulators.HeartSteps(participants=8).collect(sf.policies.coin(2), decision_points=30, seed=0)
    never = logs.with_values(outcome=np.where(logs.action == 1, np.nan, logs.outcome))
    prior = {"send": {"mean": 40.0, "scale": 20.0}}
    with pytest.warns(sf.FitWarning, match="action 'send' never occurs"):
        found = sf.method("ts", pooling="partial", prior=prior).fit(never)
    assert_allclose(found.posterior_.population[4], 40.0)
    assert_allclose(found.posterior_.population_covariance[4, 4], 400.0, rtol=1e-6)
    assert_allclose(found.policies_.probabilities([999], np.zeros((1, 3)))[0, 1], 0.977, atol=1e-3)


@pytest.mark.filterwarnings("ignore:people do not differ")
def test_a_method_draws_the_population_towards_it():
    logs = sf.simulators.HeartSteps(participants=20, spread=1.0).collect(sf.policies.coin(2), decision_points=30, seed=0)
    prior = {"send": {"mean": 500.0, "scale": 50.0}, "weather": {"mean": 0.0, "scale": 5.0}}
    plain, found = (sf.method("ro-ts", pooling="partial", prior=one).fit(logs).posterior_ for one in (None, prior))
    assert plain.population[4] < found.population[4] < 500
    assert abs(found.population[1]) < min(10.0, abs(plain.population[1]))
    assert found.population_covariance[4, 4] < min(50.0**2, plain.population_covariance[4, 4])
    study = sf.Study.parse(
        '[columns]\nparticipant = "p"\ntime = "t"\n[state.weather]\n[method]\nname = "ts"\npooling = "partial"\n'
        "[method.prior]\nsend = { mean = 1.0, scale = 2.0 }\n"
    )
    assert study.method().rule.prior == {"send": {"mean": 1.0, "scale": 2.0}}
