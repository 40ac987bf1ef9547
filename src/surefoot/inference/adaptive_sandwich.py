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
φ or ψ themselves (weights, centring), their derivatives are added to C.

The published formula estimates every C_uv as it stands. Often its expectation is 0 and its estimate is not; after tens of
updates the products of such estimates make standard errors many times too wide. `UpdateHistory` uses

    E[Σ_{s ≥ t} g_s · score_tᵀ] = E[Σ_a m_t(a) · ∂π_t(a)/∂βᵀ],    m_t(a) = E[Σ_{s ≥ t} g_s | a] − E[Σ_{s ≥ t} g_s | 0]:

a decision cannot change what happened before it, and the slopes of the policies are known exactly. Only the effects m of
decisions are estimated. They fade with the lag ℓ as ℓ^(−¾), so that the decisions of all updates together estimate one
number for each function and treatment, by a regression on actions centred at their probabilities. The functions of the last
update have effects; those of earlier updates are linear in them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Positions = NDArray[np.int64]
STEP = 1e-5  # Of differences, relative to the size of a parameter.
FADING = 0.75
"""Of the effects of decisions: that on a row ℓ decision points later is proportional to ℓ to the power of −0.75."""


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


def _mark_known(values: Floats) -> Marks:
    """The rows that functions have."""
    return np.asarray(values.any(axis=1), dtype=np.bool_)


def find_ends(participant: Positions) -> Positions:
    """The position of the last row of every row's participant."""
    return np.append(np.flatnonzero(np.diff(participant)), len(participant) - 1)[participant]


