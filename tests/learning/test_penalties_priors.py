import tomllib

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import surefoot as sf
from surefoot.inference.sandwich import compute_influences
from surefoot.learning.penalties import list_coefficient_names, place_prior, write_prior
from surefoot.policies.features import critic_feature_names, critic_features
from tests.problems import three_actions

PRIOR = {
    "intercept": {"mean": 1400.0, "scale": 200.0},
    "send": {"mean": 100.0, "scale": 30.0},
    "send × weather": {"scale": 20.0},
}


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=5).collect(sf.policies.coin(2), decision_points=50, seed=7)


def test_names_stand_in_the_order_of_the_coefficients():
    state, actions = ["a", "b"], ["nothing", "walk", "rest"]
    assert list_coefficient_names(state, actions) == [
        *("intercept", "a", "b"),
        *("walk", "walk × a", "walk × b"),
        *("rest", "rest × a", "rest × b"),
    ]
    assert len(list_coefficient_names(state, actions)) == len(critic_feature_names(state, actions))


def test_the_posterior_is_that_of_a_bayesian_regression(logs):
    found = sf.method("ts", prior=PRIOR, critic_penalty=0.0, penalty_units="absolute").fit(logs)
    placed = place_prior(PRIOR, logs.state_names, logs.action_names)
    for place, participant in enumerate(logs.participants):
        rows = logs.participant == participant
        x, r = critic_features(logs.state[rows], logs.action[rows], 2), logs.outcome[rows]
        # The noise follows from the residuals of what is found, and what is found from the noise.
        given = np.isfinite(placed.scale)
        noise = found.penalty_[place][given] * placed.scale[given] ** 2
        assert_allclose(noise, noise[0])
        precision = x.T @ x / noise[0] + np.diag(placed.scale**-2.0)
        mean = np.linalg.solve(precision, x.T @ r / noise[0] + placed.scale**-2.0 * placed.mean)
        assert_allclose(found.critic_coef_[place], mean, rtol=1e-8)
        squares = ((r - x @ mean) ** 2).sum()
        learned = (squares + 1) / (rows.sum() - x.shape[1] + 1)
        assert noise[0] == pytest.approx(learned, rel=1e-3)
        system = x.T @ x + np.diag(noise[0] / placed.scale**2)
        covariance = learned * np.linalg.inv(system)[4:, 4:]
        z = np.column_stack([np.ones(3), logs.state[rows][:3]])
        ratio = z @ mean[4:] / np.sqrt(np.einsum("ni,ij,nj->n", z, covariance, z))
        sent = found.policies_.probabilities([participant] * 3, logs.state[rows][:3])[:, 1]
        assert_allclose(sent, norm.cdf(ratio), rtol=1e-8)


def test_without_data_the_prior_decides(logs):
    empty = logs.with_values(outcome=np.where(logs.participant == logs.participants[0], np.nan, logs.outcome))
    with pytest.warns(sf.FitWarning, match="follows its prior"):
        found = sf.method("ts", prior={"send": {"mean": 60.0, "scale": 30.0}}, critic_variables=()).fit(empty)
    assert_allclose(found.policies_.probabilities(logs.participants[:1], logs.state[:1])[0, 1], norm.cdf(2.0), rtol=1e-6)


def test_a_narrow_prior_is_not_moved_and_a_wide_one_moves_nothing(logs):
    plain = sf.method("ts").fit(logs)
    names = list_coefficient_names(logs.state_names, logs.action_names)
    wide = sf.method("ts", prior={name: {"mean": 5.0, "scale": 1e7} for name in names}).fit(logs)
    assert_allclose(wide.critic_coef_, plain.critic_coef_, rtol=1e-3, atol=0.5)
    narrow = sf.method("ts", prior={"send": {"mean": 123.0, "scale": 1e-6}}).fit(logs)
    assert_allclose(narrow.critic_coef_[:, 4], 123.0, rtol=1e-9)


def test_intervals_around_a_prior_mean_are_centred():
    """Everybody's influence sums to nothing at the solution, also when it is shrunk towards something."""
    logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=30, seed=2)
    found = sf.method("ts", pooling="all", prior={"send": {"mean": 5000.0, "scale": 10.0}}).fit(logs)
    influence = compute_influences(found).critic
    assert np.abs(influence.mean(axis=0)[4]) < 0.05 * influence[:, 4].std()


def test_what_is_wrong_is_named(logs):
    with pytest.raises(sf.InputError, match=r"there is no coefficient 'send x weather'.*did you mean 'send × weather'"):
        sf.method("ts", prior={"send x weather": {"scale": 1.0}}).fit(logs)
    with pytest.raises(sf.InputError, match="scale is 0; it must be a finite number above 0"):
        sf.method("ts", prior={"send": {"mean": 1.0, "scale": 0}})
    with pytest.raises(sf.InputError, match=r"write \{'mean': 0\.0, 'scale': 1\.0\}"):
        sf.method("ts", prior={"send": {"mean": 1.0}})
    with pytest.raises(sf.InputError, match="use horizon = 'immediate'"):
        sf.method("ts", prior=PRIOR, horizon="long-run")


def test_three_actions_have_names_of_their_own():
    logs = three_actions()
    name = f"stretch × {logs.state_names[1]}"
    found = sf.method("ts", prior={name: {"mean": 0.5, "scale": 1e-7}}).fit(logs)
    assert_allclose(found.critic_coef_[:, -1], 0.5, rtol=1e-6)


def test_it_is_written_as_it_is_read():
    assert tomllib.loads(write_prior({"send × weather": {"mean": -1e-5, "scale": 1e6}}))["method"]["prior"] == {
        "send × weather": {"mean": -1e-5, "scale": 1e6}
    }
