"""The test for people who wander: its scores against least squares, its size where nothing moves, what it notices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

import surefoot as sf
from surefoot.inference import wandering
from surefoot.inference.wandering import BLOCKS, find_wandering
from surefoot.policies.features import critic_features


def collect(people=20, points=60, seed=0):
    simulator = sf.simulators.HeartSteps(participants=people, spread=1.0, seed=seed)
    return simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed + 1000)


def walk(logs, coefficient, step, seed=0):
    """Rewards in which everybody's coefficient walks by itself."""
    people, points = len(logs.participants), logs.time.max() + 1
    steps = np.random.default_rng(seed).standard_normal((people, points)).cumsum(axis=1)
    x = critic_features(logs.state, logs.action, 2)[:, coefficient]
    return logs.with_values(reward=logs.reward + step * steps[logs.participant_index, logs.time] * x)


def test_scores_are_those_of_everybodys_own_regression(monkeypatch):
    logs, kept = collect(5, 50), []
    measure = wandering._measure_walks
    monkeypatch.setattr(wandering, "_measure_walks", lambda scores, points: kept.append(scores) or measure(scores, points))
    find_wandering(logs, logs.usable, np.ones(3))
    state = (logs.state - logs.state.mean(axis=0)) / logs.state.std(axis=0)
    for who, found in enumerate(np.concatenate(kept)):
        rows = logs.order[logs.starts[who] : logs.starts[who + 1]]
        z = np.column_stack([np.ones(50), state[rows]])
        x = np.hstack([z, (logs.action[rows] - logs.action[rows].mean())[:, None] * z])
        left = logs.reward[rows] - x @ np.linalg.lstsq(x, logs.reward[rows], rcond=None)[0]
        expected = [(x * left[:, None])[np.arange(50) * BLOCKS // 50 == b].sum(axis=0) for b in range(BLOCKS)]
        assert_allclose(found, np.array(expected) / np.sqrt((left**2).sum()), atol=1e-8)


def test_moments_are_those_of_random_signs():
    """Q, its variance and third moment against 200,000 draws of the signs."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((3, BLOCKS, 1))
    total, variance, third = wandering._measure_walks(scores, np.full(3, 200))[:, 0]
    apart = np.abs(np.subtract.outer(np.arange(BLOCKS), np.arange(BLOCKS)))
    kernel = np.where(apart > 1, apart[apart > 1].mean() - apart, 0.0)
    assert_allclose(total, np.einsum("ib,bc,ic->", scores[..., 0], kernel, scores[..., 0]), rtol=1e-12)
    signs = rng.choice([-1.0, 1.0], (200_000, 3, BLOCKS)) * scores[..., 0]
    drawn = np.einsum("sib,sib->s", signs @ kernel, signs)
    assert abs(drawn.mean()) < 4 * drawn.std() / np.sqrt(len(drawn))
    assert_allclose([variance, third], [(drawn**2).mean(), (drawn**3).mean()], rtol=0.05)


@pytest.mark.parametrize("kind", ["heavy-tailed", "autocorrelated"])
def test_nothing_is_found_where_nothing_moves(kind):
    """At 5 % within what chance allows of 120 data sets; the benchmark has 500 of each kind."""
    rng, logs, found = np.random.default_rng(3), collect(15, 60), []
    for _ in range(120):
        noise = rng.standard_t(2.5, (15, 60))
        for t in range(1, 60):
            noise[:, t] += 0.5 * noise[:, t - 1] * (kind == "autocorrelated")
        reward = logs.state @ [1.0, 2.0, 3.0] + noise[logs.participant_index, logs.time]
        found.append(find_wandering(logs.with_values(reward=reward), logs.usable, np.ones(3)).p_value)
    assert np.sum(np.array(found) <= 0.05) <= binom.ppf(0.999, 120, 0.05)


@pytest.mark.parametrize("coefficient", [0, 1, 4])
def test_what_wanders_is_found_and_named(coefficient):
    found = find_wandering(walk(collect(30, 100), coefficient, 500.0), np.ones(3000, dtype=bool), np.ones(3))
    assert found.p_value < 0.002 and found.people == 30
    # What happens when something is sent is part of what happens on average: an effect that walks takes that with it.
    assert found.largest in ({0, 4} if coefficient == 4 else {coefficient})


def test_a_baseline_that_wanders_is_no_effect_that_does():
    logs = walk(collect(30, 100), 0, 300.0)
    scores = []
    measure = wandering._measure_walks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wandering, "_measure_walks", lambda *parts: scores.append(measure(*parts)) or scores[-1])
        find_wandering(logs, logs.usable, np.ones(3))
    p_values = wandering._find_p_values(*np.sum(scores, axis=0))
    assert p_values[0] < 1e-4 and (p_values[4:] > 0.01).all()


def test_who_has_too_little_to_tell_does_not_count():
    logs = collect(4, 39)
    assert find_wandering(logs, logs.usable, np.ones(3)) == wandering.Wandering(0, 1.0, 0)
    logs = collect(12, 80)
    counts = np.random.default_rng(0).random(len(logs)) < 0.8
    other = logs.with_values(reward=np.where(counts, logs.reward, 1e9))
    assert find_wandering(logs, counts, np.ones(3)) == find_wandering(other, counts, np.ones(3))
    constant = logs.with_values(reward=np.ones(len(logs)))
    assert find_wandering(constant, logs.usable, np.ones(3)).p_value == 1.0
