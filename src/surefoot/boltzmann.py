"""The Boltzmann policy π_θ(a | s) ∝ exp(θ_aᵀ z(s)), θ_0 = 0, and the reward it is expected to gain.

Arrays: z (people, tuples, m) holds the policy's features of a state, [s, 1]; `advantage` (people, tuples, k) the expected
gain of each of the k non-reference actions over doing nothing; θ (people, k, m) one block per such action. The paper writes
exp(−θᵀφ); with our plus sign a positive coefficient means "more likely to send".
"""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device

from surefoot.cholesky import Array
from surefoot.critics import gram


def boltzmann(logits: Array) -> Array:
    """Probabilities of the non-reference actions from their logits (…, k); the reference has logit zero.

    >>> import numpy as np
    >>> boltzmann(np.array([0.0]))
    array([0.5])
    """
    xp = array_namespace(logits)
    if logits.shape[-1] == 1:
        # An exponential that overflows gives a probability of zero, as it should.
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + xp.exp(-logits))
    top = xp.maximum(xp.max(logits, axis=-1, keepdims=True), xp.zeros_like(logits[..., :1]))
    raised = xp.exp(logits - top)
    return raised / (xp.exp(-top) + xp.sum(raised, axis=-1, keepdims=True))


def _two_actions(theta: Array, z: Array, advantage: Array, weights: Array, penalty: Array) -> tuple[Array, Array, Array]:
    """`gain_gradient_curvature` for one action beside the reference, in a third of the passes over the data."""
    xp = array_namespace(z)
    probability = boltzmann(z @ xp.matrix_transpose(theta))[..., 0]
    mean = probability * advantage[..., 0]
    slope = weights * mean * (1.0 - probability)
    pull = slope[:, None, :] @ z - penalty[:, None, :] * theta
    bend = slope * (1.0 - 2.0 * probability)
    ridge = penalty[:, None, :] * xp.eye(z.shape[-1], dtype=z.dtype, device=device(z))
    return _penalised(mean, theta, weights, penalty), pull[:, 0, :], gram(z, bend) - ridge


def _penalised(mean: Array, theta: Array, weights: Array, penalty: Array) -> Array:
    xp = array_namespace(mean)
    return xp.sum(weights * mean, axis=-1) - 0.5 * xp.sum(penalty[:, None, :] * theta**2, axis=(1, 2))


def gain(theta: Array, z: Array, advantage: Array, weights: Array, penalty: Array) -> Array:
    """Σ_i v_i Σ_a π_θ(a | s_i) A_ia − ½ Σ_aj ζ_j θ_aj² per person; `weights` are v = u / M, `penalty` is (people, m)."""
    xp = array_namespace(z)
    probability = boltzmann(xp.matmul(z, xp.matrix_transpose(theta)))
    return _penalised(xp.sum(probability * advantage, axis=-1), theta, weights, penalty)


def gain_gradient_curvature(
    theta: Array, z: Array, advantage: Array, weights: Array, penalty: Array
) -> tuple[Array, Array, Array]:
    """`gain` with its gradient (people, k·m) and Hessian (people, k·m, k·m).

    With f = Σ_a π_a A_a and η_a = θ_aᵀ z:  ∂f/∂η_a = π_a (A_a − f) =: d_a,  ∂²f/∂η_a∂η_b = δ_ab d_a − π_a d_b − π_b d_a.
    """
    people, k, m = theta.shape
    if k == 1:
        return _two_actions(theta, z, advantage, weights, penalty)
    xp = array_namespace(z)
    probability = boltzmann(xp.matmul(z, xp.matrix_transpose(theta)))
    mean = xp.sum(probability * advantage, axis=-1)
    slope = probability * (advantage - mean[..., None])
    pull = xp.matmul(xp.matrix_transpose(slope * weights[..., None]), z) - penalty[:, None, :] * theta
    curvature = xp.zeros((people, k * m, k * m), dtype=z.dtype, device=device(z))
    ridge = penalty[:, None, :] * xp.eye(m, dtype=z.dtype, device=device(z))
    for a in range(k):
        for b in range(a + 1):
            bend = -probability[..., a] * slope[..., b] - probability[..., b] * slope[..., a]
            block = gram(z, weights * (bend + slope[..., a])) - ridge if a == b else gram(z, weights * bend)
            curvature[:, a * m : (a + 1) * m, b * m : (b + 1) * m] = block
            curvature[:, b * m : (b + 1) * m, a * m : (a + 1) * m] = block
    return _penalised(mean, theta, weights, penalty), xp.reshape(pull, (people, k * m)), curvature
