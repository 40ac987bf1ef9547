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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.learning.pooling.mixed_effects import Moments
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
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


class TransitionMoments(NamedTuple):
    """Moments of the reward, and of the next state; decision points with a missing outcome still count for the latter."""

    reward: Moments
    state: Moments

    def total(self) -> "TransitionMoments":
        return TransitionMoments(self.reward.total(), self.state.total())

    def count_shares(self, actions: int) -> tuple[Array, Array]:
        """The logged share of every action, (units, actions), and the mean of every nuisance column."""
        first = self.state.gram[:, 0, :]
        k = self.state.cross.shape[-1] + 1
        means = first / np.maximum(first[:, :1], 1.0)
        sent = means[:, k : k * actions : k]
        return np.concatenate([1 - sent.sum(axis=1, keepdims=True), sent], axis=1), means[:, k * actions :]


@dataclass(frozen=True, eq=False)
class LookAhead:
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

    @property
    def outputs(self) -> Array:
        """[1, c], (units, 1 + p): what a unit of the reward and of every state variable is worth."""
        return np.insert(self.worth, 0, 1.0, axis=1)


def spectral_radius(matrix: Array) -> Array:
    """Of every matrix of a stack, by Gelfand's formula ‖F^n‖^(1/n) with n = 1024; a little too large, never too small."""
    logarithm = np.zeros(matrix.shape[:-2])
    power = matrix
    for step in range(SQUARINGS + 1):
        size = np.sqrt(np.sum(power**2, axis=(-2, -1)))
        safe = np.where(size > 0, size, 1.0)
        logarithm = logarithm + np.where(size > 0, np.log(safe), -np.inf) / 2**step
        power = power / safe[..., None, None]
        power = power @ power
    return np.exp(logarithm)


def look_ahead(moments: TransitionMoments, penalty: Array, actions: int) -> LookAhead:
    """Fit the model to each unit's moments and improve on its logging policy; `penalty` is ζ, (d,)."""
    coef = np.concatenate([moments.reward.solve(penalty)[0], moments.state.solve(penalty)[0]], axis=-1)
    return improve_policy(coef, *moments.count_shares(actions))


def improve_policy(coef: Array, share: Array, nuisance: Array) -> LookAhead:
    """What follows from the coefficients C (units, d, 1 + p) when later decisions take the actions in these shares."""
    units, d, k = coef.shape
    blocks, mean = _average_blocks(coef, share)
    carried, radius, worth = long_run_worth(mean)
    advantage = blocks[:, 1:, :, 0] + (blocks[:, 1:, :, 1:] @ worth[:, None, :, None])[..., 0]
    # δc = (I − F)⁻¹ Σ p̄ₐ E δBₐ (1; c), E selecting the slopes of a block.
    slopes = np.zeros((units, k - 1, d))
    for a in range(share.shape[1]):
        slopes[:, range(k - 1), range(k * a + 1, k * (a + 1))] = share[:, a, None] if a else 1.0
    through = np.linalg.solve(carried, slopes)
    moved = (blocks[:, 1:, :, 1:] @ through[:, None]).reshape(units, -1, d)
    return LookAhead(coef, share, nuisance, radius, worth, advantage, np.eye(d)[k : k + moved.shape[1]] + moved)


def _average_blocks(coef: Array, share: Array) -> tuple[Array, Array]:
    """Bₐ of every action, (units, actions, k, k), and M = B₀ + Σ p̄ₐ Bₐ."""
    units, _, k = coef.shape
    actions = share.shape[1]
    blocks = coef[:, : k * actions].reshape(units, actions, k, k)
    return blocks, blocks[:, 0] + (share[:, 1:, None, None] * blocks[:, 1:]).sum(axis=1)


def long_run_worth(mean: Array) -> tuple[Array, Array, Array]:
    """For M (units, k, k): I − F with F shrunk where it must be, the radius of F, and c = (I − F)⁻¹ M[1:, 0]."""
    transition = mean[:, 1:, 1:]
    radius = spectral_radius(transition)
    shrinkage = MOST_RADIUS / np.maximum(radius, MOST_RADIUS)
    carried = np.eye(transition.shape[-1]) - shrinkage[:, None, None] * transition
    return carried, radius, np.linalg.solve(carried, mean[:, 1:, :1])[..., 0]


# What is not known: the covariance of Σ W ∘ C for weights W (units, m, d, 1 + p) is (units, m, m).


class BetweenPeople:
    """The sandwich over people, for one pooled unit."""

    between_people = True

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        people = len(moments.reward.gram)
        influences = []
        for part, coef in zip(moments, (model.coef[..., :1], model.coef[..., 1:]), strict=True):
            score = part.cross - part.gram @ coef - penalty[:, None] * coef / people
            influences.append(part.total().solve(penalty)[1] @ score)
        self._influence = np.concatenate(influences, axis=-1).reshape(people, -1)
        self._correction = people / (people - 1)

    def covariance(self, functionals: Array) -> Array:
        moved = self._influence @ np.swapaxes(functionals.reshape(*functionals.shape[:2], -1), 1, 2)
        return self._correction * (np.swapaxes(moved, 1, 2) @ moved)


