"""The advantage of every action over doing nothing, with its covariance: what decision rules act on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from array_api_compat import device

from surefoot.learning.critics import CriticFit
from surefoot.learning.horizon.look_ahead import LookAhead, long_run_worth
from surefoot.learning.horizon.uncertainty import Uncertainty
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.features import effects

BETTER = 2.0
"""A simple policy replaces "nothing" as the reference when it beats it by so many standard errors."""


@dataclass(frozen=True)
class Advantage(PerParticipant):
    """The advantage of every action over action 0, as a linear function of z(s) = [s, 1]."""

    mean: Array
    """(units, actions − 1, k)."""
    covariance: Array
    """The joint covariance of all advantages, (units, (actions − 1) · k, (actions − 1) · k)."""
    reference: Array
    """The action to take where no other is surely better, (units,)."""
    count: Array
    """Decision points that it was learned from, (units,)."""

    def over_nothing(self) -> tuple[Array, Array]:
        """m (units, actions, k) and its covariances (units, actions, k, k), of every action over action 0."""
        return replace(self, reference=0 * self.reference).over_reference()

    def over_reference(self) -> tuple[Array, Array]:
        """m (units, actions, k) and its covariances (units, actions, k, k), of every action over the reference."""
        xp = array_namespace(self.mean)
        units, others, k = self.mean.shape
        nothing = xp.zeros((units, 1, k), dtype=self.mean.dtype, device=device(self.mean))
        mean = xp.concat([nothing, self.mean], axis=1)
        blocks = xp.zeros((units, others + 1, others + 1, k, k), dtype=self.mean.dtype, device=device(self.mean))
        for a in range(others):
            for b in range(others):
                blocks[:, a + 1, b + 1, ...] = self.covariance[:, a * k : (a + 1) * k, b * k : (b + 1) * k]
        means = xp.zeros_like(mean)
        spreads = xp.zeros_like(blocks[:, 0, ...])
        for r in range(others + 1):
            chosen = self.reference == r
            diagonal = xp.stack([blocks[:, a, a, ...] for a in range(others + 1)], axis=1)
            spread = diagonal + blocks[:, r, r, ...][:, None, ...] - blocks[:, :, r, ...] - blocks[:, r, ...]
            means = xp.where(chosen[:, None, None], mean - mean[:, r, None, :], means)
            spreads = xp.where(chosen[:, None, None, None], spread, spreads)
        return means, spreads


def immediate_advantage(fit: CriticFit, system: Array, scale: Array, actions: int, sees: Array) -> Advantage:
    """The advantages in the next outcome alone: the critic's effects with covariance scale² system⁻¹.

    `system` is XᵀUX + ζ, (units, d, d). `sees` is 1.0 for the state variables that the critic sees: the others have no
    effect, and that is certain.
    """
    xp = array_namespace(fit.coef)
    d = fit.coef.shape[1]
    eye = xp.eye(d, dtype=fit.coef.dtype, device=device(fit.coef))
    covariance = (scale**2)[:, None, None] * solve(system, xp.broadcast_to(eye, system.shape)).solution
    seen = xp.concat([xp.concat([sees, xp.ones_like(sees[:1])])] * (actions - 1))
    covariance = _to_policy_order(covariance, d // actions, range(1, actions)) * seen[:, None] * seen
    count = xp.sum(fit.weights, axis=1)
    return Advantage(effects(fit.coef, actions), covariance, xp.astype(0 * count, xp.int64), count)


def posterior_advantage(coef: Array, covariance: Array, actions: int, count: Array) -> Advantage:
    """The advantages in the next outcome of coefficients (units, d) that are known up to a covariance (units, d, d)."""
    xp = array_namespace(coef)
    spread = _to_policy_order(covariance, coef.shape[1] // actions, range(1, actions))
    return Advantage(effects(coef, actions), spread, xp.astype(0 * count, xp.int64), count)


def _to_policy_order(covariance: Array, k: int, blocks: range) -> Array:
    """Rows and columns of some blocks, each from the critic's [1, s] to the policy's [s, 1]."""
    xp = array_namespace(covariance)
    order = xp.asarray([a * k + j for a in blocks for j in (*range(1, k), 0)], device=device(covariance))
    return xp.take(xp.take(covariance, order, axis=1), order, axis=2)


def long_run_advantage(model: LookAhead, uncertainty: Uncertainty, count: Array) -> Advantage:
    """The advantages that follow from a look-ahead."""
    xp = array_namespace(model.coef)
    outputs = xp.concat([xp.ones_like(model.worth[:, :1]), model.worth], axis=1)
    covariance = uncertainty.covariance(model.jacobian[..., None] * outputs[:, None, None, :])
    _, others, k = model.advantage.shape
    mean = xp.concat([model.advantage[..., 1:], model.advantage[..., :1]], axis=-1)
    return Advantage(mean, _to_policy_order(covariance, k, range(others)), best_constant_action(model, uncertainty), count)


def best_constant_action(model: LookAhead, uncertainty: Uncertainty) -> Array:
    """0, or the action whose use at every decision point earns most of those that surely beat never acting, (units,).

    One participant's own decision points are too few for that: of 50 people with 210 each, one or two would seem to be
    better off when always prompted, and lose most by it.
    """
    xp = array_namespace(model.coef)
    if not uncertainty.between_people:
        return xp.zeros(model.coef.shape[0], dtype=xp.int64, device=device(model.coef))
    nothing, how_nothing = constant_value(model, 0)
    best = xp.zeros_like(nothing)
    reference = xp.zeros(best.shape, dtype=xp.int64, device=device(best))
    for action in range(1, model.share.shape[1]):
        value, how = constant_value(model, action)
        error = xp.sqrt(xp.abs(uncertainty.covariance((how - how_nothing)[:, None, :, :])[:, 0, 0]))
        better = (value - nothing > BETTER * error) & (value - nothing > best)
        best = xp.where(better, value - nothing, best)
        reference = xp.where(better, action, reference)
    return reference


def constant_value(model: LookAhead, action: int) -> tuple[Array, Array]:
    """The long-run average reward of one action always, η (units,), and how it moves with C, (units, d, 1 + p).

    s̄ = (I − Fᵀ)⁻¹ b is where the states settle; a unit of change in the coefficients of Y at z̄ = [1, s̄] changes the
    average by the worth of that reward or state.
    """
    xp = array_namespace(model.coef)
    k = model.worth.shape[1] + 1
    d = model.coef.shape[1]
    nuisance = k * model.share.shape[1]
    block = model.coef[:, :k, :]
    if action:
        block = block + model.coef[:, k * action : k * (action + 1), :]
    carried, _, worth = long_run_worth(block)
    constant = block[:, 0, :] + (model.nuisance[:, None, :] @ model.coef[:, nuisance:, :])[:, 0, :]
    settled = xp.linalg.solve(xp.matrix_transpose(carried), constant[:, 1:, None])[..., 0]
    value = constant[:, 0] + xp.sum(settled * block[:, 1:, 0], axis=1)
    mean_features = xp.zeros((value.shape[0], d), dtype=value.dtype, device=device(value))
    mean_features[:, 0] = 1.0
    mean_features[:, 1:k] = settled
    mean_features[:, nuisance:] = model.nuisance
    if action:
        mean_features[:, k * action : k * (action + 1)] = mean_features[:, :k]
    outputs = xp.concat([xp.ones_like(worth[:, :1]), worth], axis=1)
    return value, mean_features[..., None] * outputs[:, None, :]
