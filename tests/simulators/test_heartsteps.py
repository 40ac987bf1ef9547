import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.simulators import HeartSteps
from surefoot.simulators.heartsteps import BETA
from tests.simulators.closed_forms import assert_close, long_run

b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13 = BETA


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


def test_people_without_spread_are_those_of_the_paper_to_the_bit():
    policy = sf.policies.coin(2)
    plain = HeartSteps(participants=4).collect(policy, decision_points=30, seed=3)
    same = HeartSteps(participants=4, spread=0.0, seed=9).collect(policy, decision_points=30, seed=3)
    assert_array_equal(plain.state, same.state)
    assert_array_equal(plain.outcome, same.outcome)


def test_people_who_differ_have_the_coefficients_that_their_logs_show():
    sim = HeartSteps(participants=3, spread=1.0, seed=5)
    logs = sim.collect(sf.policies.coin(2), decision_points=10_000, seed=4)
    for person in range(3):
        rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
        x = np.column_stack([np.ones(len(rows)), logs.state[rows]])
        x = np.column_stack([x, x * logs.action[rows, None]])
        assert_allclose(np.linalg.lstsq(x, logs.outcome[rows], rcond=None)[0], sim.critic_coef[person], atol=60)
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
        few.collect(coin, decision_points=9, seed=0).outcome, many.collect(coin, decision_points=9, seed=0).outcome[:27]
    )
    assert sf.simulators.immediate_regret(many, many.oracle_myopic(), states=50, seed=1).mean == 0
    assert sf.simulators.immediate_regret(many, coin, states=50, seed=1).mean > 50
