"""The league: its simulators against literal formulas and published figures, each contestant, and going on after a stop."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import league
from benchmarks.league_cells import CELLS, CONTESTANTS
from benchmarks.oralytics import (
    MORE_SECONDS,
    MORE_SESSIONS,
    SECONDS,
    STAYING_AWAY,
    Oralytics,
    OralyticsLearner,
    list_features,
    run_fixed,
)
from benchmarks.published import (
    MIWAVES,
    ActionCentred,
    RomeLearner,
    Smooth,
    Truth,
    believe,
    link_neighbours,
    reveal,
)
from benchmarks.rome import DESIGNS, SETTINGS, Rome, list_stages, run_trial
from benchmarks.step_count import RULES, StepCount, expect, run_rule
from benchmarks.trials import Dirty, Observations
from numpy.testing import assert_allclose
from scipy.stats import poisson

import surefoot as sf

GOLDEN_BASELINE = [2.46590537, 3.03686152, 5.11059619, 5.80466165]
GOLDEN_PERSON_7 = np.array([-0.2056499, 1.48614836, 0.23671627])
GOLDEN_TIME_50 = np.array([-0.6724617, -0.78566321, 1.25581962])
SMALL = Rome("fade", people=6, points=5)
TOLD = reveal(SMALL, 5, 1.0)


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


class TestOralytics:
    """Its simulator against the formulas written out for one participant, and against exact moments."""

    def literal(self, people, person, outcomes, actions, tired, action):
        """P(no brushing), and the mean seconds, of a participant with this past, oldest first."""
        j = len(outcomes)
        evening = j % 2
        yesterday = outcomes[j - 2 - evening : j - evening] if j >= 2 else []
        share = np.mean([seconds > 0 for seconds in outcomes[-14:]]) if j >= 14 else 0
        weekend = 1 if j % 14 in (10, 11, 12, 13) else 0
        x = np.array([evening, (sum(yesterday) - 154) / 163, (j // 2 + 1 - 35.5) / 34.5, share, weekend, 1])
        z = np.delete(x, 3)
        lasting = action / 2**tired
        away = x @ people.staying_away[:, person] - lasting * max(0, z @ people.more_sessions[:, person])
        seconds = x @ people.seconds[:, person] + lasting * max(0, z @ people.more_seconds[:, person])
        return 1 / (1 + np.exp(-away)), np.exp(seconds)

    def test_every_decision_point_follows_the_formulas(self):
        people = Oralytics(3)
        simulation = people.start(seed=1)
        rng = np.random.default_rng(1)
        tired = np.zeros(3, dtype=int)
        outcomes = np.zeros((3, 0))
        actions = np.zeros((3, 0))
        seen_tired = 0
        for j in range(60):
            recent = slice(max(0, j - 14), j)
            weights = np.ones(j) if j < 14 else (13 / 14) ** np.arange(13, -1, -1)
            means = [
                np.average(past[:, recent], axis=1, weights=weights) if j else np.zeros(3) for past in (outcomes, actions)
            ]
            if j and j % 14 == 0:
                tires = (means[1] > 0.8) | ((means[1] > 0.5) & (means[0] > 111))
                tired = np.where(tires, tired + 1, np.maximum(0, tired - 1))
                seen_tired += tires.sum()
            state = simulation.look().state[0]
            assert_allclose(state[:, 0], j % 2)
            assert_allclose(state[:, 1], (means[0] - 90.5) / 89.5, atol=1e-12)
            assert_allclose(state[:, 2], 2 * means[1] - 1, atol=1e-12)
            action = (rng.random(3) < (0.95 if j < 30 else 0.3)).astype(int)
            for choice in (0 * action, action):
                expected = people.expect(simulation._state[:, 0], choice)
                for person in range(3):
                    exact = self.literal(people, person, outcomes[person], actions[person], tired[person], choice[person])
                    assert_allclose([part[person] for part in expected], exact)
            simulation.step(action[None], np.ones((1, 3)))
            outcomes = simulation.rewards[0]
            actions = np.column_stack([actions, action])
        assert seen_tired and (tired == 0).any()

    def test_outcomes_have_the_moments_of_a_zero_inflated_poisson_cut_at_180(self):
        people = Oralytics(4)
        lanes = 4000
        numbers = np.random.default_rng(2).random((3, lanes, 4))
        state = people.begin(numbers[:1])
        _, outcome = people.advance(state, np.ones((lanes, 4), dtype=int), numbers)
        away, mean = (part[0] for part in people.expect(state, np.ones((lanes, 4))))
        counts = np.arange(180)[:, None]
        cut = (counts * poisson.pmf(counts, mean)).sum(axis=0) + 180 * poisson.sf(179, mean)
        exact = (1 - away) * cut
        error = outcome.std(axis=0) / np.sqrt(lanes)
        assert (np.abs(outcome.mean(axis=0) - exact) < 4 * error).all()
        assert_allclose((outcome == 0).mean(axis=0), away, atol=0.035)

    def test_people_have_the_published_moments(self):
        people = Oralytics(20000)
        for moments, drawn in ((STAYING_AWAY, people.staying_away), (SECONDS, people.seconds)):
            assert_allclose(drawn.mean(axis=1), moments[:, 0], atol=0.04)
            assert_allclose(drawn.std(axis=1), moments[:, 1], rtol=0.03)
        for moments, drawn in ((MORE_SESSIONS, people.more_sessions), (MORE_SECONDS, people.more_seconds)):
            assert (np.sign(drawn) == np.sign(moments[:, :1])).all()

    def test_prompts_help_and_too_many_tire(self):
        seconds = {share: run_fixed(share, replicates=4).rewards.mean() for share in (0.0, 0.5, 1.0)}
        assert seconds[0.5] > seconds[1.0] + 2 and seconds[1.0] > seconds[0.0] + 2

    def test_everybody_opens_the_app_on_the_first_day_and_then_with_probability_0_7(self):
        app = run_fixed(0.5, replicates=2).states[..., 3]
        assert not app[..., :2].any() and app[..., 2:4].all()
        assert abs(app[..., 4::2].mean() - 0.7) < 0.02 and (app[..., 4::2] == app[..., 5::2]).all()

    def test_the_first_decision_point_knows_no_past(self):
        features = list_features(Oralytics(2).begin(np.zeros((1, 2))))
        assert_allclose(features[:, 0], [0, -154 / 163, -34.5 / 34.5, 0, 0, 1])

    def test_its_algorithm_counts_the_cost_of_prompts_that_tire(self):
        state = np.array([[0, 0.5, -0.5, 1], [0, 0.5, 0.2, 1], [0, -0.5, 0.2, 1], [0, -0.5, 0.8, 1], [0, 0.5, 0.8, 1]])
        costs = [0, 100, 0, 100, 200]
        for action in (0, 1):
            taught = []
            for outcome in (100 - action * np.array(costs), np.full(5, 100.0)):
                learner = OralyticsLearner()
                observations = Observations(
                    np.arange(5), np.zeros(5, dtype=int), state, np.full(5, action), np.full(5, 0.5), outcome
                )
                learn = learner.learn if outcome[0] == outcome[-1] == 100 else super(OralyticsLearner, learner).learn
                learn(observations, None)
                taught.append(learner.target)
            assert_allclose(*taught)


def test_neighbours_are_linked_both_ways():
    laplacian = link_neighbours(np.arange(8.0)[:, None] ** 2)
    assert_allclose(laplacian, laplacian.T)
    assert_allclose(laplacian.sum(axis=1), 0)
    assert np.linalg.eigvalsh(laplacian).min() > -1e-9


def observe(action, sent, state, outcome):
    count = len(action)
    probability = np.where(action > 0, sent, 1 - sent)
    return Observations(np.arange(count), np.zeros(count, dtype=int), state, action, probability, outcome)


@pytest.mark.parametrize("blocks", [2, 3])
@pytest.mark.parametrize("noise", [1.0, 20.0])
def test_action_centred_regression_is_bayesian_least_squares(blocks, noise):
    truth = Truth(TOLD.people, TOLD.times, noise)
    learner = ActionCentred(believe(truth, blocks=blocks), 3)
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (4, 2))
    sent = learner.decide(np.arange(4), np.zeros(4, dtype=int), state)[:, 1]
    assert_allclose(sent, 0.5)
    sent = np.array([0.5, 0.3, 0.6, 0.2])
    action = np.array([0, 1, 1, 0])
    outcome = rng.standard_normal(4)
    learner.learn(observe(action, sent, state, outcome), SMALL.start(seed=0))
    x = np.column_stack([np.ones(4), state])
    features = np.column_stack([x, sent[:, None] * x, (action - sent)[:, None] * x])
    features = features if blocks == 3 else np.delete(features, [3, 4, 5], axis=1)
    covariance = np.linalg.inv(features.T @ features + 25 * np.eye(3 * blocks))
    mean, deviation = learner.judge(np.arange(4), np.zeros(4, dtype=int), state)
    assert_allclose(mean, x @ (covariance @ features.T @ (outcome / noise))[-3:])
    assert_allclose(deviation**2, np.diagonal(x @ covariance[-3:, -3:] @ x.T))


def test_a_prior_mean_is_the_first_estimate():
    mean, _ = OralyticsLearner().judge(np.arange(1), np.zeros(1, dtype=int), np.array([[0.0, 0.0, 0.0, 1.0]]))
    assert_allclose(mean, 27 / 4058**0.5)


def test_heartsteps_truth_is_that_of_its_people():
    people = sf.simulators.HeartSteps(5, spread=1.0)
    truth = reveal(people, 7, 1500.0)
    states = np.zeros((5, 1, 3))
    effect = np.diff(people.expected_reward(states), axis=-1)[:, 0, 0]
    assert_allclose(truth.people[:, 0], effect - effect.mean())
    assert truth.times.shape == (7, 4) and truth.noise == 1500
    assert reveal(Oralytics(2), 7, 1.0) is None


def test_smooth_allocation_lies_within_its_limits_and_grows():
    learner = Smooth(believe(TOLD, blocks=3, people=True), 3, MIWAVES)
    shares = learner.allocate(np.array([-9.0, 0.0, 9.0]), np.full(3, 0.1))
    assert_allclose(shares[[0, 2]], [0.2, 0.8], atol=1e-6)
    assert 0.2 < shares[1] < 0.8


def test_rome_needs_no_outcome_model_at_first():
    learner = RomeLearner(believe(TOLD, blocks=1, people=True, times=True, linked=True), 3, seed=0)
    state = np.zeros((2, 2))
    learner.learn(observe(np.array([0, 1]), np.full(2, 0.5), state, np.array([0.0, 1.0])), SMALL.start(seed=0))
    mean, _ = learner.judge(np.arange(2), np.zeros(2, dtype=int), state)
    assert mean[1] > 0


@pytest.mark.parametrize("name", list(CONTESTANTS))
def test_each_contestant_takes_part_in_a_tiny_trial(name):
    if name.startswith(("MABWiser", "contextualbandits")):
        pytest.importorskip("mabwiser" if name.startswith("MAB") else "contextualbandits")
    cell = CELLS["RoME, rectangular, fade, artefacts and unworn"]
    learner = CONTESTANTS[name](cell, SMALL, 1)
    if learner is None:
        assert name == "ts, all, long run"
        return
    regret = cell.play(SMALL, learner, 1)
    assert 0 <= regret < 100


def test_artefacts_follow_prompts_and_unworn_devices_report_0():
    clean = Rome("alike", people=4, points=200)
    simulation = Dirty(clean, unworn=0.2, seed=1).start(seed=1)
    for number in range(200):
        simulation.step(np.full((1, 4), number % 2), np.full((1, 4), 0.5))
    difference = simulation.reported - simulation.rewards
    worn = simulation.reported != 0
    wild = np.isclose(difference, Dirty(clean, unworn=0.2, seed=1).size)
    assert not (wild & (simulation.actions == 0)).any()
    assert 0.05 < wild[worn & (simulation.actions == 1)].mean() < 0.15
    assert 0.15 < (~worn).mean() < 0.25


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A league of one small cell, and its results."""
    name = "RoME, rectangular, fade"
    monkeypatch.setattr(league, "CELLS", {name: dataclasses.replace(CELLS[name], simulator=lambda: SMALL)})
    return tmp_path / "league.jsonl"


