import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from surefoot.policies.rules import (
    Boltzmann,
    Fixed,
    Pessimistic,
    PosteriorSampling,
    SmoothAllocation,
    UpperConfidence,
)
from tests.reference import literal

RNG = np.random.default_rng(0)
LANES = 40


def rules(actions):
    root = RNG.standard_normal((LANES, actions, 4, 4))
    joint = RNG.standard_normal((LANES, 4 * (actions - 1), 4 * (actions - 1)))
    posterior = RNG.standard_normal((LANES, actions - 1, 4)), joint @ np.swapaxes(joint, -1, -2)
    curve = np.broadcast_to([0.1, 0.8, 5.0, 2.0, 1.5], (LANES, 5))
    return [
        Fixed(RNG.dirichlet(np.ones(actions), LANES)),
        Boltzmann(RNG.standard_normal((LANES, actions - 1, 4))),
        UpperConfidence(RNG.standard_normal((LANES, actions, 4)), root @ np.swapaxes(root, -1, -2)),
        UpperConfidence(RNG.standard_normal((LANES, actions, 4)), np.zeros((LANES, actions, 4, 4))),
        Pessimistic(RNG.standard_normal((LANES, actions, 4)), root @ np.swapaxes(root, -1, -2)),
        PosteriorSampling(*posterior),
        *([SmoothAllocation(*posterior, curve)] if actions == 2 else []),
    ]


@pytest.mark.parametrize("actions", [2, 3, 4])
def test_the_chooser_draws_by_the_probabilities(actions):
    """Uniform numbers in the middle of every action's interval must choose that action."""
    state = RNG.standard_normal((LANES, 3))
    for rule in rules(actions):
        choose = rule.chooser()
        probabilities = rule.probabilities(state)
        assert rule.batch == (LANES,)
        assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
        upper = np.cumsum(probabilities, axis=1)
        for action in range(actions):
            middle = upper[:, action] - probabilities[:, action] / 2
            possible = probabilities[:, action] > 1e-6
            assert_array_equal(choose(state.T, middle)[possible], action)


@pytest.mark.parametrize("actions", [2, 3, 4])
def test_one_decision_is_that_of_the_arrays(actions):
    states = RNG.standard_normal((LANES, 3))
    for rule in rules(actions):
        for lane, state in enumerate(states):
            expected = rule.probabilities(states)[lane]
            assert_allclose(rule[lane].scalar()(state.tolist()), expected, rtol=1e-12, atol=1e-15)


def test_boltzmann_is_the_literal_policy():
    coef, state = RNG.standard_normal((5, 2, 4)), RNG.standard_normal((5, 3))
    for found, theta, s in zip(Boltzmann(coef).probabilities(state), coef, state, strict=True):
        assert_allclose(found, literal.probabilities(theta.ravel(), s, actions=3))


def test_extreme_logits_are_certain_and_finite():
    rule = Boltzmann(np.array([[[1e5, 0.0]], [[-1e5, 0.0]]]))
    assert_array_equal(rule.probabilities(np.ones((2, 1))), [[0, 1], [1, 0]])
    assert_array_equal(rule.chooser()(np.ones((1, 2)), np.array([0.0001, 0.9999])), [1, 0])
    assert [rule[lane].scalar()([1.0]) for lane in (0, 1)] == [[0, 1], [1, 0]]


def test_a_tie_goes_to_the_lower_action():
    rule = UpperConfidence(np.zeros((1, 3, 2)), np.zeros((1, 3, 2, 2)))
    assert_array_equal(rule.probabilities(np.zeros((1, 1))), [[1, 0, 0]])
    assert_array_equal(rule.chooser()(np.zeros((1, 1)), np.array([0.9])), [0])


