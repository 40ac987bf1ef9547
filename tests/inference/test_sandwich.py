import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import surefoot as sf
from surefoot.inference import sandwich
from surefoot.inference.sandwich import Influences, compute_influences, estimate_density, takes_refits
from surefoot.learning import rules
from surefoot.learning.actor import optimise
from surefoot.policies.features import effects, policy_features
from tests.studies import many


def pooled(name, logs, **parameters):
    return sf.method(name, pooling="all", **parameters).fit(logs)


def test_ridge_influences_are_those_of_leaving_each_person_out():
    (logs,), _, _ = many(1, 8, 30, seed=0, unit=500)
    fitted = pooled("accb", logs, actor_penalty=0.3)
    found = compute_influences(fitted)
    for participant in range(8):
        without = pooled(
            "accb", logs.with_values(outcome=np.where(logs.participant_index == participant, np.nan, logs.outcome))
        )
        # The penalty's share of a participant is the only difference to truly leaving them out.
        assert_allclose(found.critic[participant], (fitted.critic_coef_ - without.critic_coef_)[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "parameters"), [("accb", {"actor_penalty": 0.3}), ("saccb", {}), ("saccb", {"violation": 1.0})]
)
@pytest.mark.parametrize("actions", [2, 3])
def test_policy_influences_follow_a_person_who_counts_a_little_more(name, parameters, actions):
    """One more copy of a participant among 40 copies of everybody moves θ by that participant's influence."""
    rng = np.random.default_rng(5)
    state, action = rng.standard_normal((6, 40, 2)), rng.integers(0, actions, size=(6, 40))
    outcome = 0.5 + 0.3 * (action > 0) * state[..., 0] + 0.4 * action * state[..., 1] + 0.3 * rng.standard_normal((6, 40))

    def theta(people):
        logs = sf.Trajectories.from_arrays(state[people], action[people], outcome[people], actions=actions)
        # In standard units one more copy also moves the quartiles, which the sandwich holds.
        return pooled(name, logs, critic_penalty=1e-9, penalty_units="absolute", **parameters)

    everybody = np.tile(np.arange(6), 40)
    base = theta(everybody)
    own = compute_influences(base).policy
    for participant in (0, 3, 5):
        moved = theta(np.append(everybody, participant)).coef_[0] - base.coef_[0]
        assert_allclose(moved, own[participant], rtol=0.03, atol=0.03 * np.abs(own).max())


def test_unseen_variables_have_no_uncertainty_and_small_people_errors_are_refused():
    (logs,), _, _ = many(1, 8, 30, seed=0, unit=500)
    seen = {"critic_variables": ("weather", "engagement"), "policy_variables": ("weather",)}
    found = compute_influences(pooled("ro-saccb", logs, **seen))
    assert (found.half_width("critic")[[3, 7]] == 0).all()
    assert (found.half_width("policy")[[1, 2]] == 0).all()
    assert (np.delete(found.half_width("critic"), [3, 7]) > 0).all()
    with pytest.raises(sf.InputError, match="one fit to everybody"):
        compute_influences(sf.method("accb").fit(logs))
    with pytest.raises(sf.InputError, match="at least 2 people"):
        compute_influences(
            pooled("accb", logs.with_values(outcome=np.where(logs.participant_index > 0, np.nan, logs.outcome)))
        )
    with pytest.raises(sf.InputError, match="no coefficients of its own"):
        compute_influences(pooled("linucb", logs)).covariance("policy")


def coverage(name, studies, people, points, seed):
    """Share of studies whose interval covers the truth, for every critic coefficient."""
    logs, sim, _ = many(studies, people, points, seed=seed, unit=500)
    hits = []
    for one in logs:
        fitted = pooled(name, one)
        hits.append(
            np.abs(fitted.critic_coef_[0] - sim.critic_coef / 500) <= compute_influences(fitted).half_width("critic")
        )
    return np.mean(hits, axis=0)