class WithinUnits:
    """Σₑ ⊗ A⁻¹ for each unit."""

    between_people = False

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        self._parts = []
        for part, coef in zip(moments, (model.coef[..., :1], model.coef[..., 1:]), strict=True):
            across = np.swapaxes(coef, 1, 2)
            explained = across @ part.cross
            squares = part.squares - explained - np.swapaxes(explained, 1, 2) + across @ part.gram @ coef
            free = np.maximum(part.count - part.gram.shape[-1], 1.0)
            self._parts.append((part.solve(penalty)[1][:, None], (squares / free[:, None, None])[:, None]))

    def covariance(self, functionals: Array) -> Array:
        shape = (*functionals.shape[:2], -1)
        total = 0.0
        for weights, (inverse, residual) in zip((functionals[..., :1], functionals[..., 1:]), self._parts, strict=True):
            spread = inverse @ weights @ residual
            total = total + weights.reshape(shape) @ np.swapaxes(spread.reshape(shape), 1, 2)
        return total


class OfPosteriors:
    """Σ over outputs of W V Wᵀ, V (units, outputs, d, d) the covariance of an output's coefficients, fitted apart."""

    def __init__(self, covariances: list[Array], *, between_people: bool) -> None:
        self._covariances = covariances
        self.between_people = between_people

    def covariance(self, functionals: Array) -> Array:
        weights = np.moveaxis(functionals, -1, 0)
        return sum(w @ v @ np.swapaxes(w, 1, 2) for w, v in zip(weights, self._covariances, strict=True))


Uncertainty = BetweenPeople | WithinUnits | OfPosteriors