def read_seeds(results):
    return [json.loads(line)["seed"] for line in results.read_text().splitlines()]


def test_it_goes_on_where_it_stopped(tiny):
    league.run("*", "IntelligentPooling", 2, path=tiny)
    before = tiny.read_text()
    league.run("*", "IntelligentPooling", 3, path=tiny)
    assert tiny.read_text().startswith(before) and read_seeds(tiny) == [1000, 1001, 1002]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_line_that_was_not_written_to_its_end_is_run_again(tiny, cut):
    league.run("*", "IntelligentPooling", 2, path=tiny)
    whole = tiny.read_text()
    tiny.write_text(whole[:-cut])
    assert league.read_results(tiny)["RoME, rectangular, fade", "IntelligentPooling"].keys() == {1000}
    league.run("*", "IntelligentPooling", 3, path=tiny)
    assert read_seeds(tiny) == [1000, 1001, 1002]
    values = [json.loads(line)["value"] for line in tiny.read_text().splitlines()]
    assert values[:2] == [json.loads(line)["value"] for line in whole.splitlines()]


def test_the_page_has_goals_wins_and_losses(tmp_path):
    fade, dirty = "RoME, rectangular, fade", "RoME, rectangular, fade, artefacts"
    results = {
        (fade, "recommended"): {1000: 13.0, 1001: 14.0, 1002: 15.0},
        (fade, "ts, smooth"): {1000: 10.0, 1001: 11.0, 1002: 12.0},
        (fade, "ts, partial"): {1000: 20.0, 1001: 20.0, 1002: 20.1},
        (fade, "RoME"): {1000: 9.0, 1001: 9.0, 1002: 9.1},
        (fade, "IntelligentPooling"): {1000: 0.0},
        (dirty, "hb-ts, smooth"): {1000: 20.0, 1001: 30.0},
        (dirty, "RoME"): {1000: 40.0, 1001: 60.0, 1002: 1e6},
        ("StepCountJITAI", "recommended"): {1000: 2000.0, 1001: 2000.0},
        ("RoME, triangular, alike", "ts, smooth"): {1000: 14.0, 1001: 14.0, 1002: 30.0},
        ("RoME, triangular, alike", "ts, partial"): {1000: 9.0, 1001: 11.0},
    }
    page = tmp_path / "league.md"
    markers = [f"<!-- {title} -->\n<!-- end of {title} -->\n" for title in ("goals", *league.TABLES)]
    page.write_text("Before.\n" + "Between.\n".join(markers) + "After.\n")
    league.write_page(results, page)
    text = page.read_text()
    league.write_page(results, page)
    assert page.read_text() == text and text.startswith("Before.") and text.endswith("After.\n")
    assert "| ts, partial | **20.0 ± 0.0 (3), loss** |" in text
    assert "| ts, smooth | **11.0 ± 0.6 (3), loss** |" in text
    assert "| RoME | **9.03 ± 0.03 (3)** |" in text
    assert "| IntelligentPooling | 0.00 (1) |" in text
    assert f"| {fade}: regret of `ts, smooth` at most 12.3 | 11.0 ± 0.6 (3) | yes |" in text
    assert f"| {dirty}: regret of `hb-ts, smooth` below RoME's, as a ratio | 0.50 ± 0.00 (2) | yes |" in text
    assert "above 2,500 | 2,000 ± 0 (2) | **no** |" in text and "above 1,618 | 2,000 ± 0 (2) | yes |" in text
    assert f"| {fade}: `recommended` against `ts, smooth`, a ratio of at most 1.1 | 1.27 ± 0.01 (3) | **no** |" in text
    assert "alike: regret of `ts, smooth` against `ts, partial`, a ratio of at most 1.3 | 1.40 ± 0.14 (2) | **no** |" in text
    assert "| RoME, triangular, fade: regret of `ts, smooth` at most 36.6 | – | not measured |" in text


def test_the_error_of_a_ratio_is_that_of_paired_data():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(4000, 30))
    ours = 5 + shared + 0.2 * rng.normal(size=shared.shape)
    theirs = 10 + 2 * shared
    estimates = [league.estimate_ratio(dict(enumerate(a)), dict(enumerate(b))) for a, b in zip(ours, theirs, strict=True)]
    ratios = [estimate.mean for estimate in estimates]
    assert_allclose(np.mean(ratios), 0.5, atol=0.001)
    assert_allclose(np.mean([estimate.error for estimate in estimates]), np.std(ratios), rtol=0.05)