def test_the_cap_moves_tuples_and_the_intervals_know_it():
    """Leaving the density at the cap out would make the intervals of a capped fit a third too short, and cover 82 %."""
    assert coverage("ro-accb", 120, 30, 40, seed=1)[4:].mean() > 0.92


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accb", "ro-accb"])
def test_pooled_critic_intervals_cover(name):
    """250 studies; each coefficient within 92–98 %."""
    found = coverage(name, 250, 40, 30, seed=7)
    assert ((found >= 0.92) & (found <= 0.98)).all(), found


def true_policy(logs, sim, state):
    """θ learned with the true critic and the true spread of outcomes and states, for a penalty of 0.1."""
    outcome = np.concatenate([one.outcome for one in logs])
    low, middle, high = np.quantile(state, (0.25, 0.5, 0.75), axis=0)
    width, spread = (high - low) / 1.349, np.subtract(*np.quantile(outcome, (0.75, 0.25))) / 1.349
    z = policy_features((state - middle) / width)[None]
    advantage = policy_features(state)[None] @ np.swapaxes(effects(sim.critic_coef[None] / 500, 2), 1, 2)
    count = np.array([z.shape[1]])
    theta = optimise(z, advantage, np.ones(z.shape[:2]), count=count, penalty=0.1 * spread).coef.ravel()
    return np.append(theta[:-1] / width, theta[-1] - (theta[:-1] / width) @ middle)


@pytest.mark.slow
def test_pooled_policy_intervals_cover():
    """Against θ learned with the true critic. θ is not linear in w: single coefficients come a little short of 92 %."""
    logs, sim, state = many(300, 50, 60, seed=9, unit=500)
    truth = true_policy(logs, sim, state[::5])
    hits = []
    for one in logs:
        fitted = pooled("accb", one, actor_penalty=0.1)
        hits.append(np.abs(fitted.coef_[0] - truth) <= compute_influences(fitted).half_width("policy"))
    found = np.mean(hits, axis=0)
    assert 0.92 <= found.mean() <= 0.98, found
    assert found.min() > 0.9, found


def test_of_a_mean_it_is_the_textbook_standard_error():
    """Without one of n values their mean loses (x − mean) / (n − 1)."""
    values = np.random.default_rng(0).standard_normal(12)
    lost = ((values - values.mean()) / 11)[:, None]
    found = Influences(lost, lost, policy_features=3)
    assert_allclose(found.covariance("critic")[0, 0] ** 0.5, stats.sem(values))
    assert_allclose(found.covariance("policy")[0, 0] ** 0.5, stats.sem(values) * np.sqrt(12 / 9))
    assert np.isnan(Influences(lost[:3], lost[:3], policy_features=3).covariance("policy")).all()


def test_few_people_are_left_out_one_by_one():
    (logs,), _, _ = many(1, 9, 40, seed=3, unit=500)
    fitted = pooled("ro-accb", logs, actor_penalty=0.1)
    found = compute_influences(fitted)
    for participant in (0, 8):
        gone = np.where(logs.participant_index == participant, np.nan, logs.outcome)
        without = pooled("ro-accb", logs.with_values(outcome=gone), actor_penalty=0.1)
        assert_allclose(found.critic[participant], (fitted.critic_coef_ - without.critic_coef_)[0], atol=1e-9)
        assert_allclose(found.policy[participant], (fitted.coef_ - without.coef_)[0], atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("people", "studies"), [(9, 80), (15, 60), (30, 200)])
def test_policy_intervals_of_few_people_cover(people, studies):
    """Against θ learned with the true critic."""
    logs, sim, state = many(studies, people, 60, seed=41, unit=500)
    truth = true_policy(logs, sim, state[::5])
    hits = []
    for one in logs:
        fitted = pooled("accb", one, actor_penalty=0.1)
        hits.append(np.abs(fitted.coef_[0] - truth) <= compute_influences(fitted).half_width("policy"))
    assert 0.93 <= np.mean(hits) <= 0.98, np.mean(hits, axis=0)


