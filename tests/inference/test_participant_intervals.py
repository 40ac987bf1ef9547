"""Participants' own intervals: by the bootstrap, and with partial pooling from the posterior."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import surefoot as sf
from surefoot.data.frames import make_frame
from surefoot.inference.participant_intervals import (
    bootstrap_coefficients,
    choose_people,
    draw_coefficients,
    draw_policies,
)
from surefoot.numerics.random_streams import streams


def test_a_persons_interval_does_not_depend_on_who_else_is_there():
    """The same six people by name, with and without the first of them."""
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=40, seed=0)
    columns = {
        "who": np.array([f"person-{participant}" for participant in logs.participant]),
        "when": logs.time,
        "sent": logs.action,
        "steps": logs.outcome,
        **dict(zip(logs.state_names, logs.state.T, strict=True)),
    }
    roles = {"participant": "who", "time": "when", "action": "sent", "outcome": "steps", "state": list(logs.state_names)}
    found = {}
    for company, rows in (("all", logs.participant >= 0), ("fewer", logs.participant > 0)):
        frame = make_frame({name: values[rows] for name, values in columns.items()}, "pyarrow")
        fitted = sf.method("ro-accb").fit(sf.Trajectories.from_frame(frame, **roles))
        assert fitted.participants_[-1] == "person-5"
        found[company] = bootstrap_coefficients(fitted, draws=20, seed=1)
    for name in ("critic_low", "critic_high", "policy_low", "policy_high"):
        assert_array_equal(getattr(found["fewer"], name), getattr(found["all"], name)[1:])
    assert len(np.unique(found["all"].critic_low[:, 0])) == 6


def test_of_many_people_some_are_drawn_and_their_intervals_are_what_they_would_be():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=40, seed=0)
    fitted, told = sf.method("ro-accb").fit(logs), []
    everybody = bootstrap_coefficients(fitted, draws=20, seed=1)
    some = bootstrap_coefficients(fitted, draws=20, seed=1, most_people=5, progress=lambda done, of: told.append((done, of)))
    drawn = np.flatnonzero(np.isfinite(some.critic_low[:, 0]))
    assert len(drawn) == 5
    assert_array_equal(some.policy_high[drawn], everybody.policy_high[drawn])
    assert told == [(5, 5)]
    other = bootstrap_coefficients(fitted, draws=20, seed=2, most_people=5)
    assert drawn.tolist() != np.flatnonzero(np.isfinite(other.critic_low[:, 0])).tolist()


def test_whom_a_seed_draws():
    """Those with the least of the numbers that everybody draws for themselves."""
    logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=3, seed=0)
    some = logs.with_values(outcome=np.where(logs.participant_index == 4, np.nan, logs.outcome))
    there = np.delete(np.arange(20), 4)
    for seed in (0, 1, 2):
        numbers = np.array([rng.random() for rng in streams(seed, "sample", logs.participants[there])])
        assert_array_equal(choose_people(some, 5, seed), np.sort(there[np.argsort(numbers)][:5]))
    assert_array_equal(choose_people(some, 19, 0), there)
    assert_array_equal(choose_people(some, None, 0), there)
    assert len(choose_people(some, 18, 0)) == 18


def test_defaults_are_two_hundred_draws_of_seed_zero():
    logs = sf.simulators.HeartSteps(participants=2).collect(sf.policies.coin(2), decision_points=20, seed=0)
    fitted = sf.method("linucb").fit(logs)
    expected = bootstrap_coefficients(fitted, draws=200, seed=0)
    assert_array_equal(bootstrap_coefficients(fitted).critic_low, expected.critic_low)


def test_draws_of_a_participant_are_refitted_and_their_percentiles_taken():
    logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=30, seed=0)
    outcome = logs.outcome.copy()
    outcome[logs.participant_index == 1] = np.nan
    outcome[logs.order[:4]] = np.nan
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(logs.with_values(outcome=outcome))
    found = bootstrap_coefficients(fitted, draws=11, seed=5)
    for place in (0, 2):
        rows = [row for row in logs.order if logs.participant_index[row] == place and not np.isnan(outcome[row])]
        rng = next(iter(streams(5, "bootstrap", logs.participants[[place]])))
        critics, policies = [], []
        picks = rng.integers(0, len(rows), size=11 * len(rows)).reshape(11, -1)
        for pick in picks:
            taken = np.array(rows)[pick]
            drawn = sf.Trajectories.from_arrays(
                logs.state[taken][None], logs.action[taken][None], outcome[taken][None], state_names=logs.state_names
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


@pytest.fixture(scope="module")
def logs():
    found = sf.simulators.HeartSteps(participants=12, spread=0.5).collect(sf.policies.coin(2), decision_points=40, seed=0)
    gone = (found.participant_index == 3) & (found.time >= 7)
    return found.with_values(outcome=np.where(gone, np.nan, found.outcome))


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
    drawn = draw_policies(fitted, fitted.joint_, np.array([5, 7]), 30, 4)
    assert drawn.shape == (2, 30, fitted.coef_.shape[1])
    assert_allclose(found.policy_low[[5, 7]], np.quantile(drawn, 0.025, axis=1))
    assert_allclose(found.policy_high[[5, 7]], np.quantile(drawn, 0.975, axis=1))


def test_draws_are_of_the_advantage_and_do_not_depend_on_company(fitted, logs):
    """Mean + root of the covariance · the participant's own numbers; with no doubt every draw is the fit's own policy."""
    together = draw_policies(fitted, fitted.joint_, np.array([2, 9]), 6, 1)
    assert_allclose(draw_policies(fitted, fitted.joint_, np.array([9]), 6, 1)[0], together[1], rtol=1e-9)
    sure = replace(fitted.joint_.advantage, covariance=0 * fitted.joint_.advantage.covariance)
    seen = []

    def fit_batch(batch, outlook):
        seen.append(outlook.advantage.mean)
        return fitted.fit_batch(batch, outlook)

    names = ("logs_", "forgetting", "list_centres", "make_batch")
    stand_in = SimpleNamespace(**{name: getattr(fitted, name) for name in names}, fit_batch=fit_batch)
    certain = draw_policies(stand_in, replace(fitted.joint_, advantage=sure), np.array([2, 9]), 3, 1)
    assert_allclose(certain, np.repeat(fitted.coef_[[2, 9], None], 3, axis=1), rtol=1e-6, atol=1e-9)
    draw_policies(stand_in, fitted.joint_, np.array([2, 9]), 400, 1)
    covariance = fitted.joint_.advantage.covariance[[2, 9]]
    drawn = seen[-1].reshape(2, 400, -1)
    assert_allclose(drawn.mean(axis=1), fitted.joint_.advantage.mean[[2, 9]].reshape(2, -1), atol=0.2 * drawn.std())
    numbers = [rng.standard_normal((400, drawn.shape[-1])) for rng in streams(1, "posterior", logs.participants[[2, 9]])]
    for k in range(2):
        away = drawn[k] - fitted.joint_.advantage.mean[[2, 9]][k].ravel()
        assert_allclose(away, numbers[k] @ find_root(covariance[k]), rtol=1e-6, atol=1e-8)


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
