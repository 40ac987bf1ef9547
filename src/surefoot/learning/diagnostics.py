"""Problems of fits to too little data, and their warnings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.batch import Batch
from surefoot.learning.pooling import Pooling
from surefoot.numerics.arrays import Array, array_namespace

SHOWN_PEOPLE = 10
NOT_CONVERGED = "the search did not converge; rescale the states or raise the penalties"


class Learnable(NamedTuple):
    """Counts of the decision points that can be used for learning."""

    available: int
    missing: dict[str, int]
    """By column, over available decision points; counted where none can be used."""
    used: int
    reward_range: tuple[float, float] | None
    """Of usable decision points."""

    @classmethod
    def of_logs(cls, logs: Trajectories) -> Learnable:
        free = logs.available
        reward = logs.reward[logs.usable]
        if len(reward):
            return cls(int(free.sum()), {}, len(reward), (float(reward.min()), float(reward.max())))
        columns = {name: logs.state[:, j] for j, name in enumerate(logs.state_names)} | {logs.names.reward: logs.reward}
        missing = {name: int((np.isnan(values) & free).sum()) for name, values in columns.items()}
        return cls(int(free.sum()), missing, 0, None)

    def require(self, reward: str) -> None:
        """Refuse logs from which nobody's fit could learn anything; `reward` is the reward's column."""
        if not self.used:
            empty = [name for name, count in self.missing.items() if count == self.available]
            why = f"column '{empty[-1]}' is always missing" if empty else "each lacks the reward or a state variable"
            why = f"of {self.available} available ones {why}" if self.available else "nobody is ever available"
            raise InputError(f"no decision point can be used: {why}", column=empty[-1] if self.available and empty else None)
        if self.used > 1 and self.reward_range is not None and self.reward_range[0] == self.reward_range[1]:
            raise InputError(
                f"column '{reward}': the reward is {self.reward_range[0]:g} at all {self.used} usable decision points, so "
                "there is nothing to learn; check that this column is the outcome",
                column=reward,
            )


def find_troubles(batch: Batch, weights: Array, features: int) -> Array:
    """Which people have which troubles, (people, troubles), in the order of `describe_troubles`; `weights` are the
    critic's."""
    xp = array_namespace(weights)
    present = batch.weights > 0
    total = xp.sum(batch.usable, axis=1)
    troubles = [total == 0, (total > 0) & (total < features)]
    first = xp.argmax(batch.usable, axis=1)[:, None]
    for values in (batch.reward, *(batch.state[..., j] for j in range(batch.state.shape[-1]))):
        varies = xp.any(present & (values != xp.take_along_axis(values, first, axis=1)), axis=1)
        troubles.append((total > 1) & ~varies)
    for code in range(batch.actions):
        taken = present & (batch.action == code)
        occurs = xp.any(taken, axis=1)
        troubles.append((total > 0) & ~occurs)
        troubles.append(occurs & ~xp.any(taken & (weights > 0), axis=1))
    return xp.stack(troubles, axis=1)


def describe_troubles(state_names: Sequence[str], action_names: Sequence[str], features: int, pooling: Pooling) -> list[str]:
    """The troubles in words."""
    return [
        f"no usable decision point, {pooling.without_points}",
        f"fewer usable decision points than the critic's {features} features; {pooling.few_points}",
        "the reward never changes, so no effect can be learned; what was removed as an outlier means nothing",
        *(f"state '{name}' never changes, so its effect cannot be told from the intercept" for name in state_names),
        *(
            text
            for name in action_names
            for text in (
                f"action '{name}' never occurs at a usable decision point; its effect is a guess",
                f"every decision point with action '{name}' was removed as an outlier; its effect is a guess",
            )
        ),
    ]


def warn_of_troubles(participants: NDArray[Any], troubles: NDArray[np.bool_], texts: Sequence[str]) -> None:
    """A `FitWarning` for every trouble, naming the people who have it; `troubles` is (people, texts)."""
    for text, troubled in zip(texts, troubles.T, strict=True):
        names = [repr(participant.item()) for participant in participants[troubled]]
        if names:
            others = f" and {len(names) - SHOWN_PEOPLE} more" if len(names) > SHOWN_PEOPLE else ""
            warnings.warn(f"participant {', '.join(names[:SHOWN_PEOPLE])}{others}: {text}", FitWarning, stacklevel=4)
