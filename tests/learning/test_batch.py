"""Forgetting: the weights, and that every part of a method is fitted with them, against weighted least squares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import surefoot as sf
from surefoot.inference.sandwich import Sandwich, compute_influences, estimate_density
from surefoot.learning.batch import FORGOTTEN, discount_rows
from surefoot.policies.features import critic_features

RATE = 0.95
ABSOLUTE = {"critic_penalty": 0.5, "penalty_units": "absolute"}


@pytest.fixture(scope="module")
def logs():
    found = sf.simulators.HeartSteps(participants=24, spread=0.5).collect(sf.policies.coin(2), decision_points=60, seed=4)
    gone = np.random.default_rng(0).random(len(found)) < 0.05
    return found.with_values(outcome=np.where(gone, np.nan, found.outcome))


def solve_weighted(logs, rows, weights, response, penalty=0.5):
    x = critic_features(logs.state[rows], logs.action[rows], logs.actions)
    system = x.T @ (x * weights[:, None]) + penalty * np.eye(x.shape[1])
    return np.linalg.solve(system, x.T @ (weights * response[rows])), system


def test_a_decision_point_counts_by_how_many_come_after_it():
    time, who = [3, 1, 2, 7, 1, 5], ["a", "a", "b", "b", "b", "a"]
    frame = {"time": time, "participant": who, "s": np.arange(6.0), "action": [0] * 6, "outcome": np.ones(6)}
    import pandas as pd

    roles = {name: name for name in ("participant", "time", "action", "outcome")}
    logs = sf.Trajectories.from_frame(pd.DataFrame(frame), state=["s"], **roles)
    assert_allclose(discount_rows(logs, 0.5), [0.5, 0.25, 0.5, 1.0, 0.25, 1.0])
    assert_array_equal(discount_rows(logs, 1.0), np.ones(6))
    assert discount_rows(logs, 1e-300).min() == FORGOTTEN > 0


@pytest.mark.parametrize("critic", ["ridge", "capped", "high-breakdown"])
@pytest.mark.parametrize("pooling", ["person", "all"])
def test_the_fit_is_weighted_least_squares(logs, critic, pooling):
    found = sf.method("linucb", critic=critic, pooling=pooling, forgetting=RATE, **ABSOLUTE).fit(logs)
    used, discount = found.used_, discount_rows(logs, RATE)
    kept = np.where(found.weights_ > 0, 1.0, 0.0)
    assert_allclose(found.weights_[used], (kept * discount)[used], rtol=1e-14)
    assert (kept[used] == 1).all() == (critic == "ridge")
    for fit in range(len(found.participants_))[:3]:
        rows = np.flatnonzero((found.unit_ == fit) & used)
        w, system = solve_weighted(logs, rows, found.weights_[rows], logs.outcome)
        assert_allclose(found.critic_coef_[fit], w, rtol=1e-9)
        scale = np.sqrt((found.weights_[rows] * found.residuals_[rows] ** 2).sum() / found.weights_[rows].sum())
        assert_allclose(found.scale_[fit], scale)
        z = np.array([0.3, 0.2, 0.1, 1.0])
        x = critic_features(z[None, :3], np.array([1]), 2)[0]
        spread = found.policies_.rule.arrays()["spread"][fit, 1]
        assert_allclose(z @ spread @ z, scale**2 * x @ np.linalg.solve(system, x), rtol=1e-7)


@pytest.mark.parametrize(("critic", "pooling"), [("ridge", "person"), ("ridge", "all"), ("capped", "person")])
def test_what_was_forgotten_does_not_sharpen_a_posterior(logs, critic, pooling):
    found = sf.method("ts", critic=critic, pooling=pooling, forgetting=RATE, **ABSOLUTE).fit(logs)
    plain = sf.method("ts", critic=critic, pooling=pooling, **ABSOLUTE).fit(logs)
    spread = [np.trace(one.policies_.rule.covariance[0]) for one in (found, plain)]
    assert spread[0] > 1.5 * spread[1]
    if critic == "ridge":
        rows = np.flatnonzero((found.unit_ == 0) & found.used_)
        weights = discount_rows(logs, RATE)[rows]
        mean, system = solve_weighted(logs, rows, weights, logs.outcome)
        left = logs.outcome[rows] - critic_features(logs.state[rows], logs.action[rows], 2) @ mean
        noise = ((weights * left**2).sum() + 1) / (weights.sum() - 8 + 1)
        z = np.column_stack([np.ones(5), logs.state[rows[:5]]])
        deviation = np.sqrt(noise * np.einsum("ni,ij,nj->n", z, np.linalg.inv(system)[4:, 4:], z))
        sent = found.policies_.probabilities(logs.participant[rows[:5]], logs.state[rows[:5]])[:, 1]
        assert_allclose(sent, norm.cdf(z @ mean[4:] / deviation), rtol=1e-8)


def test_partial_pooling_weighs_the_same_decision_points(logs):
    """Given Ψ and σ²: the posterior of outcomes with noise σ² / ρ^k, by generalised least squares on all of them."""
    found = sf.method("linucb", pooling="partial", forgetting=RATE).fit(logs)
    posterior, used = found.posterior_, found.used_
    assert_allclose(posterior.likelihood.moments.count.sum(), discount_rows(logs, RATE)[used].sum())
    rows = np.flatnonzero(used)
    x, who = critic_features(logs.state[rows], logs.action[rows], 2), logs.participant_index[rows]
    noise = np.diag(posterior.noise / found.weights_[rows])
    between = x @ posterior.spread @ x.T * (who[:, None] == who)
    inverse = np.linalg.inv(noise + between)
    beta = np.linalg.solve(x.T @ inverse @ x, x.T @ inverse @ logs.outcome[rows])
    assert_allclose(posterior.population, beta, rtol=2e-3)  # ζ is 1e-3 beside it.
    own = who == 5
    left = inverse @ (logs.outcome[rows] - x @ posterior.population)
    deviation = posterior.spread @ x[own].T @ left[own]
    assert_allclose(posterior.mean[5], posterior.population + deviation, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:people do not differ")
@pytest.mark.parametrize("critic", ["capped", "high-breakdown"])
def test_robust_critics_judge_and_weigh_by_it_with_partial_pooling_too(logs, critic):
    found = sf.method("linucb", critic=critic, pooling="partial", forgetting=RATE).fit(logs)
    kept = found.weights_[found.used_] > 0
    assert_allclose(found.weights_[found.used_][kept], discount_rows(logs, RATE)[found.used_][kept], rtol=1e-14)
    assert 0 < kept.sum() < len(kept)


@pytest.mark.parametrize("pooling", ["all", "partial"])
def test_a_look_ahead_forgets_outcomes_and_transitions(logs, pooling):
    found = sf.method("ahead", pooling=pooling, forgetting=RATE, **ABSOLUTE).fit(logs)
    moments, discount = found.outlook_.moments, discount_rows(logs, RATE)
    assert_allclose(moments.reward.count.sum(), discount[found.used_].sum())
    first = np.flatnonzero(logs.time < logs.time.max())
    assert_allclose(moments.state.count.sum(), discount[first].sum())
    if pooling == "all":
        following = np.roll(logs.state[logs.order], -1, axis=0)[:, 0]
        order = logs.order[logs.time[logs.order] < logs.time.max()]
        target = np.zeros(len(logs))
        target[logs.order] = following
        w, _ = solve_weighted(logs, order, discount[order], target)
        assert_allclose(found.outlook_.model.coef[0, :, 1], w, rtol=1e-9)


@pytest.mark.parametrize("name", ["accb", "ro-accb"])
def test_influences_are_those_of_leaving_each_person_out(logs, name):
    found = sf.method(name, pooling="all", forgetting=RATE, actor_penalty=0.01).fit(logs)
    own = compute_influences(found)
    without = np.where(logs.participant_index == 3, np.nan, logs.outcome)
    again = sf.method(name, pooling="all", forgetting=RATE, actor_penalty=0.01).fit(logs.with_values(outcome=without))
    rows = Sandwich(found)
    cap = np.sqrt(found.threshold_[0])
    near = estimate_density(np.abs(rows.residual), cap, float(rows.residual[rows.weights > 0].std()))
    assert_allclose(rows.at_cap, discount_rows(logs, RATE)[rows.rows] * near)
    if name == "accb":
        # The penalty is counted in quartiles that move a little with who is there.
        assert_allclose(own.critic[3], found.critic_coef_[0] - again.critic_coef_[0], atol=0.02 * np.abs(own.critic).max())
    assert np.isfinite(own.policy).all()


def test_who_forgets_nearly_all_is_told(logs):
    with pytest.warns(sf.FitWarning, match="forgetting = 0.8 leaves what about 5 decision points hold, fewer than the crit"):
        sf.method("linucb", forgetting=0.8).fit(logs)
    sf.method("linucb", forgetting=0.8, pooling="all").fit(logs)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.01, np.nan])
def test_rates_that_cannot_be_are_refused(rate):
    with pytest.raises(sf.InputError, match=r"forgetting is .*(above 0 and at most 1|a finite number)"):
        sf.method("ts", forgetting=rate)


def test_a_critic_without_weights_refuses_to_forget():
    with pytest.raises(sf.InputError, match="forgetting weighs decision points, which the random forest does not"):
        sf.method("accb", critic="random-forest", forgetting=0.9)


def test_bootstrap_draws_keep_the_weights_of_the_rows_that_they_draw(logs):
    from surefoot.inference.participant_intervals import bootstrap_coefficients

    moved = logs.with_values(outcome=logs.outcome + 1000.0 * logs.time)
    steep, plain = (sf.method("linucb", forgetting=rate).fit(moved) for rate in (0.9, 1.0))
    found = bootstrap_coefficients(steep, draws=40, most_people=2)
    known = np.isfinite(found.critic_low).all(axis=1)
    middle = (found.critic_low + found.critic_high)[known, 0] / 2
    apart, usual = (np.abs(middle - one.critic_coef_[known, 0]) for one in (steep, plain))
    assert known.sum() == 2 and (apart < 0.4 * usual).all()
