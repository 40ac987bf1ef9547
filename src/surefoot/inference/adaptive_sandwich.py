"""Covariances of an analysis after a policy that learned from all participants while the trial ran.

Such a policy makes participants depend on each other: one participant's outcomes change what another is sent. Let updates
u = 1 … U have parameters β_u with estimating functions φ_u, let the analysis have coefficients θ with estimating function
ψ, and let

    w_iu = Π over i's decisions before update u of π(A; β_v) / π(A; β̂_v), v the version that decided.

The stacked equations mean_i [w_iu φ_ui(β_u), w_i ψ_i(θ)] = 0 then behave as those of independent participants (Zhang,
Janson and Murphy, arXiv 2202.07098 and 2407.15377). At the estimates every weight is 1 and its derivative is a sum of
scores ∂ log π / ∂β. The derivative of the stack is block triangular, so influence functions follow by forward substitution:

    IF_u = inf_u + Σ_{v < u} IF_v C_uvᵀ,    C_uv = (1/n) Σ over decisions of v before u (inf_u of the participant · scoreᵀ),

where inf_u is the influence on β_u when all earlier policies are given; θ follows in the same way. Where probabilities enter
φ or ψ themselves (weights, centring), their derivatives are added to C. A decision cannot change what happened before it, so
inf_u may be summed over the later decision points alone. That varies less than the sum over all of them and is as valid.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Positions = NDArray[np.int64]
STEP = 1e-5  # Of differences, relative to the size of a parameter.


@dataclass(frozen=True, eq=False)
class PolicyUpdate:
    """A policy version that was learned in the trial, as the adaptive sandwich needs it."""

    influence: Floats
    """n times the influence of every row on the parameters, earlier policies given, (rows, q); 0 for unknown rows."""
    before: Marks
    """Which rows were decided before the update, (rows,)."""
    decided: Positions
    """The rows that this version decided by a draw."""
    score: Floats
    """∂ log π(A | S; β) / ∂β of these rows, (decided rows, q)."""


@dataclass(frozen=True, eq=False)
class TrialEquations:
    """The estimating equations of an analysis of a trial; rows are sorted by participant, then by time."""

    participant: Positions
    """Position of every row's participant, (rows,): 0, 1, … without gaps."""
    bread: Floats
    """A = −Σ ∂ψ/∂θ over rows, (p, p)."""
    functions: Floats
    """ψ of every row, (rows, p); 0 for rows that do not count."""
    by_probability: Floats
    """∂ψ / ∂ log(probability of the action taken) of every row, (rows, p)."""
    scores: Floats | None = None
    """ψ of every participant, corrected for small samples, (participants, p); None: plain sums."""
    last: Positions | None = None
    """The last decision that could change ψ of every row, as the position of its row; None: the row's own decision."""


