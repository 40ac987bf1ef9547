import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.learning.rules import choose_caution


def heartsteps(people=50, points=210, seed=0, mechanism=None, ratio=0.1):
    logs = sf.simulators.HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=points, seed=seed)
    if mechanism is None:
        return logs
    return sf.simulators.contaminate(logs, mechanism=mechanism, ratio=ratio, seed=seed).logs


@pytest.fixture(scope="module")
def spoiled():
    return heartsteps(mechanism="prompted")


@pytest.fixture(scope="module")
def fitted(spoiled):
    return sf.method("hb-ahead").fit(spoiled)


def test_it_earns_more_than_never_prompting_where_the_best_myopic_policy_loses(fitted):
    sim = sf.simulators.HeartSteps(participants=30)
    policies = {**sf.simulators.reference_policies(sim), "ahead": fitted.policies_}
    runs = sim.run(policies, steps=1200, keep=1000, seed=5)
    gain = {name: run.reward.mean() - runs["never"].reward.mean() for name, run in runs.items()}
    assert gain["oracle-myopic"] < -150
    assert gain["ahead"] > 2
    assert 0.02 < runs["ahead"].share_treated.mean() < 0.15


def test_the_chain_walk_is_solved():
    sim = sf.simulators.ChainWalk(participants=50)
    logs = sim.collect(sf.policies.coin(2), decision_points=42, seed=1)
    logs = sf.simulators.contaminate(logs, mechanism="sensor", ratio=0.1, seed=1).logs
    found = sf.method("hb-ahead").fit(logs).policies_
    assert_array_equal(found.probabilities([0] * 4, [[1.0], [2.0], [3.0], [4.0]])[:, 1], [1, 1, 0, 0])


def test_the_model_is_least_squares_on_what_is_kept(fitted, spoiled):
    logs, outlook = spoiled, fitted.outlook_
    rows = logs.order.reshape(50, 210)
    x = np.concatenate([np.ones((50, 210, 1)), logs.state[rows]], axis=-1)
    x = np.concatenate([x, x * logs.action[rows][..., None]], axis=-1)
    kept = fitted.weights_[rows] > 0
    expected = np.linalg.lstsq(x[kept], logs.outcome[rows][kept], rcond=None)[0]
    assert_allclose(outlook.model.coef[0, :, 0], expected, rtol=1e-5, atol=1e-3)
    assert_allclose(fitted.critic_coef_[0], expected, rtol=1e-5, atol=1e-3)
    assert_allclose(outlook.model.coef[0][:, 3], [0, 0, 0, 0.7, 0.6, 0, 0, 0.05], atol=0.08)
    # Of 10,500 decision points a tenth had been spoiled after a prompt; the states had not.
    assert 0.88 < np.nanmean(fitted.weights_) < 0.91
    assert outlook.transitions[0] > 0.95 * 50 * 209


@pytest.mark.parametrize("name", ["linucb", "accb", "saccb"])
def test_every_rule_acts_on_the_long_run(name):
    logs = heartsteps(points=100)
    immediate, ahead = (sf.method(name, pooling="all", horizon=horizon).fit(logs) for horizon in ("immediate", "long-run"))
    assert_allclose(immediate.critic_coef_, ahead.critic_coef_, rtol=1e-8)
    sends = [method.policies_.probabilities(logs.participant, logs.state)[:, 1].mean() for method in (immediate, ahead)]
    assert sends[0] > 0.55
    assert sends[1] < 0.4


def test_any_number_of_actions():
    rng = np.random.default_rng(2)
    state, action = np.zeros((40, 61, 1)), rng.integers(0, 3, (40, 61))
    for t in range(60):
        pushed = np.choose(action[:, t], [0.0, 1.0, -1.0])
        state[:, t + 1, 0] = 0.5 * state[:, t, 0] + pushed + 0.3 * rng.standard_normal(40)
    # Action 1 pays 1 now and costs 2 a decision point later for each unit of state; action 2 the other way round.
    outcome = np.choose(action, [0.0, 1.0, -1.0]) - 2 * state[..., 0] + 0.3 * rng.standard_normal((40, 61))
    logs = sf.Trajectories.from_arrays(state, action, outcome, actions=["nothing", "tiring", "restful"])
    fitted = sf.method("ahead").fit(logs)
    assert_allclose(fitted.outlook_.model.worth, -2 / (1 - 0.5), rtol=0.1)
    assert_allclose(fitted.outlook_.advantage.mean[0, :, -1], [1 - 4, -1 + 4], atol=0.4)
    assert fitted.outlook_.advantage.reference[0] == 2
    assert_array_equal(fitted.policies_.probabilities([0], [[0.0]]), [[0, 0, 1]])
    myopic = sf.method("ahead", horizon="immediate").fit(logs)
    assert_array_equal(myopic.policies_.probabilities([0], [[0.0]]), [[0, 1, 0]])


