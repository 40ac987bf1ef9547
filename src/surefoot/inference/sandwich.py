"""How far each participant pulls a pooled fit, critic and policy: what the intervals of its coefficients are made of.

A participant's influence is what the solution would lose without them; the covariance of the coefficients is (n − 1)/n · Σ
influence · influenceᵀ. With few people the fit is repeated without each of them (the jackknife): the policy is far from
linear in what one of nine people says. With many the analytic sandwich, clustered by participant, says the same to first
order; so it does for a critic with many coefficients, whose refits would take minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.inference.intervals import FEW_PEOPLE, t_quantile
from surefoot.learning.actor_objective import gain_gradient_curvature
from surefoot.learning.batch import FEW_FEATURES, Batch
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.forgetting import discount_rows
from surefoot.learning.methods import ACCB, Method
from surefoot.numerics.arrays import list_blocks
from surefoot.numerics.boltzmann import boltzmann
from surefoot.numerics.engines import NUMPY
from surefoot.policies.features import critic_features, effects, policy_features

MOST_REFITTED = 120
"""A critic with more coefficients is not fitted again without each of few people."""


class RowInfluences(NamedTuple):
    """What the policy's coefficients would lose without each used row, to first order."""

    row: NDArray[np.int64]
    """(rows) in the logs."""
    policy: NDArray[np.float64]
    """(rows, k·m)."""


@dataclass(frozen=True)
class Influences:
    """One row per participant with a usable decision point."""

    critic: NDArray[np.float64]
    """(people, d); NaN where the cap cuts so densely that the fit has no derivative."""
    policy: NDArray[np.float64] | None
    """(people, k·m); None when the policy has no coefficients of its own."""
    policy_features: int
    """How many coefficients of an action the policy learns: state variables that it sees, and the intercept."""
    rows: RowInfluences | None = None
    """Of every single row, where they are wanted and have a formula."""

    def covariance(self, part: str) -> NDArray[np.float64]:
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

    def half_width(self, part: str) -> NDArray[np.float64]:
        """t · standard error of every coefficient, t with people − 1 degrees of freedom."""
        return np.asarray(t_quantile(len(self.critic) - 1) * np.sqrt(np.diagonal(self.covariance(part))))


