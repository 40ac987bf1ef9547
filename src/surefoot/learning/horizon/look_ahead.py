"""Looking ahead in closed form: the linear model of reward and next state, and one step of policy improvement.

With z = [1, s] (k = p + 1) and x(s, a) = [z, 1{a=1}·z, …] everybody's decision points give moments of x with the reward r
and with the next state s′. The coefficients C = [B₀; B₁; …] of [r, s′] on x, with p̄ₐ the logged share of action a (which
later decisions are assumed to follow), say what an action is worth in the long run:

    M = B₀ + Σ p̄ₐ Bₐ,   F = M[1:, 1:],   c = (I − F)⁻¹ M[1:, 0],   advantageₐ(s) = zᵀ (Bₐ[:, 0] + Bₐ[:, 1:] c)

c is the long-run worth of one unit of each state. This is one exact step of policy improvement on the logging policy.
Nuisance columns after those of x (nights, unavailability) have coefficients of their own, which do not enter c.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from surefoot.learning.moments import Moments
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace

MOST_RADIUS = 0.98
"""A fitted transition of larger spectral radius is shrunk to it: a state that carries over for ever has no long run."""
SQUARINGS = 10


@dataclass(frozen=True)
class TransitionMoments(PerParticipant):
    """Moments of the reward, and of the next state; decision points with a missing outcome still tell of the latter."""

    reward: Moments
    state: Moments

    def of(self, people: Array) -> TransitionMoments:
        return TransitionMoments(self.reward.of(people), self.state.of(people))

    def total(self) -> TransitionMoments:
        return TransitionMoments(self.reward.total(), self.state.total())

    def count_shares(self, actions: int) -> tuple[Array, Array]:
        """The logged share of every action, (units, actions), and the mean of every nuisance column."""
        xp = array_namespace(self.state.gram)
        first = self.state.gram[:, 0, :]
        k = self.state.cross.shape[-1] + 1
        count = xp.maximum(first[:, :1], xp.ones_like(first[:, :1]))
        sent = first[:, k : k * actions : k] / count
        return xp.concat([1 - xp.sum(sent, axis=1, keepdims=True), sent], axis=1), first[:, k * actions :] / count


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


def spectral_radius(matrix: Array) -> Array:
    """Of every matrix of a stack, by Gelfand's formula ‖F^n‖^(1/n) with n = 1024; a little too large, never too small."""
    xp = array_namespace(matrix)
    logarithm = xp.zeros_like(matrix[..., 0, 0])
    power = matrix
    for step in range(SQUARINGS + 1):
        size = xp.sqrt(xp.sum(xp.sum(power**2, axis=-1), axis=-1))
        safe = xp.where(size > 0, size, 1.0)
        logarithm = logarithm + xp.where(size > 0, xp.log(safe), -xp.inf) / 2**step
        power = power / safe[..., None, None]
        power = power @ power
    return xp.exp(logarithm)


def look_ahead(moments: TransitionMoments, penalty: Array, actions: int) -> LookAhead:
    """Fit the model to each unit's moments and improve on its logging policy; `penalty` is ζ, (d,)."""
    xp = array_namespace(moments.state.gram)
    coef = xp.concat([moments.reward.solve(penalty)[0], moments.state.solve(penalty)[0]], axis=-1)
    return improve_policy(coef, *moments.count_shares(actions))


def improve_policy(coef: Array, share: Array, nuisance: Array) -> LookAhead:
    """What follows from the coefficients C (units, d, 1 + p) when later decisions take the actions in these shares."""
    xp = array_namespace(coef)
    k = coef.shape[-1]
    actions = share.shape[1]
    blocks = [coef[:, k * a : k * (a + 1), :] for a in range(actions)]
    mean = blocks[0]
    for a in range(1, actions):
        mean = mean + share[:, a, None, None] * blocks[a]
    carried, radius, worth = long_run_worth(mean)
    advantage = xp.stack([block[:, :, 0] + (block[:, :, 1:] @ worth[..., None])[..., 0] for block in blocks[1:]], axis=1)
    through = xp.linalg.solve(carried, _slopes(coef, share))
    eye = xp.eye(coef.shape[1], dtype=coef.dtype, device=device(coef))
    jacobian = [eye[k * a : k * (a + 1), :] + blocks[a][:, :, 1:] @ through for a in range(1, actions)]
    return LookAhead(coef, share, nuisance, radius, worth, advantage, xp.concat(jacobian, axis=1))


def _slopes(coef: Array, share: Array) -> Array:
    """[E, p̄₁E, …, 0], (units, p, d), E selecting the slopes of a block: δc = (I − F)⁻¹ Σ p̄ₐ E δBₐ (1; c)."""
    xp = array_namespace(coef)
    units, d, k = coef.shape
    slopes = xp.zeros((units, k - 1, d), dtype=coef.dtype, device=device(coef))
    for a in range(share.shape[1]):
        for j in range(k - 1):
            slopes[:, j, k * a + 1 + j] = share[:, a] if a else 1.0
    return slopes


def long_run_worth(mean: Array) -> tuple[Array, Array, Array]:
    """For M (units, k, k): I − F with F shrunk where it must be, the radius of F, and c = (I − F)⁻¹ M[1:, 0]."""
    xp = array_namespace(mean)
    transition = mean[:, 1:, 1:]
    radius = spectral_radius(transition)
    shrinkage = MOST_RADIUS / xp.maximum(radius, xp.full_like(radius, MOST_RADIUS))
    carried = xp.eye(transition.shape[-1], dtype=mean.dtype, device=device(mean)) - shrinkage[:, None, None] * transition
    return carried, radius, xp.linalg.solve(carried, mean[:, 1:, :1])[..., 0]
