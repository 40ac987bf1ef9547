"""Whether coefficients move while people are in the study: tests that leave everybody's own coefficients free.

Within each participant i the reward and the columns that change with time, t z (t the decision points since the first one),
are taken from what the participant's own columns n explain. What is left, s = z̃ᵀr̃, has the mean zero when nothing moves,
whatever the noise. Sums over people are compared with those in which everybody's s has a random sign:

    T = max_j |Σᵢ sᵢⱼ| / √(Σᵢ sᵢⱼ²),   p = share of sign vectors ε whose max_j |Σᵢ εᵢ sᵢⱼ| / √(Σᵢ sᵢⱼ²) is as large

With symmetric s that is exact however few people there are and however different their noise; otherwise s is a sum over
decision points, and nearly normal. A participant's decision points need not be independent of each other.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, ratio_interval
from surefoot.learning.forgetting import count_back
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.features import critic_features

PER = 100
"""A change is told for so many decision points."""
FLIPS = 3999
MANY_PEOPLE = 2000
LEAST_PEOPLE = 9
"""The signs of fewer people cannot be so unusual that 0.4 % of sign vectors, or fewer, are as unusual."""
EXPLAINED = 1e-9
"""A column of which less than this share is left is explained by the others."""
MANY_COLUMNS = 64
"""With more columns than this, people whose outcomes are fully explained are left out before anything is solved."""


@dataclass(frozen=True, eq=False)
class Drift:
    """How coefficients move over time.

    Attributes
    ----------
    people
        Whose decision points tell something of it.
    effect_change
        Change of the mean effect of sending in 100 decision points.
    effect_p_value
        Of the test that no action's effect at the mean state moves in a line.
    p_value
        Of the test that no coefficient moves in a line.
    largest
        The coefficient, by its place in x(s, a), that moves most beside its noise.
    points
        Decision points of a typical participant.
    """

    people: int
    effect_change: Interval
    effect_p_value: float
    p_value: float
    largest: int
    points: float

    @property
    def can_tell(self) -> bool:
        """Whether there are people enough for a test."""
        return self.people >= LEAST_PEOPLE


def find_drift(logs: Trajectories, counts: NDArray[np.bool_], sees: NDArray[np.float64]) -> Drift:
    """Test for coefficients of the reward that move.

    Parameters
    ----------
    logs
        Decision points of people.
    counts
        The rows that count, such as those that a critic kept.
    sees
        (state variables,): 1.0 for those that the model sees.

    Returns
    -------
    Drift

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=100, seed=1)
    >>> still = find_drift(logs, logs.usable, np.ones(3))
    >>> fading = logs.with_values(reward=logs.reward - 10 * logs.time * (logs.action == 1))
    >>> found = find_drift(fading, logs.usable, np.ones(3))
    >>> still.effect_p_value > 0.05, found.effect_p_value < 0.001, round(found.effect_change.value / 500) * 500
    (True, True, -1000)
    """
    scores = _Scores.of_logs(logs, counts, sees)
    moved = scores.effect_size > 0
    change = ratio_interval(scores.effect[moved], scores.effect_size[moved])
    points = float(np.median(np.bincount(logs.participant_index, minlength=len(logs.participants))))
    actions = flip_signs(scores.actions)
    all_ = flip_signs(scores.all)
    return Drift(int(moved.sum()), change, actions[0], all_[0], all_[1], points)


def flip_signs(scores: NDArray[np.float64]) -> tuple[float, int]:
    """p of scores (people, columns) that have the mean zero, and the column that is farthest from it.

    Of few people all sign vectors are tried, of more a fixed choice of them; the sums of many are drawn as normal.

    >>> flip_signs(np.array([[1.0], [2.0], [0.5], [1.5]]))
    (0.125, 0)
    """
    scores = scores[(scores != 0).any(axis=1)]
    size = np.sqrt((scores**2).sum(axis=0))
    scores = scores / np.where(size > 0, size, 1.0)
    people = len(scores)
    observed = np.abs(scores.sum(axis=0))
    if not people:
        return 1.0, 0
    rng = np.random.default_rng(0)
    drawn = 1
    if 2**people <= FLIPS + 1:
        sums = np.array(list(itertools.product((1.0, -1.0), repeat=people))) @ scores
        drawn = 0
    elif people <= MANY_PEOPLE:
        sums = (rng.integers(0, 2, (FLIPS, people)) * 2.0 - 1.0) @ scores
    else:
        values, vectors = np.linalg.eigh(scores.T @ scores)
        sums = rng.standard_normal((FLIPS, len(values))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    as_large = int((np.abs(sums).max(axis=1) >= observed.max() * (1 - 1e-9)).sum())
    return (as_large + drawn) / (len(sums) + drawn), int(observed.argmax())


@dataclass(frozen=True, eq=False)
class _Scores:
    """Of every participant, z̃ᵀr̃ for the columns of each test."""

    effect: NDArray[np.float64]
    """Of t 1{a > 0}, (people,)."""
    effect_size: NDArray[np.float64]
    """z̃ᵀz̃ of the same."""
    actions: NDArray[np.float64]
    """Of t 1{a = c}, (people, actions − 1), whatever happens to what is expected without an action."""
    all: NDArray[np.float64]
    """Of t x(s, a), (people, features)."""

    @classmethod
    def of_logs(cls, logs: Trajectories, counts: NDArray[np.bool_], sees: NDArray[np.float64]) -> _Scores:
        people = len(logs.participants)
        size = logs.state.shape[1] + 1
        scores = cls(*(np.zeros((people, *shape)) for shape in ((), (), (logs.actions - 1,), (size * logs.actions,))))
        if not counts.any():
            return scores
        middle = logs.state[counts].mean(axis=0) * sees
        width = sees / find_spread(logs.state[counts])
        since = (np.diff(logs.starts)[logs.participant_index] - 1 - count_back(logs)) / PER
        for everybody, rows in logs.blocks():
            counted = (rows >= 0) & counts[rows]
            state = np.where(counted[..., None], (logs.state[rows] - middle) * width, 0.0)
            action = np.where(counted, logs.action[rows], 0)
            x = critic_features(state, action, logs.actions) * counted[..., None]
            unexplained = ~find_explained(x, counted)
            if not unexplained.any():
                continue
            people_in_block = everybody[unexplained]
            x = x[unexplained]
            moving = x * np.where(counted, since[rows], 0.0)[unexplained][..., None]
            reward = np.where(counted, logs.reward[rows], 0.0)[unexplained][..., None]
            steps = moving[..., size::size]
            sent = steps.sum(axis=-1, keepdims=True)
            base = np.concatenate([x, moving[..., :size]], axis=-1)
            scores.effect[people_in_block], scores.effect_size[people_in_block] = _score(base, sent, reward)[:, :, 0].T
            for c in range(logs.actions - 1):
                others = np.concatenate([base, np.delete(steps, c, axis=-1)], axis=-1)
                scores.actions[people_in_block, c] = _score(others, steps[..., c : c + 1], reward)[:, 0, 0]
            scores.all[people_in_block] = _score(x, moving, reward)[:, 0]
        return scores


def find_spread(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation of every state variable, 1 for a constant."""
    width = state.std(axis=0)
    return np.where(width > 0, width, 1.0)


