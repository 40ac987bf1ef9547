"""Intervals of each participant's own coefficients: decision points drawn with replacement, the whole fit repeated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.inference.intervals import CONFIDENCE
from surefoot.learning.batch import FEW_FEATURES
from surefoot.learning.forgetting import discount_rows
from surefoot.learning.methods import Method
from surefoot.numerics.parallel import Progress
from surefoot.numerics.random_streams import streams

BLOCK_ROWS = 2**19
"""Drawn decision points that are fitted at a time, fewer of more features: memory stays bounded however many people there
are, and however many variables."""
ORDINARY_FEATURES, MOST_WORK = 64, 5e9
"""With more features than the first, draws are made of as many people as their work allows: Σ draws · (n + d / 3) · d² of
people with n decision points and d features, which takes a core about ten seconds."""


@dataclass(frozen=True)
class Bootstrap:
    """Ends of 95 % percentile intervals, NaN for a participant without usable decision points or who was not drawn."""

    critic_low: NDArray[np.float64]
    """(people, d)."""
    critic_high: NDArray[np.float64]
    policy_low: NDArray[np.float64] | None
    """(people, k·m); None when the policy has no coefficients of its own."""
    policy_high: NDArray[np.float64] | None


def bootstrap_coefficients(
    fitted: Method, *, draws: int = 200, seed: int = 0, most_people: int | None = None, progress: Progress | None = None
) -> Bootstrap:
    """Resample each participant's usable decision points, fit critic and policy anew, and take percentiles.

    Every drawn copy of a participant is one more participant to the batched solvers. A participant's draws come from a
    stream of their own, so that they do not depend on who else is there or on the size of a block. With more than
    `most_people` that many of them are drawn at random.
    """
    if fitted.pooling_.needs_everybody:
        raise InputError(
            "the bootstrap over decision points is for one fit per participant; with a pooled one use the sandwich, with "
            "partial pooling the posterior"
        )
    logs = fitted.logs_
    with_policy = fitted.coef_ is not None
    critic = np.full((2, *fitted.critic_coef_.shape), np.nan)
    policy = np.full((2, *fitted.coef_.shape), np.nan) if with_policy else None
    levels = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    chosen = choose_people(logs, most_people, seed)
    done = 0
    discount = discount_rows(logs, fitted.forgetting)
    block_rows = count_block_rows(fitted.critic_coef_.shape[1])
    for chunk, drawn, taken in _draw_logs(logs, chosen, draws, seed, block_rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # A draw without one of the actions is part of the uncertainty.
            start = np.repeat(fitted.coef_[chunk], draws, axis=0) if with_policy else None
            again = replace(fitted, filter=None).fit_some(drawn, discount=discount[taken], start=start)
        critic[:, chunk] = np.quantile(again.critic_coef_.reshape(len(chunk), draws, -1), levels, axis=1)
        if policy is not None:
            policy[:, chunk] = np.quantile(again.coef_.reshape(len(chunk), draws, -1), levels, axis=1)
        done += len(chunk)
        if progress is not None:
            progress(done, len(chosen))
    return Bootstrap(critic[0], critic[1], None if policy is None else policy[0], None if policy is None else policy[1])


def count_affordable(logs: Trajectories, features: int, draws: int) -> int:
    """How many people's decision points can be drawn and fitted again in a bounded time, whoever they are."""
    lengths = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants))
    if features <= ORDINARY_FEATURES:
        return len(lengths)
    work = draws * (np.sort(lengths[lengths > 0])[::-1] + features / 3) * features**2
    return int((np.cumsum(work) <= MOST_WORK).sum())


def count_block_rows(features: int) -> int:
    """How many drawn decision points are fitted at a time."""
    return BLOCK_ROWS if features <= FEW_FEATURES else BLOCK_ROWS * FEW_FEATURES // (2 * features)


def choose_people(logs: Trajectories, most: int | None, seed: int) -> NDArray[np.int64]:
    """People with usable rows. Everybody draws a number of their own; those with the least are chosen."""
    present = np.unique(logs.participant_index[logs.usable])
    if most is None or len(present) <= most:
        return present
    numbers = [rng.random() for rng in streams(seed, "sample", logs.participants[present])]
    return np.sort(present[np.argsort(numbers)[:most]])


def _draw_logs(
    logs: Trajectories, people: NDArray[np.int64], draws: int, seed: int, block_rows: int
) -> Iterator[tuple[NDArray[np.int64], Trajectories, NDArray[np.int64]]]:
    """Blocks of the people, logs in which every one of them appears `draws` times, resampled, and which rows these are."""
    rows = logs.order[logs.usable[logs.order]]
    count = np.bincount(logs.participant_index[rows], minlength=len(logs.participants))
    first = np.concatenate([[0], np.cumsum(count)])
    block = np.cumsum(count[people] * draws) // block_rows
    for number in np.unique(block):
        chunk = people[block == number]
        picks = [
            first[participant_index] + rng.integers(0, count[participant_index], size=draws * count[participant_index])
            for participant_index, rng in zip(chunk, streams(seed, "bootstrap", logs.participants[chunk]), strict=True)
        ]
        lengths = np.repeat(count[chunk], draws)
        taken = rows[np.concatenate(picks)]
        lanes = np.arange(len(lengths))
        yield (
            chunk,
            replace(
                logs,
                participants=lanes,
                participant_index=np.repeat(lanes, lengths),
                time=np.arange(len(taken)),
                state=logs.state[taken],
                available=logs.available[taken],
                action=logs.action[taken],
                probability=logs.probability[taken],
                reward=logs.reward[taken],
            ),
            taken,
        )