def _solve_published(equations: TrialEquations, updates: Iterable[PolicyUpdate]) -> Floats:
    """Every participant's influence G on the coefficients θ by the published formula, (participants, p): GᵀG is their
    covariance."""
    participant = equations.participant
    functions = sum_by_participant(equations.functions, participant)
    pull = equations.sum_scores()
    people = len(pull)
    carried: list[tuple[PolicyUpdate, Floats]] = []
    for update in updates:
        direct = sum_by_participant(update.influence, participant)
        influence = direct
        for earlier, of_earlier in carried:
            rows = earlier.decided[update.before[earlier.decided]]
            moved = direct[participant[rows]].T @ earlier.score[update.before[earlier.decided]]
            influence = influence + of_earlier @ moved.T / people
        carried.append((update, influence))
        by_decision = functions[participant[update.decided]] + equations.by_probability[update.decided]
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
        Take the formula as published, which is unstable after many updates, instead of that of `UpdateHistory`.

    Returns
    -------
    ndarray of shape (p, p)
    """
    if published:
        influences = _solve_published(equations, updates)
        return np.asarray(influences.T @ influences)
    return UpdateHistory(equations.participant, list(updates)).find_covariance(equations)


class Decisions:
    """Decisions that policies drew, and what depends on them at the same participant's later rows."""

    def __init__(self, participant: Positions, updates: Sequence[PolicyUpdate]) -> None:
        starts = np.flatnonzero(np.diff(participant, prepend=-1))
        self.people = len(starts)
        self.rows = np.concatenate([update.decided for update in updates])
        self._participant = participant
        self._point = np.arange(len(participant)) - starts[participant]
        lags = np.subtract.outer(np.arange(self._point.max() + 1), np.arange(self._point.max() + 1)).T
        self._fading = np.where(lags > 0, np.maximum(lags, 1.0) ** -FADING, 0.0)
        action = np.concatenate([update.action for update in updates])
        shares = np.concatenate([update.probabilities[:, 1:] for update in updates])
        treatments = np.arange(1, shares.shape[1] + 1)
        self._centred = (action[:, None] == treatments) - shares
        self._spread = shares[:, :, None] * (np.eye(len(treatments)) - shares[:, None, :])
        """Covariance of the centred actions, (decisions, treatments, treatments)."""

    def _sum_later(self, values: Floats, power: int) -> Floats:
        """Σ_ℓ ℓ^(−power · ¾) · value ℓ decision points later, for every decision, (decisions, functions)."""
        points = len(self._fading)
        by_point = np.zeros((points, self.people, values.shape[1]))
        by_point[self._point, self._participant] = values
        sums = (self._fading**power @ by_point.reshape(points, -1)).reshape(by_point.shape)
        return np.asarray(sums[self._point[self.rows], self._participant[self.rows]])

    def weigh_rows(self, present: Marks, open_rows: Floats | None = None) -> Floats:
        """How many times its effects a decision has: at its own row, at all later ones, and at earlier rows that are still
        open, (decisions, 2 or 3)."""
        values = np.asarray(present, dtype=np.float64)[:, None]
        open_columns = [] if open_rows is None else [open_rows]
        return np.column_stack([values[self.rows], self._sum_later(values, 1), *open_columns])

    def find_effects(self, immediate: Floats, values: Floats, present: Marks, open_rows: Floats | None = None) -> Floats:
        """Effects of decisions on functions, (2 or 3, treatments, functions).

        Parameters
        ----------
        immediate
            The functions of every row as its own decision changes them, (rows, functions).
        values
            The same as earlier decisions change them.
        present
            The rows that the functions have.
        open_rows
            Sums over earlier rows that a decision can still change, their number last, (decisions, functions + 1).
        """
        known = np.asarray(present, dtype=np.float64)[:, None]
        totals = [immediate[self.rows], self._sum_later(values, 1)]
        information = [known[self.rows, 0], self._sum_later(known, 2)[:, 0]]
        if open_rows is not None:
            totals.append(open_rows[:, :-1])
            information.append(open_rows[:, -1])
        effects = []
        for total, weight in zip(totals, information, strict=True):
            gram = np.tensordot(weight, self._spread, axes=1)
            effects.append(np.linalg.pinv(gram, hermitian=True) @ (self._centred.T @ total))
        return np.stack(effects)


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
        self._decisions = Decisions(participant, updates)
        latest = updates[-1].influence
        effects = self._decisions.find_effects(latest, latest, _mark_known(latest))
        for update in updates:
            influence = sum_by_participant(update.influence, participant)
            # As many coefficients make residuals too small where few people had entered.
            entered = np.count_nonzero(influence.any(axis=1))
            influence = influence * np.sqrt(entered / max(entered - influence.shape[1], 1))
            if self._influences:
                present = _mark_known(update.influence)
                mapping = np.linalg.lstsq(latest[present], update.influence[present], rcond=None)[0]
                influence = influence + self._carry(self._decisions.weigh_rows(present), effects @ mapping)
            self._influences.append(influence * self._saturate(update, influence))

    def _saturate(self, update: PolicyUpdate, influence: Floats) -> float:
        """The factor by which linear changes of an update's probabilities are too large to be possible.

        A probability with mean π has at most the variance π(1 − π).
        """
        moved = np.tensordot(update.slopes, influence.T @ influence / self._decisions.people**2, axes=1)
        variance = float((moved * update.slopes).sum())
        most = float((update.probabilities * (1 - update.probabilities)).sum())
        return min(1.0, np.sqrt(most / variance)) if variance > 0 else 1.0

    def _carry(self, weights: Floats, effects: Floats) -> Floats:
        """Every participant's influence, through all updates so far, on what decisions change, (participants, functions)."""
        total = np.zeros((self._decisions.people, weights.shape[1] * effects.shape[1]))
        for update, decided, influence in zip(self._updates, self._decided, self._influences, strict=False):
            slopes = update.slopes[:, 1:]
            moved = weights[decided].T @ slopes.reshape(len(slopes), -1)
            total += influence @ moved.reshape(-1, slopes.shape[2]).T / self._decisions.people
        return np.asarray(total @ effects.reshape(total.shape[1], -1))

    def find_covariance(self, equations: TrialEquations) -> Floats:
        """The covariance of the coefficients of an analysis, (p, p)."""
        return self.find_covariances(equations, [equations.sum_scores()])[0]

    def find_covariances(self, equations: TrialEquations, scores: Sequence[Floats]) -> list[Floats]:
        """The same for several versions of ψ of every participant, such as those with corrections for small samples."""
        moved = self._follow_policies(equations) if self._updates else 0.0
        influences = [np.linalg.solve(equations.bread, score.T).T + moved for score in scores]
        return [np.asarray(influence.T @ influence) for influence in influences]

    def _follow_policies(self, equations: TrialEquations) -> Floats:
        """Every participant's influence on θ through the policies of others, (participants, p)."""
        values = np.asarray(np.linalg.solve(equations.bread, equations.functions.T).T, dtype=np.float64)
        immediate = values + np.linalg.solve(equations.bread, equations.by_probability.T).T
        present = _mark_known(equations.functions)
        open_rows = None
        if equations.last is not None:
            # Rows before the decision whose outcome comes after it.
            both: Floats = np.asarray(np.column_stack([values, present]), dtype=np.float64)
            placed = np.zeros_like(both)
            np.add.at(placed, equations.last, both)
            open_rows = (np.cumsum(both - placed, axis=0) - both + placed)[self._decisions.rows]
        effects = self._decisions.find_effects(immediate, values, present, open_rows)
        weights = self._decisions.weigh_rows(present, None if open_rows is None else open_rows[:, -1])
        return self._carry(weights, effects)