def test_covariances_and_half_widths_are_their_formulas():
    """(n − 1)/n ΣΨΨᵀ, of the policy times n/(n − m); t with n − 1 degrees of freedom."""
    rng = np.random.default_rng(0)
    critic, policy = rng.standard_normal((7, 4)), rng.standard_normal((7, 3))
    found = Influences(critic, policy, 3)
    assert_allclose(found.covariance("critic"), 6 / 7 * critic.T @ critic)
    assert_allclose(found.covariance("policy"), 6 / 7 * 7 / 4 * policy.T @ policy)
    t = stats.t.ppf(0.975, 6)
    assert_allclose(found.half_width("critic"), t * np.sqrt(6 / 7 * (critic**2).sum(axis=0)))
    assert_allclose(found.half_width("policy"), t * np.sqrt(6 / 4 * (policy**2).sum(axis=0)))
    assert np.isnan(Influences(critic, policy, 7).covariance("policy")).all()
    assert np.isfinite(Influences(critic, policy, 6).covariance("policy")).all()
    assert np.isfinite(Influences(critic, policy, 7).covariance("critic")).all()


def test_theestimate_density_the_cap_is_an_epanechnikov_kernel_of_silvermans_width():
    distance = np.abs(np.random.default_rng(1).standard_normal(500))
    width = 2.34 * 0.7 * 500**-0.2
    gap = (distance - 1.5) / width
    expected = np.maximum(0.75 * (1 - gap**2) / width, 0.0)
    assert_allclose(estimate_density(distance, 1.5, 0.7), expected)
    assert 0 < (expected > 0).sum() < 500
    for cap, scale in ((np.inf, 1.0), (1.5, 0.0)):
        assert (estimate_density(distance, cap, scale) == 0).all()


def test_the_policys_correction_counts_the_variables_that_it_sees():
    for people in (8, 32):
        (logs,), _, _ = many(1, people, 30, seed=0, unit=500)
        assert compute_influences(pooled("accb", logs)).policy_features == 4
        assert compute_influences(pooled("accb", logs, policy_variables=("weather",))).policy_features == 2


@pytest.mark.parametrize(("name", "parameters"), [("accb", {"actor_penalty": 0.0}), ("saccb", {"actor_penalty": 0.0})])
def test_variables_that_nobody_sees_change_nothing(name, parameters):
    """Without a penalty they leave a row of zeros in the system; the rest is that of logs without them."""
    (logs,), _, _ = many(1, 32, 30, seed=4, unit=500)
    seen = {"critic_variables": ("weather",), "policy_variables": ("weather",)}
    found = compute_influences(pooled(name, logs, **seen, **parameters))
    alone = sf.Trajectories.from_arrays(
        logs.state[:, :1].reshape(32, 30, 1), logs.action.reshape(32, 30), logs.outcome.reshape(32, 30)
    )
    expected = compute_influences(pooled(name, alone, **parameters))
    assert_allclose(found.critic[:, [0, 1, 4, 5]], expected.critic, rtol=1e-6, atol=1e-9)
    assert_allclose(found.policy[:, [0, 3]], expected.policy, rtol=1e-3, atol=1e-4 * np.abs(expected.policy).max())
    assert (found.critic[:, [2, 3, 6, 7]] == 0).all() and (found.policy[:, [1, 2]] == 0).all()


def test_leaving_somebody_out_is_exact_for_ridge_and_keeps_the_penalty():
    """(H − H_n + ζ)⁻¹ g_n, with a penalty that is not small."""
    (logs,), _, _ = many(1, 31, 20, seed=5, unit=500)
    fitted = pooled("linucb", logs, critic_penalty=40.0)
    found, penalty = compute_influences(fitted), fitted.penalty_[0]
    for participant in (0, 30):
        rest = logs.participant_index != participant
        x = np.column_stack([np.ones(len(logs)), logs.state])
        x = np.column_stack([x, logs.action[:, None] * x])
        own = ~rest
        others = x[rest].T @ x[rest] + np.diag(penalty)
        pull = x[own].T @ fitted.residuals_[own] - penalty * fitted.critic_coef_[0] / 31
        assert_allclose(found.critic[participant], np.linalg.solve(others, pull), rtol=1e-8)


