"""The closed form beside a model whose long-run values are computed by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from surefoot.learning.horizon.look_ahead import (
    BetweenPeople,
    LookAhead,
    TransitionMoments,
    WithinUnits,
    best_constant_action,
    constant_value,
    estimate_uncertainty,
    long_run_advantage,
    look_ahead,
    spectral_radius,
)
from surefoot.learning.pooling.mixed_effects import Moments
from surefoot.policies.features import critic_features

STATES, K = 2, 3
SIZE = STATES + 1


def random_model(rng, actions=2):
    """Coefficients C of [r, s'] on x(s, a), stable whatever the action."""
    coef = rng.standard_normal((SIZE * actions, 1 + STATES))
    coef[:, 1:] *= 0.25
    return coef


def moments_of(x, responses):
    weights = np.ones(x.shape[:2])
    return TransitionMoments(
        Moments.of_rows(x, responses[..., :1], weights), Moments.of_rows(x, responses[..., 1:], weights)
    )


def exact(coef, actions, share):
    """A look-ahead from noiseless rows of the model, with the given shares of the actions."""
    rng = np.random.default_rng(0)
    state = rng.standard_normal((1, 4000, STATES))
    action = np.repeat(np.arange(actions), np.round(4000 * np.asarray(share)).astype(int))[None, :4000]
    x = critic_features(state, action, actions)
    return look_ahead(moments_of(x, x @ coef), np.full(x.shape[-1], 1e-9), actions), x


def advantage_by_summing(coef, actions, share, state, action, steps=2000):
    """What is earned more, over all later decision points, by `action` now and the logging policy ever after."""
    size = SIZE
    blocks = [coef[size * a : size * (a + 1)] for a in range(actions)]
    mean = blocks[0] + sum(p * b for p, b in zip(share[1:], blocks[1:], strict=True))
    paths = []
    for first in (action, 0):
        z = np.append(1.0, state)
        out = z @ (blocks[0] + (blocks[first] if first else 0.0))
        outcomes = [out[0]]
        for _ in range(steps):
            out = np.append(1.0, out[1:]) @ mean
            outcomes.append(out[0])
        paths.append(np.array(outcomes))
    return (paths[0] - paths[1]).sum()


@pytest.mark.parametrize("actions", [2, 3])
def test_the_advantage_is_what_an_action_changes_in_all_that_follows(actions):
    rng = np.random.default_rng(actions)
    share = [0.5, 0.5] if actions == 2 else [0.5, 0.3, 0.2]
    for _ in range(5):
        coef = random_model(rng, actions)
        found, _ = exact(coef, actions, share)
        assert_allclose(found.coef[0], coef, atol=1e-6)
        assert_allclose(found.share[0], share, atol=1e-3)
        for action in range(1, actions):
            for state in rng.standard_normal((3, STATES)):
                expected = advantage_by_summing(coef, actions, found.share[0], state, action)
                assert_allclose(np.append(1.0, state) @ found.advantage[0, action - 1], expected, rtol=1e-5, atol=1e-6)


def test_without_delayed_effects_it_is_the_immediate_advantage():
    coef = random_model(np.random.default_rng(3))
    coef[SIZE:, 1:] = 0.0
    assert_allclose(exact(coef, 2, [0.5, 0.5])[0].advantage[0, 0], coef[SIZE:, 0], atol=1e-6)


def test_the_jacobian_and_the_value_of_an_action_move_as_finite_differences_say():
    rng = np.random.default_rng(4)
    coef = random_model(rng, K)
    base, _ = exact(coef, K, [0.4, 0.4, 0.2])
    for i, j in ((0, 0), (1, 2), (4, 0), (5, 1), (8, 2)):
        moved = coef.copy()
        moved[i, j] += 1e-5
        other, _ = exact(moved, K, [0.4, 0.4, 0.2])
        outputs = np.append(1.0, base.worth[0])
        predicted = base.jacobian[0, :, i] * outputs[j]
        assert_allclose((other.advantage - base.advantage).ravel() / 1e-5, predicted, rtol=2e-3, atol=2e-3)
        for action in range(K):
            (value, how), (after, _) = constant_value(base, action), constant_value(other, action)
            assert_allclose((after - value)[0] / 1e-5, how[0, i, j], rtol=2e-3, atol=2e-3)


def test_the_value_of_always_the_same_action_is_where_the_rewards_settle():
    coef = random_model(np.random.default_rng(5))
    found, _ = exact(coef, 2, [0.5, 0.5])
    for action, block in enumerate((coef[:SIZE], coef[:SIZE] + coef[SIZE:])):
        out = np.zeros(1 + STATES)
        for _ in range(3000):
            out = np.append(1.0, out[1:]) @ block
        assert_allclose(constant_value(found, action)[0][0], out[0], rtol=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_spectral_radius_is_that_of_the_eigenvalues(seed, size):
    matrix = np.random.default_rng(seed).standard_normal((2, size, size))
    expected = np.abs(np.linalg.eigvals(matrix)).max(axis=-1)
    found = spectral_radius(matrix)
    assert (found >= expected * (1 - 1e-9)).all()
    assert_allclose(found, expected, rtol=0.02)


def test_an_unstable_transition_is_shrunk_and_its_radius_told():
    coef = np.zeros((2 * SIZE, 1 + STATES))
    coef[1, 1] = coef[2, 2] = 1.5
    coef[1, 0] = 1.0
    found, _ = exact(coef, 2, [0.5, 0.5])
    assert_allclose(found.radius, 1.5, rtol=1e-3)
    assert_allclose(found.worth[0, 0], 1 / (1 - 0.98), rtol=0.03)
    assert spectral_radius(np.zeros((1, 2, 2)))[0] == 0


def many_people(people, points, seed):
    rng = np.random.default_rng(seed)
    coef = random_model(np.random.default_rng(9))
    coef[:, 0] *= 3
    state = np.zeros((people, points + 1, STATES))
    action = rng.integers(0, 2, (people, points))
    outcome = np.empty((people, points))
    for t in range(points):
        mean = critic_features(state[:, t], action[:, t], 2) @ coef
        outcome[:, t] = mean[:, 0] + rng.standard_normal(people)
        state[:, t + 1] = mean[:, 1:] + rng.standard_normal((people, STATES))
    x = critic_features(state[:, :-1], action, 2)
    responses = np.concatenate([outcome[..., None], state[:, 1:]], axis=-1)
    return moments_of(x, responses), coef


def test_the_sandwich_covers_the_truth_as_often_as_it_says():
    penalty, inside, studies = np.full(2 * SIZE, 1e-6), [], 60
    for seed in range(studies):
        moments, coef = many_people(40, 40, seed)
        found = look_ahead(moments.total(), penalty, 2)
        unsure = estimate_uncertainty(found, moments, penalty)
        assert isinstance(unsure, BetweenPeople)
        advantage = long_run_advantage(found, unsure, np.array([1600.0]))
        error = np.sqrt(np.diagonal(advantage.covariance[0]))
        truth, _ = exact(coef, 2, [0.5, 0.5])
        expected = np.append(truth.advantage[0, 0, 1:], truth.advantage[0, 0, 0])
        inside.append(np.abs(advantage.mean[0, 0] - expected) < 1.96 * error)
    assert 0.88 < np.mean(inside) < 0.99


def test_few_people_and_single_people_use_their_decision_points():
    moments, _ = many_people(5, 60, 1)
    penalty = np.full(2 * SIZE, 1e-6)
    assert isinstance(estimate_uncertainty(look_ahead(moments.total(), penalty, 2), moments, penalty), WithinUnits)
    own = look_ahead(moments, penalty, 2)
    together = estimate_uncertainty(own, moments, penalty)
    third = TransitionMoments(*(part.of(slice(2, 3)) for part in moments))
    alone = look_ahead(third, penalty, 2)
    functional = np.random.default_rng(0).standard_normal((5, 2, 2 * SIZE, 1 + STATES))
    expected = estimate_uncertainty(alone, third, penalty).covariance(functional[2:3])
    assert_allclose(together.covariance(functional)[2:3], expected, rtol=1e-12)
    # One functional that picks a single coefficient has the textbook variance σ̂² (XᵀX)⁻¹.
    pick = np.zeros((5, 1, 2 * SIZE, 1 + STATES))
    pick[:, 0, 1, 0] = 1.0
    residual = moments.reward.squares[0, 0, 0] - moments.reward.cross[0, :, 0] @ own.coef[0, :, 0]
    textbook = residual / (60 - 2 * SIZE) * np.linalg.inv(moments.reward.gram[0])[1, 1]
    assert_allclose(together.covariance(pick)[0, 0, 0], textbook, rtol=1e-4)


@pytest.mark.parametrize(("gain", "reference"), [(-2.0, 0), (2.0, 1)])
def test_the_reference_is_nothing_unless_always_acting_is_surely_better(gain, reference):
    rng = np.random.default_rng(6)
    state, action = rng.standard_normal((30, 50, STATES)), rng.integers(0, 2, (30, 50))
    x = critic_features(state, action, 2)
    coef = np.zeros((2 * SIZE, 1 + STATES))
    coef[SIZE, 0] = gain
    moments = moments_of(x, x @ coef + rng.standard_normal((30, 50, 1 + STATES)))
    penalty = np.full(2 * SIZE, 1e-6)
    found: LookAhead = look_ahead(moments.total(), penalty, 2)
    unsure = estimate_uncertainty(found, moments, penalty)
    assert best_constant_action(found, unsure).tolist() == [reference]
    mean, spread = long_run_advantage(found, unsure, np.array([1500.0])).over_reference()
    assert_allclose(mean[0, reference], 0)
    assert_allclose(spread[0, reference], 0, atol=1e-12)
    assert (np.diagonal(spread[0, 1 - reference]) > 0).all()
