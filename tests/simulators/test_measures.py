import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.simulators.measures import (
    Estimate,
    coefficient_error,
    compare,
    immediate_regret,
    long_run_average_reward,
    share_treated,
)

COIN = sf.policies.coin(2)


def test_an_estimate_has_mean_error_and_people():
    mean, error, people = Estimate.over(np.array([1.0, 2.0, 6.0]))
    assert (mean, people.tolist()) == (3.0, [1, 2, 6])
    assert_allclose(error, np.std([1, 2, 6], ddof=1) / np.sqrt(3))
    assert Estimate.over(np.array([4.0])).standard_error == np.inf


def test_standard_errors_are_honest():
    """The spread of estimates over many seeds is what a single run claims."""
    sim = sf.simulators.HeartSteps(participants=30)
    runs = [long_run_average_reward(sim, COIN, steps=120, keep=100, seed=seed) for seed in range(60)]
    spread = np.std([run.mean for run in runs], ddof=1)
    assert_allclose(np.mean([run.standard_error for run in runs]), spread, rtol=0.3)


def test_regret_of_known_policies_on_the_chain():
    sim = sf.simulators.ChainWalk(participants=20)
    for policy, expected in ((sim.oracle_myopic(), 0.0), (COIN, 40.0)):
        assert_allclose(immediate_regret(sim, policy, seed=0).mean, expected, atol=1e-9)
    # Always right is wrong by 80 in the upper half of the chain, where a coin spends half of its time.
    assert_allclose(immediate_regret(sim, sf.policies.always(2), seed=0).mean, 40.0, atol=2)


def test_regret_is_that_of_the_literal_sum():
    sim = sf.simulators.HeartSteps(participants=3)
    fitted = sf.method("accb").fit(sim.collect(COIN, decision_points=50, seed=1))
    found = immediate_regret(sim, fitted.policies_, states=40, seed=2)
    logs = sim.collect(COIN, decision_points=40, seed=2)
    expected = sim.expected_reward(logs.state)
    loss = expected.max(axis=1) - (fitted.policies_.probabilities(logs.participant, logs.state) * expected).sum(axis=1)
    assert_allclose(
        found.per_participant, [loss[logs.participant_index == participant].mean() for participant in range(3)], rtol=1e-12
    )


def test_share_treated_and_coefficient_error():
    sim = sf.simulators.HeartSteps(participants=10)
    assert_array_equal(share_treated(sim, sf.policies.always(2), steps=50, keep=40, seed=0).per_participant, 1.0)
    assert_allclose(share_treated(sim, COIN, steps=500, keep=400, seed=0).mean, 0.5, atol=0.03)
    fitted = sf.method("linucb").fit(sim.collect(COIN, decision_points=60, seed=0))
    expected = [np.linalg.norm(w - sim.critic_coef) for w in fitted.critic_coef_]
    assert_allclose(coefficient_error(sim, fitted).per_participant, expected)


def test_compare_gives_every_measure_of_everything():
    sim = sf.simulators.ChainWalk(participants=5)
    fitted = sf.method("accb").fit(sim.collect(COIN, decision_points=80, seed=0))
    table = compare(
        sim, {"accb": fitted, **sf.simulators.reference_policies(sim)}, steps=50, keep=40, seed=1, backend="pandas"
    )
    assert table.groupby("name").size().to_dict() == {"accb": 4, "never": 3, "always": 3, "coin": 3, "oracle-myopic": 3}
    row = table.query("name == 'accb' and measure == 'long_run_average_reward'").iloc[0]
    alone = long_run_average_reward(sim, fitted.policies_, steps=50, keep=40, seed=1)
    assert (row["mean"], row["standard_error"]) == (alone.mean, alone.standard_error)
    with pytest.raises(sf.InputError, match="nothing to compare"):
        compare(sim, {}, seed=0)


def elrar(sim, mechanism=None, seed=0):
    """ElrAR of accb and ro-accb after fitting logs of a coin, contaminated with ψ = 4 %, ν = 5 if a mechanism is given."""
    logs = sim.collect(COIN, decision_points=210, seed=seed)
    if mechanism:
        logs = sf.simulators.contaminate(logs, mechanism=mechanism, ratio=0.04, strength=5, seed=seed + 1).logs
    fitted = {name: sf.method(name).fit(logs).policies_ for name in ("accb", "ro-accb")}
    return {name: found.mean for name, found in long_run_average_reward(sim, fitted, seed=seed + 2).items()}


def test_chain_walk_without_outliers_is_solved_by_both():
    assert min(elrar(sf.simulators.ChainWalk(participants=50)).values()) > 88


def test_chain_walk_with_outliers_needs_the_robust_critic():
    found = elrar(sf.simulators.ChainWalk(participants=50), "sensor")
    assert found["ro-accb"] > 1.15 * found["accb"]


def test_heartsteps_without_outliers_both_are_alike():
    found = elrar(sf.simulators.HeartSteps(participants=50))
    assert_allclose(found["ro-accb"], found["accb"], rtol=0.01)


def test_heartsteps_with_prompted_outliers_needs_the_robust_critic():
    found = elrar(sf.simulators.HeartSteps(participants=50), "prompted")
    assert found["ro-accb"] > found["accb"] + 80


def test_a_policy_must_know_the_people():
    fitted = sf.method("accb").fit(sf.simulators.ChainWalk(participants=3).collect(COIN, decision_points=40, seed=0))
    with pytest.raises(sf.InputError, match="unknown participant 3"):
        long_run_average_reward(sf.simulators.ChainWalk(participants=5), fitted.policies_, seed=0)