def two_heaps(seed=6):
    """Residuals of about ± 1, none in between."""
    rng = np.random.default_rng(seed)
    outcome = np.where(rng.random((40, 30)) < 0.5, 1.0, -1.0) + 0.001 * rng.standard_normal((40, 30))
    return sf.Trajectories.from_arrays(rng.standard_normal((40, 30, 1)), np.resize([0, 1], (40, 30)), outcome)


def test_where_the_cap_cuts_too_densely_there_is_no_derivative():
    """Nearly all residuals lie at the cap: moving w would move all of them across it."""
    found = compute_influences(pooled("ro-accb", two_heaps()))
    assert np.isnan(found.critic).all() and np.isnan(found.half_width("critic")).all()
    assert np.isfinite(compute_influences(pooled("accb", two_heaps())).critic).all()


def test_where_everything_was_removed_nothing_is_known():
    for name in ("ro-accb", "ro-saccb", "ro-linucb"):
        with pytest.warns(sf.FitWarning):
            fitted = pooled(name, two_heaps(), tau=0.24)
        assert (fitted.weights_ == 0).all()
        found = compute_influences(fitted)
        assert np.isnan(found.critic).all() and found.critic.shape == (40, 4)
        assert found.policy is None if name == "ro-linucb" else np.isnan(found.policy).all()


def test_an_action_that_only_one_participant_was_given_may_go_with_them():
    """Leaving them out, a fit warns that the action is missing: part of the uncertainty, and not said each time."""
    rng = np.random.default_rng(8)
    action = np.zeros((6, 20), dtype=int)
    action[2, ::2] = 1
    logs = sf.Trajectories.from_arrays(rng.standard_normal((6, 20, 1)), action, rng.standard_normal((6, 20)))
    fitted = pooled("accb", logs)
    found = compute_influences(fitted)
    with pytest.warns(sf.FitWarning):
        without = pooled("accb", logs.with_values(outcome=np.where(logs.participant_index == 2, np.nan, logs.outcome)))
    assert_allclose(found.critic[2], (fitted.critic_coef_ - without.critic_coef_)[0], atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"horizon": "long-run"}, {"forgetting": 0.98}])
def test_the_critic_is_left_out_alone_where_nobody_asks_for_the_policy(monkeypatch, parameters):
    (logs,), _, _ = many(1, 8, 30, seed=2, unit=500)
    fitted = pooled("ro-accb", logs, **parameters)
    expected = compute_influences(fitted).critic
    monkeypatch.setattr(rules, "optimise", None)
    influences = compute_influences(fitted, with_policy=False)
    assert influences.policy is None
    assert_array_equal(influences.critic, expected)


def test_many_coefficients_are_not_fitted_again_without_each_of_few_people(monkeypatch):
    (logs,), _, _ = many(1, 8, 30, seed=2, unit=500)
    fitted = pooled("ro-accb", logs)
    assert takes_refits(fitted)
    monkeypatch.setattr(sandwich, "MOST_REFITTED", 7)
    assert not takes_refits(fitted)
    expected = compute_influences(fitted, analytic=True)
    assert_array_equal(compute_influences(fitted).policy, expected.policy)


def test_standard_errors_of_many_coefficients_do_not_hang_on_the_few_rows_at_the_cap(monkeypatch):
    """Six rows for each coefficient: a local density at the cap would make some standard errors many times too large."""
    monkeypatch.setattr(sandwich, "MOST_REFITTED", 40)
    rng = np.random.default_rng(4)
    effects_found, errors = [], []
    for _ in range(40):
        state = rng.standard_normal((20, 15, 25))
        action = rng.integers(0, 2, (20, 15))
        outcome = state[..., 0] + 0.5 * action + rng.standard_normal((20, 15))
        fitted = pooled("ro-linucb", sf.Trajectories.from_arrays(state, action, outcome))
        effects_found.append(fitted.critic_coef_[0, 26])
        errors.append(np.sqrt(compute_influences(fitted).covariance("critic")[26, 26]))
    spread = np.std(effects_found, ddof=1)
    assert 0.7 * spread < np.mean(errors) < 1.4 * spread
    assert max(errors) < 3 * spread
