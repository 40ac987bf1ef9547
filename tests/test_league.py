"""The league: its simulators against literal formulas and published figures, each contestant, and going on after a stop."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import league
from benchmarks.published import ActionCentred, RomeLearner, Smooth, link_neighbours
from benchmarks.rome import DESIGNS, SETTINGS, Observations, Rome, list_stages, run_trial
from benchmarks.step_count import RULES, StepCount, expect, run_rule
from numpy.testing import assert_allclose

GOLDEN_BASELINE = [2.46590537, 3.03686152, 5.11059619, 5.80466165]
GOLDEN_PERSON_7 = np.array([-0.2056499, 1.48614836, 0.23671627])
GOLDEN_TIME_50 = np.array([-0.6724617, -0.78566321, 1.25581962])
SMALL = Rome("fade", people=6, points=5)


def test_romes_effects_and_baseline_are_the_published_ones():
    simulator = Rome("fade")
    # Values of the published simulation with its seed 3.
    contexts = np.array([[-0.9, -0.7], [0.1, 0.2], [0.8, -0.3], [-0.2, 0.95]])
    assert_allclose(simulator.baseline(contexts), GOLDEN_BASELINE, rtol=1e-6)
    x = np.array([1.0, 0.1, 0.2])
    effect = np.array([1.0, 0.5, -4.0]) + GOLDEN_PERSON_7 + GOLDEN_TIME_50
    assert_allclose(simulator.effects(np.array([0.1, 0.2]), np.array(7), np.array(50)), x @ effect, rtol=1e-6)
    assert not Rome("alike").person_effects.any() and not Rome("differ").time_effects.any()
    assert_allclose(Rome("alike").baseline(contexts), 2 - 2 * contexts[:, 0] + 3 * contexts[:, 1])


def test_one_person_enters_at_each_stage():
    assert list(DESIGNS) == ["rectangular", "triangular"] and len(SETTINGS) == 3
    active = np.array(list_stages("rectangular", 3, 2))
    np.testing.assert_array_equal(active, [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    np.testing.assert_array_equal(list_stages("triangular", 3, 3), np.tri(3, dtype=bool))


class Oracle:
    """Knows the effects, or the opposite."""

    def __init__(self, simulator, *, wrong):
        self.simulator = simulator
        self.wrong = wrong

    def decide(self, people, time, state):
        send = (self.simulator.effects(state, people, time) > 0) != self.wrong
        return np.column_stack([~send, send]).astype(float)

    def learn(self, observations, simulation):
        """It knows everything."""


@pytest.mark.parametrize("design", DESIGNS)
def test_regret_is_0_for_the_best_actions_and_the_whole_effect_for_the_worst(design):
    simulator = Rome("fade", people=5, points=5)
    assert run_trial(simulator, design, Oracle(simulator, wrong=False), 3).sum() == 0
    simulation = simulator.start(seed=3)
    regret = run_trial(simulator, design, Oracle(simulator, wrong=True), 3, simulation)
    first = simulation.states[0, 0, 0]
    assert_allclose(regret[0] if design == "triangular" else regret[0] * 5, expect_first(simulator, simulation, design))
    assert first.shape == (2,)


def expect_first(simulator, simulation, design):
    """The loss of the first stage, or of everybody's first decision point, by hand."""
    people = range(1 if design == "triangular" else 5)
    states = [simulation.states[0, person, 0] for person in people]
    losses = [
        abs(simulator.effects(state, np.array(person), np.array(0))) for person, state in zip(people, states, strict=True)
    ]
    return sum(losses)


def test_step_count_follows_its_formulas():
    def literal(context, habituation, risk, action):
        after = 0.9 * habituation if action == 0 else min(1.0, habituation + 0.05)
        if action == 0:
            return after, risk, 0.1
        if action == 1:
            return after, 0.9 * risk, 0.1 + 50 * (1 - after)
        if action == 2 + context:
            return after, 0.9 * risk, 0.1 + 200 * (1 - after)
        return after, min(1.0, risk + 0.4), 0.1

    for context in (0.0, 1.0):
        for action in range(4):
            arrays = [np.array([value]) for value in (context, 0.97, 0.7)]
            means = expect(*arrays, np.array([action]))
            assert_allclose(np.concatenate(means), literal(context, 0.97, 0.7, action))


@pytest.mark.parametrize(
    ("rule", "published"), [("random", 583), ("always tailored", 1618), ("tailored half the time", 3004)]
)
def test_fixed_policies_earn_what_is_published(rule, published):
    steps = run_rule(rule, episodes=150, seed=2).rewards[0].sum(axis=1)
    assert abs(steps.mean() - published) < 4 * steps.std() / np.sqrt(len(steps))
    assert set(RULES) >= {"never", rule}


def test_who_has_left_earns_nothing_and_shows_no_state():
    simulation = StepCount(1).start(seed=1)
    for _ in range(4):
        wrong = 3 if simulation.look().state[0, 0, 0] == 0 else 2
        simulation.step(np.array([[wrong]]), np.ones((1, 1)))
    assert np.isnan(simulation.look().state).all() and not simulation.look().available.any()
    assert simulation.step(np.array([[2]]), np.ones((1, 1))) == 0


