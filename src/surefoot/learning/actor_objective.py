"""The Boltzmann policy π_θ(a | s) ∝ exp(θ_aᵀ z(s)), θ_0 = 0, and the reward it is expected to gain.

Arrays: z (people, decision points, m) holds the policy's features of a state, [s, 1]; `stakes` (people, decision points,
k) what each of the
k non-reference actions is expected to gain over doing nothing, times the tuple's weight u / M; θ (people, k, m) one block
per such action. The paper writes exp(−θᵀφ); with our plus sign a positive coefficient means "more likely to send".
"""

from __future__ import annotations

from array_api_compat import device

from surefoot.numerics.action_probabilities import boltzmann
from surefoot.numerics.arrays import Array, array_namespace, gram, sum_last


def _subtract_penalty(shares: Array, theta: Array, penalty: Array) -> Array:
    xp = array_namespace(shares)
    return xp.sum(shares, axis=1) - 0.5 * xp.sum(penalty[:, None, :] * theta**2, axis=(1, 2))


def gain(theta: Array, logits: Array, stakes: Array, penalty: Array) -> Array:
    """Σ_i Σ_a π_θ(a | s_i) S_ia − ½ Σ_aj ζ_j θ_aj² per participant, with the logits θ_aᵀ z_i and `penalty` (people, m)."""
    return _subtract_penalty(sum_last(boltzmann(logits) * stakes), theta, penalty)


def gain_gradient_curvature(theta: Array, z: Array, stakes: Array, penalty: Array) -> tuple[Array, Array, Array]:
    """`gain` with its gradient (people, k·m) and Hessian (people, k·m, k·m).

    With f = Σ_a π_a S_a and η_a = θ_aᵀ z:  ∂f/∂η_a = π_a (S_a − f) =: d_a,  ∂²f/∂η_a∂η_b = δ_ab d_a − π_a d_b − π_b d_a.
    """
    people, k, m = theta.shape
    if k == 1:
        return _two_actions(theta, z, stakes[..., 0], penalty)
    xp = array_namespace(z)
    probability = boltzmann(z @ xp.matrix_transpose(theta))
    mean = sum_last(probability * stakes)
    slope = probability * (stakes - mean[..., None])
    pull = xp.matrix_transpose(slope) @ z - penalty[:, None, :] * theta
    curvature = xp.zeros((people, k * m, k * m), dtype=z.dtype, device=device(z))
    ridge = penalty[:, None, :] * xp.eye(m, dtype=z.dtype, device=device(z))
    for a in range(k):
        for b in range(a + 1):
            bend = -probability[..., a] * slope[..., b] - probability[..., b] * slope[..., a]
            block = gram(z, bend + slope[..., a]) - ridge if a == b else gram(z, bend)
            curvature[:, a * m : (a + 1) * m, b * m : (b + 1) * m] = block
            curvature[:, b * m : (b + 1) * m, a * m : (a + 1) * m] = block
    return _subtract_penalty(mean, theta, penalty), xp.reshape(pull, (people, k * m)), curvature


def _two_actions(theta: Array, z: Array, stakes: Array, penalty: Array) -> tuple[Array, Array, Array]:
    """`gain_gradient_curvature` for one action beside the reference, in a third of the passes over the data."""
    xp = array_namespace(z)
    probability = boltzmann(z @ xp.matrix_transpose(theta))[..., 0]
    shares = probability * stakes
    slope = shares * (1.0 - probability)
    pull = slope[:, None, :] @ z - penalty[:, None, :] * theta
    ridge = penalty[:, None, :] * xp.eye(z.shape[-1], dtype=z.dtype, device=device(z))
    curvature = gram(z, slope * (1.0 - 2.0 * probability)) - ridge
    return _subtract_penalty(shares, theta, penalty), pull[:, 0, :], curvature
