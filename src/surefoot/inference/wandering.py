"""Whether people's coefficients wander, everybody's in a direction of their own: a test on products of scores far apart.

A participant's decision points are cut into B blocks b in time. With u what is left of the reward beside the participant's
own coefficients on x, the block's score of coefficient j is g_b = Σ_{t in b} x_tj u_t. When nothing moves, scores of
different blocks have nothing in common but that they add up to zero; when the coefficient walks, blocks near each other are
alike and those far apart are not. Summed over people,

    Q_j = Σᵢ Σ_{|b−c|>k} (m − |b − c|) g_b g_c,    m the mean of |b − c| over these pairs

has the mean zero when nothing moves: |b − c| is the kernel of a random walk, and with its mean taken away the zero sum of
the scores cancels. Blocks less than `GAP` decision points apart are left out, so that noise whose correlation is gone by
then is not taken for a walk. The distribution of Q is that under random signs of the scores, a gamma's with the same
variance and third moment. Coefficients are tested one by one, and the smallest p-value counts for all of them (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.inference.drift import find_explained, find_spread
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.features import critic_features

BLOCKS = 20
GAP = 10
LEAST_POINTS = 40
"""Of fewer decision points too few blocks are far enough from each other."""
LEAST_SKEWNESS = 1e-3
"""Below it a gamma distribution is a normal one."""


@dataclass(frozen=True)
class Wandering:
    """What the test for a walk in people's own coefficients found.

    Attributes
    ----------
    people
        Who has decision points enough.
    p_value
        Of the test that nobody's coefficients walk.
    largest
        The coefficient, by its place in x(s, a), that walks most beside its noise.
    """

    people: int
    p_value: float
    largest: int


def find_wandering(logs: Trajectories, counts: NDArray[np.bool_], sees: NDArray[np.float64]) -> Wandering:
    """Test for coefficients of the reward that walk, everybody's by themselves.

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
    Wandering

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=100, seed=1)
    >>> find_wandering(logs, logs.usable, np.ones(3)).p_value > 0.05
    True
    >>> walk = np.random.default_rng(0).standard_normal((30, 100)).cumsum(axis=1)[logs.participant_index, logs.time]
    >>> found = find_wandering(logs.with_values(reward=logs.reward + 200 * walk), logs.usable, np.ones(3))
    >>> found.p_value < 0.001, found.largest
    (True, 0)
    """
    features = (logs.state.shape[1] + 1) * logs.actions
    people = 0
    sums = np.zeros((3, features))
    if counts.any():
        middle = logs.state[counts].mean(axis=0) * sees
        width = sees / find_spread(logs.state[counts])
        for _, everybodys in logs.blocks():
            rows = everybodys[((everybodys >= 0) & counts[everybodys]).sum(axis=1) >= LEAST_POINTS]
            counted = (rows >= 0) & counts[rows]
            state = np.where(counted[..., None], (logs.state[rows] - middle) * width, 0.0)
            x = _centre_actions(
                critic_features(state, np.where(counted, logs.action[rows], 0), logs.actions), counted, logs.actions
            )
            unexplained = ~find_explained(x, counted)
            rows = rows[unexplained]
            counted = counted[unexplained]
            scores = _sum_scores(x[unexplained], np.where(counted, logs.reward[rows], 0.0), counted)
            people += int((scores != 0).any(axis=(1, 2)).sum())
            sums += _measure_walks(scores, counted.sum(axis=1))
    p_values = _find_p_values(*sums)
    return Wandering(people, min(1.0, float(p_values.min()) * features), int(p_values.argmin()))


def _centre_actions(x: NDArray[np.float64], counted: NDArray[np.bool_], actions: int) -> NDArray[np.float64]:
    """x(s, a) with 1{a=c} less its share among the participant's decision points.

    Then a baseline that moves is not taken for an effect that does.
    """
    size = x.shape[-1] // actions
    x = x * counted[..., None]
    total = counted.sum(axis=1)[:, None, None]
    for c in range(1, actions):
        share = x[..., c * size : c * size + 1].sum(axis=1, keepdims=True) / np.maximum(total, 1)
        x[..., c * size : (c + 1) * size] -= share * x[..., :size]
    return x


def _sum_scores(x: NDArray[np.float64], reward: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """g of every participant, block and coefficient, in units of the participant's noise, (people, BLOCKS, features)."""
    across = np.swapaxes(x, 1, 2)
    left = (reward - (x @ solve(across @ x, across @ reward[..., None]).solution)[..., 0]) * counted
    total = counted.sum(axis=1)
    block = (counted.cumsum(axis=1) - 1) * BLOCKS // np.maximum(total, 1)[:, None]
    within = (block[..., None] == np.arange(BLOCKS)) & counted[..., None]
    power = (left**2).sum(axis=1)
    noisy = power > 1e-18 * (reward**2).sum(axis=1)
    scale = np.where(noisy, 1 / np.sqrt(np.where(noisy, power, 1.0)), 0.0)
    scores: NDArray[np.float64] = np.swapaxes(within, 1, 2).astype(np.float64) @ (x * left[..., None])
    return scores * scale[:, None, None]


def _measure_walks(scores: NDArray[np.float64], points: NDArray[np.int64]) -> NDArray[np.float64]:
    """Q of every coefficient, and its variance and third moment under random signs of the scores, summed over people."""
    apart = np.abs(np.subtract.outer(np.arange(BLOCKS), np.arange(BLOCKS)))
    far = apart > np.ceil(GAP * BLOCKS / points)[:, None, None]
    mean = (apart * far).sum(axis=(1, 2), keepdims=True) / np.maximum(far.sum(axis=(1, 2), keepdims=True), 1)
    kernel = (mean - apart) * far
    sums = np.zeros((3, scores.shape[-1]))
    for j in range(scores.shape[-1]):
        products = kernel * scores[:, :, None, j] * scores[:, None, :, j]
        third = (products @ products * products).sum()
        sums[:, j] = products.sum(), 2 * (products**2).sum(), 8 * third
    return sums


def _find_p_values(
    total: NDArray[np.float64], variance: NDArray[np.float64], third: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How likely a sum is as large, by a gamma distribution of the same variance and third moment; 1 without scores."""
    from scipy.special import gammaincc

    known = variance > 0
    deviation = np.sqrt(np.where(known, variance, 1.0))
    shape = 4 / np.maximum(third / deviation**3, LEAST_SKEWNESS) ** 2
    return np.where(known, gammaincc(shape, np.maximum(shape + total / deviation * np.sqrt(shape), 0.0)), 1.0)