@dataclass(frozen=True)
class _Rows:
    """The usable rows of a pooled fit, participant after participant."""

    rows: NDArray[np.int64]
    """Where they are in the logs."""
    starts: NDArray[np.int64]
    """Where each participant's begin."""
    x: NDArray[np.float64]
    weights: NDArray[np.float64]
    residual: NDArray[np.float64]
    discount: NDArray[np.float64]
    """How much a decision point counts, 1.0 unless it is forgotten."""
    at_cap: NDArray[np.float64]
    """A kernel estimate of the density of residuals at ± the cap: how readily a decision point is dropped or taken back."""
    cap: float
    fitted: Method

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """[1, s] as the critic sees it."""
        seen = self.fitted.logs_.state[self.rows] * self.fitted.critic_sees_
        return np.asarray(np.concatenate([np.ones((len(self.rows), 1)), seen], axis=1))

    @cached_property
    def z(self) -> NDArray[np.float64]:
        """[s, 1] as the policy sees it, in the units of its penalty."""
        state = self.fitted.logs_.state[self.rows]
        return np.asarray(policy_features(self.fitted.scaling_.standardise(state[None], self.fitted.policy_sees_)[0]))

    @classmethod
    def of(cls, fitted: Method) -> _Rows:
        logs = fitted.logs_
        rows = logs.order[fitted.used_[logs.order]]
        residual = fitted.residuals_[rows]
        cap = float(np.sqrt(fitted.threshold_[0]))
        seen = logs.state[rows] * fitted.critic_sees_
        weights = fitted.weights_[rows]
        owner = logs.participant_index[rows]
        centre = fitted.list_centres(logs)
        discount = discount_rows(logs, fitted.forgetting)[rows]
        spread = float(residual[weights > 0].std()) if weights.any() else 0.0
        return cls(
            rows=rows,
            starts=np.flatnonzero(np.diff(owner, prepend=-1)),
            x=critic_features(seen, logs.action[rows], logs.actions, None if centre is None else centre[rows]),
            weights=weights,
            residual=residual,
            discount=discount,
            at_cap=discount * _density_at(np.abs(residual), cap, spread),
            cap=cap if np.isfinite(cap) else 0.0,
            fitted=fitted,
        )

    @property
    def people(self) -> int:
        return len(self.starts)

    def list_grams(self, weight: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of people with Σ weight · x xᵀ over each one's rows, (people, d, d)."""
        size, ends = self.x.shape[1], np.append(self.starts, len(self.x))
        for block in list_blocks(self.people, cells=size**2):
            rows = slice(ends[block.start], ends[block.stop])
            starts = ends[block] - rows.start
            yield block, _sum_products(self.x[rows], weight[rows], starts)

    def sum_by_participant(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over each participant's rows of (rows, …)."""
        return np.asarray(np.add.reduceat(values, self.starts))


def _sum_products(x: NDArray[np.float64], weight: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Σ weight · x xᵀ from each start to the next: an entry at a time where the rows may be many and the entries are few."""
    size = x.shape[1]
    products = np.empty((len(starts), size, size))
    if size > FEW_FEATURES:
        for place, rows in enumerate(np.split(np.arange(len(x)), starts[1:])):
            products[place] = (x[rows] * weight[rows, None]).T @ x[rows]
        return products
    for i in range(size):
        for j in range(i + 1):
            products[:, i, j] = np.add.reduceat(weight * x[:, i] * x[:, j], starts)
            products[:, j, i] = products[:, i, j]
    return products


def _density_at(distance: NDArray[np.float64], cap: float, scale: float) -> NDArray[np.float64]:
    """Epanechnikov kernel weights K_h(|e| − c), h = 2.34 · scale · n^(−1/5): Silverman's rule for this kernel."""
    width = 2.34 * scale * len(distance) ** -0.2
    if not np.isfinite(cap) or width == 0:
        return np.zeros_like(distance)
    gap = (distance - cap) / width
    return np.where(np.abs(gap) < 1, 0.75 * (1 - gap**2) / width, 0.0)


def compute_influences(
    fitted: Method, *, with_policy: bool = True, with_rows: bool = False, analytic: bool = False
) -> Influences:
    """Every participant's influence on a method fitted with pooling="all"; the policy's, and each row's, where wanted.

    The critic solves Σ u x e = ζ w. Its derivative is not XᵀUX alone: moving w also moves decision points across the cap,
    which adds −c f(±c) x xᵀ with f the density of residuals at the cap. Left out, the intervals of a capped fit to normal
    noise would be a third too short. A participant n is left out exactly: influence = (H − H_n)⁻¹ g_n. With `analytic` few
    people get the sandwich too, which takes no refits.
    """
    if not fitted.pooled_:
        raise InputError("the sandwich is for one fit to everybody; with one per participant use bootstrap_coefficients")
    rows = _Rows.of(fitted)
    if rows.people < 2:
        raise InputError("the sandwich needs at least 2 people with usable decision points")
    if takes_refits(fitted) and not analytic:
        return _leave_each_out(fitted, with_policy)
    fitted.critic_.require_coefficients(f"an interval of one policy for {FEW_PEOPLE} people or more")
    if not rows.weights.any():
        return _know_nothing(fitted, rows)
    critic = _solve_without_each(fitted, rows)
    if not (with_policy and isinstance(fitted, ACCB)):
        return Influences(critic, None, _count_policy_features(fitted))
    equations = _PolicyEquations.of(fitted, rows)
    row_influences = _estimate_rows(rows, equations) if with_rows else None
    return Influences(
        critic, equations.solve(critic, rows.sum_by_participant), _count_policy_features(fitted), row_influences
    )


def takes_refits(fitted: Method) -> bool:
    """Whether the fit is repeated without each participant: where they are few, and the critic has not too many
    coefficients or no formula."""
    logs = fitted.logs_
    people = len(np.unique(logs.participant_index[fitted.used_]))
    return people < FEW_PEOPLE and (count_coefficients(fitted) <= MOST_REFITTED or not fitted.critic_.has_coefficients)


def count_coefficients(fitted: Method) -> int:
    """How many coefficients the critic learns: of state variables that it sees, and intercepts."""
    return int((fitted.critic_sees_.sum() + 1) * fitted.logs_.actions)


def _solve_without_each(fitted: Method, rows: _Rows) -> NDArray[np.float64]:
    """What w would lose without each participant, (people, d): (H − H_n)⁻¹ g_n."""
    penalty = fitted.penalty_[0]
    pull = (
        np.stack([rows.sum_by_participant(rows.weights * rows.residual * column) for column in rows.x.T], axis=1)
        - penalty * (fitted.critic_coef_[0] - fitted.prior_mean(fitted.logs_)) / rows.people
    )
    weight = rows.weights - rows.cap * rows.at_cap
    if count_coefficients(fitted) > MOST_REFITTED:
        # Too few rows for each coefficient lie at the cap to say where it cuts: it is taken to cut everywhere alike.
        weight = rows.weights * (1 - rows.cap * rows.at_cap.sum() / rows.weights.sum())
    squares = (rows.x * weight[:, None]).T @ rows.x
    used = np.diagonal(squares) != 0  # A variable that the critic does not see has no row in the system.
    hessian = squares + np.diag(penalty)
    critic = np.zeros_like(pull)
    if np.linalg.eigvalsh(hessian[np.ix_(used, used)])[0] <= 0:
        return np.full_like(critic, np.nan)
    for block, grams in rows.list_grams(weight):
        others = (hessian - grams)[:, used][:, :, used]
        critic[block, used] = np.linalg.solve(others, pull[block, used, None])[..., 0]
    return np.asarray(critic)


def _estimate_rows(rows: _Rows, equations: _PolicyEquations) -> RowInfluences | None:
    """As `compute_influences`, with (H − h xxᵀ)⁻¹ g = H⁻¹ g / (1 − h xᵀH⁻¹x) for a single row.

    None where there is no such formula: with a look ahead, or where the cap cuts too densely.
    """
    fitted = equations.fitted
    if fitted.joint_ is not None:
        return None
    weight = rows.weights - rows.cap * rows.at_cap
    penalty = fitted.penalty_[0]
    hessian = (rows.x * weight[:, None]).T @ rows.x + np.diag(penalty)
    used = np.diagonal(hessian) != 0
    if not used.any() or np.linalg.eigvalsh(hessian[np.ix_(used, used)])[0] <= 0:
        return None
    toward = np.zeros_like(rows.x)
    toward[:, used] = np.linalg.solve(hessian[np.ix_(used, used)], rows.x[:, used].T).T
    left = np.maximum(1 - weight * (toward * rows.x).sum(axis=1), 1e-9)
    critic = toward * (rows.weights * rows.residual / left)[:, None]
    return RowInfluences(rows.rows, equations.solve(critic, lambda values: values))


def _count_policy_features(fitted: Method) -> int:
    return int(fitted.policy_sees_.sum()) + 1


def _know_nothing(fitted: Method, rows: _Rows) -> Influences:
    """Where the critic left nothing to learn from."""
    critic = np.full((rows.people, rows.x.shape[1]), np.nan)
    policy = np.full((rows.people, fitted.coef_.shape[1]), np.nan) if isinstance(fitted, ACCB) else None
    return Influences(critic, policy, _count_policy_features(fitted))


def _leave_each_out(fitted: Method, with_policy: bool) -> Influences:
    """The jackknife: the pooled fit again without each of the few people, and without its policy where nobody asks."""
    logs = fitted.logs_
    with_policy = with_policy and isinstance(fitted, ACCB)
    critic = []
    policy = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # That an action is missing without somebody is part of the uncertainty.
        for participant in np.unique(logs.participant_index[fitted.used_]):
            rewards = np.where(logs.participant_index == participant, np.nan, logs.reward)
            others = logs.with_values(reward=rewards)
            if with_policy:
                Learnable.of_logs(others).require(logs.names.reward)
                without = replace(fitted, filter=None).fit_some(others, start=fitted.coef_)
                critic.append(fitted.critic_coef_[0] - without.critic_coef_[0])
                policy.append(fitted.coef_[0] - without.coef_[0])
            else:
                critic.append(fitted.critic_coef_[0] - _refit_critic(fitted, others))
    return Influences(np.array(critic), np.array(policy) if with_policy else None, _count_policy_features(fitted))


def _refit_critic(fitted: Method, logs: Trajectories) -> NDArray[np.float64]:
    """The pooled critic's coefficients from other logs, (d,)."""
    Learnable.of_logs(logs).require(logs.names.reward)
    discount = discount_rows(logs, fitted.forgetting)
    joint = fitted.horizon_.look(fitted.make_horizon_task(logs, discount, NUMPY))
    ((fits, rows),) = fitted.pooling_.list_blocks(logs)
    sees = fitted.list_seen(logs.state_names)
    batch = Batch.from_rows(logs, logs.usable, rows, NUMPY, discount, fitted.list_centres(logs), **sees)
    result = fitted.fit_critic(batch, None if joint is None else joint.restrict(fits, rows, NUMPY))
    return np.asarray(result.fit.coef[0])


@dataclass(frozen=True)
class _PolicyEquations:
    """θ solves Σ (u s(θ, w) − ζθ) = 0: −J⁻¹ (own score + ∂score/∂w · the critic's influence), J the curvature.

    On the boundary of the stochasticity constraint the multiplier λ and the constraint join the system. The units of the
    penalty are held.
    """

    fitted: ACCB
    count: float
    scores: NDArray[np.float64]
    """(rows, k·m): `count` times the score of each row."""
    cross: NDArray[np.float64]
    """(k·m, d): ∂score/∂w."""
    curvature: NDArray[np.float64]
    """(k·m, k·m)."""
    constraint: _Constraint | None
    """Where θ lies on the boundary."""

    @classmethod
    def of(cls, fitted: ACCB, rows: _Rows) -> _PolicyEquations:
        # In the units of the penalty, as it was found.
        theta = fitted.scaling_.to_standard(fitted.policies_.rule.coefficients())[0]
        penalty = fitted.actor_penalty * fitted.scaling_.reward[0]
        k, m = theta.shape
        count = float(rows.discount.sum())
        advantage = policy_features(fitted.logs_.state[rows.rows]) @ effects(fitted.critic_coef_[0], k + 1).T
        probability = boltzmann(rows.z @ theta.T)
        slope = probability * (advantage - (probability * advantage).sum(axis=1, keepdims=True))
        score = (slope[:, :, None] * rows.z[:, None, :]).reshape(len(rows.z), k * m)
        shrink = np.full((1, m), penalty)
        stakes = advantage * (rows.weights / count)[:, None]
        _, gradient, curvature = gain_gradient_curvature(theta[None], rows.z[None], stakes[None], shrink)
        cross = _cross_derivative(rows, probability, score) / count
        scores = rows.weights[:, None] * score - rows.discount[:, None] * (penalty * theta.ravel())
        constraint = None if fitted.radius is None else _Constraint.of(rows, theta, gradient[0], fitted.radius)
        return cls(fitted, count, scores, cross, curvature[0], constraint)

    def solve(
        self, critic: NDArray[np.float64], total: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """What θ would lose without each participant, or row: `total` sums rows, `critic` is what w would lose."""
        size = len(self.curvature)
        pull = total(self.scores) / self.count + critic @ self.cross.T
        system = self.curvature
        if self.constraint is not None:
            pull, system = self.constraint.join(pull, system, total)
        # A variable that the policy does not see, without a penalty, leaves a row of zeros.
        seen = np.diagonal(self.curvature) != 0
        free = np.concatenate([seen, np.ones(len(system) - size, dtype=bool)])
        solution = np.zeros_like(pull)
        solution[:, free] = -np.linalg.solve(system[np.ix_(free, free)], pull[:, free].T).T
        scaling = self.fitted.scaling_
        features = self.fitted.logs_.state.shape[1] + 1
        return np.asarray(scaling.to_raw(solution[:, :size].reshape(-1, size // features, features)).reshape(-1, size))


@dataclass(frozen=True)
class _Constraint:
    """θ on the boundary of the stochasticity constraint, Σ share · (θᵀz)² = radius."""

    multiplier: float
    metric: NDArray[np.float64]
    normal: NDArray[np.float64]
    along: NDArray[np.float64]
    """(rows, k·m): what each row adds to the normal."""
    excess: NDArray[np.float64]
    """(rows): what each row adds to the constraint, twice."""

    @classmethod
    def of(cls, rows: _Rows, theta: NDArray[np.float64], gradient: NDArray[np.float64], radius: float) -> _Constraint | None:
        """None where θ lies within."""
        k, m = theta.shape
        share = rows.weights / rows.weights.sum()
        metric = np.kron(np.eye(k), (rows.z * share[:, None]).T @ rows.z)
        normal = metric @ theta.ravel()
        if not theta.ravel() @ normal > (1 - 1e-6) * radius:
            return None
        multiplier = float(theta.ravel() @ gradient) / radius
        logits = rows.z @ theta.T
        along = share[:, None] * (logits[:, :, None] * rows.z[:, None, :]).reshape(-1, k * m)
        return cls(multiplier, metric, normal, along, share * ((logits**2).sum(axis=1) - radius))

    def join(
        self,
        pull: NDArray[np.float64],
        system: NDArray[np.float64],
        total: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The equations with those of the constraint and its multiplier."""
        size = total(self.excess) / 2
        normal = self.normal
        pull = np.concatenate([pull - self.multiplier * total(self.along), size[:, None]], axis=1)
        return pull, np.block(
            [[system - self.multiplier * self.metric, -normal[:, None]], [normal[None, :], np.zeros((1, 1))]]
        )


def _cross_derivative(rows: _Rows, probability: NDArray[np.float64], score: NDArray[Any]) -> NDArray[np.float64]:
    """∂/∂w of Σ u s, (k·m, d): through the advantages, ∂s_a/∂A_b = π_a (δ_ab − π_b) z, and through u at the cap."""
    k = probability.shape[1]
    m = rows.z.shape[1]
    size = rows.base.shape[1]
    cross = score.T @ ((np.sign(rows.residual) * rows.at_cap)[:, None] * rows.x)
    for a in range(k):
        for b in range(k):
            bend = rows.weights * probability[:, a] * ((a == b) - probability[:, b])
            cross[a * m : (a + 1) * m, (b + 1) * size : (b + 2) * size] += (rows.z * bend[:, None]).T @ rows.base
    return np.asarray(cross)
