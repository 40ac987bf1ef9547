"""Looking ahead in closed form: the linear model of reward and next state, and one step of policy improvement.

With z = [1, s] (k = p + 1) and x(s, a) = [z, 1{a=1}·z, …] every participant's transitions give moments of x and of
Y = [r, s′]. The coefficients C = [B₀; B₁; …] of Y on x, with p̄ₐ the logged share of action a (which later decisions are
assumed to follow), say what an action is worth in the long run:

    M = B₀ + Σ p̄ₐ Bₐ,   F = M[1:, 1:],   c = (I − F)⁻¹ M[1:, 0],   advantageₐ(s) = zᵀ (Bₐ[:, 0] + Bₐ[:, 1:] c)

c is the long-run worth of one unit of each state. This is one exact step of policy improvement on the logging policy.
Nuisance columns after those of x (nights, unavailability) have coefficients of their own, which do not enter c.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, gram
from surefoot.numerics.batched_cholesky import solve

MOST_RADIUS = 0.98
"""A fitted transition of larger spectral radius is shrunk to it: a state that carries over for ever has no long run."""
SQUARINGS = 10


@dataclass(frozen=True)
class Moments(PerParticipant):
    """What a linear model needs to know of each participant's (or unit's) transitions."""

    gram: Array
    """XᵀUX, (people, d, d). Its first row counts: [0, 0] the transitions, [0, a·k] those after action a."""
    cross: Array
    """XᵀUY, (people, d, 1 + p)."""
    squares: Array
    """YᵀUY, (people, 1 + p, 1 + p)."""

    @classmethod
    def of_rows(cls, features: Array, responses: Array, weights: Array) -> Moments:
        """From x (people, decision points, d), Y (…, 1 + p) and a weight for each decision point."""
        xp = array_namespace(features)
        weighted = xp.matrix_transpose(responses * weights[..., None])
        return cls(gram(features, weights), xp.matrix_transpose(weighted @ features), weighted @ responses)

    def total(self) -> Moments:
        """Everybody's together, as one unit."""
        xp = array_namespace(self.gram)
        return Moments(*(xp.sum(part, axis=0, keepdims=True) for part in vars(self).values()))


@dataclass(frozen=True)
class LookAhead(PerParticipant):
    """The fitted model of each unit and what follows from it."""

    coef: Array
    """C, (units, d, 1 + p): the reward's coefficients, then those of every next state variable."""
    share: Array
    """p̄, (units, actions): the logged share of every action."""
    nuisance: Array
    """The mean of every nuisance column, (units, d − actions · k)."""
    radius: Array
    """Spectral radius of F before it is shrunk, (units,)."""
    worth: Array
    """c, (units, p)."""
    advantage: Array
    """(units, actions − 1, k) on [1, s]: of every action over action 0."""
    jacobian: Array
    """(units, (actions − 1) · k, d): how the advantages move with the coefficients of y = r + cᵀs′ on x."""
    inverse: Array
    """(XᵀUX + ζ)⁻¹, (units, d, d)."""


def spectral_radius(matrix: Array) -> Array:
    """Of every matrix of a stack, by Gelfand's formula ‖F^n‖^(1/n) with n = 1024; a little too large, never too small."""
    xp = array_namespace(matrix)
    logarithm, power = xp.zeros_like(matrix[..., 0, 0]), matrix
    for step in range(SQUARINGS + 1):
        size = xp.sqrt(xp.sum(xp.sum(power**2, axis=-1), axis=-1))
        safe = xp.where(size > 0, size, 1.0)
        logarithm = logarithm + xp.where(size > 0, xp.log(safe), -xp.inf) / 2**step
        power = power / safe[..., None, None]
        power = power @ power
    return xp.exp(logarithm)


def look_ahead(moments: Moments, penalty: Array, actions: int) -> LookAhead:
    """Fit the model to each unit's moments and improve on its logging policy; `penalty` is ζ, (d,)."""
    xp = array_namespace(moments.gram)
    d, states = moments.gram.shape[-1], moments.cross.shape[-1] - 1
    k = states + 1
    eye = xp.eye(d, dtype=moments.gram.dtype, device=device(moments.gram))
    system = moments.gram + penalty * eye
    coef = solve(system, moments.cross)[0]
    inverse = solve(system, xp.broadcast_to(eye, system.shape))[0]
    count = xp.maximum(moments.gram[:, 0, :1], xp.ones_like(moments.gram[:, 0, :1]))
    sent = moments.gram[:, 0, k : k * actions : k] / count
    share = xp.concat([1 - xp.sum(sent, axis=1, keepdims=True), sent], axis=1)
    nuisance = moments.gram[:, 0, k * actions :] / count
    blocks = [coef[:, k * a : k * (a + 1), :] for a in range(actions)]
    mean = blocks[0]
    for a in range(1, actions):
        mean = mean + share[:, a, None, None] * blocks[a]
    carried, radius, worth = long_run_worth(mean)
    advantage = xp.stack([block[:, :, 0] + (block[:, :, 1:] @ worth[..., None])[..., 0] for block in blocks[1:]], axis=1)
    # δc = (I − F)⁻¹ Σ p̄ₐ δBₐ[1:] (1; c), p̄₀ counted as 1: the slopes of each block.
    slopes = xp.zeros((coef.shape[0], states, d), dtype=coef.dtype, device=device(coef))
    for a in range(actions):
        for j in range(states):
            slopes[:, j, k * a + 1 + j] = share[:, a] if a else 1.0
    through = xp.linalg.solve(carried, slopes)
    jacobian = [eye[k * a : k * (a + 1), :] + block[:, :, 1:] @ through for a, block in enumerate(blocks) if a]
    return LookAhead(coef, share, nuisance, radius, worth, advantage, xp.concat(jacobian, axis=1), inverse)


def long_run_worth(mean: Array) -> tuple[Array, Array, Array]:
    """For M (units, k, k): I − F with F shrunk where it must be, the radius of F, and c = (I − F)⁻¹ M[1:, 0]."""
    xp = array_namespace(mean)
    transition = mean[:, 1:, 1:]
    radius = spectral_radius(transition)
    shrunk = (
        transition
        * xp.minimum(MOST_RADIUS / xp.maximum(radius, xp.full_like(radius, 1e-300)), xp.ones_like(radius))[:, None, None]
    )
    carried = xp.eye(shrunk.shape[-1], dtype=shrunk.dtype, device=device(shrunk)) - shrunk
    return carried, radius, xp.linalg.solve(carried, mean[:, 1:, :1])[..., 0]
