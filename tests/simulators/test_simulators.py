import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.simulators import ChainWalk, HeartSteps
from surefoot.simulators.heartsteps import BETA

SIMULATORS = [HeartSteps, ChainWalk]
b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13 = BETA


def long_run(sim, policy, seed=0):
    return sf.simulators.long_run_average_reward(sim, policy, steps=3000, keep=2500, seed=seed)


def assert_close(estimate, expected):
    """Within four standard errors, and those small enough for this to mean something."""
    assert estimate.standard_error < 0.005 * abs(expected)
    assert abs(estimate.mean - expected) < 4 * estimate.standard_error


def test_heartsteps_closed_forms():
    sim = HeartSteps(participants=300)
    assert_close(long_run(sim, sf.policies.never(2)), b13 * b7)
    engagement, fatigue = b3 / (1 - b2), b6 / (1 - b4 - b5)
    assert_close(long_run(sim, sf.policies.always(2)), b13 * (b7 + b8 + b10 * engagement - b12 * fatigue))
    engagement, fatigue = b3 / 2 / (1 - b2), b6 / 2 / (1 - b4 - b5 / 2)
    assert_close(long_run(sim, sf.policies.coin(2)), b13 * (b7 + (b8 + b10 * engagement) / 2 - b12 * fatigue))
    assert_allclose(b13 * b7, 1500)


def test_heartsteps_stationary_means_under_a_coin():
    logs = HeartSteps(participants=400).collect(sf.policies.coin(2), decision_points=600, seed=1)
    late = logs.state[logs.time >= 100]
    assert_allclose(late.mean(axis=0), [0, b3 / 2 / (1 - b2), b6 / 2 / (1 - b4 - b5 / 2)], atol=0.02)
    assert_allclose(late[:, 0].var(), 1 / (1 - b1**2), rtol=0.02)


def test_chain_walk_closed_forms():
    sim = ChainWalk(participants=200)
    assert_close(long_run(sim, sim.oracle_myopic()), 90)
    assert_close(long_run(sim, sf.policies.coin(2)), 50)
    # Always left: the chain sits at 1, 2, 3, 4 in proportion 9³ : 9² : 9 : 1.
    share = np.array([729, 81, 9, 1]) / 820
    assert_close(long_run(sim, sf.policies.never(2)), 100 * (share[1] + share[2]))


@pytest.mark.parametrize("kind", SIMULATORS)
def test_expected_reward_and_coefficients_are_those_of_the_simulation(kind):
    sim = kind(participants=50)
    logs = sim.collect(sf.policies.coin(2), decision_points=4000, seed=2)
    expected = np.take_along_axis(sim.expected_reward(logs.state), logs.action[:, None], axis=1)[:, 0]
    error = logs.reward - expected
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(logs))
    assert abs(np.corrcoef(error, logs.action)[0, 1]) < 0.01
    x = np.column_stack([np.ones(len(logs)), logs.state])
    x = np.column_stack([x, x * logs.action[:, None]])
    fitted = np.linalg.lstsq(x, logs.reward, rcond=None)[0]
    assert_allclose(fitted, sim.critic_coef, atol=15 if kind is HeartSteps else 1.0)


@pytest.mark.parametrize("kind", SIMULATORS)
def test_the_oracle_takes_the_action_with_the_highest_expected_reward(kind):
    sim = kind(participants=10)
    states = sim.collect(sf.policies.coin(2), decision_points=100, seed=3).state
    best = sim.expected_reward(states).argmax(axis=1)
    assert_array_equal(sim.oracle_myopic().probabilities(states).argmax(axis=1), best)


@pytest.mark.parametrize("kind", SIMULATORS)
def test_people_are_the_same_whatever_is_run_beside_them(kind, monkeypatch):
    coin = sf.policies.coin(2)
    many = kind(participants=9).collect(coin, decision_points=50, seed=4)
    few = kind(participants=4).collect(coin, decision_points=50, seed=4)
    kept = many.participant_index < 4
    assert_array_equal(few.state, many.state[kept])
    assert_array_equal(few.reward, many.reward[kept])
    longer = kind(participants=4).collect(coin, decision_points=80, seed=4)
    assert_array_equal(few.state, longer.state[longer.time < 50])
    monkeypatch.setattr("surefoot.simulators.base.NOISE_CELLS", 400)
    blocked = kind(participants=9).collect(coin, decision_points=50, seed=4)
    assert_array_equal(blocked.state, many.state)
    assert_array_equal(blocked.action, many.action)
    other = kind(participants=4).collect(coin, decision_points=50, seed=5)
    assert (other.state != few.state).mean() > 0.5


