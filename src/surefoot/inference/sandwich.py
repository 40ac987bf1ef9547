"""How far each participant pulls a pooled fit, critic and policy: the basis of the intervals of its coefficients.

A participant's influence is what the solution would lose without them; the covariance of the coefficients is (n − 1)/n · Σ
influence · influenceᵀ. With few people the fit is repeated without each of them (the jackknife): the policy is far from
linear in what one of nine people says. With many the analytic sandwich, clustered by participant, says the same to first
order; so it does for a critic with many coefficients, whose refits would take minutes.
"""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError
from surefoot.inference.intervals import FEW_PEOPLE, t_quantile
from surefoot.learning.actor import gain_gradient_curvature
from surefoot.learning.batch import Learnable, discount_rows
from surefoot.learning.methods import Method
from surefoot.learning.rules import Actor, CriticResult
from surefoot.numerics.arrays import NUMPY, boltzmann
from surefoot.policies.features import critic_features, effects, policy_features

Floats = NDArray[np.float64]
Total = Callable[[Floats], Floats]  # Sums (rows, …) by participant, or leaves every row by itself.
MOST_REFITTED = 120  # A critic with more coefficients is not fitted again without each of few people.


@dataclass(frozen=True)
class Influences:
    """One row per participant with a usable decision point."""

    critic: Floats  # (people, d); NaN where the cap cuts so densely that the fit has no derivative.
    policy: Floats | None  # (people, k·m); None when the policy has no coefficients of its own.
    policy_features: int
    """How many coefficients of an action the policy learns: state variables that it sees, and the intercept."""
    rows: tuple[NDArray[np.int64], Floats] | None = None
    """Used rows of the logs and what the policy would lose without each of them, (rows, k·m), to first order; None where
    they are not wanted or have no formula."""

    def covariance(self, part: str) -> Floats:
        """(n − 1)/n Σ influence influenceᵀ; of the policy times n/(n − m), NaN where people are no more than m features.

        θ bends where it follows w, which makes influences look too alike. With the factor its intervals cover 93–97 % at 9,
        15 and 30 people; without it 90–94 %.
        """
        influences = self.critic if part == "critic" else self.policy
        if influences is None:
            raise InputError("this kind of policy has no coefficients of its own; ask for the critic's")
        people = len(influences)
        free = self.policy_features if part == "policy" else 0
        correction = people / (people - free) if people > free else np.nan
        return np.asarray(influences.T @ influences * (people - 1) / people * correction)

    def half_width(self, part: str) -> Floats:
        """t · standard error of every coefficient, t with people − 1 degrees of freedom."""
        return np.asarray(t_quantile(len(self.critic) - 1) * np.sqrt(np.diagonal(self.covariance(part))))


def compute_influences(
    fitted: Method, *, with_policy: bool = True, with_rows: bool = False, analytic: bool = False
) -> Influences:
    """Every participant's influence on a method fitted with pooling="all"; the policy's, and each row's, where wanted.

    With `analytic` few people get the sandwich too, which takes no refits.
    """
    if not fitted.pooled_:
        raise InputError("the sandwich is for one fit to everybody; with one per participant use bootstrap_coefficients")
    sandwich = Sandwich(fitted)
    people = len(sandwich.starts)
    if people < 2:
        raise InputError(
            "intervals of one fit to everybody need at least 2 people with usable decision points; with one, use "
            "pooling = 'person'"
        )
    policy_features = int(fitted.policy_sees_.sum()) + 1
    actor = fitted.rule if with_policy and isinstance(fitted.rule, Actor) else None
    if takes_refits(fitted) and not analytic:
        return Influences(*_leave_each_out(fitted, actor is not None), policy_features)
    fitted.critic_.require_coefficients(f"an interval of one policy for {FEW_PEOPLE} people or more")
    if not sandwich.weights.any():  # The critic left nothing to learn from.
        unknown = None if fitted.coef_ is None else np.full((people, fitted.coef_.shape[1]), np.nan)
        return Influences(np.full((people, sandwich.x.shape[1]), np.nan), unknown, policy_features)
    critic = sandwich.solve_without_each()
    if actor is None:
        return Influences(critic, None, policy_features)
    equations = PolicyEquations(sandwich, actor)
    rows = None
    if with_rows and fitted.joint_ is None:
        by_row = sandwich.solve_without_rows()
        rows = None if by_row is None else (sandwich.rows, equations.solve(by_row, lambda values: values))
    return Influences(critic, equations.solve(critic, sandwich.sum_by_participant), policy_features, rows)


