"""Updates of the package's own methods for the adaptive sandwich: influences on what people share, scores of decisions.

People share the coefficients of one policy for everybody, or the population's coefficients β of partial pooling. What a
participant's own data change in their own policy does not make participants depend on each other. Held fixed, because
their influence on probabilities is of lower order or has no derivative: the covariance of a posterior, the variances
between people, the units of penalties, and which decision points a critic leaves out.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.inference.adaptive_sandwich import Floats, Marks, PolicyUpdate, Positions
from surefoot.inference.sandwich import PolicyEquations, Sandwich, respond_to_effects
from surefoot.learning.batch import discount_rows
from surefoot.learning.methods import Method
from surefoot.learning.rules import Actor
from surefoot.numerics.arrays import NUMPY
from surefoot.policies.features import critic_features, effects, policy_features

Limit = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Probabilities (rows, actions) within the limits of the study, and their derivatives (rows, actions, q)."""


@dataclass(frozen=True, eq=False)
class RecordedUpdate:
    """A policy version that a trial learned; rows are those of the trial, sorted by participant, then by time."""

    outcomes: Floats
    """Outcomes as the update knew them, NaN where it learned nothing, (rows,)."""
    before: Marks
    """Rows that were decided before the update."""
    decided: Positions
    """Positions of the rows that this version decided by a draw."""


@dataclass(frozen=True, eq=False)
class SharedParameters:
    """What people share of a fit."""

    rows: Positions
    """Rows of the method's logs that it learned from."""
    influence: Floats
    """Of each of these rows on the parameters, (rows, q)."""
    follow: Floats
    """How the preferences of the decision rules follow the parameters, (people and anybody, k·m, q)."""


def learn_update(method: Method, trial: Trajectories, update: RecordedUpdate, limit: Limit) -> PolicyUpdate:
    """Fit the method to what the update knew, and differentiate.

    Parameters
    ----------
    method
        The trial's method with its parameters.
    trial
        All decision points of the trial, sorted by participant, then by time.
    update
        The policy version.
    limit
        Keeps probabilities within the limits of the study.

    Returns
    -------
    PolicyUpdate
    """
    past = np.flatnonzero(update.before)
    known = trial[past].with_values(outcome=update.outcomes[past])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # The trial warned when it learned.
        fitted = replace(method).fit_some(known)
    return differentiate_update(fitted, trial, update, limit)


def differentiate_update(fitted: Method, trial: Trajectories, update: RecordedUpdate, limit: Limit) -> PolicyUpdate:
    """As `learn_update`, of a method that is fitted already."""
    shared = share_parameters(fitted)
    past = np.flatnonzero(update.before)
    influence = np.zeros((len(trial), shared.influence.shape[1]))
    influence[past[shared.rows]] = len(trial.participants) * shared.influence
    states = trial.state[update.decided]
    participants = trial.participant[update.decided]
    rules = fitted.policies_.rules_for(participants)
    by_preference = rules.slopes(states)
    if by_preference is None:
        raise InputError("the policy jumps from one action to another; use the usual errors")
    # ∂π_a / ∂ coefficient (b, j) = slope_ab · z_j.
    by_coefficient = by_preference[..., None] * policy_features(states)[:, None, None, :]
    follow = shared.follow[_find_fits(fitted, participants)]
    slopes = by_coefficient.reshape(len(states), by_preference.shape[1], -1) @ follow
    probabilities, limited = limit(rules.probabilities(states), slopes)
    return PolicyUpdate(influence, update.before, update.decided, trial.action[update.decided], probabilities, limited)


def _find_fits(fitted: Method, participants: NDArray[np.generic]) -> Positions:
    """Positions of participants among the fits; anybody without one has the last."""
    if fitted.pooled_:
        return np.zeros(len(participants), dtype=np.int64)
    known = fitted.logs_.participants
    order = np.argsort(known)
    nearest = order[np.minimum(np.searchsorted(known[order], participants), len(known) - 1)]
    return np.where(known[nearest] == participants, nearest, len(known))


def share_parameters(method: Method) -> SharedParameters:
    """What people share of a fitted method; refused where probabilities do not follow an estimating equation smoothly."""
    rule = method.policies_.rule
    if rule.slopes(np.zeros((*rule.batch, len(method.logs_.state_names)))) is None:
        raise InputError(
            f"the adaptive sandwich needs probabilities that change smoothly with what was learned; {method.rule.title} "
            "jumps from one action to another; use the usual errors"
        )
    if method.horizon_.looks_ahead or not method.critic_.has_coefficients:
        reason = "looks ahead" if method.horizon_.looks_ahead else "has no estimating equation"
        raise InputError(f"the adaptive sandwich has no formula for a method that {reason}; use the usual errors")
    return _share_policy(method) if method.pooled_ else _share_population(method)