def test_neighbours_are_linked_both_ways():
    laplacian = link_neighbours(np.arange(8.0)[:, None] ** 2)
    assert_allclose(laplacian, laplacian.T)
    assert_allclose(laplacian.sum(axis=1), 0)
    assert np.linalg.eigvalsh(laplacian).min() > -1e-9


def test_action_centred_regression_is_bayesian_least_squares():
    learner = ActionCentred(SMALL, baseline=True, people=False, times=False, linked=False)
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (4, 2))
    people = np.arange(4)
    time = np.zeros(4, dtype=int)
    sent = learner.decide(people, time, state)[:, 1]
    assert_allclose(sent, 0.5)
    action = np.array([0, 1, 1, 0])
    outcome = rng.standard_normal(4)
    learner.learn(Observations(people, time, state, action, sent, outcome), SMALL.start(seed=0))
    x = np.column_stack([np.ones(4), state])
    features = np.column_stack([x, (action - 0.5)[:, None] * x])
    covariance = np.linalg.inv(features.T @ features + 25 * np.eye(6))
    mean, deviation = learner.judge(people, time, state)
    assert_allclose(mean, x @ (covariance @ features.T @ outcome)[3:])
    assert_allclose(deviation**2, np.diagonal(x @ covariance[3:, 3:] @ x.T))


def test_smooth_allocation_lies_within_its_limits_and_grows():
    learner = Smooth(SMALL, baseline=True, people=True, times=False, linked=False)
    shares = learner.allocate(np.array([-9.0, 0.0, 9.0]), np.full(3, 0.1))
    assert_allclose(shares[[0, 2]], [0.2, 0.8], atol=1e-6)
    assert 0.2 < shares[1] < 0.8


def test_rome_needs_no_outcome_model_at_first():
    learner = RomeLearner(SMALL, seed=0)
    people = np.arange(2)
    time = np.zeros(2, dtype=int)
    state = np.zeros((2, 2))
    learner.decide(people, time, state)
    learner.learn(
        Observations(people, time, state, np.array([0, 1]), np.full(2, 0.5), np.array([0.0, 1.0])), SMALL.start(seed=0)
    )
    mean, _ = learner.judge(people, time, state)
    assert mean[1] > 0


@pytest.mark.parametrize("name", list(league.CONTESTANTS))
def test_each_contestant_takes_part_in_a_tiny_trial(name):
    if name.startswith(("MABWiser", "contextualbandits")):
        pytest.importorskip("mabwiser" if name.startswith("MAB") else "contextualbandits")
    cell = league.CELLS["RoME, rectangular, fade, artefacts and unworn"]
    learner = league.CONTESTANTS[name](cell, SMALL, 1)
    if learner is None:
        assert name == "ts, all, long run"
        return
    regret = cell.measure(SMALL, learner, 1)
    assert 0 <= regret < 100


def test_artefacts_follow_prompts_and_unworn_devices_report_0():
    clean = Rome("alike", people=4, points=200)
    simulation = league.Dirty(clean, unworn=0.2, seed=1).start(seed=1)
    for number in range(200):
        simulation.step(np.full((1, 4), number % 2), np.full((1, 4), 0.5))
    difference = simulation.reported - simulation.rewards
    worn = simulation.reported != 0
    wild = np.isclose(difference, league.Dirty(clean, unworn=0.2, seed=1).size)
    assert not (wild & (simulation.actions == 0)).any()
    assert 0.05 < wild[worn & (simulation.actions == 1)].mean() < 0.15
    assert 0.15 < (~worn).mean() < 0.25


def test_it_goes_on_where_it_stopped(tmp_path, monkeypatch):
    cell = dataclasses.replace(league.CELLS["RoME, rectangular, fade"], name="tiny", simulator=lambda: SMALL)
    monkeypatch.setattr(league, "CELLS", {"tiny": cell})
    results = tmp_path / "league.jsonl"
    league.run("*", "IntelligentPooling", 2, path=results)
    before = results.read_text()
    league.run("*", "IntelligentPooling", 3, path=results)
    assert results.read_text().startswith(before) and [line["seed"] for line in league.read_results(results)] == [
        1000,
        1001,
        1002,
    ]
    with results.open("a") as file:
        file.write(json.dumps({"cell": "tiny", "contestant": "ts, partial", "seed": 1000, "value": 1e6}) + "\n")
        file.write(json.dumps({"cell": "tiny", "contestant": "ts, partial", "seed": 1001, "value": 1e6}) + "\n")
        file.write(json.dumps({"cell": "tiny", "contestant": "ts, partial", "seed": 1002, "value": 1e6}) + "\n")
        file.write(json.dumps({"cell": "tiny", "contestant": "RoME", "seed": 1000, "value": 0.0}) + "\n")
    page = tmp_path / "league.md"
    page.write_text("Before.\n<!-- table -->\n<!-- end of the table -->\nAfter.\n")
    league.write_page(page, results)
    league.write_page(page, results)
    text = page.read_text()
    assert text.count("| contestant | tiny |") == 1 and text.startswith("Before.") and text.endswith("After.\n")
    assert "| ts, partial | **1,000,000 ± 0 (3), loss** |" in text
    assert "| RoME | 0.0 (1) |" in text