def takes_refits(fitted: Method) -> bool:
    """Whether the fit is repeated without each participant: where they are few, and the critic has not too many
    coefficients or no formula."""
    people = len(np.unique(fitted.logs_.participant_index[fitted.used_]))
    return people < FEW_PEOPLE and (count_coefficients(fitted) <= MOST_REFITTED or not fitted.critic_.has_coefficients)


def count_coefficients(fitted: Method) -> int:
    """How many coefficients the critic learns: of state variables that it sees, and intercepts."""
    return int((fitted.critic_sees_.sum() + 1) * fitted.logs_.actions)


class Sandwich:
    """The critic's equations Σ u x e = ζ w at the usable rows of a pooled fit, participant after participant.

    Their derivative is not XᵀUX alone: moving w also moves decision points across the cap, which adds −c f(±c) x xᵀ with f
    the density of residuals at the cap. Left out, the intervals of a capped fit to normal noise would be a third too short.
    """

    def __init__(self, fitted: Method) -> None:
        logs = fitted.logs_
        self.fitted = fitted
        self.rows = logs.order[fitted.used_[logs.order]]
        self.starts = np.flatnonzero(np.diff(logs.participant_index[self.rows], prepend=-1))
        seen = logs.state[self.rows] * fitted.critic_sees_
        centre = fitted.list_centres(logs)
        self.x = critic_features(seen, logs.action[self.rows], logs.actions, None if centre is None else centre[self.rows])
        self.base = np.concatenate([np.ones((len(seen), 1)), seen], axis=1)
        self.weights = fitted.weights_[self.rows]
        self.residual = fitted.residuals_[self.rows]
        self.discount = discount_rows(logs, fitted.forgetting)[self.rows]
        cap = float(np.sqrt(fitted.threshold_[0]))
        spread = float(self.residual[self.weights > 0].std()) if self.weights.any() else 0.0
        # How readily a decision point is dropped or taken back.
        self.at_cap = self.discount * estimate_density(np.abs(self.residual), cap, spread)
        self.slope = self.weights - (cap if np.isfinite(cap) else 0.0) * self.at_cap

    def sum_by_participant(self, values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, self.starts))

    def solve_without_each(self) -> Floats:
        """What w would lose without each participant, (people, d): (H − H_n)⁻¹ g_n."""
        fitted = self.fitted
        penalty = fitted.penalty_[0]
        pulls = [self.sum_by_participant(self.weights * self.residual * column) for column in self.x.T]
        away = fitted.critic_coef_[0] - fitted.prior_mean(fitted.logs_)
        pull = np.stack(pulls, axis=1) - penalty * away / len(self.starts)
        slope = self.slope
        if count_coefficients(fitted) > MOST_REFITTED:
            # Too few rows for each coefficient lie at the cap to say where it cuts: it is taken to cut everywhere alike.
            slope = self.weights * (slope.sum() / self.weights.sum())
        squares = (self.x * slope[:, None]).T @ self.x
        used = np.diagonal(squares) != 0  # A variable that the critic does not see has no row in the system.
        hessian = squares + np.diag(penalty)
        critic = np.zeros_like(pull)
        if np.linalg.eigvalsh(hessian[np.ix_(used, used)])[0] <= 0:
            return np.full_like(critic, np.nan)
        for k, (begin, end) in enumerate(itertools.pairwise([*self.starts, len(self.x)])):
            x = self.x[begin:end, used]
            others = hessian[np.ix_(used, used)] - (x * slope[begin:end, None]).T @ x
            critic[k, used] = np.linalg.solve(others, pull[k, used])
        return np.asarray(critic)

    def solve_without_rows(self) -> Floats | None:
        """The same without each single row, (rows, d): (H − h xxᵀ)⁻¹ g = H⁻¹ g / (1 − h xᵀH⁻¹x).

        None where the cap cuts too densely.
        """
        hessian = (self.x * self.slope[:, None]).T @ self.x + np.diag(self.fitted.penalty_[0])
        used = np.diagonal(hessian) != 0
        if not used.any() or np.linalg.eigvalsh(hessian[np.ix_(used, used)])[0] <= 0:
            return None
        toward = np.zeros_like(self.x)
        toward[:, used] = np.linalg.solve(hessian[np.ix_(used, used)], self.x[:, used].T).T
        remainder = np.maximum(1 - self.slope * (toward * self.x).sum(axis=1), 1e-9)
        return np.asarray(toward * (self.weights * self.residual / remainder)[:, None])


