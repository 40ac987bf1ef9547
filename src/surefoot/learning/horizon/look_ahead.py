"""Looking ahead in closed form: the linear model of reward and next state, one step of policy improvement, and its errors.

With z = [1, s] (k = p + 1) and x(s, a) = [z, 1{a=1}·z, …] everybody's decision points give moments of x with the reward r
and with the next state s′. The coefficients C = [B₀; B₁; …] of [r, s′] on x, with p̄ₐ the logged share of action a (which
later decisions are assumed to follow), say what an action is worth in the long run:

    M = B₀ + Σ p̄ₐ Bₐ,   F = M[1:, 1:],   c = (I − F)⁻¹ M[1:, 0],   advantageₐ(s) = zᵀ (Bₐ[:, 0] + Bₐ[:, 1:] c)

c is the long-run worth of one unit of each state. This is one exact step of policy improvement on the logging policy.
Nuisance columns after those of x (nights, unavailability) have coefficients of their own, which do not enter c.

Its uncertainty is the covariance of linear functions of C. Pooled over people it is the sandwich: a participant's influence
on C is A⁻¹ (XᵢᵀUYᵢ − XᵢᵀUXᵢ C), A = XᵀUX + ζ. For one participant's own fit, whose decision points are all there is, it is
Σₑ ⊗ A⁻¹ with Σₑ the residual covariance, for the reward and for the next state. Partially pooled coefficients come with a
posterior covariance for every output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.learning.critics import CriticFit
from surefoot.learning.pooling.mixed_effects import Moments
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.features import effects

MOST_RADIUS = 0.98
"""A fitted transition of larger spectral radius is shrunk to it: a state that carries over for ever has no long run."""
SQUARINGS = 10
ENOUGH_PEOPLE = 20
"""With fewer people the spread between them is no estimate, and their decision points are taken to be independent."""
BETTER = 2.0
"""A simple policy replaces "nothing" as the reference when it beats it by this many standard errors."""
SURE = 0.05
"""A state reacts to an action when chance would show as much in fewer than this share of studies, for all tests together."""
FELT = 0.05
"""An action is felt until less than this share of all that it changes later is still to come."""
LAGS = 400


@dataclass(frozen=True)
class TransitionMoments(PerParticipant):
    """Moments of the reward, and of the next state; decision points with a missing outcome still count for the latter."""

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
    # δc = (I − F)⁻¹ Σ p̄ₐ E δBₐ (1; c), E selecting the slopes of a block.
    slopes = xp.zeros((coef.shape[0], k - 1, coef.shape[1]), dtype=coef.dtype, device=device(coef))
    for a in range(actions):
        for j in range(k - 1):
            slopes[:, j, k * a + 1 + j] = share[:, a] if a else 1.0
    through = xp.linalg.solve(carried, slopes)
    eye = xp.eye(coef.shape[1], dtype=coef.dtype, device=device(coef))
    jacobian = [eye[k * a : k * (a + 1), :] + blocks[a][:, :, 1:] @ through for a in range(1, actions)]
    return LookAhead(coef, share, nuisance, radius, worth, advantage, xp.concat(jacobian, axis=1))


def long_run_worth(mean: Array) -> tuple[Array, Array, Array]:
    """For M (units, k, k): I − F with F shrunk where it must be, the radius of F, and c = (I − F)⁻¹ M[1:, 0]."""
    xp = array_namespace(mean)
    transition = mean[:, 1:, 1:]
    radius = spectral_radius(transition)
    shrinkage = MOST_RADIUS / xp.maximum(radius, xp.full_like(radius, MOST_RADIUS))
    carried = xp.eye(transition.shape[-1], dtype=mean.dtype, device=device(mean)) - shrinkage[:, None, None] * transition
    return carried, radius, xp.linalg.solve(carried, mean[:, 1:, :1])[..., 0]


# What is not known


class Uncertainty(Protocol):
    """What is not known about the coefficients."""

    between_people: bool
    """Whether people were the units."""

    def covariance(self, functionals: Array) -> Array:
        """Of Σ W ∘ C for weights W (units, m, d, 1 + p): (units, m, m)."""


class BetweenPeople:
    """The sandwich over people, for one pooled unit."""

    between_people = True

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        xp = array_namespace(model.coef)
        people = moments.reward.gram.shape[0]
        influences = []
        for part, coef in ((moments.reward, model.coef[..., :1]), (moments.state, model.coef[..., 1:])):
            inverse = part.total().solve(penalty)[1]
            score = part.cross - part.gram @ coef - penalty[:, None] * coef / people
            influences.append(inverse @ score)
        self._influence = xp.concat(influences, axis=-1)
        self._correction = people / (people - 1)

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        flat = xp.reshape(functionals, (*functionals.shape[:2], -1))
        moved = xp.reshape(self._influence, (self._influence.shape[0], -1)) @ xp.matrix_transpose(flat)
        return self._correction * (xp.matrix_transpose(moved) @ moved)


class WithinUnits:
    """Σₑ ⊗ A⁻¹ for each unit."""

    between_people = False

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        self._reward = moments.reward.solve(penalty)[1], _residual_covariance(moments.reward, model.coef[..., :1])
        self._state = moments.state.solve(penalty)[1], _residual_covariance(moments.state, model.coef[..., 1:])

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        shape = (*functionals.shape[:2], -1)
        total = 0.0
        for weights, (inverse, residual) in ((functionals[..., :1], self._reward), (functionals[..., 1:], self._state)):
            spread = inverse[:, None, :, :] @ weights @ residual[:, None, :, :]
            total = total + xp.reshape(weights, shape) @ xp.matrix_transpose(xp.reshape(spread, shape))
        return total


class OfPosteriors:
    """Σ over outputs of W V Wᵀ, V (units, outputs, d, d) the covariance of an output's coefficients, fitted apart."""

    def __init__(self, covariance: Array, *, between_people: bool) -> None:
        self._covariance = covariance
        self.between_people = between_people

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        total = 0.0
        for output in range(functionals.shape[-1]):
            weights = functionals[..., output]
            total = total + weights @ self._covariance[:, output, ...] @ xp.matrix_transpose(weights)
        return total


