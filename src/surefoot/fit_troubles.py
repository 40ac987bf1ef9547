"""What makes a person's fit rest on too little: found once, after the fit, for everybody."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from surefoot.trajectories import Trajectories


def fit_troubles(
    logs: Trajectories, unit: NDArray[np.int64], units: int, weights: NDArray[np.float64], features: int
) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Which units (people, or everyone) have which trouble, in words.

    `unit` says whom each row belongs to, `weights` are the critic's, NaN where a row was not usable.
    """
    usable = ~np.isnan(weights)
    owner, action = unit[usable], logs.action[usable]
    count = np.bincount(owner, minlength=units)
    yield count == 0, "no usable decision point, so nothing was learned; an actor flips a coin, LinUCB sends nothing"
    few = "fewer usable decision points than the critic's {} features; the penalty decides the rest"
    yield (count > 0) & (count < features), few.format(features)
    order = np.argsort(unit, kind="stable")
    present = np.where(usable[:, None], logs.state, np.nan)[order]
    starts = np.searchsorted(unit[order], np.arange(units))
    constant = np.fmin.reduceat(present, starts) == np.fmax.reduceat(present, starts)
    for j, name in enumerate(logs.state_names):
        yield (count > 1) & constant[:, j], f"state '{name}' never changes, so its effect cannot be told from the intercept"
    for code, name in enumerate(logs.action_names):
        taken = np.bincount(owner[action == code], minlength=units)
        yield (count > 0) & (taken == 0), f"action '{name}' never occurs at a usable decision point; its effect is a guess"
        kept = np.bincount(owner[(action == code) & (weights[usable] > 0)], minlength=units)
        yield (taken > 0) & (kept == 0), f"every tuple with action '{name}' was removed as an outlier; its effect is a guess"