def _share_policy(method: Method) -> SharedParameters:
    """One policy for everybody: the actor's θ, or the mean of the effects."""
    sandwich = Sandwich(method)
    critic = _solve_rows(sandwich)
    if isinstance(method.rule, Actor):
        influence = PolicyEquations(sandwich, method.rule).solve(critic, lambda values: values)
    else:
        influence = effects(critic, method.logs_.actions).reshape(len(critic), -1)
    return SharedParameters(sandwich.rows, influence, np.eye(influence.shape[1])[None])


def _solve_rows(sandwich: Sandwich) -> Floats:
    """The influence of every used row on w, (rows, d): H⁻¹ g, with the slope of the cap in H."""
    fitted = sandwich.fitted
    penalty = fitted.penalty_[0]
    away = fitted.critic_coef_[0] - fitted.prior_mean(fitted.logs_)
    pull = (sandwich.weights * sandwich.residual)[:, None] * sandwich.x - penalty * away / len(sandwich.rows)
    hessian = (sandwich.x * sandwich.slope[:, None]).T @ sandwich.x + np.diag(penalty)
    used = np.diagonal(hessian) != 0
    influences = np.zeros_like(pull)
    influences[:, used] = np.linalg.solve(hessian[np.ix_(used, used)], pull[:, used].T).T
    return np.asarray(influences)


def _share_population(method: Method) -> SharedParameters:
    """Partial pooling: β. A participant's coefficients follow it by (I + Ψ XᵀUX / σ²)⁻¹, those of anybody else wholly."""
    posterior = method.posterior_
    if posterior is None:
        raise InputError("policies of each participant alone leave participants independent; use the usual errors")
    if posterior.walk:
        raise InputError("the adaptive sandwich has no formula for a random walk of coefficients; use the usual errors")
    logs = method.logs_
    size = len(posterior.population)
    gram = np.asarray(posterior.likelihood.moments.gram)
    follow = np.linalg.inv(np.eye(size) + posterior.spread @ gram / posterior.noise)
    rows = logs.order[method.used_[logs.order]]
    seen = logs.state[rows] * method.critic_sees_
    centre = method.list_centres(logs)
    x = critic_features(seen, logs.action[rows], logs.actions, None if centre is None else centre[rows])
    residual = method.weights_[rows] * (logs.outcome[rows] - x @ posterior.population) / posterior.noise
    score = np.einsum("rji,rj->ri", follow[logs.participant_index[rows]], x * residual[:, None])
    # The penalty pulls as much as all scores together, in the other direction.
    influence = (score - score.mean(axis=0)) @ posterior.population_covariance
    few = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants)) < size
    every = np.concatenate([follow, np.eye(size)[None]])
    moved = np.moveaxis(effects(np.moveaxis(every, 1, 2), logs.actions), 1, -1).reshape(len(every), -1, size)
    if isinstance(method.rule, Actor):
        moved = _respond(method, method.rule) @ moved
    moved[:-1][few] = moved[-1]
    return SharedParameters(rows, influence, moved)


def _respond(method: Method, actor: Actor) -> Floats:
    """How the actor's coefficients follow the effects of their fit, (people and anybody, k·m, k·m)."""
    logs = method.logs_
    joint = method.joint_
    policies = method.policies_
    if joint is None or joint.anybody is None or policies.anybody is None:
        raise InputError("the adaptive sandwich needs a policy for anybody with partial pooling; use the usual errors")
    discount = discount_rows(logs, method.forgetting)
    centre = method.list_centres(logs)
    coef = policies.rules_for(logs.participants).preferences()
    responses = np.zeros((len(coef) + 1, *[coef[0].size] * 2))
    for fits, rows in method.pooling_.list_blocks(logs):
        batch = method.make_batch(logs, rows, discount, centre)
        result = method.fit_critic(batch, joint.restrict(fits, rows, NUMPY))
        responses[fits] = respond_to_effects(result, actor, coef[fits])
    ((everybody, rows),) = logs.one_block()
    batch = method.make_batch(logs, rows, discount, centre)
    anybody = method.fit_critic(batch, joint.anybody.restrict(everybody, rows, NUMPY))
    responses[-1:] = respond_to_effects(anybody, actor, policies.anybody.preferences()[None])
    return responses
