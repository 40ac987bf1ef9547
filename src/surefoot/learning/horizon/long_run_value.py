"""Long-run value from logs: the average outcome after a policy has been in force for long, in the states it leads to.

With φ = φ(s, a) the critic's features of a decision point (without its intercept), φ̄′ = E_π φ(s′, ·) those of the
participant's next one and u = φ − φ̄′, the value equations of a policy π are

    r = ηᵢ + uᵀw + δ,   E(δ | s, a) = 0.

Each participant has a long-run average ηᵢ; w, the relative worth of a state and an action, is common. In deviations from
the participant's means (a tilde), w solves Σ φ̃ ũᵀ w = Σ φ̃ r̃, and η, the average over people, is the mean of r − uᵀw
(Liao, Klasnja and Murphy 2021, with an intercept for every participant). The half-panel jackknife, 2w − (w₁ + w₂)/2 from
both halves of everybody's decision points, removes the bias of short series. Where people's wᵢ clearly differ, η is
corrected by E (ūᵢ − Aᵢᵀz)ᵀ(wᵢ − w), Aᵢ a participant's mean of φ̃ ũᵀ, A everybody's and z = A⁻ᵀū, with one factor from each
half. docs/off-policy.md explains both. A participant's influence ψ is the derivative of η; the squared standard error is
Σ ψ² N / (N − 1).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.learning.critics import Critic
from surefoot.learning.horizon.transitions import HorizonTask, find_transitions
from surefoot.learning.penalties import StandardUnits
from surefoot.learning.pooling import make_pooling
from surefoot.policies.features import critic_features

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]
PAIRS_PER_COEFFICIENT = 5  # With fewer consecutive decision points for each coefficient the logs are refused.
SINGULAR = 1e12  # Equations with a larger condition number have no reliable solution.


@dataclass(frozen=True, eq=False)
class LongRunLogs:
    """Consecutive decision points with a known outcome, as the estimator reads them."""

    logs: Trajectories
    rows: Codes  # In the order of time within people, which stand together.
    following: Codes
    nuisances: Floats  # Nights and unavailability, of all rows.
    varying: Mask  # State variables that are not constant.

    @classmethod
    def of_logs(
        cls, logs: Trajectories, critic: Critic, *, max_gap: int = 1, day_boundary: DayBoundary = None
    ) -> "LongRunLogs":
        """The rows that the critic keeps; logs that cannot show the consequences of every action are refused."""
        transitions = find_transitions(logs, max_gap=max_gap, day_boundary=day_boundary)
        everything = np.ones(len(logs.state_names))
        data = HorizonTask(
            logs=logs,
            critic=critic,
            pooling=make_pooling("all"),
            critic_sees=everything,
            policy_sees=everything,
            discount=np.ones(len(logs)),
            units=StandardUnits(),
            transitions=transitions,
        )
        judged = data.judge()
        following = transitions.following
        pairs = data.pairs & judged.trusted & judged.trusted[following] & ~np.isnan(logs.outcome) & (judged.weights != 0)
        rows = logs.order[pairs[logs.order]]
        for code, name in enumerate(logs.action_names):
            if not (logs.action[rows] == code).any():
                raise InputError(
                    f"action '{name}' is never followed by a decision point with a known state, so nothing can be said "
                    "about its long run; log more of it, or evaluate without --long-run"
                )
        needed = PAIRS_PER_COEFFICIENT * (len(logs.state_names) + 1) * logs.actions
        if len(rows) < needed or len(np.unique(logs.participant_index[rows])) < 2:
            raise InputError(
                f"{len(rows)} consecutive decision points with outcomes are too few for a long-run value; at least "
                f"{needed} are needed, of 2 people or more. Log missed decision points, or let max_gap cross gaps"
            )
        return cls(logs, rows, following[rows], data.nuisances, np.ptp(logs.state[rows], axis=0) > 0)

    @cached_property
    def position(self) -> Codes:
        """The participant of every row as a number from 0 on, (rows,)."""
        return np.unique(self.logs.participant_index[self.rows], return_inverse=True)[1]

    @cached_property
    def is_early(self) -> Mask:
        """Whether a row is in the first half of its participant's, (rows,)."""
        count = np.bincount(self.position)
        begin = np.cumsum(count) - count
        return 2 * (np.arange(len(self.rows)) - begin[self.position]) < count[self.position]

    def _features(self, rows: Codes, probabilities: Floats) -> Floats:
        """Σ_a π(a) φ(s, a) of the rows, with their nuisances."""
        state = self.logs.state[rows][:, self.varying]
        base = np.asarray(critic_features(state, np.zeros(len(rows)), 1))
        blocks = [base[:, 1:], *(probabilities[:, a, None] * base for a in range(1, self.logs.actions))]
        return np.concatenate([*blocks, self.nuisances[rows]], axis=1)

    def solve(self, probabilities: Floats) -> "LongRunSolution":
        """The long-run average for π(a | s′) at the following decision points, (rows, actions).

        >>> import surefoot as sf
        >>> logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=210, seed=0)
        >>> data = LongRunLogs.of_logs(logs, sf.learning.critics.Ridge())
        >>> never = np.tile([1.0, 0.0], (len(data.rows), 1))
        >>> bool(abs(data.solve(never).value - 1500) < 30)  # The truth is 1,500.
        True
        """
        logs = self.logs
        one_hot = np.eye(logs.actions)
        expected = np.where(logs.available[self.following, None], probabilities, one_hot[0])
        features = self._features(self.rows, one_hot[logs.action[self.rows]])
        difference = features - self._features(self.following, expected)
        scale = np.sqrt((deviate(features, self.position) ** 2).mean(axis=0))
        # A feature that never changes within a participant is part of the participant's average.
        moves = scale > 1e-9 * np.sqrt((features**2).mean(axis=0))
        features = features[:, moves] / scale[moves]
        difference = difference[:, moves] / scale[moves]
        return solve_equations(features, difference, logs.outcome[self.rows], self.position, self.is_early)


