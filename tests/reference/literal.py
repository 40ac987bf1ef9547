"""The method one participant at a time, as its description reads."""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize


def ridge(x, r, penalty):
    """Least squares on the rows and one row √ζ per coefficient: no Gram matrix, so no squared condition number."""
    features = x.shape[1]
    rows = np.vstack([x, np.sqrt(penalty) * np.eye(features)])
    return np.linalg.lstsq(rows, np.concatenate([r, np.zeros(features)]), rcond=None)[0]


def capped_critic(x, r, penalty, tau=1.0):
    """Steps 1 to 3 of the capped-ℓ2 critic: coefficients, kept decision points, threshold, number of fits."""
    w = ridge(x, r, penalty)
    squared = (r - x @ w) ** 2
    q1, q3 = np.quantile(squared, [0.25, 0.75])
    epsilon = tau * (q3 + 1.5 * (q3 - q1))
    kept = squared < epsilon
    for fits in range(2, 10_000):
        w = ridge(x[kept], r[kept], penalty)
        now = (r - x @ w) ** 2 < epsilon
        if (now == kept).all():
            return w, kept, epsilon, fits
        kept = now
    raise AssertionError("the literal critic did not end")


def critic_features(s, a, actions=2):
    """x(s, a) = [1, s, a block (1, s) per action above 0]."""
    base = np.concatenate([[1.0], s])
    return np.concatenate([base, *[base if a == code else 0 * base for code in range(1, actions)]])


def policy_features(s, a, actions=2):
    """φ(s, a): a block (s, 1) per action above 0, zero but for the action taken."""
    base = np.concatenate([s, [1.0]])
    return np.concatenate([base if a == code else 0 * base for code in range(1, actions)])


def probabilities(theta, s, actions=2):
    """π_θ(a | s) ∝ exp(θᵀφ(s, a))."""
    logits = np.array([theta @ policy_features(s, a, actions) for a in range(actions)])
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


def actor_objective_by_tuple(theta, states, kept, w, penalty, actions=2):
    """The actor's objective written as a loop over decision points."""
    total = 0.0
    for s, u in zip(states, kept, strict=True):
        pi = probabilities(theta, s, actions)
        total += u * sum(pi[a] * (critic_features(s, a, actions) @ w) for a in range(actions))
    return total / len(states) - penalty / 2 * theta @ theta


def actor_objective(theta, z, expected, kept, penalty):
    """The same with the decision points in arrays: z (decision points, p + 1), expected outcomes (decision points,
    actions)."""
    logits = np.column_stack([np.zeros(len(z)), z @ theta.reshape(expected.shape[1] - 1, -1).T])
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    value = (raised * expected).sum(axis=1) / raised.sum(axis=1)
    return (kept * value).mean() - penalty / 2 * theta @ theta


def slsqp_actor(z, expected, kept, penalty, radius=None) -> OptimizeResult:
    """The paper's way: sequential quadratic programming with finite differences, from zero.

    The objective is divided by the spread of the expected outcomes, or SLSQP's absolute tolerances would decide.
    """
    scale = np.abs(expected - expected[:, :1]).max() or 1.0
    constraints = []
    if radius is not None:
        metric = (z * kept[:, None]).T @ z / kept.sum()

        def slack(theta):
            blocks = theta.reshape(expected.shape[1] - 1, -1)
            return radius - np.einsum("ki,ij,kj", blocks, metric, blocks)

        constraints = [{"type": "ineq", "fun": slack}]
    found = minimize(
        lambda theta: -actor_objective(theta, z, expected, kept, penalty) / scale,
        np.zeros((expected.shape[1] - 1) * z.shape[1]),
        method="SLSQP",
        constraints=constraints,
        options={"maxiter": 500, "ftol": 1e-10},
    )
    found.fun = -found.fun * scale
    return found
