"""Intervals of each participant's own coefficients: by the bootstrap over decision points, or from a posterior."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.inference.intervals import CONFIDENCE, t_quantile
from surefoot.learning.batch import FEW_FEATURES, discount_rows
from surefoot.learning.horizon.horizon import JointFit
from surefoot.learning.methods import Method
from surefoot.numerics.arrays import NUMPY
from surefoot.numerics.parallel import Progress
from surefoot.numerics.random_streams import streams

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
LEVELS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
BLOCK_ROWS = 2**19  # Drawn decision points that are fitted at a time, fewer of more features: memory stays bounded.
ORDINARY_FEATURES = 64
MOST_WORK = 5e9
"""With more than ordinary features, draws are made of as many people as their work allows: Σ draws · (n + d / 3) · d² of
people with n decision points and d features, which takes a core about ten seconds."""


@dataclass(frozen=True)
class ParticipantIntervals:
    """Ends of 95 % intervals, NaN for a participant without usable decision points or who was not drawn."""

    critic_low: Floats  # (people, d).
    critic_high: Floats
    policy_low: Floats | None  # (people, k·m); None when the policy has no coefficients of its own.
    policy_high: Floats | None


def bootstrap_coefficients(
    fitted: Method, *, draws: int = 200, seed: int = 0, most_people: int | None = None, progress: Progress | None = None
) -> ParticipantIntervals:
    """Resample each participant's usable decision points, fit critic and policy anew, and take percentiles.

    Every drawn copy of a participant is one more participant to the batched solvers. A participant's draws come from a
    stream of their own, so that they do not depend on the other participants or on the size of a block. With more than
    `most_people` a random sample of them is drawn.
    """
    if fitted.pooling_.needs_everybody:
        raise InputError(
            "the bootstrap over decision points is for one fit per participant; with a pooled one use the sandwich, with "
            "partial pooling the posterior"
        )
    logs = fitted.logs_
    coef = fitted.coef_
    critic = np.full((2, *fitted.critic_coef_.shape), np.nan)
    policy = None if coef is None else np.full((2, *coef.shape), np.nan)
    discount = discount_rows(logs, fitted.forgetting)
    rows = logs.order[logs.usable[logs.order]]
    count = np.bincount(logs.participant_index[rows], minlength=len(logs.participants))
    first = np.concatenate([[0], np.cumsum(count)])
    chosen = choose_people(logs, most_people, seed)
    for people in _list_blocks(chosen, count[chosen] * draws, fitted.critic_coef_.shape[1], progress):
        generators = streams(seed, "bootstrap", logs.participants[people])
        taken = rows[
            np.concatenate([
                first[person] + rng.integers(0, count[person], size=draws * count[person])
                for person, rng in zip(people, generators, strict=True)
            ])
        ]  # fmt: skip
        lanes = np.arange(len(people) * draws)
        drawn = replace(
            logs,
            participants=lanes,
            participant_index=np.repeat(lanes, np.repeat(count[people], draws)),
            time=np.arange(len(taken)),
            state=logs.state[taken],
            available=logs.available[taken],
            action=logs.action[taken],
            probability=logs.probability[taken],
            outcome=logs.outcome[taken],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # A draw without one of the actions is part of the uncertainty.
            start = None if coef is None else np.repeat(coef[people], draws, axis=0)
            again = replace(fitted.settled, filter=None).fit_some(drawn, discount=discount[taken], start=start)
        critic[:, people] = np.quantile(again.critic_coef_.reshape(len(people), draws, -1), LEVELS, axis=1)
        if policy is not None:
            policy[:, people] = np.quantile(np.asarray(again.coef_).reshape(len(people), draws, -1), LEVELS, axis=1)
    return ParticipantIntervals(*critic, *((None, None) if policy is None else policy))


def draw_coefficients(
    fitted: Method, *, draws: int = 200, seed: int = 0, most_people: int | None = None, progress: Progress | None = None
) -> ParticipantIntervals:
    """With partial pooling the critic's ends are those of its posterior, the policy's percentiles for drawn advantages.

    Ψ and σ² are taken as known. A participant with too few decision points for a policy of their own has no ends for it.
    """
    joint = fitted.joint_
    if joint is None or not joint.posteriors:
        raise InputError("draws from the posterior are for partial pooling; bootstrap_coefficients is for other fits")
    d = fitted.critic_coef_.shape[1]
    variance = np.stack([covariance.diagonal() for covariance in joint.posteriors[0].covariance])[:, :d]
    width = t_quantile(np.inf) * np.sqrt(variance)
    critic = (fitted.critic_coef_ - width, fitted.critic_coef_ + width)
    if fitted.coef_ is None:
        return ParticipantIntervals(*critic, None, None)
    policy = np.full((2, *fitted.coef_.shape), np.nan)
    logs = fitted.logs_
    count = np.bincount(logs.participant_index[fitted.used_], minlength=len(width))
    chosen = choose_people(logs, most_people, seed)
    chosen = chosen[count[chosen] >= d]
    for people in _list_blocks(chosen, np.diff(logs.starts)[chosen] * draws, d, progress):
        policy[:, people] = np.quantile(draw_policies(fitted, joint, people, draws, seed), LEVELS, axis=1)
    return ParticipantIntervals(*critic, *policy)


def draw_policies(fitted: Method, joint: JointFit, people: Codes, draws: int, seed: int) -> Floats:
    """θ of every draw, (people, draws, coefficients)."""
    logs = fitted.logs_
    rows = np.full((len(people), int(np.diff(logs.starts)[people].max())), -1)
    for position, participant in enumerate(people):
        participant_rows = logs.order[logs.starts[participant] : logs.starts[participant + 1]]
        rows[position, : len(participant_rows)] = participant_rows
    rows = np.repeat(rows, draws, axis=0)
    batch = fitted.make_batch(logs, rows, discount_rows(logs, fitted.forgetting), fitted.list_centres(logs))
    outlook = joint.restrict(np.repeat(people, draws), rows, NUMPY)
    mean = joint.advantage.mean[people]
    noise = np.stack(
        [rng.standard_normal((draws, mean[0].size)) for rng in streams(seed, "posterior", logs.participants[people])]
    )
    values, vectors = np.linalg.eigh(joint.advantage.covariance[people])
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    drawn = mean[:, None] + (noise @ np.swapaxes(root, 1, 2)).reshape(len(people), draws, *mean.shape[1:])
    advantage = replace(outlook.advantage, mean=drawn.reshape(-1, *mean.shape[1:]))
    _, rule, _ = fitted.fit_batch(batch, replace(outlook, advantage=advantage))
    return np.asarray(rule.coefficients()).reshape(len(people), draws, -1)


def count_affordable(logs: Trajectories, features: int, draws: int) -> int:
    """The number of people, any of them, whose decision points can be drawn and fitted again in a bounded time."""
    lengths = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants))
    if features <= ORDINARY_FEATURES:
        return len(lengths)
    work = draws * (np.sort(lengths[lengths > 0])[::-1] + features / 3) * features**2
    return int((np.cumsum(work) <= MOST_WORK).sum())


def choose_people(logs: Trajectories, most: int | None, seed: int) -> Codes:
    """People with usable rows. Everybody draws a number of their own; the smallest numbers are chosen."""
    present = np.unique(logs.participant_index[logs.usable])
    if most is None or len(present) <= most:
        return present
    numbers = [rng.random() for rng in streams(seed, "sample", logs.participants[present])]
    return np.sort(present[np.argsort(numbers)[:most]])


def _list_blocks(people: Codes, rows: Codes, features: int, progress: Progress | None) -> Iterator[Codes]:
    """Blocks of people by the numbers of rows that they need."""
    block_rows = BLOCK_ROWS if features <= FEW_FEATURES else BLOCK_ROWS * FEW_FEATURES // (2 * features)
    block = np.cumsum(rows) // block_rows
    for number in np.unique(block):
        yield people[block == number]
        if progress is not None:
            progress(int((block <= number).sum()), len(people))