def _residual_covariance(moments: Moments, coef: Array) -> Array:
    xp = array_namespace(coef)
    across = xp.matrix_transpose(coef)
    explained = across @ moments.cross
    squares = moments.squares - explained - xp.matrix_transpose(explained) + across @ moments.gram @ coef
    free = moments.count - moments.gram.shape[-1]
    return squares / xp.maximum(free, xp.ones_like(free))[:, None, None]


def estimate_uncertainty(model: LookAhead, moments: TransitionMoments, penalty: Array) -> Uncertainty:
    """For the model that was fitted to these people's moments, one by one or all together."""
    people = moments.reward.gram.shape[0]
    if people == model.coef.shape[0]:
        return WithinUnits(model, moments, penalty)
    if people < ENOUGH_PEOPLE:
        return WithinUnits(model, moments.total(), penalty)
    return BetweenPeople(model, moments, penalty)


# What decision rules act on


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
    """0, or the action that earns most when always taken, if it is significantly better than never acting, (units,).

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


# What a report shows


class ChangeEstimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Reaction:
    """The reaction of a state variable to an action."""

    variable: int
    action: int
    shift: ChangeEstimate
    """The change of the variable at the next decision point, at the mean state."""
    p_value: float


@dataclass(frozen=True, eq=False)
class Consequence:
    """The change by one action compared with doing nothing, in units of the reward."""

    action: int
    immediate: ChangeEstimate
    """In the outcome that follows."""
    delayed: ChangeEstimate
    """In all outcomes after that."""
    total: ChangeEstimate
    through: NDArray[np.float64]
    """The delayed change by way of each state variable."""
    lags: NDArray[np.float64]
    """The change in the outcome 0, 1, 2, … decision points later."""

    @property
    def felt(self) -> int:
        """The decision points after which all but a twentieth of what is delayed has come."""
        later = np.abs(self.lags[1:])
        left = later[::-1].cumsum()[::-1]
        return int((left > FELT * later.sum()).sum()) if later.sum() > 0 else 0


@dataclass(frozen=True, eq=False)
class PooledView:
    """One model of everybody, however policies are shared, and its numbers at the mean state."""

    model: LookAhead
    uncertainty: Uncertainty
    mean_state: NDArray[np.float64]
    """[1, s̄] over the transitions."""
    people: int

    @property
    def reactions(self) -> list[Reaction]:
        """The reaction of every state variable to every action, with Wald's test of all coefficients."""
        from scipy.special import chdtrc, fdtrc

        coef = self.model.coef[0]
        z = self.mean_state
        k = coef.shape[1]
        tests = [(variable, action) for action in range(1, self.model.share.shape[1]) for variable in range(k - 1)]
        # Each test is about the coefficients of one variable's block, which unit functionals select.
        functionals = np.zeros((len(tests), 1, k, *coef.shape))
        for test, (variable, action) in enumerate(tests):
            functionals[test, 0, range(k), range(k * action, k * (action + 1)), 1 + variable] = 1.0
        covariance = np.stack([np.asarray(self.uncertainty.covariance(functional)[0]) for functional in functionals])
        effect = np.stack([coef[k * action : k * (action + 1), 1 + variable] for variable, action in tests])
        wald = np.einsum("ti,tij,tj->t", effect, np.linalg.pinv(covariance, hermitian=True), effect)
        degrees = self.people - k if self.uncertainty.between_people else 0
        p_values = fdtrc(k, degrees, wald / k) if degrees > 0 else chdtrc(k, wald)
        shifts = effect @ z
        errors = np.sqrt(np.abs(np.einsum("i,tij,j->t", z, covariance, z)))
        estimates = [ChangeEstimate(float(shift), float(error)) for shift, error in zip(shifts, errors, strict=True)]
        return [
            Reaction(variable=variable, action=action, shift=shift, p_value=p_value)
            for (variable, action), shift, p_value in zip(tests, estimates, p_values.tolist(), strict=True)
        ]

    @property
    def some_state_reacts(self) -> bool:
        reactions = self.reactions
        return any(reaction.p_value < SURE / len(reactions) for reaction in reactions)

    def consequence(self, action: int) -> Consequence:
        """The consequence of one action at the mean state, with later decisions as they were logged."""
        model = self.model
        z = self.mean_state
        coef = model.coef[0]
        k = len(z)
        rows = slice(k * action, k * (action + 1))
        immediate = np.zeros_like(coef)
        immediate[rows, 0] = z
        moved = z @ model.jacobian[0, k * (action - 1) : k * action]
        total = moved[:, None] * np.append(1.0, model.worth[0])
        # The advantage itself is not Σ W ∘ C, whose W moves with C; only its error is.
        functionals = np.stack([immediate, total - immediate, total])
        errors = np.sqrt(np.abs(np.diagonal(self.uncertainty.covariance(functionals[None])[0])))
        now = float(z @ coef[rows, 0])
        pushed = z @ coef[rows, 1:]
        through = pushed * model.worth[0]
        values = (now, float(through.sum()), now + float(through.sum()))
        immediately, later, in_all = (
            ChangeEstimate(value, float(error)) for value, error in zip(values, errors, strict=True)
        )
        share = model.share[0]
        mean = sum((share[a] if a else 1.0) * coef[k * a : k * (a + 1)] for a in range(len(share)))
        carried = np.eye(k - 1) - np.asarray(long_run_worth(np.asarray(mean)[None])[0][0])
        lags = [now]
        for _ in range(LAGS):
            lags.append(float(pushed @ mean[1:, 0]))
            pushed = pushed @ carried
        return Consequence(action, immediately, later, in_all, through, np.array(lags))
