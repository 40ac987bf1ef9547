"""The test for drift: its scores against least squares, its size where nothing moves, what it notices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom, norm

import surefoot as sf
from surefoot.inference import drift, wandering
from surefoot.inference.drift import LEAST_PEOPLE, find_drift, flip_signs
from surefoot.policies.features import critic_features


def collect(people=15, points=40, seed=0):
    simulator = sf.simulators.HeartSteps(participants=people, spread=1.0, seed=seed)
    return simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed + 1000)


def move(logs, coef):
    """Rewards whose coefficients on x(s, a) are `coef` larger after 100 decision points than at first."""
    x = critic_features(logs.state, logs.action, 2)
    return logs.with_values(reward=logs.reward + logs.time / 100 * (x @ coef))


def test_the_change_is_that_of_one_regression_with_everybodys_own_coefficients():
    logs = move(collect(12), np.array([0, 0, 0, 0, -2000.0, 0, 0, 0]))
    x, who = critic_features(logs.state, logs.action, 2), np.eye(12)[logs.participant_index]
    t = (logs.time / 100)[:, None]
    own = np.concatenate([x, t * x[:, :4]], axis=1)
    design = np.hstack([t * x[:, 4:5], *(own * mine[:, None] for mine in who.T)])
    expected = np.linalg.lstsq(design, logs.reward, rcond=None)[0][0]
    assert_allclose(find_drift(logs, logs.usable, np.ones(3)).effect_change.value, expected, rtol=1e-7)


def test_rows_and_variables_that_do_not_count_change_nothing():
    logs, rng = collect(12), np.random.default_rng(0)
    counts = rng.random(len(logs)) < 0.8
    other = logs.with_values(
        reward=np.where(counts, logs.reward, 1e9),
        state=logs.state * [1, 1, 0] + rng.standard_normal(len(logs))[:, None] * [0, 0, 9],
    )
    sees = np.array([1.0, 1.0, 0.0])
    assert find_drift(logs, counts, sees).p_value == find_drift(other, counts, sees).p_value
    nothing = find_drift(logs, np.zeros(len(logs), dtype=bool), sees)
    assert (nothing.people, nothing.can_tell, nothing.p_value) == (0, False, 1.0)


def test_all_signs_of_few_people_are_tried_and_the_sums_of_many_are_normal():
    scores = np.random.default_rng(3).standard_normal((6, 1))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1).T
    expected = (np.abs(signs @ scores) >= abs(scores.sum()) - 1e-12).mean()
    assert flip_signs(scores)[0] == expected
    many = np.random.default_rng(4).standard_normal((2500, 1)) + 0.03
    for one in (many, many[:1900]):
        z = abs(one.sum()) / np.sqrt((one**2).sum())
        assert_allclose(flip_signs(one)[0], 2 * norm.sf(z), atol=0.02)


@pytest.mark.parametrize(("kind", "people"), [("unequal", 10), ("skewed", 15)])
def test_nothing_is_found_where_nothing_moves(kind, people):
    """At 5 % within what chance allows of 150 data sets; the benchmark has 1,000 of each kind."""
    rng, found = np.random.default_rng(people), []
    for seed in range(150):
        logs = collect(people, 30, seed)
        noise = rng.exponential(1.0, len(logs)) ** 1.5
        if kind == "unequal":
            wild = np.exp(rng.standard_normal(people))[logs.participant_index]
            noise = wild * (1 + logs.action) * (1 + logs.time / 15) * rng.standard_normal(len(logs))
        drift = find_drift(logs.with_values(reward=logs.state @ [1.0, 2.0, 3.0] + noise), logs.usable, np.ones(3))
        found.append((drift.effect_p_value, drift.p_value))
    assert (np.sum(np.array(found) <= 0.05, axis=0) <= binom.ppf(0.999, 150, 0.05)).all()


@pytest.mark.parametrize(("coefficient", "effect"), [(4, True), (0, False), (1, False)])
def test_what_moves_is_found_and_named(coefficient, effect):
    coef = np.zeros(8)
    coef[coefficient] = 4000.0
    logs = collect(25, 60, 5)
    found = find_drift(move(logs, coef), logs.usable, np.ones(3))
    assert found.p_value < 0.005
    assert (found.effect_p_value < 0.005) == effect
    if not effect:
        assert found.largest == coefficient
    else:
        assert found.effect_change.low < 4000 < found.effect_change.high


def test_three_actions_and_few_people():
    from tests.problems import three_actions

    logs = three_actions(people=12, points=60)
    faded = logs.with_values(reward=logs.reward - 0.05 * logs.time * (logs.action == 2))
    assert find_drift(faded, logs.usable, np.ones(2)).effect_p_value < 0.005
    assert find_drift(logs, logs.usable, np.ones(2)).effect_p_value > 0.01
    few = find_drift(collect(LEAST_PEOPLE - 1), np.ones(8 * 40, dtype=bool), np.ones(3))
    assert not few.can_tell


def test_people_with_too_few_decision_points_are_left_out_before_anything_is_solved(monkeypatch):
    """With many columns; whoever is left out had no part in the result."""
    logs = collect(12, points=60)
    short = (logs.participant_index % 3 == 0) & (logs.time >= 3)
    counts = logs.usable & ~short
    expected = find_drift(logs, counts, np.ones(3))
    walks = wandering.find_wandering(logs, counts, np.ones(3))
    monkeypatch.setattr(drift, "MANY_COLUMNS", 1)
    explained = []
    monkeypatch.setattr(
        drift, "find_explained", lambda *given, find=drift.find_explained: explained.append(find(*given)) or explained[-1]
    )
    found = find_drift(logs, counts, np.ones(3))
    assert np.concatenate(explained).sum() == 4
    assert (found.people, found.p_value, found.largest) == (expected.people, expected.p_value, expected.largest)
    assert_allclose(found.effect_change, expected.effect_change, rtol=1e-9)
    assert wandering.find_wandering(logs, counts, np.ones(3)).p_value == walks.p_value