def estimate_density(distance: Floats, cap: float, scale: float) -> Floats:
    """Epanechnikov kernel weights K_h(|e| − c), h = 2.34 · scale · n^(−1/5): Silverman's rule for this kernel."""
    width = 2.34 * scale * len(distance) ** -0.2
    if not np.isfinite(cap) or width == 0:
        return np.zeros_like(distance)
    gap = (distance - cap) / width
    return np.where(np.abs(gap) < 1, 0.75 * (1 - gap**2) / width, 0.0)


def _leave_each_out(fitted: Method, with_policy: bool) -> tuple[Floats, Floats | None]:
    """The jackknife: the pooled fit again without each of the few people, and without its policy where it is not wanted."""
    logs = fitted.logs_
    coef = fitted.coef_ if with_policy else None
    critic = []
    policy = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # An action missing without a participant is part of the uncertainty.
        for participant in np.unique(logs.participant_index[fitted.used_]):
            others = logs.with_values(outcome=np.where(logs.participant_index == participant, np.nan, logs.outcome))
            Learnable.of_logs(others).require(logs.names.outcome)
            if coef is not None:
                without = replace(fitted.settled, filter=None).fit_some(others, start=coef)
                critic.append(fitted.critic_coef_[0] - without.critic_coef_[0])
                policy.append((coef - np.asarray(without.coef_))[0])
                continue
            discount = discount_rows(others, fitted.forgetting)
            joint = fitted.horizon_.look(fitted.settled.make_horizon_task(others, discount, NUMPY))
            ((fits, rows),) = fitted.pooling_.list_blocks(others)
            batch = fitted.make_batch(others, rows, discount, fitted.list_centres(others))
            result = fitted.fit_critic(batch, None if joint is None else joint.restrict(fits, rows, NUMPY))
            critic.append(fitted.critic_coef_[0] - np.asarray(result.fit.coef[0]))
    return np.array(critic), None if coef is None else np.array(policy)


class PolicyEquations:
    """θ solves Σ (u s(θ, w) − ζθ) = 0: −J⁻¹ (own score + ∂score/∂w · the critic's influence), J the curvature.

    On the boundary of the stochasticity constraint, Σ share · (θᵀz)² = radius, the multiplier λ and the constraint join the
    system. The units of the penalty are held.
    """

    def __init__(self, sandwich: Sandwich, actor: Actor) -> None:
        fitted = sandwich.fitted
        rows = sandwich.rows
        self.scaling = fitted.scaling_
        # In the units of the penalty, as it was found.
        theta = fitted.scaling_.to_standard(fitted.policies_.rule.coefficients())[0]
        state = fitted.logs_.state[rows]
        z = policy_features(fitted.scaling_.standardise(state[None], fitted.policy_sees_)[0])
        k, self.features = theta.shape
        penalty = actor.actor_penalty * fitted.scaling_.reward[0]
        self.count = float(sandwich.discount.sum())
        advantage = policy_features(state) @ effects(fitted.critic_coef_[0], k + 1).T
        probability = boltzmann(z @ theta.T)
        slope = probability * (advantage - (probability * advantage).sum(axis=1, keepdims=True))
        score = (slope[:, :, None] * z[:, None, :]).reshape(len(z), -1)
        self.scores = sandwich.weights[:, None] * score - sandwich.discount[:, None] * (penalty * theta.ravel())
        """(rows, k·m): `count` times the score of each row."""
        stakes = advantage * (sandwich.weights / self.count)[:, None]
        shrink = np.full((1, self.features), penalty)
        _, gradient, curvature = gain_gradient_curvature(theta[None], z[None], stakes[None], shrink)
        self.curvature = curvature[0]
        # ∂/∂w of Σ u s, (k·m, d): through u at the cap, and through the advantages, ∂s_a/∂A_b = π_a (δ_ab − π_b) z.
        self.cross = score.T @ ((np.sign(sandwich.residual) * sandwich.at_cap)[:, None] * sandwich.x)
        m = self.features
        size = sandwich.base.shape[1]
        for a, b in itertools.product(range(k), repeat=2):
            bend = sandwich.weights * probability[:, a] * ((a == b) - probability[:, b])
            self.cross[a * m : (a + 1) * m, (b + 1) * size : (b + 2) * size] += (z * bend[:, None]).T @ sandwich.base
        self.multiplier: float | None = None
        if actor.radius is not None:
            share = sandwich.weights / sandwich.weights.sum()
            self.metric = np.kron(np.eye(k), (z * share[:, None]).T @ z)
            self.normal = self.metric @ theta.ravel()
            if theta.ravel() @ self.normal > (1 - 1e-6) * actor.radius:
                self.multiplier = float(theta.ravel() @ gradient[0]) / actor.radius
                logits = z @ theta.T
                self.along = share[:, None] * (logits[:, :, None] * z[:, None, :]).reshape(len(z), -1)
                self.excess = share * ((logits**2).sum(axis=1) - actor.radius)

    def solve(self, critic: Floats, total: Total) -> Floats:
        """What θ would lose without each participant, or row; `critic` is what w would lose."""
        size = len(self.curvature)
        pull = (total(self.scores) + critic @ self.cross.T) / self.count
        system = self.curvature
        if self.multiplier is not None:
            pull = np.concatenate([pull - self.multiplier * total(self.along), total(self.excess)[:, None] / 2], axis=1)
            bent = system - self.multiplier * self.metric
            system = np.block([[bent, -self.normal[:, None]], [self.normal[None, :], np.zeros((1, 1))]])
        # A variable that the policy does not see, without a penalty, leaves a row of zeros.
        free = np.ones(len(system), dtype=bool)
        free[:size] = np.diagonal(self.curvature) != 0
        solution = np.zeros_like(pull)
        solution[:, free] = -np.linalg.solve(system[np.ix_(free, free)], pull[:, free].T).T
        standard = solution[:, :size].reshape(len(solution), -1, self.features)
        return np.asarray(self.scaling.to_raw(standard).reshape(-1, size))


