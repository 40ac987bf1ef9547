"""Posterior sampling: the posterior in closed form, what it does without data, and where it goes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import surefoot as sf
from surefoot.policies.features import critic_features
from tests.problems import three_actions


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=60, seed=4)


def posterior(logs, rows, penalty, spread):
    """Mean and covariance of w, the long way, with penalties in absolute units."""
    x = critic_features(logs.state[rows], logs.action[rows], logs.actions)
    system = x.T @ x + penalty * np.eye(x.shape[1])
    mean = np.linalg.solve(system, x.T @ logs.outcome[rows])
    squares = ((logs.outcome[rows] - x @ mean) ** 2).sum()
    noise = (squares + spread**2) / (max(len(rows) - x.shape[1], 0) + 1)
    return mean, noise * np.linalg.inv(system)


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_two_actions_are_the_normal_probability_of_a_positive_effect(logs, pooling):
    found = sf.method("ts", pooling=pooling, critic_penalty=0.5, penalty_units="absolute").fit(logs)
    for participant in logs.participants[:3]:
        rows = np.flatnonzero(logs.participant == participant) if pooling == "person" else np.arange(len(logs))
        mean, covariance = posterior(logs, rows, 0.5, spread=1.0)
        state = logs.state[logs.participant == participant][:5]
        z = np.column_stack([np.ones(5), state])
        effect, variance = z @ mean[4:], np.einsum("ni,ij,nj->n", z, covariance[4:, 4:], z)
        sent = found.policies_.probabilities([participant] * 5, state)[:, 1]
        assert_allclose(sent, norm.cdf(effect / np.sqrt(variance)), rtol=1e-8)
        if pooling == "person":
            place = int(np.flatnonzero(found.participants_ == participant)[0])
            assert_allclose(found.critic_coef_[place], mean, rtol=1e-8)


def test_three_actions_are_as_likely_as_their_drawn_effects_are_the_largest():
    logs, rng = three_actions(), np.random.default_rng(0)
    found = sf.method("ts", critic_penalty=0.5, penalty_units="absolute").fit(logs)
    rows = np.flatnonzero(logs.participant == logs.participants[0])
    mean, covariance = posterior(logs, rows, 0.5, spread=1.0)
    size = logs.state.shape[1] + 1
    draws = rng.multivariate_normal(mean, covariance, 100_000)[:, size:].reshape(-1, 2, size)
    for state in logs.state[rows[:4]]:
        effects = draws @ np.append(1.0, state)
        best = np.where(effects.max(axis=1) > 0, effects.argmax(axis=1) + 1, 0)
        share = np.bincount(best, minlength=3) / len(best)
        assert_allclose(found.policies_.probabilities(logs.participants[:1], state[None])[0], share, atol=0.007)


def test_who_has_said_nothing_gets_an_even_chance_whatever_the_units(logs):
    empty = logs.with_values(outcome=np.where(logs.participant == logs.participants[0], np.nan, logs.outcome))
    with pytest.warns(sf.FitWarning, match="posterior sampling follows its prior"):
        found = sf.method("ts").fit(empty)
    states = np.array([[0.0, 0.0, 0.0], [3.0, -1.0, 40.0]])
    assert_allclose(found.policies_.probabilities(logs.participants[[0, 0]], states), 0.5)


POOLED = [
    {"pooling": "all"},
    {"pooling": "all", "baseline": "smooth"},
    {"pooling": "partial"},
    {"pooling": "partial", "time": "smooth"},
    {"pooling": "partial", "random_walk": "estimate"},
    {"pooling": "partial", "time": "smooth", "baseline": "smooth"},
]


@pytest.mark.parametrize("parameters", [{}, *POOLED])
def test_what_was_never_sent_gets_an_even_chance(parameters):
    never = sf.simulators.HeartSteps(participants=5).collect(sf.policies.never(2), decision_points=40, seed=0)
    with pytest.warns(sf.FitWarning, match="never occurs"):
        fitted = sf.method("ts", **parameters).fit(never)
    assert_allclose(fitted.policies_.probabilities(never.participant, never.state), 0.5)
    if parameters:
        assert_allclose(fitted.policies_.probabilities([999], never.state[:1]), 0.5)


@pytest.mark.parametrize("parameters", POOLED[1:])
@pytest.mark.parametrize("name", ["ts", "linucb"])
def test_an_action_that_nobody_has_tried_is_as_uncertain_as_with_one_fit_to_everybody(name, parameters):
    logs = three_actions(people=6)
    untried = replace(logs, action=np.where(logs.action == 1, 0, logs.action))
    state = np.array([[0.5, 0.5], [-1.0, 2.0]])
    with pytest.warns(sf.FitWarning, match="action 'walk' never occurs"):
        joint, pooled = (sf.method(name, **given).fit(untried).policies_ for given in (parameters, {"pooling": "all"}))
    expected = pooled.probabilities([999] * 2, state)
    assert (expected[:, 1] > 0.4).all()
    assert_allclose(joint.probabilities([999] * 2, state), expected, atol=0.05)


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize("constant", [0.1, 1.7e9])
def test_a_constant_state_does_not_change_what_is_not_known_of_an_untried_action(constant):
    never = sf.simulators.HeartSteps(participants=5).collect(sf.policies.never(2), decision_points=40, seed=0)
    constants = np.append(never.state[:, :2], np.full((len(never), 1), constant), axis=1)
    fitted = sf.method("ts", pooling="partial").fit(never.with_values(state=constants))
    assert_allclose(fitted.policies_.probabilities([0, 999], constants[:2]), 0.5)
    assert np.abs(fitted.posterior_.population_covariance).max() < 1e6 * fitted.posterior_.noise


@pytest.mark.parametrize("parameters", POOLED[1:])
@pytest.mark.parametrize("points", [1, 2, 3])
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_as_many_coefficients_as_decision_points_leave_it_unsure(parameters, points):
    rng = np.random.default_rng(0)
    state, action = rng.uniform(-1, 1, (2, points, 2)), rng.integers(0, 2, (2, points))
    few = sf.Trajectories.from_arrays(state, action, rng.standard_normal((2, points)))
    joint, pooled = (sf.method("ts", **given).fit(few).policies_ for given in (parameters, {"pooling": "all"}))
    probabilities = joint.probabilities([0, 999], state[0, [0, -1]])
    assert ((probabilities > 0.05) & (probabilities < 0.95)).all()
    assert_allclose(probabilities, pooled.probabilities([0, 999], state[0, [0, -1]]), atol=0.1)


def test_more_data_make_it_surer(logs):
    many = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=1000, seed=4)
    sure = [
        np.abs(sf.method("hb-ts").fit(data).policies_.probabilities(logs.participant, logs.state)[:, 1] - 0.5).mean()
        for data in (logs, many)
    ]
    assert sure[1] > sure[0] + 0.03


def test_smooth_allocation_keeps_to_its_ends_and_refuses_three_actions(logs):
    found = sf.method("ts", allocation="smooth", smooth_minimum=0.1, smooth_maximum=0.7).fit(logs)
    sent = found.policies_.probabilities(logs.participant, logs.state)[:, 1]
    assert ((sent >= 0.1) & (sent <= 0.7)).all() and np.ptp(sent) > 0.2
    with pytest.raises(sf.InputError, match="it is for two actions"):
        sf.method("ts", allocation="smooth").fit(three_actions())
    with pytest.raises(sf.InputError, match="did you mean 'smooth'"):
        sf.method("ts", allocation="smoth")
    with pytest.raises(sf.InputError, match=r"smooth_minimum 0\.9 must be below"):
        sf.method("ts", smooth_minimum=0.9)
    with pytest.raises(sf.InputError, match="smooth_exponent is 9"):
        sf.method("ts", smooth_exponent=9.0)


def test_looking_ahead_it_samples_from_the_advantages():
    logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=60, seed=1)
    found = sf.method("hb-ts", pooling="all", horizon="long-run").fit(logs)
    ahead = found.outlook_.advantage
    z = np.append(logs.state[:5], np.ones((5, 1)), axis=1)
    ratio = z @ ahead.mean[0, 0] / np.sqrt(np.einsum("ni,ij,nj->n", z, ahead.covariance[0], z))
    assert_allclose(found.policies_.probabilities(logs.participant[:5], logs.state[:5])[:, 1], norm.cdf(ratio), rtol=1e-9)


@pytest.mark.parametrize("pooling", ["person", "all", "partial"])
def test_a_variable_that_only_the_policy_sees_leaves_no_doubt(logs, pooling):
    found = sf.method("ts", pooling=pooling, critic_variables=("weather", "engagement")).fit(logs)
    moved = logs.state.copy()
    moved[:, 2] += 100
    people = logs.participant
    assert_allclose(
        found.policies_.probabilities(people, moved), found.policies_.probabilities(people, logs.state), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("suffix", ["json", "parquet"])
@pytest.mark.parametrize("allocation", ["best", "smooth"])
def test_files_give_the_same_numbers(logs, tmp_path, allocation, suffix):
    found = sf.method("ts", allocation=allocation).fit(logs).policies_
    found.save(tmp_path / f"policies.{suffix}")
    again = sf.policies.load(tmp_path / f"policies.{suffix}")
    assert_array_equal(again.probabilities(logs.participant, logs.state), found.probabilities(logs.participant, logs.state))


@pytest.mark.parametrize(("name", "least", "most"), [("ts", 0.9, 1.1), ("ro-ts", 0.85, 1.15), ("hb-ts", 0.9, 1.2)])
def test_it_is_as_sure_as_it_may_be(name, least, most):
    """Over people the errors of the effects, in posterior standard deviations, have standard deviation 1."""
    logs = sf.simulators.HeartSteps(participants=200).collect(sf.policies.coin(2), decision_points=210, seed=3)
    rule = sf.method(name).fit(logs).policies_.rule
    truth = np.roll(sf.simulators.HeartSteps.critic_coef[4:], -1)
    scores = (rule.mean[:, 0] - truth) / np.sqrt(np.diagonal(rule.covariance, axis1=1, axis2=2))
    assert least < np.sqrt((scores**2).mean()) < most