def test_missing_outcomes_unavailability_and_nights_keep_their_transitions():
    rng = np.random.default_rng(3)
    people, points = 40, 60
    state, action = np.zeros((people, points, 1)), rng.integers(0, 2, (people, points))
    available = rng.random((people, points)) < 0.8
    action = action * available
    for t in range(points - 1):
        night = 2.0 if t % 5 == 4 else 0.0
        noise = 0.2 * rng.standard_normal(people)
        state[:, t + 1, 0] = 0.6 * state[:, t, 0] + action[:, t] + night - 1.0 * ~available[:, t] + noise
    outcome = -state[..., 0] + 0.2 * rng.standard_normal((people, points))
    outcome[~available] = np.nan
    outcome[rng.random((people, points)) < 0.1] = np.nan
    logs = sf.Trajectories.from_arrays(state, action, outcome, available=available)
    found = sf.method("ahead", day_boundary=5).fit(logs).outlook_
    assert found.transitions[0] == people * (points - 1)
    coef = found.model.coef[0]
    assert_allclose(coef[:, 1], [0, 0.6, 1, 0, 2, -1], atol=0.03)
    assert_allclose(found.model.worth[0], -1 / 0.4, rtol=0.03)
    assert_allclose(found.model.share[0, 1], action[:, :-1].mean(), atol=0.01)
    blurred = sf.method("ahead").fit(logs).outlook_.model.coef[0]
    assert abs(blurred[0, 1]) > 0.2


def test_people_of_different_lengths_and_gaps():
    logs = heartsteps(people=30, points=60)
    keep = (logs.time < 30 + logs.participant_index) & (logs.time % 17 != 3)
    table = logs.to_frame("pandas")[keep]
    roles = {"participant": "participant", "time": "time", "state": list(logs.state_names)}
    holed = sf.Trajectories.from_frame(table, **roles, action="action", outcome="outcome")
    pairs = sum(int(((a := np.sort(group)), np.diff(a) == 1)[1].sum()) for _, group in table.groupby("participant")["time"])
    assert sf.method("ahead").fit(holed).outlook_.transitions[0] == pairs
    assert sf.method("ahead", max_gap=2).fit(holed).outlook_.transitions[0] == len(table) - 30