def find_explained(x: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Who has, among many columns x (people, rows, columns), so few rows that the columns explain any outcome, (people,).

    Rows that are linearly independent leave no residual, so that such a participant has no part in a test.
    """
    explained = np.zeros(len(x), dtype=bool)
    if x.shape[-1] <= MANY_COLUMNS:
        return explained
    for place in np.flatnonzero(counted.sum(axis=1) <= x.shape[-1]):
        rows = x[place][counted[place]]
        values = np.linalg.eigvalsh(rows @ rows.T)
        explained[place] = not len(values) or values[0] > 1e-10 * values[-1]
    return explained


def _score(base: NDArray[np.float64], moving: NDArray[np.float64], reward: NDArray[np.float64]) -> NDArray[np.float64]:
    """z̃ᵀr̃ and z̃ᵀz̃ of every column z of (people, rows, columns), less what the columns `base` explain."""
    across = np.swapaxes(base, 1, 2)
    both = np.concatenate([moving, reward], axis=-1)
    left = both - base @ solve(across @ base, across @ both).solution
    z = left[..., :-1]
    r = left[..., -1:]
    size = (z**2).sum(axis=1)
    unexplained = size > EXPLAINED * (moving**2).sum(axis=1)
    return np.where(unexplained[:, None, :], np.stack([(z * r).sum(axis=1), size], axis=1), 0.0)
