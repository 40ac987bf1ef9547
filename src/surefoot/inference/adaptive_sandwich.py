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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.inference.later_effects import Decisions, LaterEffects

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
    action: Positions
    """The actions drawn, (decided rows,)."""
    probabilities: Floats
    """Of all actions, (decided rows, actions)."""
    slopes: Floats
    """∂π / ∂β of all actions, (decided rows, actions, q)."""

    def __post_init__(self) -> None:
        if not (self._taken > 0).all():
            raise InputError(
                "a policy update gives probability 0 to an action that was taken; give the version that decided these rows"
            )

    @property
    def _taken(self) -> Floats:
        return np.take_along_axis(self.probabilities, self.action[:, None], axis=1)

    @property
    def score(self) -> Floats:
        """∂ log π(A | S; β) / ∂β, (decided rows, q)."""
        return np.asarray(np.take_along_axis(self.slopes, self.action[:, None, None], axis=1)[:, 0] / self._taken)


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

    def sum_scores(self) -> Floats:
        """ψ of every participant, corrected where that is wanted."""
        return sum_by_participant(self.functions, self.participant) if self.scores is None else self.scores


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
        action=action,
        probabilities=probabilities(parameters),
        slopes=differentiate(probabilities, parameters),
    )


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


def adaptive_influences(equations: TrialEquations, updates: Iterable[PolicyUpdate], *, whole_trial: bool = True) -> Floats:
    """Every participant's influence G on the coefficients θ by the published formula, (participants, p): GᵀG is their
    covariance.

    Without `whole_trial` ψ and φ are weighted only by the decisions that could change them.
    """
    participant = equations.participant
    ends = find_ends(participant) if whole_trial else None
    changeable = sum_changeable(equations.functions, participant, ends if whole_trial else equations.last)
    pull = equations.sum_scores()
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


def adaptive_covariance(equations: TrialEquations, updates: Iterable[PolicyUpdate], *, published: bool = False) -> Floats:
    """The covariance of the coefficients θ after policies that learned from all participants, (p, p).

    Parameters
    ----------
    equations
        Of the analysis.
    updates
        Of the policy, in their order.
    published
        Take the formula as published, which is unstable after many updates, instead of the effects of decisions that
        `later_effects` estimates from all updates together.

    Returns
    -------
    ndarray of shape (p, p)
    """
    if published:
        influences = adaptive_influences(equations, updates)
        return np.asarray(influences.T @ influences)
    return UpdateHistory(equations.participant, list(updates)).find_covariance(equations)


class UpdateHistory:
    """All updates of a trial, with every participant's influence on their parameters; serves many analyses of the trial.

    Parameters
    ----------
    participant
        Position of every row's participant, (rows,).
    updates
        In their order.
    """

    def __init__(self, participant: Positions, updates: Sequence[PolicyUpdate]) -> None:
        self._updates = updates
        self._influences: list[Floats] = []
        ends = np.cumsum([len(update.decided) for update in updates], dtype=np.int64)
        self._decided = [slice(end - len(update.decided), end) for update, end in zip(updates, ends, strict=True)]
        if not updates:
            return
        self._decisions = Decisions(
            participant,
            np.concatenate([update.decided for update in updates]),
            np.concatenate([update.action for update in updates]),
            np.concatenate([update.probabilities for update in updates]),
        )
        for update, decided in zip(updates, self._decided, strict=True):
            influence = sum_by_participant(update.influence, participant)
            # As many coefficients make residuals too small where few people had entered.
            entered = np.count_nonzero(influence.any(axis=1))
            influence = influence * np.sqrt(entered / max(entered - influence.shape[1], 1))
            if decided.start:
                present = np.asarray(update.influence.any(axis=1), dtype=np.float64)
                rows = self._decisions.rows[: decided.start]
                early = [(update.influence[rows], present[rows])]
                effects = self._decisions.find_effects(update.influence, present, decided.start, early)
                if effects.mean.any():
                    influence = influence + self._carry(effects) @ effects.mean.reshape(-1, influence.shape[1])
            self._influences.append(influence * self._saturate(update, influence))

    def _saturate(self, update: PolicyUpdate, influence: Floats) -> float:
        """The factor by which linear changes of an update's probabilities are too large to be possible.

        A probability with mean π has at most the variance π(1 − π).
        """
        moved = np.tensordot(update.slopes, influence.T @ influence / self._decisions.people**2, axes=1)
        variance = float((moved * update.slopes).sum())
        most = float((update.probabilities * (1 - update.probabilities)).sum())
        return min(1.0, np.sqrt(most / variance)) if variance > 0 else 1.0

    def _carry(self, effects: LaterEffects) -> Floats:
        """Every participant's influence, through all updates so far, on what the effects multiply, (participants, windows ·
        treatments)."""
        total = np.zeros((self._decisions.people, effects.covariance.shape[1]))
        for update, decided, influence in zip(self._updates, self._decided, self._influences, strict=False):
            slopes = update.slopes[:, 1:]
            moved = effects.counts[decided].T @ slopes.reshape(len(slopes), -1)
            total += influence @ moved.reshape(-1, slopes.shape[2]).T / self._decisions.people
        return total

    def find_covariance(self, equations: TrialEquations) -> Floats:
        """The covariance of the coefficients of an analysis, (p, p)."""
        return self.find_covariances(equations, [equations.sum_scores()])[0]

    def find_covariances(self, equations: TrialEquations, scores: Sequence[Floats]) -> list[Floats]:
        """The same for several versions of ψ of every participant, such as those with corrections for small samples."""
        influences = [np.linalg.solve(equations.bread, score.T).T for score in scores]
        if not self._updates:
            return [np.asarray(influence.T @ influence) for influence in influences]
        effects = _find_final_effects(equations, self._decisions)
        carried = self._carry(effects)
        moved = carried @ effects.mean.reshape(-1, len(equations.bread))
        uncertain = np.diag(np.einsum("kl,jkl->j", carried.T @ carried, effects.covariance))
        return [np.asarray((influence + moved).T @ (influence + moved) + uncertain) for influence in influences]


def _find_final_effects(equations: TrialEquations, decisions: Decisions) -> LaterEffects:
    """Of decisions on the coefficients θ."""
    functions = np.asarray(np.linalg.solve(equations.bread, equations.functions.T).T, dtype=np.float64)
    by_probability = np.linalg.solve(equations.bread, equations.by_probability.T).T
    present = np.asarray(equations.functions.any(axis=1), dtype=np.float64)
    rows = decisions.rows
    early = [((functions + by_probability)[rows], present[rows])]
    if equations.last is not None:
        # Rows before the decision whose outcome comes after it.
        both = np.column_stack([functions, present])
        placed = np.zeros_like(both)
        np.add.at(placed, equations.last, both)
        open_rows = (np.cumsum(both - placed, axis=0) - both + placed)[rows]
        early.append((open_rows[:, :-1], open_rows[:, -1]))
    return decisions.find_effects(functions, present, len(rows), early)
