"""Intervals of each participant's own coefficients with partial pooling: from what is believed of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import CONFIDENCE, t_quantile
from surefoot.inference.participant_bootstrap import Bootstrap, choose_people, count_block_rows
from surefoot.learning.batch import Batch
from surefoot.learning.forgetting import discount_rows
from surefoot.learning.methods import Method
from surefoot.numerics.engines import NUMPY
from surefoot.numerics.parallel import Progress
from surefoot.numerics.random_streams import streams


def draw_coefficients(
    fitted: Method, *, draws: int = 200, seed: int = 0, most_people: int | None = None, progress: Progress | None = None
) -> Bootstrap:
    """The critic's ends are those of its posterior; the policy's are percentiles of policies for drawn advantages.

    Ψ and σ² are taken as known. Who has too few decision points for a policy of their own has no ends for it.
    """
    posterior = fitted.posterior_
    d = fitted.critic_coef_.shape[1]
    width = t_quantile(np.inf) * np.sqrt(np.stack([part.diagonal() for part in posterior.covariance])[:, :d])
    low, high = fitted.critic_coef_ - width, fitted.critic_coef_ + width
    if fitted.coef_ is None:
        return Bootstrap(low, high, None, None)
    policy = np.full((2, *fitted.coef_.shape), np.nan)
    logs = fitted.logs_
    count = np.bincount(fitted.logs_.participant_index[fitted.used_], minlength=len(low))
    chosen = choose_people(logs, most_people, seed)
    chosen = chosen[count[chosen] >= d]
    done = 0
    levels = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    lengths = np.diff(logs.starts)[chosen]
    block = np.cumsum(lengths * draws) // count_block_rows(d)
    for number in np.unique(block):
        people = chosen[block == number]
        coefficients = _draw_policies(fitted, people, draws, seed)
        policy[:, people] = np.quantile(coefficients, levels, axis=1)
        done += len(people)
        if progress is not None:
            progress(done, len(chosen))
    return Bootstrap(low, high, policy[0], policy[1])


def _draw_policies(fitted: Method, people: NDArray[np.int64], draws: int, seed: int) -> NDArray[np.float64]:
    """θ of every draw of some people, (people, draws, coefficients)."""
    logs = fitted.logs_
    joint = fitted.joint_
    rows = np.full((len(people), int(np.diff(logs.starts)[people].max())), -1)
    for position, participant in enumerate(people):
        participant_rows = logs.order[logs.starts[participant] : logs.starts[participant + 1]]
        rows[position, : len(participant_rows)] = participant_rows
    rows = np.repeat(rows, draws, axis=0)
    lanes = np.repeat(people, draws)
    sees = {"critic_sees": fitted.critic_sees_, "policy_sees": fitted.policy_sees_}
    batch = Batch.from_rows(
        logs, logs.usable, rows, NUMPY, discount_rows(logs, fitted.forgetting), fitted.list_centres(logs), **sees
    )
    outlook = joint.restrict(lanes, rows, NUMPY)
    mean = joint.advantage.mean[people]
    noise = np.stack(
        [rng.standard_normal((draws, mean[0].size)) for rng in streams(seed, "posterior", logs.participants[people])]
    )
    values, vectors = np.linalg.eigh(joint.advantage.covariance[people])
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    drawn = mean[:, None] + (noise @ np.swapaxes(root, 1, 2)).reshape(len(people), draws, *mean.shape[1:])
    advantage = replace(outlook.advantage, mean=drawn.reshape(-1, *mean.shape[1:]))
    coef = fitted.fit_batch(batch, replace(outlook, advantage=advantage)).rule.coefficients()
    return np.asarray(coef).reshape(len(people), draws, -1)