def estimate_uncertainty(model: LookAhead, moments: TransitionMoments, penalty: Array) -> Uncertainty:
    """For the model that was fitted to these people's moments, one by one or all together."""
    people = len(moments.reward.gram)
    if people == len(model.coef):
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

    @classmethod
    def of_coefficients(cls, coef: Array, covariance: Array, actions: int, count: Array) -> "Advantage":
        """In the next outcome, of the critic's coefficients (units, d) with their covariance (units, d, d)."""
        spread = _to_policy_order(covariance, coef.shape[1] // actions, range(1, actions))
        xp = array_namespace(coef)
        return cls(effects(coef, actions), spread, xp.astype(0 * count, xp.int64), count)

    def over_reference(self) -> tuple[Array, Array]:
        """m (units, actions, k) and its covariances (units, actions, k, k), of every action over the reference."""
        xp = array_namespace(self.mean)
        units, others, k = self.mean.shape
        mean = xp.concat([xp.zeros_like(self.mean[:, :1, :]), self.mean], axis=1)
        blocks = xp.zeros((units, others + 1, others + 1, k, k), dtype=mean.dtype, device=device(mean))
        by_action = xp.reshape(self.covariance, (units, others, k, others, k))
        blocks[:, 1:, 1:, :, :] = xp.permute_dims(by_action, (0, 1, 3, 2, 4))
        codes = xp.arange(others + 1, device=device(mean))
        chosen = xp.astype(codes == self.reference[:, None], mean.dtype)[:, :, None, None]
        with_reference = xp.sum(blocks * chosen[:, None, ...], axis=2)
        of_reference = xp.sum(with_reference * chosen, axis=1)[:, None, ...]
        variances = xp.stack([blocks[:, a, a, ...] for a in range(others + 1)], axis=1)
        spread = variances + of_reference - with_reference - xp.sum(blocks * chosen[:, :, None, ...], axis=1)
        return mean - xp.sum(mean * chosen[..., 0], axis=1)[:, None, :], spread


def _to_policy_order(covariance: Array, k: int, blocks: range) -> Array:
    """Rows and columns of some blocks, each from the critic's [1, s] to the policy's [s, 1]."""
    xp = array_namespace(covariance)
    order = xp.asarray([a * k + j for a in blocks for j in (*range(1, k), 0)], device=device(covariance))
    return xp.take(xp.take(covariance, order, axis=1), order, axis=2)


def long_run_advantage(model: LookAhead, uncertainty: Uncertainty, count: Array) -> Advantage:
    """The advantages that follow from a look-ahead."""
    covariance = uncertainty.covariance(model.jacobian[..., None] * model.outputs[:, None, None, :])
    _, others, k = model.advantage.shape
    mean = np.roll(model.advantage, -1, axis=-1)
    return Advantage(mean, _to_policy_order(covariance, k, range(others)), best_constant_action(model, uncertainty), count)


def best_constant_action(model: LookAhead, uncertainty: Uncertainty) -> Array:
    """0, or the action that earns most when always taken, if it is significantly better than never acting, (units,).

    One participant's own decision points are too few for that: of 50 people with 210 each, one or two would seem to be
    better off when always prompted, and lose most by it.
    """
    reference = np.zeros(len(model.coef), dtype=np.int64)
    if not uncertainty.between_people:
        return reference
    nothing, how_nothing = constant_value(model, 0)
    best = np.zeros_like(nothing)
    for action in range(1, model.share.shape[1]):
        value, how = constant_value(model, action)
        error = np.sqrt(np.abs(uncertainty.covariance((how - how_nothing)[:, None])[:, 0, 0]))
        better = (value - nothing > BETTER * error) & (value - nothing > best)
        best = np.where(better, value - nothing, best)
        reference = np.where(better, action, reference)
    return reference


def constant_value(model: LookAhead, action: int) -> tuple[Array, Array]:
    """The long-run average reward of one action always, η (units,), and how it moves with C, (units, d, 1 + p).

    s̄ = (I − Fᵀ)⁻¹ b is where the states settle; a unit of change in the coefficients of Y at z̄ = [1, s̄] changes the
    average by the worth of that reward or state.
    """
    k = model.coef.shape[-1]
    nuisance = k * model.share.shape[1]
    rows = slice(k * action, k * (action + 1))
    block = model.coef[:, :k] + (model.coef[:, rows] if action else 0.0)
    carried, _, worth = long_run_worth(block)
    constant = block[:, 0, :] + (model.nuisance[:, None, :] @ model.coef[:, nuisance:, :])[:, 0, :]
    settled = np.linalg.solve(np.swapaxes(carried, 1, 2), constant[:, 1:, None])[..., 0]
    value = constant[:, 0] + np.sum(settled * block[:, 1:, 0], axis=1)
    mean_features = np.zeros(model.coef.shape[:2])
    mean_features[:, :k] = np.insert(settled, 0, 1.0, axis=1)
    mean_features[:, rows] = mean_features[:, :k]
    mean_features[:, nuisance:] = model.nuisance
    return value, mean_features[..., None] * np.insert(worth, 0, 1.0, axis=1)[:, None, :]


# What a report shows


class ChangeEstimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float


class Reaction(NamedTuple):
    """The reaction of a state variable to an action."""

    variable: int
    action: int
    shift: ChangeEstimate
    """The change of the variable at the next decision point, at the mean state."""
    p_value: float


class Consequence(NamedTuple):
    """The change by one action compared with doing nothing, in units of the reward."""

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
        degrees = self.people - k if self.uncertainty.between_people else 0
        reactions = []
        for action in range(1, self.model.share.shape[1]):
            rows = range(k * action, k * (action + 1))
            for variable in range(k - 1):
                # The test is about the coefficients of one variable's block, which unit functionals select.
                functionals = np.zeros((1, k, *coef.shape))
                functionals[0, range(k), rows, 1 + variable] = 1.0
                covariance = self.uncertainty.covariance(functionals)[0]
                effect = coef[rows, 1 + variable]
                wald = float(effect @ np.linalg.pinv(covariance, hermitian=True) @ effect)
                p_value = fdtrc(k, degrees, wald / k) if degrees > 0 else chdtrc(k, wald)
                shift = ChangeEstimate(float(effect @ z), float(np.sqrt(np.abs(z @ covariance @ z))))
                reactions.append(Reaction(variable, action, shift, float(p_value)))
        return reactions

    @property
    def some_state_reacts(self) -> bool:
        reactions = self.reactions
        return any(reaction.p_value < SURE / len(reactions) for reaction in reactions)

    def consequence(self, action: int) -> Consequence:
        """The consequence of one action at the mean state, with later decisions as they were logged."""
        model = self.model
        z = self.mean_state
        k = len(z)
        blocks, means = _average_blocks(model.coef, model.share)
        block = blocks[0, action]
        immediate = np.zeros_like(model.coef[0])
        immediate[k * action : k * (action + 1), 0] = z
        moved = z @ model.jacobian[0, k * (action - 1) : k * action]
        total = moved[:, None] * model.outputs[0]
        # The advantage itself is not Σ W ∘ C, whose W moves with C; only its error is.
        functionals = np.stack([immediate, total - immediate, total])
        errors = np.sqrt(np.abs(np.diagonal(self.uncertainty.covariance(functionals[None])[0])))
        now = float(z @ block[:, 0])
        pushed = z @ block[:, 1:]
        through = pushed * model.worth[0]
        values = (now, float(through.sum()), now + float(through.sum()))
        now_changes, later_changes, all_changes = map(ChangeEstimate, values, errors.tolist())
        carried = np.eye(k - 1) - long_run_worth(means)[0][0]
        lags = [now]
        for _ in range(LAGS):
            lags.append(float(pushed @ means[0, 1:, 0]))
            pushed = pushed @ carried
        return Consequence(now_changes, later_changes, all_changes, through, np.array(lags))
