"""The loop around a regressor, with regressors simple enough to follow by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import surefoot as sf
from surefoot.learning.batch import Batch
from surefoot.learning.critics import CRITICS, Capped
from surefoot.learning.critics.regressor import RegressorCritic, copy_regressor, fit_capped_regressor, make_critic
from surefoot.policies.features import critic_features
from surefoot.regression import CappedRegressor
from tests.problems import fit_capped


class Mean:
    """Expects the mean of what it was fitted to."""

    def fit(self, rows, target):
        self.rows, self.mean = len(rows), target.mean()
        return self

    def predict(self, rows):
        return np.full(len(rows), self.mean)


class Swing(Mean):
    """Expects 10 where it saw small numbers and 0 where it saw large ones, and so goes in circles."""

    def fit(self, rows, target):
        self.rows, self.mean = len(rows), 10.0 * (target.mean() < 5)
        return self


def make_batch(people=3, points=40, seed=0):
    rng = np.random.default_rng(seed)
    state, action = rng.standard_normal((people, points, 2)), rng.integers(0, 2, (people, points))
    rewards = 1 + state[..., 0] + action * (0.5 - state[..., 1]) + 0.1 * rng.standard_normal((people, points))
    rewards[:, ::10] += 30
    x, weights = critic_features(state, action, 2), np.ones((people, points))
    weights[1, :5], weights[2] = 0.0, 0.0
    return Batch(x, state, action, rewards, weights, 2, np.zeros(6))


def test_capped_least_squares_around_a_regressor_is_the_capped_critic():
    batch = make_batch()
    found = RegressorCritic(CappedRegressor(LinearRegression())).fit(batch)
    expected = fit_capped(batch.features, batch.reward, batch.weights, penalty=np.zeros(6))
    assert_array_equal(found.weights, expected.weights)
    assert_allclose(found.coef[:2], expected.coef[:2], rtol=1e-6)
    assert_allclose(found.threshold[:2], expected.threshold[:2], rtol=1e-8)
    assert_array_equal(found.n_iter[:2], expected.n_iter[:2])
    assert (found.threshold[2], found.n_iter[2], found.converged[2]) == (np.inf, 0, True)
    assert (found.expected[2] == 0).all()
    assert_allclose(found.find_residuals(batch.features, batch.reward), batch.reward - found.taken)
    assert_allclose(found.find_advantage(batch.state, 2)[..., 0], found.expected[..., 1] - found.expected[..., 0])
    assert found.expect_rewards(batch.state, 2) is found.expected
    for one in range(2):
        both = [critic_features(batch.state[one], np.full(40, code), 2) @ expected.coef[one] for code in range(2)]
        assert_allclose(found.expected[one], np.stack(both, axis=1), rtol=1e-6, atol=1e-8)
        own = found.expected[one][np.arange(40), batch.action[one]]
        assert_allclose(found.taken[one], own)


def test_a_mean_leaves_out_what_a_boxplot_would():
    target = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 100.0])
    found = fit_capped_regressor(Mean(), np.zeros((6, 1)), target)
    first, third = np.quantile((target - target.mean()) ** 2, (0.25, 0.75))
    assert_allclose(found.threshold, third + 1.5 * (third - first))
    assert_array_equal(found.weights, [1, 1, 1, 1, 1, 0])
    assert found.settled and found.fits == 2 and found.regressor.rows == 5
    twice = fit_capped_regressor(Mean(), np.zeros((6, 1)), target, tau=2.0)
    assert_allclose(twice.threshold, 2 * found.threshold)


def test_a_regressor_that_goes_in_circles_ends():
    target = np.array([0.0, 0.1, 0.2, 10.0, 10.1, 9.9])
    found = fit_capped_regressor(Swing(), np.zeros((6, 1)), target, tau=0.1)
    assert not found.settled and found.fits == 3
    assert_array_equal(found.weights, [0, 0, 0, 1, 1, 1])


def test_the_last_fit_is_to_the_rows_it_says():
    rng = np.random.default_rng(1)
    target = rng.standard_t(2, 200)
    for most in (1, 2, 3):
        found = fit_capped_regressor(Mean(), np.zeros((200, 1)), target, max_iter=most)
        assert found.fits <= most and found.regressor.rows == found.weights.sum()
        assert found.regressor.mean == pytest.approx(target[found.weights > 0].mean())
    assert fit_capped_regressor(Mean(), np.zeros((200, 1)), target, max_iter=1).fits == 1


def test_where_nothing_would_be_left_everything_is_kept():
    target = np.array([-1.0, 1.0] * 10)
    found = fit_capped_regressor(Mean(), np.zeros((20, 1)), target, tau=0.5)
    assert found.settled and found.weights.all() and found.fits == 1


def test_copies_draw_alike_unless_they_say_how():
    assert copy_regressor(RandomForestRegressor()).random_state == 0
    assert copy_regressor(RandomForestRegressor(random_state=7)).random_state == 7
    inner = copy_regressor(make_pipeline(StandardScaler(), RandomForestRegressor()))
    assert inner[1].random_state == 0
    fitted = Ridge(alpha=3.0).fit(np.ones((2, 1)), np.ones(2))
    assert not hasattr(copy_regressor(fitted), "coef_") and copy_regressor(fitted).alpha == 3.0
    own = Mean()
    assert copy_regressor(own) is not own and isinstance(copy_regressor(own), Mean)


def test_a_regressor_without_weights_of_its_own_keeps_everything():
    found = RegressorCritic(LinearRegression()).fit_rows(np.ones((5, 1)), np.arange(5.0))
    assert_array_equal(found.weights, np.ones(5))
    assert (found.threshold, found.fits, found.settled) == (np.inf, 1, True)


def test_limits_of_a_regressor_move_with_it():
    critic = RegressorCritic(CappedRegressor(tau=2.0))
    assert (critic.strictness, critic.at_strictness(1.5).strictness) == (2.0, 3.0)
    assert critic.without_removal().strictness == np.inf and critic.removal == Capped.removal
    assert critic.title == "the regressor CappedRegressor"
    plain = RegressorCritic(LinearRegression())
    assert plain.strictness == np.inf and plain.at_strictness(3.0) is plain and plain.removal is None


@pytest.mark.parametrize("missing", ["fit", "predict"])
def test_what_is_no_regressor_is_refused(missing):
    thing = type("Thing", (), {name: lambda self: None for name in ("fit", "predict") if name != missing})()
    with pytest.raises(sf.InputError, match=f"which Thing is not: it has no {missing}"):
        make_critic(thing)


def test_regressors_are_found_by_name_and_made_from_objects():
    forest = make_critic("random-forest").make_regressor()
    assert (forest.min_samples_leaf, forest.random_state) == (5, 0)
    boosting = make_critic({"name": "capped-gradient-boosting", "tau": 3.0})
    assert boosting.tau == 3.0 and boosting.without_removal() == CRITICS.find("gradient-boosting")()
    assert (boosting.make_regressor().min_samples_leaf, boosting.make_regressor().random_state) == (10, 0)
    own = LinearRegression()
    assert make_critic(own).regressor is own