def respond_to_effects(result: CriticResult, actor: Actor, coef: Floats) -> Floats:
    """How θ follows the effects m of its advantages mᵀz(s) in a block of fits, (fits, k·m, k·m); `coef` is θ, (fits, k, m).

    dθ = −J⁻¹ C dm, J the curvature of the actor's objective and C = (1/M) Σ u π_a (1{a = b} − π_b) z zᵀ; on the boundary of
    the stochasticity constraint with its multiplier, as in `PolicyEquations`.
    """
    batch = result.batch
    fits, k, m = coef.shape
    theta = np.asarray(result.scaling.to_standard(coef))
    raw = policy_features(batch.state)
    z = policy_features(result.scaling.standardise(batch.state, batch.policy_sees))
    if result.ahead is None:
        raise InputError("the adaptive sandwich needs the advantages of partial pooling; use the usual errors")
    weights = result.fit.weights
    count = np.maximum(batch.weights.sum(axis=1), 1.0)
    stakes = raw @ np.swapaxes(result.ahead.mean, 1, 2) * (weights / count[:, None])[:, :, None]
    penalty = np.repeat((actor.actor_penalty * result.scaling.reward)[:, None], m, axis=1)
    _, gradient, curvature = gain_gradient_curvature(theta, z, stakes, penalty)
    probability = boltzmann(z @ np.swapaxes(theta, 1, 2))
    bend = probability[..., :, None] * (np.eye(k) - probability[..., None, :]) * (weights / count[:, None])[..., None, None]
    cross = np.einsum("frab,fri,frj->faibj", bend, z, raw, optimize=True).reshape(fits, k * m, k * m)
    responses = np.zeros((fits, k * m, k * m))
    for fit in range(fits):
        system = curvature[fit]
        pull = cross[fit]
        if actor.radius is not None:
            share = weights[fit] / max(weights[fit].sum(), 1.0)
            metric = np.kron(np.eye(k), (z[fit] * share[:, None]).T @ z[fit])
            flat = theta[fit].ravel()
            normal = metric @ flat
            if flat @ normal > (1 - 1e-6) * actor.radius:
                bent = system - float(flat @ gradient[fit]) / actor.radius * metric
                system = np.block([[bent, -normal[:, None]], [normal[None, :], np.zeros((1, 1))]])
                pull = np.concatenate([pull, np.zeros((1, k * m))])
        # A variable that the policy does not see, without a penalty, leaves a row of zeros.
        free = np.ones(len(system), dtype=bool)
        free[: k * m] = np.diagonal(curvature[fit]) != 0
        solution = np.zeros_like(pull)
        solution[free] = -np.linalg.solve(system[np.ix_(free, free)], pull[free])
        responses[fit] = solution[: k * m]
    standard = np.moveaxis(responses, 1, 2).reshape(fits, k * m * k, m)
    return np.moveaxis(np.asarray(result.scaling.to_raw(standard)).reshape(fits, k * m, k * m), 1, 2)