def test_stacked_rules_decide_like_each_of_them():
    one, other = Boltzmann(RNG.standard_normal((LANES, 1, 4))), Boltzmann(RNG.standard_normal((LANES, 1, 4)))
    both = Boltzmann.join([one, other])
    assert both.batch == (2, LANES)
    state, uniform = RNG.standard_normal((3, LANES)), RNG.random(LANES)
    together = both.chooser()(np.broadcast_to(state[:, None], (3, 2, LANES)), uniform)
    assert_array_equal(together, [one.chooser()(state, uniform), other.chooser()(state, uniform)])


def test_the_reference_is_left_only_for_an_advantage_of_kappa_standard_errors():
    state, root = RNG.standard_normal((LANES, 3)), RNG.standard_normal((LANES, 3, 4, 4))
    mean, covariance, kappa = 3 * RNG.standard_normal((LANES, 3, 4)), root @ np.swapaxes(root, -1, -2), 1.5
    mean[:, 0], covariance[:, 0] = 0.0, 0.0
    found = Pessimistic(mean, kappa**2 * covariance).probabilities(state).argmax(axis=1)
    for lane, s in enumerate(state):
        z = np.append(s, 1.0)
        margins = [z @ m - kappa * np.sqrt(z @ v @ z) for m, v in zip(mean[lane], covariance[lane], strict=True)]
        assert found[lane] == (0 if max(margins[1:]) <= 0 else int(np.argmax(margins)))
    assert {0, 1, 2} == set(found)


def test_posterior_sampling_takes_an_action_as_often_as_its_drawn_effect_is_the_largest():
    rule, state = rules(3)[-1][:4], RNG.standard_normal((4, 3))
    effects = rule.draw(100_000, RNG).mean @ np.append(state, np.ones((4, 1)), axis=1)[:, :, None]
    best = np.where(effects[..., 0].max(axis=-1) > 0, effects[..., 0].argmax(axis=-1) + 1, 0)
    for lane, found in enumerate(rule.probabilities(state)):
        share = np.bincount(best[:, lane], minlength=3) / len(best)
        assert_allclose(found, share, atol=4.5 * np.sqrt(0.25 / len(best)))


def test_posterior_sampling_is_sure_where_nothing_is_left_open():
    rule = PosteriorSampling(np.array([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]]]), np.zeros((3, 2, 2)))
    state = np.array([[2.0], [-2.0], [5.0]])
    assert_array_equal(rule.probabilities(state), [[0, 1], [1, 0], [1, 0]])
    assert [rule[lane].scalar()(state[lane].tolist()) for lane in range(3)] == [[0, 1], [1, 0], [1, 0]]


def test_smooth_allocation_stays_within_its_ends():
    rule = rules(2)[-1]
    found = rule.probabilities(50 * RNG.standard_normal((LANES, 3)))[:, 1]
    assert ((found >= 0.1) & (found <= 0.8)).all() and found.min() < 0.2 and found.max() > 0.5


def test_how_sure_a_rule_is_that_sending_is_better():
    """Φ of the standardised effect for a posterior, however it allocates; a sign for a rule without one."""
    mean = np.array([[[1.0, -0.5]], [[0.0, 0.0]]])
    covariance = np.broadcast_to(np.diag([0.0, 4.0]), (2, 2, 2))
    states = np.array([[2.0], [3.0]])
    expected = norm.cdf([(2.0 - 0.5) / 2.0, 0.0])
    assert_allclose(PosteriorSampling(mean, covariance).prefers_sending(states), expected, rtol=1e-12)
    curve = np.broadcast_to([0.2, 0.8, 5.0, 20.0, 1.0], (2, 5))
    assert_allclose(SmoothAllocation(mean, covariance, curve).prefers_sending(states), expected, rtol=1e-12)
    assert_array_equal(Boltzmann(mean).prefers_sending(states), [1.0, 0.5])
    assert_array_equal(Boltzmann(-mean).prefers_sending(states), [0.0, 0.5])
    assert_array_equal(Fixed(np.full((2, 2), 0.5)).prefers_sending(states), [0.5, 0.5])
    three = np.array([[[-1.0, 0.0], [1.0, 0.0]]])
    assert_array_equal(Boltzmann(three).prefers_sending(states[:1]), [1.0])
