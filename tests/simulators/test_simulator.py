import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.data.derived_states import DayInStudy, Dose, OutcomeMean, TimeSincePrompt, derive_states
from surefoot.simulators import ChainWalk, HeartSteps, Simulation, Simulator, WithMemory

SIMULATORS = [HeartSteps, ChainWalk]
COIN, NEVER, ALWAYS = sf.policies.coin(2), sf.policies.never(2), sf.policies.always(2)
FIELDS = ("states", "available", "actions", "probability", "rewards", "reported")
KINDS = {"dose": Dose(0.8), "mean": OutcomeMean(0.9), "since": TimeSincePrompt(), "day": DayInStudy()}


@pytest.mark.parametrize("kind", SIMULATORS)
def test_expected_reward_and_coefficients_are_those_of_the_simulation(kind):
    sim = kind(participants=50)
    logs = sim.collect(sf.policies.coin(2), decision_points=4000, seed=2)
    expected = np.take_along_axis(sim.expected_reward(logs.state), logs.action[:, None], axis=1)[:, 0]
    error = logs.outcome - expected
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(logs))
    assert abs(np.corrcoef(error, logs.action)[0, 1]) < 0.01
    x = np.column_stack([np.ones(len(logs)), logs.state])
    x = np.column_stack([x, x * logs.action[:, None]])
    fitted = np.linalg.lstsq(x, logs.outcome, rcond=None)[0]
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
    assert_array_equal(few.outcome, many.outcome[kept])
    longer = kind(participants=4).collect(coin, decision_points=80, seed=4)
    assert_array_equal(few.state, longer.state[longer.time < 50])
    monkeypatch.setattr("surefoot.simulators.simulator.CELLS", 400)
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
    monkeypatch.setattr("surefoot.simulators.simulator.CELLS", 300)
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
        [logs.outcome[late & (logs.participant_index == participant)].mean() for participant in range(5)],
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


class Patchy(Simulator):
    """A walk that is seen, available and reported only at times, and that a prompt pushes up by 1."""

    state_names = ("place", "other")
    initial_numbers, step_numbers = 2, 2

    def __init__(self, people):
        self.participants = np.arange(people)

    def draw(self, rng, shape):
        return rng.random(shape)

    def begin(self, numbers):
        return np.concatenate([np.zeros((1, *numbers.shape[1:])), numbers])

    def advance(self, state, action, numbers):
        place = state[0] + action
        return np.concatenate([place[None], numbers]), place + 0.0 * action

    def visible(self, state):
        return np.stack([state[0], np.where(state[1] < 0.3, np.nan, state[1])])

    def available(self, state):
        return state[2] > 0.4

    def report(self, state, reward):
        return np.where(state[1] < 0.1, np.nan, reward)


@pytest.mark.parametrize("simulator", [HeartSteps(6), HeartSteps(6, spread=1.0), ChainWalk(6)])
def test_pieces_under_one_policy_equal_the_whole_to_the_bit(simulator):
    whole = simulator.collect(COIN, decision_points=210, seed=3)
    simulation = simulator.start(seed=3)
    for _ in range(42):
        simulation.advance(COIN, 5)
    pieces = simulation.logs()
    for name in ("state", "action", "probability", "outcome", "time"):
        assert_array_equal(getattr(pieces, name), getattr(whole, name))


