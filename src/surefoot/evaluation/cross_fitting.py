"""Cross-fitting: what judges a decision point was learned from other people, or from other times."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.critics import Critic, CriticBatch, make_critic
from surefoot.learning.methods import Method
from surefoot.learning.pooling import find_pooling
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies
from surefoot.registry import Registry

NUISANCE_PENALTY = 1.0
"""ζ of the critic that judges, on standardised states and with a free intercept: one decision point's worth of
shrinkage."""


@dataclass(frozen=True)
class CrossFit:
    """A way to deal decision points into folds."""

    name: str
    deal: Callable[[Trajectories, int, int], NDArray[np.int64]]
    """(logs, folds, seed) → the fold of every row."""
    pooling: str
    """Who shares the critic that judges."""


def _deal_people(logs: Trajectories, folds: int, seed: int) -> NDArray[np.int64]:
    """People at random."""
    people = len(logs.participants)
    if people < 2:
        raise InputError("cross-fitting by participant needs at least 2 people; cross-fit by time")
    dealt = np.random.default_rng(seed).permutation(people) % min(folds, people)
    return dealt[logs.participant_index]


def _cut_time(logs: Trajectories, folds: int, seed: int) -> NDArray[np.int64]:
    """Each participant's time in stretches of equally many usable decision points."""
    usable = logs.usable[logs.order].astype(np.int64)
    before: NDArray[np.int64] = np.cumsum(usable) - usable
    lengths = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants))
    ordered = logs.participant_index[logs.order]
    rank = before - np.concatenate([[0], np.cumsum(lengths)])[ordered]
    result = np.empty(len(logs), dtype=np.int64)
    result[logs.order] = np.minimum(rank * folds // np.maximum(lengths, 1)[ordered], folds - 1)
    return result


CROSS_FITS: Registry[CrossFit] = Registry("cross-fitting")
CROSS_FITS.register(CrossFit("person", _deal_people, pooling="all"))
CROSS_FITS.register(CrossFit("time", _cut_time, pooling="person"))


def assign_folds(logs: Trajectories, cross_fit: str, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of every row: people dealt at random (`person`), or each participant's time cut into stretches (`time`)."""
    way = CROSS_FITS.find(cross_fit)
    if folds < 2:
        raise InputError(f"folds is {folds}; cross-fitting needs at least 2")
    return way.deal(logs, folds, seed)


def expect_rewards(
    logs: Trajectories,
    fold: NDArray[np.int64],
    *,
    critic: str | Critic,
    pooling: str,
    penalty: float = NUISANCE_PENALTY,
) -> NDArray[np.float64]:
    """q̂(s, a) of every row and action, (rows, actions), by a critic that did not see the row's fold; NaN if not usable."""
    model = make_critic(critic)
    usable, actions = logs.usable, logs.actions
    centre, width = logs.state[usable].mean(axis=0), logs.state[usable].std(axis=0)
    state = np.where(usable[:, None], (logs.state - centre) / np.where(width > 0, width, 1.0), 0.0)
    reward = np.where(usable, logs.reward, 0.0)
    shrink = np.full((state.shape[1] + 1) * actions, penalty)
    shrink[0] = 0.0
    expected = np.full((len(logs), actions), np.nan)
    for _, rows in find_pooling(pooling).list_blocks(logs):
        there = (rows >= 0) & usable[rows]
        own, taken = state[rows], logs.action[rows]
        x = critic_features(own, taken, actions)
        for part in np.unique(fold[usable]):
            weights = (there & (fold[rows] != part)).astype(np.float64)
            fit = model.fit(CriticBatch(x, reward[rows], weights, own, taken, shrink, actions))
            held_out = there & (fold[rows] == part)
            expected[rows[held_out]] = fit.expect_rewards(own, actions)[held_out]
    return expected


def fit_without_folds(method: Method, logs: Trajectories, fold: NDArray[np.int64]) -> Iterator[tuple[int, Policies]]:
    """For every fold the policies that the method learns from the other folds: rewards inside are hidden from it."""
    for part in np.unique(fold[logs.usable]):
        hidden = logs.with_values(reward=np.where(fold == part, np.nan, logs.reward))
        with warnings.catch_warnings():
            # Too little data in a fold is said once, of the whole fit, and not five times.
            warnings.simplefilter("ignore", FitWarning)
            yield int(part), type(method)(**method.get_params(deep=False)).fit_some(hidden).policies_
