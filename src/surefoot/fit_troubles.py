"""What makes a person's fit rest on too little: found once, after the fit, for everybody."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from surefoot.trajectories import Trajectories


def fit_troubles(
    logs: Trajectories, starts: NDArray[np.int64], weights: NDArray[np.float64], features: int
) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Which units (people, or everyone) have which trouble, in words.

    `starts` says where each unit begins in `logs.order`; `weights` are the critic's, NaN where a row was not usable.
    """

    def count(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.asarray(np.add.reduceat(rows.astype(np.int64), starts))

    weight, action = weights[logs.order], logs.action[logs.order]
    usable = ~np.isnan(weight)
    total = count(usable)
    yield total == 0, "no usable decision point, so nothing was learned; an actor flips a coin, LinUCB sends nothing"
    few = f"fewer usable decision points than the critic's {features} features; the penalty decides the rest"
    yield (total > 0) & (total < features), few
    for j, name in enumerate(logs.state_names):
        values = np.where(usable, logs.state[logs.order, j], np.nan)
        constant = np.fmin.reduceat(values, starts) == np.fmax.reduceat(values, starts)
        yield (total > 1) & constant, f"state '{name}' never changes, so its effect cannot be told from the intercept"
    for code, name in enumerate(logs.action_names):
        taken = usable & (action == code)
        times = count(taken)
        yield (total > 0) & (times == 0), f"action '{name}' never occurs at a usable decision point; its effect is a guess"
        lost = (times > 0) & (count(taken & (weight > 0)) == 0)
        yield lost, f"every tuple with action '{name}' was removed as an outlier; its effect is a guess"