@pytest.mark.parametrize("pooling", ["all", "person"])
@pytest.mark.parametrize("name", ["ahead", "ro-ahead", "hb-ahead"])
def test_block_size_and_threads_change_nothing(monkeypatch, name, pooling):
    logs = heartsteps(people=24, points=70, mechanism="sensor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        expected = sf.method(name, pooling=pooling).fit(logs)
        for cells, threads in ((200, 2), (1000, 1)):
            for module in ("methods", "horizon.transitions"):
                name_in_module = f"surefoot.learning.{module}.choose_block_cells"
                monkeypatch.setattr(name_in_module, lambda rows, cells=cells: cells)
            monkeypatch.setenv("SUREFOOT_THREADS", str(threads))
            again = sf.method(name, pooling=pooling).fit(logs)
            for part, values in expected.policies_.rule.arrays().items():
                assert_array_equal(again.policies_.rule.arrays()[part], values)
            assert_array_equal(again.weights_, expected.weights_)


def test_alone_it_warns_and_does_no_harm():
    logs = heartsteps(people=12)
    with pytest.warns(sf.FitWarning, match=r"209 consecutive decision points, too few to look ahead alone.*pooling = 'all'"):
        fitted = sf.method("hb-ahead", pooling="person").fit(logs)
    assert fitted.policies_.probabilities(logs.participant, logs.state)[:, 1].mean() < 0.02


def test_too_few_consecutive_decision_points_are_refused_or_named():
    logs = heartsteps(people=12, points=60)
    odd = logs.time % 2 == 1
    with pytest.raises(sf.InputError, match=r"0 of 720 decision points are followed .* at least 40 .* max_gap"):
        sf.method("ahead").fit(logs.with_values(state=np.where(odd[:, None], np.nan, logs.state)))
    short = (logs.participant_index == 3) & (logs.time >= 20)
    with (
        pytest.warns(sf.FitWarning, match="too few to look ahead alone"),
        pytest.warns(sf.FitWarning, match="participant 3: fewer than 5 consecutive decision points per coefficient"),
    ):
        fitted = sf.method("ahead", pooling="person").fit(
            logs.with_values(state=np.where(short[:, None], np.nan, logs.state))
        )
    assert_array_equal(fitted.policies_.probabilities([3], [[5.0, 5.0, -5.0]]), [[1, 0]])


def test_one_action_only_is_refused():
    logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.never(2), decision_points=60, seed=0)
    with pytest.raises(sf.InputError, match=r"action 'send' was never taken .* its consequences cannot be learned"):
        sf.method("hb-ahead").fit(logs)
    with pytest.warns(sf.FitWarning) as caught:
        alone = sf.method("ahead", pooling="person").fit(logs).policies_
    assert any("action 'send' never occurs" in str(warning.message) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    assert alone.probabilities(logs.participant, logs.state)[:, 1].sum() == 0


def test_states_that_do_not_react_and_states_that_run_away_are_said():
    rng = np.random.default_rng(4)
    state, action = rng.standard_normal((30, 60, 2)), rng.integers(0, 2, (30, 60))
    logs = sf.Trajectories.from_arrays(state, action, action + rng.standard_normal((30, 60)))
    with pytest.warns(sf.FitWarning, match="no state variable reacts to the actions"):
        sf.method("ahead").fit(logs)
    growing = np.cumsum(action + 0.1 * rng.random((30, 60)), axis=1)[..., None] - action[..., None]
    with pytest.warns(sf.FitWarning, match="seems to carry over for ever"):
        sf.method("ahead").fit(sf.Trajectories.from_arrays(growing, action, rng.standard_normal((30, 60))))


def test_with_an_immediate_horizon_nobody_warns(spoiled):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sf.method("hb-ahead", horizon="immediate", pooling="person").fit(spoiled).outlook_ is None


def test_caution_falls_with_the_decision_points_and_can_be_given(spoiled):
    assert choose_caution(np.array([100.0, 500.0, 2000.0])).tolist() == [3, 2, 1]
    sends = []
    for caution in (0.0, 1.0, 3.0):
        found = sf.method("hb-ahead", caution=caution).fit(spoiled).policies_
        sends.append(found.probabilities(spoiled.participant, spoiled.state)[:, 1].mean())
    assert sends[0] > sends[1] > sends[2]
    for wrong in ({"caution": -1.0}, {"max_gap": 0}, {"horizon": "long"}):
        with pytest.raises(sf.InputError):
            sf.method("ahead", **wrong).fit(spoiled)


def test_consequences_are_those_of_the_simulator():
    fitted = sf.method("ahead").fit(heartsteps(people=200, seed=7))
    view = fitted.outlook_.pool()
    found = view.consequence(1)
    # At the mean state under a coin: engagement 0.286, fatigue 1.09. One prompt adds 125 + 200 · 0.286 now; later it costs
    # what (0.6 + 0.05 · 1.09) of fatigue do, and gains what 0.4 of engagement does, at a coin's share of prompts.
    now = 125 + 200 * 0.2857
    later = -(0.6 + 0.05 * 1.09) * 250 / (1 - 0.725) + 0.4 * 100 / (1 - 0.3)
    assert abs(found.immediate.value - now) < 3 * found.immediate.standard_error < 60
    assert abs(found.delayed.value - later) < 3 * found.delayed.standard_error < 120
    assert_allclose(found.total.value, found.immediate.value + found.delayed.value)
    assert_allclose(found.lags.sum(), found.total.value, rtol=1e-6)
    assert_allclose(found.through.sum(), found.delayed.value)
    assert 7 <= found.felt <= 12
    reacting = {reaction.variable for reaction in view.reactions if reaction.p_value < 0.001}
    assert reacting == {1, 2}
