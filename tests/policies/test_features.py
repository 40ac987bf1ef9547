import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.policies.features import critic_feature_names, critic_features, effects, policy_feature_names, policy_features
from tests.reference import literal


@pytest.mark.parametrize("actions", [2, 3, 4])
def test_features_are_the_literal_ones(actions):
    rng = np.random.default_rng(actions)
    state, action = rng.standard_normal((20, 3)), rng.integers(0, actions, 20)
    x = critic_features(state, action, actions)
    assert_array_equal(x, [literal.critic_features(s, a, actions) for s, a in zip(state, action, strict=True)])
    assert len(critic_feature_names(["s1", "s2", "s3"], range(actions))) == x.shape[1]
    z = policy_features(state)
    theta = rng.standard_normal((actions - 1, 4))
    for s, own in zip(state, z, strict=True):
        for a in range(1, actions):
            assert_allclose(theta[a - 1] @ own, theta.ravel() @ literal.policy_features(s, a, actions))
    assert len(policy_feature_names(["s1", "s2", "s3"], list("abcd")[:actions])) == theta.size


@pytest.mark.parametrize("actions", [2, 3])
def test_effects_are_differences_of_expected_rewards(actions):
    rng = np.random.default_rng(actions)
    state, w = rng.standard_normal((10, 3)), rng.standard_normal(4 * actions)
    advantage = policy_features(state) @ effects(w, actions).T
    for row, s in enumerate(state):
        for a in range(1, actions):
            expected = (literal.critic_features(s, a, actions) - literal.critic_features(s, 0, actions)) @ w
            assert_allclose(advantage[row, a - 1], expected)