@pytest.mark.parametrize("kind", SIMULATORS)
def test_several_policies_in_one_run_equal_each_alone(kind, monkeypatch):
    sim = kind(participants=7)
    logs = sim.collect(sf.policies.coin(2), decision_points=60, seed=5)
    policies = {name: sf.method(name).fit(logs).policies_ for name in ("accb", "ro-accb", "linucb", "ro-linucb")}
    policies |= sf.simulators.reference_policies(sim)
    together = sim.run(policies, steps=80, keep=60, seed=6)
    monkeypatch.setattr("surefoot.simulators.base.NOISE_CELLS", 300)
    for name, policy in policies.items():
        alone = sim.run({"it": policy}, steps=80, keep=60, seed=6)["it"]
        assert_array_equal(alone.reward, together[name].reward)
        assert_array_equal(alone.share_treated, together[name].share_treated)


def test_a_run_earns_what_its_logs_say():
    sim = HeartSteps(participants=5)
    fitted = sf.method("ro-accb").fit(sim.collect(sf.policies.coin(2), decision_points=60, seed=7))
    logs = sim.collect(fitted.policies_, decision_points=50, seed=8)
    run = sim.run({"it": fitted.policies_}, steps=50, keep=20, seed=8)["it"]
    late = logs.time >= 30
    assert_allclose(
        run.reward,
        [logs.reward[late & (logs.participant_index == participant)].mean() for participant in range(5)],
        rtol=1e-12,
    )
    assert_allclose(
        run.share_treated, [logs.action[late & (logs.participant_index == participant)].mean() for participant in range(5)]
    )
    probability = fitted.policies_.probabilities(logs.participant, logs.state)[np.arange(len(logs)), logs.action]
    assert_allclose(logs.probability, probability)


def test_wrong_arguments_are_refused():
    sim = HeartSteps(participants=2)
    coin = sf.policies.coin(2)
    for call, words in (
        (lambda: HeartSteps(participants=0), "at least 1"),
        (lambda: HeartSteps(participants=2.5), "whole number"),
        (lambda: sim.collect(coin, decision_points=0, seed=0), "at least 1"),
        (lambda: sim.run({"it": coin}, steps=10, keep=11, seed=0), "keep is 11 of 10"),
    ):
        with pytest.raises(sf.InputError, match=words):
            call()


def test_people_without_spread_are_those_of_the_paper_to_the_bit():
    policy = sf.policies.coin(2)
    plain = HeartSteps(participants=4).collect(policy, decision_points=30, seed=3)
    same = HeartSteps(participants=4, spread=0.0, seed=9).collect(policy, decision_points=30, seed=3)
    assert_array_equal(plain.state, same.state)
    assert_array_equal(plain.reward, same.reward)


def test_people_who_differ_have_the_coefficients_that_their_logs_show():
    sim = HeartSteps(participants=3, spread=1.0, seed=5)
    logs = sim.collect(sf.policies.coin(2), decision_points=20_000, seed=4)
    for person in range(3):
        rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
        x = np.column_stack([np.ones(len(rows)), logs.state[rows]])
        x = np.column_stack([x, x * logs.action[rows, None]])
        assert_allclose(np.linalg.lstsq(x, logs.reward[rows], rcond=None)[0], sim.critic_coef[person], atol=60)
        moved = np.linalg.lstsq(x[:-1], logs.state[rows][1:], rcond=None)[0]
        assert_allclose(moved, sim.transition_coef[person], atol=0.06)
        expected = sim.expected_reward(np.broadcast_to(logs.state[rows][:50], (3, 50, 3)))[person]
        assert_allclose(expected[:, 0], x[:50, :4] @ sim.critic_coef[person, :4])
        assert_allclose(expected[:, 1] - expected[:, 0], x[:50, :4] @ sim.critic_coef[person, 4:])


def test_the_spread_between_people_is_the_documented_one_and_nobody_runs_away():
    sim = HeartSteps(participants=2000, spread=1.0)
    assert_allclose(sim.critic_coef.std(axis=0), [300, 50, 50, 75, 150, 75, 75, 25], rtol=0.06)
    assert_allclose(sim.critic_coef.mean(axis=0), HeartSteps.critic_coef, atol=25)
    wild = HeartSteps(participants=2000, spread=5.0).transition_coef
    assert (np.abs(np.linalg.eigvals(np.swapaxes(wild[:, 1:4] + wild[:, 5:], 1, 2))) < 0.91).all()
    with pytest.raises(sf.InputError, match="spread is -1"):
        HeartSteps(spread=-1.0)


def test_a_person_keeps_their_coefficients_in_any_company_and_their_best_myopic_policy_has_no_regret():
    few, many = HeartSteps(participants=3, spread=2.0), HeartSteps(participants=9, spread=2.0)
    assert_array_equal(few.critic_coef, many.critic_coef[:3])
    coin = sf.policies.coin(2)
    assert_array_equal(
        few.collect(coin, decision_points=9, seed=0).reward, many.collect(coin, decision_points=9, seed=0).reward[:27]
    )
    assert sf.simulators.immediate_regret(many, many.oracle_myopic(), states=50, seed=1).mean == 0
    assert sf.simulators.immediate_regret(many, coin, states=50, seed=1).mean > 50
