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
from surefoot.inference.adaptive_sandwich import Floats, Marks, PolicyUpdate, Positions, find_scores
from surefoot.inference.sandwich import PolicyEquations, Sandwich
from surefoot.learning.batch import discount_rows
from surefoot.learning.methods import Method
from surefoot.learning.rules import Actor
from surefoot.numerics.arrays import NUMPY
from surefoot.policies.features import critic_features, effects
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann, DecisionRule, PosteriorSampling, SmoothAllocation

SMOOTH = (Boltzmann, PosteriorSampling, SmoothAllocation)
Limit = Callable[[Floats], Floats]
"""Keeps probabilities (rows, actions) within the limits of the study."""


@dataclass(frozen=True, eq=False)
class RecordedUpdate:
    """A policy version that a trial learned; rows are those of the trial, sorted by participant, then by time."""

    version: int
    known: Marks
    """Rows whose outcomes the update learned from."""
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
    values: Floats
    """The parameters, (q,)."""
    decide: Callable[[Floats, NDArray[np.generic]], DecisionRule]
    """The rules of participants for other values of the parameters."""


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
    known = trial[past].with_values(reward=np.where(update.known[past], trial.reward[past], np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # The trial warned when it learned.
        fitted = replace(method).fit_some(known)
    shared = share_parameters(fitted)
    influence = np.zeros((len(trial), len(shared.values)))
    influence[past[shared.rows]] = len(trial.participants) * shared.influence
    states = trial.state[update.decided]
    participants = trial.participant[update.decided]

    def probabilities(moved: Floats) -> Floats:
        return limit(shared.decide(moved, participants).probabilities(states))

    score = find_scores(probabilities, shared.values, trial.action[update.decided])
    return PolicyUpdate(influence, update.before, update.decided, score)


def share_parameters(method: Method) -> SharedParameters:
    """What people share of a fitted method; refused where probabilities do not follow an estimating equation smoothly."""
    if not isinstance(method.policies_.rule, SMOOTH):
        raise InputError(
            f"the adaptive sandwich needs probabilities that change smoothly with what was learned; {method.rule.title} "
            "jumps from one action to another; use the usual errors"
        )
    if method.horizon_.looks_ahead or not method.critic_.has_coefficients:
        reason = "looks ahead" if method.horizon_.looks_ahead else "has no estimating equation"
        raise InputError(f"the adaptive sandwich has no formula for a method that {reason}; use the usual errors")
    return _share_policy(method) if method.pooled_ else _share_population(method)


def _share_policy(method: Method) -> SharedParameters:
    """One policy for everybody: its first array, which is the actor's θ or the mean of the effects."""
    sandwich = Sandwich(method)
    critic = _solve_rows(sandwich)
    rule = method.policies_.rule
    name, estimate = next(iter(rule.arrays().items()))
    if isinstance(method.rule, Actor):
        influence = PolicyEquations(sandwich, method.rule).solve(critic, lambda values: values)
    else:
        influence = effects(critic, method.logs_.actions).reshape(len(critic), -1)

    def decide(moved: Floats, participants: NDArray[np.generic]) -> DecisionRule:
        return replace(rule, **{name: moved.reshape(estimate.shape)})[0]

    return SharedParameters(sandwich.rows, influence, estimate.ravel(), decide)


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
    residual = method.weights_[rows] * (logs.reward[rows] - x @ posterior.population) / posterior.noise
    score = np.einsum("rji,rj->ri", follow[logs.participant_index[rows]], x * residual[:, None])
    # The penalty pulls as much as all scores together, in the other direction.
    influence = (score - score.mean(axis=0)) @ posterior.population_covariance
    few = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants)) < size
    follow[few] = np.eye(size)
    shifts = np.concatenate([follow, np.eye(size)[None]])
    learn = _make_learner(method)

    def decide(moved: Floats, participants: NDArray[np.generic]) -> DecisionRule:
        return learn(effects(shifts @ (moved - posterior.population), logs.actions), few).rules_for(participants)

    return SharedParameters(rows, influence, posterior.population, decide)


def _make_learner(method: Method) -> Callable[[Floats, Marks], Policies]:
    """A function that learns the policies again from moved effects, (people and anybody, k, m); people with `few` decision
    points have the policy of anybody."""
    logs = method.logs_
    joint = method.joint_
    policies = method.policies_
    if joint is None or joint.anybody is None:
        raise InputError("the adaptive sandwich needs a policy for anybody with partial pooling; use the usual errors")
    discount = discount_rows(logs, method.forgetting)
    centre = method.list_centres(logs)
    results = []
    for fits, rows in method.pooling_.list_blocks(logs):
        batch = method.make_batch(logs, rows, discount, centre)
        results.append((fits, method.fit_critic(batch, joint.restrict(fits, rows, NUMPY))))
    ((everybody, rows),) = logs.one_block()
    batch = method.make_batch(logs, rows, discount, centre)
    anybody = method.fit_critic(batch, joint.anybody.restrict(everybody, rows, NUMPY))
    results.append((np.array([len(logs.participants)]), anybody))

    def learn(shift: Floats, few: Marks) -> Policies:
        arrays: dict[str, list[Floats]] = {}
        for fits, result in results:
            if result.ahead is None:
                raise InputError("the adaptive sandwich needs the advantages of partial pooling; use the usual errors")
            ahead = replace(result.ahead, mean=result.ahead.mean + shift[fits])
            rule, _ = method.rule.learn(replace(result, ahead=ahead))
            for name, values in rule.arrays().items():
                arrays.setdefault(name, []).append(values)
        order = np.argsort(np.concatenate([fits for fits, _ in results]))
        joined = type(policies.rule)(**{name: np.concatenate(values)[order] for name, values in arrays.items()})
        return replace(policies, rule=joined[:-1]).with_anybody(joined[-1], instead_of=few)

    return learn
