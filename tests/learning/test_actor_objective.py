import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.special import softmax

from surefoot.learning.actor import gain, gain_gradient_curvature
from surefoot.numerics.arrays import boltzmann
from tests.problems import actor_problems
from tests.reference import literal


def test_boltzmann_is_a_softmax_with_a_zero_logit_and_does_not_overflow():
    logits = np.array([[0.3, -2.0], [900.0, 899.0], [-900.0, -901.0]])
    expected = softmax(np.column_stack([np.zeros(3), logits]), axis=1)[:, 1:]
    assert_allclose(boltzmann(logits), expected, rtol=1e-12)


@pytest.mark.parametrize("actions", [2, 3, 4])
def test_gain_is_the_literal_objective_less_doing_nothing(actions):
    rng = np.random.default_rng(actions)
    states, kept = rng.standard_normal((12, 3)), rng.integers(0, 2, 12).astype(float)
    w, theta = rng.standard_normal(4 * actions), rng.standard_normal(4 * (actions - 1))
    z = np.column_stack([states, np.ones(12)])
    expected = np.array([[literal.critic_features(s, a, actions) @ w for a in range(actions)] for s in states])
    advantage = (expected - expected[:, :1])[:, 1:]
    theta_by_action, stakes = theta.reshape(1, actions - 1, 4), advantage * kept[:, None] / 12
    found = gain(theta_by_action, (z @ theta_by_action[0].T)[None], stakes[None], np.full((1, 4), 0.3))
    by_tuple = literal.actor_objective_by_tuple(theta, states, kept, w, 0.3, actions)
    assert_allclose(found[0] + (kept * expected[:, 0]).mean(), by_tuple, rtol=1e-12)
    assert_allclose(literal.actor_objective(theta, z, expected, kept, 0.3), by_tuple, rtol=1e-12)


@pytest.mark.parametrize("actions", [2, 3, 4])
def test_gradient_and_curvature_are_the_numerical_ones(actions):
    rng = np.random.default_rng(10 + actions)
    z, advantage, kept = actor_problems(rng, 3, actions, 40, 1.0)
    penalty = np.full((1, 4), 0.01)
    for participant in range(3):
        own, stakes = z[[participant]], advantage[[participant]] * kept[[participant], :, None] / 40

        def parts(theta, own=own, stakes=stakes):
            value, gradient, curvature = gain_gradient_curvature(theta.reshape(1, actions - 1, 4), own, stakes, penalty)
            return value[0], gradient[0], curvature[0]

        theta = 0.3 * rng.standard_normal((actions - 1) * 4)
        assert check_grad(lambda t, parts=parts: parts(t)[0], lambda t, parts=parts: parts(t)[1], theta) < 1e-6
        for row in range(len(theta)):
            error = check_grad(lambda t, p=parts, r=row: p(t)[1][r], lambda t, p=parts, r=row: p(t)[2][r], theta)
            assert error < 1e-5
        by_action = theta.reshape(1, actions - 1, 4)
        value = gain(by_action, own @ np.swapaxes(by_action, 1, 2), stakes, penalty)[0]
        assert_allclose(parts(theta)[0], value, rtol=1e-13)


def test_a_single_decision_point_counts_every_action():
    theta, z, stakes = np.array([[[0.4], [-0.3]]]), np.array([[[2.0]]]), np.array([[[1.0, 5.0]]])
    expected = softmax([0.0, 0.8, -0.6])[1:] @ [1.0, 5.0] - 0.05 * (0.4**2 + 0.3**2)
    assert_allclose(gain(theta, z @ np.swapaxes(theta, 1, 2), stakes, np.full((1, 1), 0.1)), expected)
