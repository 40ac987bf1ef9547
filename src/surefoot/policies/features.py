"""Feature maps: x(s, a) for the critic and φ(s, a) for the policy.

    x(s, a) = [1, s, then for every action b ≥ 1: 1{a=b}, 1{a=b}·s]
    φ(s, a) = [for every action b ≥ 1: 1{a=b}·s, 1{a=b}] = 1{a=b} ⊗ z(s),  z(s) = [s, 1]

For two actions these are the paper's [1, s, a, a·s] and [a·s, a]. Centred actions are 1{a=b} − p_b instead of 1{a=b}, p_b
the probability with which b was to be drawn: they are uncorrelated with every function of the state, so that a wrong model
of what happens without an action does not mislead them.
"""

from collections.abc import Sequence

from surefoot.numerics.arrays import Array, array_namespace, empty_columns


def critic_features(state: Array, action: Array, actions: int, centre: Array | None = None) -> Array:
    """x(s, a) of every decision point: (…, p) and (…) give (…, (p + 1) · actions).

    `centre`, (…, actions − 1), holds the probabilities at which the actions are centred; None leaves them as they are.

    >>> import numpy as np
    >>> critic_features(np.array([[2.0, 3.0]]), np.array([1]), 2)
    array([[1., 2., 3., 1., 2., 3.]])
    >>> critic_features(np.array([[2.0, 3.0]]), np.array([1]), 2, np.array([[0.25]]))
    array([[1.  , 2.  , 3.  , 0.75, 1.5 , 2.25]])
    """
    xp = array_namespace(state)
    size = state.shape[-1] + 1
    features = empty_columns(state, size * actions)
    features[..., 0] = 1.0
    features[..., 1:size] = state
    for code in range(1, actions):
        taken = xp.astype(action == code, state.dtype)
        taken = taken if centre is None else taken - centre[..., code - 1]
        features[..., code * size] = taken
        for j in range(1, size):
            features[..., code * size + j] = taken * features[..., j]
    return features


def policy_features(state: Array) -> Array:
    """z(s) = [s, 1] of every decision point: (…, p) gives (…, p + 1)."""
    features = empty_columns(state, state.shape[-1] + 1)
    features[..., :-1] = state
    features[..., -1] = 1.0
    return features


def effects(critic_coef: Array, actions: int) -> Array:
    """The advantage of each action over none as a linear function of z(s): (…, d) gives (…, actions − 1, p + 1)."""
    xp = array_namespace(critic_coef)
    size = critic_coef.shape[-1] // actions
    blocks = [critic_coef[..., size * code : size * (code + 1)] for code in range(1, actions)]
    # A critic's block is [1, s], the policy's [s, 1].
    return xp.stack([xp.concat([block[..., 1:], block[..., :1]], axis=-1) for block in blocks], axis=-2)


def critic_feature_names(state: Sequence[str], actions: Sequence[str]) -> list[tuple[str, str]]:
    """(action, feature) of every critic coefficient; effects that belong to no action go under the first."""
    return [(action, feature) for action in actions for feature in ("intercept", *state)]


def policy_feature_names(state: Sequence[str], actions: Sequence[str]) -> list[tuple[str, str]]:
    """(action, feature) of every policy coefficient."""
    return [(action, feature) for action in actions[1:] for feature in (*state, "intercept")]
