"""Own intervals with partial pooling: the posterior's for the critic, percentiles of drawn policies for the policy."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import surefoot as sf
from surefoot.inference import posterior_draws
from surefoot.inference.posterior_draws import draw_coefficients
from surefoot.numerics.random_streams import streams


@pytest.fixture(scope="module")
def logs():
    found = sf.simulators.HeartSteps(participants=12, spread=0.5).collect(sf.policies.coin(2), decision_points=40, seed=0)
    gone = (found.participant_index == 3) & (found.time >= 7)
    return found.with_values(reward=np.where(gone, np.nan, found.reward))


@pytest.fixture(scope="module")
def fitted(logs):
    with pytest.warns(sf.FitWarning, match="participant 3: fewer usable decision points"):
        return sf.method("accb", pooling="partial", actor_penalty=0.05).fit(logs)


@pytest.fixture(scope="module")
def found(fitted):
    return draw_coefficients(fitted, draws=30, seed=4)


def test_the_critics_ends_are_those_of_its_posterior(fitted, found):
    d = fitted.critic_coef_.shape[1]
    error = np.sqrt([np.diag(part)[:d] for part in fitted.posterior_.covariance])
    assert_allclose(found.critic_low, fitted.critic_coef_ - stats.norm.ppf(0.975) * error)
    assert_allclose(found.critic_high, fitted.critic_coef_ + stats.norm.ppf(0.975) * error)


def test_who_has_too_few_decision_points_has_no_policy_of_their_own(fitted, found):
    few = np.arange(len(fitted.participants_)) == 3
    assert np.isnan(found.policy_low[few]).all() and np.isnan(found.policy_high[few]).all()
    assert (found.policy_low[:12][~few[:12]] < found.policy_high[:12][~few[:12]]).all()
    assert np.isfinite(found.critic_low[few]).all()


def test_the_policys_ends_are_percentiles_of_its_draws(fitted, found):
    drawn = posterior_draws._draw_policies(fitted, np.array([5, 7]), 30, 4)
    assert drawn.shape == (2, 30, fitted.coef_.shape[1])
    assert_allclose(found.policy_low[[5, 7]], np.quantile(drawn, 0.025, axis=1))
    assert_allclose(found.policy_high[[5, 7]], np.quantile(drawn, 0.975, axis=1))


def test_draws_are_of_the_advantage_and_do_not_depend_on_company(fitted, logs):
    """Mean + root of the covariance · the participant's own numbers; with no doubt every draw is the fit's own policy."""
    together = posterior_draws._draw_policies(fitted, np.array([2, 9]), 6, 1)
    assert_allclose(posterior_draws._draw_policies(fitted, np.array([9]), 6, 1)[0], together[1], rtol=1e-9)
    sure = replace(fitted.joint_.advantage, covariance=0 * fitted.joint_.advantage.covariance)
    seen = []

    def fit_batch(batch, outlook):
        seen.append(outlook.advantage.mean)
        return fitted.fit_batch(batch, outlook)

    names = ("logs_", "critic_sees_", "policy_sees_", "forgetting")
    kept = {name: getattr(fitted, name) for name in names}
    stand_in = SimpleNamespace(
        **kept, list_centres=fitted.list_centres, joint_=replace(fitted.joint_, advantage=sure), fit_batch=fit_batch
    )
    certain = posterior_draws._draw_policies(stand_in, np.array([2, 9]), 3, 1)
    assert_allclose(certain, np.repeat(fitted.coef_[[2, 9], None], 3, axis=1), rtol=1e-6, atol=1e-9)
    stand_in.joint_ = fitted.joint_
    posterior_draws._draw_policies(stand_in, np.array([2, 9]), 400, 1)
    covariance = fitted.joint_.advantage.covariance[[2, 9]]
    drawn = seen[-1].reshape(2, 400, -1)
    assert_allclose(drawn.mean(axis=1), fitted.joint_.advantage.mean[[2, 9]].reshape(2, -1), atol=0.2 * drawn.std())
    numbers = [rng.standard_normal((400, drawn.shape[-1])) for rng in streams(1, "posterior", logs.participants[[2, 9]])]
    for one in range(2):
        away = drawn[one] - fitted.joint_.advantage.mean[[2, 9]][one].ravel()
        assert_allclose(away, numbers[one] @ find_root(covariance[one]), rtol=1e-6, atol=1e-8)


def find_root(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T


def test_progress_is_told_and_people_are_drawn(fitted):
    told = []
    found = draw_coefficients(
        fitted, draws=5, seed=4, most_people=4, progress=lambda done, whole: told.append((done, whole))
    )
    own = ~np.isnan(found.policy_low[:, 0])
    assert own.sum() in (3, 4) and told[-1] == (own.sum(), own.sum())
    whole = draw_coefficients(fitted, draws=5, seed=4)
    assert_array_equal(found.policy_low[own], whole.policy_low[own])


def test_a_policy_without_coefficients_has_no_ends(logs):
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("linucb", pooling="partial").fit(logs)
    found = draw_coefficients(fitted, draws=5)
    assert found.policy_low is None and found.policy_high is None and np.isfinite(found.critic_low).all()
