"""Ridge against scikit-learn and linear algebra, and what all critics share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge as Reference

import surefoot as sf
from surefoot.learning.critics import Capped, HighBreakdown, Removal, Ridge
from surefoot.learning.critics.critic import (
    SHAKY_PIVOT,
    boxplot_threshold,
    fit_ridge,
    join_rewards,
    joined_residuals,
    solve_ridge,
    weighted_moments,
)
from surefoot.learning.critics.regressor import make_critic
from surefoot.policies.features import critic_features
from tests.problems import capped_objective, critic_problems, fit_capped, residuals, ridge


def test_weighted_ridge_is_scikit_learns():
    rng = np.random.default_rng(0)
    x, r, v = rng.standard_normal((5, 30, 3)), rng.standard_normal((5, 30)), rng.integers(0, 3, (5, 30)).astype(float)
    found = ridge(x, r, v, np.full(3, 2.5))
    for one in range(5):
        expected = Reference(alpha=2.5, fit_intercept=False).fit(x[one], r[one], sample_weight=v[one]).coef_
        assert_allclose(found[one], expected, rtol=1e-10)


def test_every_feature_and_participant_may_have_a_penalty_of_its_own():
    rng = np.random.default_rng(1)
    x, r, v = rng.standard_normal((4, 20, 2)), rng.standard_normal((4, 20)), np.ones((4, 20))
    penalty = np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 0.0], [9.0, 5.0]])
    found = fit_ridge(x, r, v, penalty=penalty)
    for one in range(4):
        expected = np.linalg.solve(x[one].T @ x[one] + np.diag(penalty[one]), x[one].T @ r[one])
        assert_allclose(found.coef[one], expected, rtol=1e-10)
    assert_allclose(found.gram, np.einsum("pti,ptj->pij", x, x))
    assert_array_equal(found.weights, v)
    assert (found.threshold == np.inf).all() and (found.n_iter == 1).all() and found.converged.all()


def test_residuals_from_features_and_from_joined_rows_are_the_same():
    x, r, _ = critic_problems(np.random.default_rng(2), 6)
    w = np.random.default_rng(3).standard_normal((6, x.shape[-1]))
    expected = r - np.einsum("ptj,pj->pt", x, w)
    assert_allclose(residuals(x, r, w), expected, rtol=1e-9, atol=1e-9)
    joined = join_rewards(x, r)
    assert_array_equal(joined[:, 0], r)
    assert_array_equal(np.swapaxes(joined[:, 1:], 1, 2), x)
    assert_allclose(joined_residuals(joined, w), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("actions", [1, 2, 3, 4])
def test_moments_of_arms_are_those_of_all_features(actions):
    rng = np.random.default_rng(actions)
    state, action = rng.standard_normal((3, 25, 2)), rng.integers(0, actions, (3, 25))
    x, r, u = critic_features(state, action, actions), rng.standard_normal((3, 25)), rng.random((3, 25))
    squares, right = weighted_moments(join_rewards(x, r), u, actions)
    assert_allclose(squares, np.einsum("pt,pti,ptj->pij", u, x, x), rtol=1e-12, atol=1e-14)
    assert_allclose(right, np.einsum("pt,pti,pt->pi", u, x, r), rtol=1e-12, atol=1e-14)
    whole = weighted_moments(join_rewards(x, r), u, 1)
    assert_allclose(squares, whole[0], rtol=1e-12, atol=1e-14)


def test_nearly_dependent_features_keep_their_digits():
    """Two columns that differ by 1e-6: the normal equations alone would leave some four digits."""
    rng = np.random.default_rng(4)
    base = rng.standard_normal((2, 60))
    x = np.stack([base, base + 1e-6 * rng.standard_normal((2, 60))], axis=-1)
    r = x @ np.array([1.0, 2.0]) + 1e-3 * rng.standard_normal((2, 60))
    found, squares = solve_ridge(join_rewards(x, r), np.ones((2, 60)), np.zeros(2), 1)
    for one in range(2):
        expected = np.linalg.lstsq(x[one], r[one], rcond=None)[0]
        assert_allclose(found[one], expected, rtol=1e-6)
    assert_allclose(squares, np.einsum("pti,ptj->pij", x, x))
    assert SHAKY_PIVOT == 1e-3


def test_a_penalty_stays_in_the_corrections():
    rng = np.random.default_rng(5)
    base = rng.standard_normal((1, 60))
    x = np.stack([base, base + 1e-5 * rng.standard_normal((1, 60))], axis=-1)
    r = x @ np.array([1.0, 2.0]) + 1e-3 * rng.standard_normal((1, 60))
    penalty = np.array([1e-9, 2e-9])
    found, _ = solve_ridge(join_rewards(x, r), np.ones((1, 60)), penalty, 1)
    wide = np.vstack([x[0], np.diag(np.sqrt(penalty))])
    assert_allclose(found[0], np.linalg.lstsq(wide, np.append(r[0], [0.0, 0.0]), rcond=None)[0], rtol=1e-5)


@pytest.mark.parametrize("rewards", [0.0, 3.0, 1e6])
def test_the_threshold_of_a_perfect_fit_is_what_rounding_leaves(rewards):
    tiny = np.finfo(float).smallest_normal
    found = boxplot_threshold(np.zeros((1, 8)), np.full((1, 8), rewards), np.ones((1, 8)), 1.0)
    assert_allclose(found, (1e-13 * rewards) ** 2 + tiny, rtol=1e-12)
    assert_array_equal(boxplot_threshold(np.zeros((1, 8)), np.full((1, 8), rewards), np.zeros((1, 8)), 1.0), np.inf)


def test_the_threshold_is_that_of_a_boxplot_of_the_usable():
    rng = np.random.default_rng(6)
    squared, v = rng.exponential(size=(4, 40)), (rng.random((4, 40)) < 0.7).astype(float)
    found = boxplot_threshold(squared, rng.standard_normal((4, 40)), v, 1.7)
    for one in range(4):
        first, third = np.quantile(squared[one][v[one] > 0], (0.25, 0.75))
        assert_allclose(found[one], 1.7 * (third + 1.5 * (third - first)))


def test_the_objective_is_capped_and_penalised():
    rng = np.random.default_rng(7)
    x, r, v = rng.standard_normal((3, 20, 2)), rng.standard_normal((3, 20)), rng.integers(0, 2, (3, 20)).astype(float)
    w, limit, penalty = rng.standard_normal((3, 2)), np.array([0.5, 1.0, np.inf]), np.array([0.3, 0.7])
    found = capped_objective(x, r, v, w, limit, penalty)
    for one in range(3):
        squared = np.minimum((r[one] - x[one] @ w[one]) ** 2, limit[one])
        assert_allclose(found[one], v[one] @ squared + penalty @ w[one] ** 2)


def test_a_fit_that_is_stopped_says_after_how_many():
    x, r, v = critic_problems(np.random.default_rng(9), 40)
    zeta = np.full(x.shape[-1], 1e-3)
    whole = fit_capped(x, r, v, penalty=zeta)
    for most in (2, 3):
        stopped = fit_capped(x, r, v, penalty=zeta, max_iter=most)
        late = whole.n_iter > most
        assert late.any() and not late.all()
        assert_array_equal(stopped.n_iter, np.minimum(whole.n_iter, most))
        assert_array_equal(stopped.converged, ~late)
        assert_array_equal(stopped.coef[~late], whole.coef[~late])


def test_critics_speak_of_what_they_remove():
    assert Removal("the cap", unit="caps").removes == "the cap removes"
    assert Removal("the fences", unit="fences", plural=True).removes == "the fences remove"
    assert Ridge.removal is None and Capped.removal.normal_share == pytest.approx(0.0756, abs=1e-4)


def test_critics_are_made_by_name_with_the_parameters_they_know():
    assert make_critic({"name": "capped", "tau": 2.0, "refresh_threshold": True}) == Capped(2.0, True)
    with pytest.raises(sf.InputError, match="critic 'ridge' has no parameter 'tau'; it has none"):
        make_critic({"name": "ridge", "tau": 2.0})
    assert make_critic("capped") == Capped()
    own = Capped(tau=3.0)
    assert make_critic(own) is own
    with pytest.raises(sf.InputError, match=r"there is no critic 'caped' .did you mean 'capped'"):
        make_critic("caped")


def test_strictness_multiplies_and_ends_in_ridge():
    assert Capped(tau=2.0).strictness == 2.0 and Ridge().strictness == np.inf
    assert Capped(tau=2.0, refresh_threshold=True).at_strictness(0.5) == Capped(1.0, True)
    assert HighBreakdown(tau=3.0).at_strictness(2.0) == HighBreakdown(6.0)
    ridge_critic = Ridge()
    assert ridge_critic.at_strictness(7.0) is ridge_critic and ridge_critic.without_removal() is ridge_critic
    assert Capped().without_removal() == Ridge() == HighBreakdown().without_removal()


@pytest.mark.parametrize("tau", [0.0, -1.0, np.nan, np.inf])
def test_a_limit_that_is_no_limit_is_refused(tau):
    with pytest.raises(sf.InputError, match="tau is"):
        Capped(tau=tau).check_parameters()
    Capped(tau=1e-9).check_parameters()


def test_ridge_believes_everything():
    present = np.array([[True, False, True]])
    assert Ridge().trust_states(np.zeros((1, 3, 2)), present) is present
    assert Ridge().judge_residuals(np.zeros((1, 3, 2)), present) is present