def sum_people(values: Floats, position: Codes, people: int) -> Floats:
    """Sums over each participant's rows, which stand together: (rows, columns) gives (people, columns)."""
    count = np.bincount(position, minlength=people)
    present = count > 0
    totals = np.zeros((people, values.shape[1]))
    totals[present] = np.add.reduceat(values, (np.cumsum(count) - count)[present], axis=0)
    return totals


def deviate(values: Floats, position: Codes) -> Floats:
    """Values (rows, columns) less the mean of the participant's rows."""
    count = np.bincount(position)
    return values - (sum_people(values, position, len(count)) / np.maximum(count, 1)[:, None])[position]


class LongRunSolution(NamedTuple):
    """A policy's long-run average, without and with the correction for people whose wᵢ differ."""

    value: float
    influence: Floats  # Of each participant, (people,).
    corrected_value: float
    corrected_influence: Floats
    p_value: float
    """How likely the halves of people's decision points agree as much when everybody's wᵢ are the same."""
    jackknifed: bool  # Whether both halves could be solved: without them there is neither jackknife nor correction.

    def correct(self, people_differ: bool) -> tuple[float, Floats]:
        """The value and the influences to use."""
        return (self.corrected_value, self.corrected_influence) if people_differ else (self.value, self.influence)


class _CommonWorth:
    """w of the chosen rows, in deviations from each participant's means over these rows."""

    def __init__(self, features: Floats, difference: Floats, reward: Floats, position: Codes, chosen: Mask) -> None:
        self._position = position[chosen]
        self._difference = difference[chosen]
        self._deviation = deviate(self._difference, self._position)
        self.features = deviate(features[chosen], self._position)
        deviating_reward = deviate(reward[chosen, None], self._position)[:, 0]
        rows = len(deviating_reward)
        self.system = self.features.T @ self._deviation / rows
        self.is_singular = bool(np.linalg.cond(self.system) > SINGULAR)
        self.coef = np.asarray(np.linalg.lstsq(self.system, self.features.T @ deviating_reward / rows)[0])
        self.count = np.bincount(self._position, minlength=int(position.max()) + 1)
        residual = deviating_reward - self._deviation @ self.coef
        self.scores = sum_people(self.features * residual[:, None], self._position, len(self.count))
        """The sum of φ̃ δ over each participant's rows, (people, features)."""

    def move(self, direction: Floats) -> Floats:
        """By how much each participant moves directionᵀw, (people,)."""
        return np.asarray(self.scores @ np.linalg.solve(self.system.T, direction) / len(self.features))

    def find_gaps(self, ratio: Floats) -> Floats:
        """ūᵢ − Aᵢᵀz, (people, features); 0 without rows."""
        gap = self._difference - self._deviation * (self.features @ ratio)[:, None]
        return sum_people(gap, self._position, len(self.count)) / np.maximum(self.count, 1)[:, None]

    def find_deviations(self) -> Floats:
        """wᵢ − w to first order, A⁻¹ times the mean of φ̃ δ, (people, features); 0 without rows."""
        mean_scores = self.scores / np.maximum(self.count, 1)[:, None]
        return np.asarray(np.linalg.solve(self.system, mean_scores.T).T)


