"""Whether values stand still: unworn devices and dead sensors that nothing has screened."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_percent
from surefoot.screening.ties import is_continuous

RUN = 5
"""So many equal values one after the other make a run."""
STILL_LOOK, STILL_UNSAFE = 0.02, 0.10
"""Share of decision points that repeat their neighbour although values hardly ever recur."""
ZEROS_LOOK = 0.05
"""Share of decision points with a zero in a run that chance does not explain: people also sit still, so never unsafe."""


def check_standing_still(logs: Trajectories, raw_reward: NDArray[np.float64]) -> Check:
    """How many decision points repeat their neighbour, and what share of zeros comes in runs."""
    values = np.column_stack([logs.state, raw_reward])
    names = (*logs.state_names, logs.names.reward)
    earlier = np.zeros(len(logs), dtype=np.int64)
    earlier[logs.order[1:]] = logs.order[:-1]
    first = np.zeros(len(logs), dtype=bool)
    first[logs.order[logs.starts[:-1]]] = True
    same = (values == values[earlier]) & ~first[:, None]
    whole = float(same.all(axis=1).mean())
    stuck = {
        name: float(same[:, j].mean()) for j, name in enumerate(names) if _repeats_oddly(logs, values[:, j], same[:, j])
    }
    zeros, runs, expected = _zeros_in_runs(logs, raw_reward)
    excess = zeros * max(runs - expected, 0.0)
    worst = max(whole if _has_continuous_column(logs, values) else 0.0, *stuck.values(), 0.0)
    verdict = "unsafe" if worst > STILL_UNSAFE else "look" if worst > STILL_LOOK or excess > ZEROS_LOOK else "fine"
    reason = f"{format_percent(whole)} of the decision points have exactly the values of the one before"
    if stuck:
        column = max(stuck, key=lambda name: stuck[name])
        reason += f"; '{column}', whose values hardly ever recur otherwise, repeats at {format_percent(stuck[column])}"
    if zeros:
        reason += (
            f"; {format_percent(zeros)} of '{logs.names.reward}' are 0, {format_percent(runs, 0)} of these in runs of "
            f"{RUN} or more (by chance {format_percent(expected, 0)})"
        )
    remedy = "a device that is not worn says 0, a dead one repeats its last value: add [screen] and device = … to the study"
    numbers = {"identical": whole, "repeats": stuck, "zeros": zeros, "zeros_in_runs": runs, "by_chance": expected}
    return Check("values that stand still", verdict, reason, remedy if verdict != "fine" else "", numbers)


def _has_continuous_column(logs: Trajectories, values: NDArray[np.float64]) -> bool:
    """Whether some column is continuous: then two decision points are hardly ever alike in all."""
    return any(is_continuous(_series(logs, column)) for column in values.T)


def _repeats_oddly(logs: Trajectories, values: NDArray[np.float64], same: NDArray[np.bool_]) -> bool:
    """A continuous column that repeats at some decision points, but not by nature at most of them."""
    return bool(STILL_LOOK < same.mean() < 0.5) and is_continuous(_series(logs, values))


def _series(logs: Trajectories, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row: everybody's values in time order."""
    return values[logs.order][None, :]


def _zeros_in_runs(logs: Trajectories, reward: NDArray[np.float64]) -> tuple[float, float, float]:
    """Share of zeros, share of these in runs, and what chance would give.

    With a participant's share p of zeros, a zero lies in a run of L or more with probability p^{L−1} (L − (L − 1) p).
    """
    zero, present = (reward == 0)[logs.order], ~np.isnan(reward)[logs.order]
    if not zero.any():
        return 0.0, 0.0, 0.0
    owner = np.repeat(np.arange(len(logs.participants)), np.diff(logs.starts))
    begins = np.ones(len(zero), dtype=bool)
    begins[1:] = (zero[1:] != zero[:-1]) | (owner[1:] != owner[:-1])
    run = np.cumsum(begins) - 1
    long = np.bincount(run)[run] >= RUN
    people = len(logs.participants)
    counts = np.bincount(owner[zero], minlength=people)
    p = counts / np.maximum(np.bincount(owner[present], minlength=people), 1)
    chance = p ** (RUN - 1) * (RUN - (RUN - 1) * p)
    return float(zero.sum() / present.sum()), float(long[zero].mean()), float((counts * chance).sum() / counts.sum())