@settings(max_examples=15, deadline=None)
@given(pieces=st.lists(st.integers(1, 9), min_size=1, max_size=6), held=st.sampled_from([1, 40, 2**22]))
def test_what_is_held_and_how_it_is_cut_change_nothing(pieces, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surefoot.simulators.simulator.CELLS", held)
        cut = Patchy(3)
        simulation = Simulation(cut, [5, 6])
        for piece in pieces:
            simulation.advance(COIN, piece)
    whole = Simulation(Patchy(3), [5, 6]).advance(COIN, sum(pieces))
    for name in FIELDS:
        assert_array_equal(getattr(simulation, name), getattr(whole, name))


def test_a_simulation_goes_on_under_another_policy_with_the_same_chance():
    simulator = HeartSteps(4)
    coin, other = (simulator.start(seed=9).advance(COIN, 30).advance(later, 20) for later in (COIN, ALWAYS))
    assert_array_equal(coin.states[:, :, :31], other.states[:, :, :31])
    assert (other.actions[:, :, 30:] == 1).all()
    # Weather does not feel the action: the same numbers came to both.
    assert_array_equal(coin.states[..., 0], other.states[..., 0])


def test_replicates_in_one_batch_equal_each_alone():
    simulator = HeartSteps(5, spread=1.0)
    fitted = [sf.method("accb").fit(simulator.collect(COIN, decision_points=40, seed=k)).policies_ for k in range(2)]
    policies = [fitted[0], NEVER, fitted[1]]
    together = simulator.start(seed=[11, 12, 13]).advance(policies, 30)
    for replicate, policy in enumerate(policies):
        alone = simulator.start(seed=11 + replicate).advance(policy, 30)
        for name in FIELDS:
            assert_array_equal(getattr(together, name)[replicate], getattr(alone, name)[0])
        assert_array_equal(together.logs(replicate).outcome, alone.logs().outcome)


def test_who_is_not_in_the_study_stays_where_they_are():
    simulator = HeartSteps(3)
    whole = simulator.start(seed=4).advance(ALWAYS, 10)
    staggered = simulator.start(seed=4)
    ones = np.ones((1, 3))
    for day in range(12):
        active = np.array([[day < 10, 1 <= day < 11, 2 <= day < 12]])
        earned = staggered.step(ones.astype(int), ones, active=active)
        assert_array_equal(np.isnan(earned), ~active)
    assert_array_equal(staggered.time, [[10, 10, 10]])
    for name in FIELDS:
        assert_array_equal(getattr(staggered, name), getattr(whole, name))
    late = simulator.start(seed=4)
    late.step(ones.astype(int), ones, active=np.array([[True, False, True]]))
    assert len(late.logs()) == 2


def test_nobody_unavailable_is_treated_and_the_fallback_decides_without_a_state():
    simulation = Simulation(Patchy(400), 1).advance(
        sf.method("accb", pooling="all").fit(logs_of_two_states()).policies_, 30, fallback=0.25
    )
    unavailable = ~simulation.available
    assert 0.35 < unavailable.mean() < 0.45
    assert (simulation.actions[unavailable] == 0).all()
    assert (simulation.probability[unavailable] == 1).all()
    blind = simulation.available & np.isnan(simulation.states).any(axis=-1)
    sent = simulation.actions[blind] == 1
    assert abs(sent.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / blind.sum())
    assert_array_equal(simulation.probability[blind], np.where(sent, 0.25, 0.75))
    assert not np.isnan(simulation.rewards).any()
    lost = np.isnan(simulation.reported)
    assert 0.08 < lost.mean() < 0.12
    assert_array_equal(simulation.reported[~lost], simulation.rewards[~lost])


def logs_of_two_states():
    rng = np.random.default_rng(0)
    state, action = rng.random((1, 200, 2)), rng.integers(0, 2, (1, 200))
    return sf.Trajectories.from_arrays(
        state, action, rng.random((1, 200)), probability=np.full((1, 200), 0.5), state_names=Patchy.state_names
    )


def test_a_policy_that_looks_at_nothing_needs_no_fallback():
    simulation = Simulation(Patchy(200), 2).advance(sf.policies.fixed([0.1, 0.9]), 10, fallback=0.0)
    assert set(np.unique(simulation.probability[simulation.available])) == {0.1, 0.9}


def test_wrong_arguments_of_simulations_are_refused():
    simulator = HeartSteps(2)
    for call, words in (
        (lambda: simulator.start(seed=[]), "0 seeds"),
        (lambda: simulator.start(seed=1).advance(COIN, 0), "at least 1"),
        (lambda: simulator.start(seed=[1, 2]).advance([COIN], 3), "1 policies for 2 replicates"),
    ):
        with pytest.raises(sf.InputError, match=words):
            call()


@pytest.mark.parametrize(
    "inner", [HeartSteps(participants=4), HeartSteps(participants=4, spread=1.0), ChainWalk(participants=4)]
)
def test_simulated_memory_is_what_the_logs_of_the_simulation_give(inner):
    sim = WithMemory(inner, KINDS, day_boundary=5)
    logs, plain = (s.collect(sf.policies.coin(2), decision_points=23, seed=3) for s in (sim, inner))
    own = len(inner.state_names)
    assert_array_equal(logs.state[:, :own], plain.state)
    assert_array_equal(logs.outcome, plain.outcome)
    expected = derive_states(KINDS, logs.participant_index, logs.time, logs.action.astype(float), logs.outcome, 5)
    assert_allclose(logs.state[:, own:], np.column_stack(list(expected.values())), rtol=1e-12)


def test_the_truth_is_that_of_the_simulator_and_policies_may_look_at_memory():
    sim = WithMemory(HeartSteps(participants=20), {"dose": Dose(0.9)})
    assert sim.critic_coef.tolist() == [*HeartSteps.critic_coef[:4], 0, *HeartSteps.critic_coef[4:], 0]
    assert sf.simulators.immediate_regret(sim, sim.oracle_myopic(), states=20, seed=0).mean == 0
    rule = sf.policies.rules.UpperConfidence(np.array([[0.0] * 5, [0, 0, 0, -1.0, 0.5]]), np.zeros((2, 5, 5)))
    sparing = sf.policies.Policy(rule, sim.action_names, sim.state_names)
    dose, sent = 0.0, 0
    for _ in range(700):
        send = dose < 0.5
        dose, sent = 0.9 * dose + send, sent + send
    assert sf.simulators.share_treated(sim, sparing, steps=700, keep=700, seed=0).mean == pytest.approx(sent / 700)


def test_days_need_a_boundary():
    with pytest.raises(sf.InputError, match="'day' counts days; give day_boundary"):
        WithMemory(HeartSteps(), {"day": DayInStudy()})