def differentiate(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """The derivative of an array-valued function by central differences, (…, parameters).

    >>> differentiate(lambda x: x**2, np.array([1.0, 3.0])).round(6)
    array([[2., 0.],
           [0., 6.]])
    """
    columns = []
    for number, value in enumerate(at):
        step = np.zeros_like(at)
        step[number] = STEP * max(1.0, abs(value))
        columns.append((function(at + step) - function(at - step)) / (2 * step[number]))
    return np.stack(columns, axis=-1)


def update_by_differences(
    parameters: Floats,
    estimating_function: Callable[[Floats], Floats],
    probabilities: Callable[[Floats], Floats],
    *,
    participants: int,
    before: Marks,
    decided: Positions,
    action: Positions,
) -> PolicyUpdate:
    """An update of any learner, with derivatives by differences.

    Parameters
    ----------
    parameters
        β̂ of the update, (q,).
    estimating_function
        β → φ of every row, (rows, q), 0 for rows that the update did not know; at β̂ their sum is 0.
    probabilities
        β → probabilities of the actions at the rows that the update decided, (decided rows, actions).
    participants
        The number of participants of the trial.
    before
        Which rows were decided before the update, (rows,).
    decided
        The rows that it decided, as positions.
    action
        The actions taken at these rows.

    Returns
    -------
    PolicyUpdate
        For `adaptive_covariance`.

    Examples
    --------
    >>> outcome = np.array([1.0, 2.0, 4.0, 5.0])
    >>> update = update_by_differences(
    ...     np.array([1.5]),
    ...     lambda mean: np.append(outcome[:2] - mean, [0, 0])[:, None],
    ...     lambda mean: np.tile([1 - 0.1 * mean[0], 0.1 * mean[0]], (2, 1)),
    ...     participants=2,
    ...     before=np.array([True, True, False, False]),
    ...     decided=np.array([2, 3]),
    ...     action=np.array([1, 0]),
    ... )
    >>> update.influence.ravel().round(3), update.score.ravel().round(3)
    (array([-0.5,  0.5,  0. ,  0. ]), array([ 0.667, -0.118]))
    """
    parameters = np.asarray(parameters, dtype=np.float64)
    functions = estimating_function(parameters)
    derivative = differentiate(lambda beta: estimating_function(beta).sum(axis=0) / participants, parameters)
    return PolicyUpdate(
        influence=np.asarray(-np.linalg.solve(derivative, functions.T).T, dtype=np.float64),
        before=before,
        decided=decided,
        score=find_scores(probabilities, parameters, action),
    )


def find_scores(probabilities: Callable[[Floats], Floats], parameters: Floats, action: Positions) -> Floats:
    """∂ log π(A) / ∂β of rows with these actions, (rows, q), by differences."""
    taken = np.take_along_axis(probabilities(parameters), action[:, None], axis=1)
    if not (taken > 0).all():
        raise InputError(
            "a policy update gives probability 0 to an action that was taken; give the version that decided these rows"
        )
    by_parameter = differentiate(probabilities, parameters)
    return np.asarray(np.take_along_axis(by_parameter, action[:, None, None], axis=1)[:, 0] / taken)


def sum_by_participant(values: Floats, participant: Positions) -> Floats:
    """(rows, …) to (participants, …); rows of a participant lie together."""
    return np.asarray(np.add.reduceat(values, np.flatnonzero(np.diff(participant, prepend=-1))))


def sum_changeable(values: Floats, participant: Positions, last: Positions | None) -> Floats:
    """For every decision the sum over its participant's values that it could change, (rows, …).

    `last` holds the position of the last decision that could change each value; None: the row's own.
    """
    if last is not None:
        placed = np.zeros_like(values)
        np.add.at(placed, last, values)
        values = placed
    passed = np.cumsum(values, axis=0)
    ends = np.append(np.flatnonzero(np.diff(participant)), len(participant) - 1)
    return np.asarray(passed[ends][participant] - passed + values)


def find_ends(participant: Positions) -> Positions:
    """The position of the last row of every row's participant."""
    return np.append(np.flatnonzero(np.diff(participant)), len(participant) - 1)[participant]


def adaptive_influences(equations: TrialEquations, updates: Iterable[PolicyUpdate], *, whole_trial: bool = False) -> Floats:
    """Every participant's influence G on the coefficients θ, (participants, p): GᵀG is their covariance.

    With `whole_trial` ψ and φ are weighted by all of the participant's decisions, as in the published formula.
    """
    participant = equations.participant
    ends = find_ends(participant) if whole_trial else None
    changeable = sum_changeable(equations.functions, participant, ends if whole_trial else equations.last)
    pull = sum_by_participant(equations.functions, participant) if equations.scores is None else equations.scores
    people = len(pull)
    carried: list[tuple[PolicyUpdate, Floats]] = []
    for update in updates:
        influence = sum_by_participant(update.influence, participant)
        changed = sum_changeable(update.influence, participant, ends)
        for earlier, of_earlier in carried:
            known = update.before[earlier.decided]
            moved = changed[earlier.decided[known]].T @ earlier.score[known]
            influence = influence + of_earlier @ moved.T / people
        carried.append((update, influence))
        by_decision = changeable[update.decided] + equations.by_probability[update.decided]
        pull = pull + influence @ (by_decision.T @ update.score).T / people
    return np.asarray(np.linalg.solve(equations.bread, pull.T).T)


def adaptive_covariance(equations: TrialEquations, updates: Iterable[PolicyUpdate], *, whole_trial: bool = True) -> Floats:
    """The covariance of the coefficients θ after policies that learned from all participants, (p, p).

    Parameters
    ----------
    equations
        Of the analysis.
    updates
        Of the policy, in their order.
    whole_trial
        Weight ψ by all decisions of a participant, as published. Otherwise only by decisions that could change it, which
        varies less.

    Returns
    -------
    ndarray of shape (p, p)
    """
    influences = adaptive_influences(equations, updates, whole_trial=whole_trial)
    return np.asarray(influences.T @ influences)