def solve_equations(
    features: Floats, difference: Floats, reward: Floats, position: Codes, is_early: Mask
) -> LongRunSolution:
    """η from φ, u and r of all rows, and from both halves of them."""
    every_row, early, late = (
        _CommonWorth(features, difference, reward, position, chosen)
        for chosen in (np.ones(len(reward), dtype=bool), is_early, ~is_early)
    )
    if every_row.is_singular:
        raise InputError(
            "the long-run value cannot be estimated from these logs: a state is a combination of others, or never settles; "
            "leave it out"
        )
    jackknifed = not (early.is_singular or late.is_singular)
    fits = [(2.0, every_row), (-0.5, early), (-0.5, late)] if jackknifed else [(1.0, every_row)]
    mean = difference.mean(axis=0)
    averages = reward - difference @ np.sum([share * fit.coef for share, fit in fits], axis=0)
    value = float(averages.mean())
    influence = np.bincount(position, averages - value, len(every_row.count)) / len(averages)
    influence -= np.sum([share * fit.move(mean) for share, fit in fits], axis=0)
    if not jackknifed:
        return LongRunSolution(value, influence, value, influence, 1.0, jackknifed)
    ratio = np.linalg.solve(every_row.system.T, mean)
    products = early.find_gaps(ratio) * late.find_deviations() + late.find_gaps(ratio) * early.find_deviations()
    bias = products.sum(axis=1) / 2
    share_of_rows = every_row.count / len(averages)
    total = float((share_of_rows * bias).sum())
    corrected = influence - share_of_rows * (bias - total)
    return LongRunSolution(value, influence, value - total, corrected, _compare_halves(every_row, early, late), jackknifed)


def _compare_halves(every_row: _CommonWorth, early: _CommonWorth, late: _CommonWorth) -> float:
    """How likely people's halves agree as much by chance, from a one-sided t test of their scores' products.

    The product is that of the information Σ φ̃ φ̃ᵀ, in which a direction counts more the better it is known.
    """
    from scipy.special import stdtr

    information = np.linalg.pinv(every_row.features.T @ every_row.features, hermitian=True)
    both = (early.count > 1) & (late.count > 1)
    products = np.einsum("ni,ij,nj->n", early.scores[both], information, late.scores[both])
    if len(products) < 2 or not products.any():
        return 1.0
    statistic = products.mean() / (products.std(ddof=1) / np.sqrt(len(products)))
    return float(stdtr(len(products) - 1, -statistic))
