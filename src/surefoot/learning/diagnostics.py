"""What makes a participant's fit rest on too little."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning
from surefoot.numerics.arrays import Array, array_namespace

SHOWN_PEOPLE = 10
NOT_CONVERGED = "the search did not converge; rescale the states or raise the penalties"


def find_troubles(state: Array, action: Array, usable: Array, weights: Array, *, actions: int, features: int) -> Array:
    """Who has which trouble: (people, troubles), in the order of `describe_troubles`.

    `state` is (people, decision points, variables), `usable` 1.0 where a decision point could be used, `weights` are the
    critic's.
    """
    xp = array_namespace(state)
    total, there = xp.sum(usable, axis=1), usable > 0
    found = [total == 0, (total > 0) & (total < features)]
    for j in range(state.shape[-1]):
        lowest = xp.min(xp.where(there, state[..., j], xp.inf), axis=1)
        highest = xp.max(xp.where(there, state[..., j], -xp.inf), axis=1)
        found.append((total > 1) & (lowest == highest))
    for code in range(actions):
        taken = usable * xp.astype(action == code, usable.dtype)
        times = xp.sum(taken, axis=1)
        found.append((total > 0) & (times == 0))
        found.append((times > 0) & (xp.sum(taken * weights, axis=1) == 0))
    return xp.stack(found, axis=1)


def describe_troubles(state_names: Sequence[str], action_names: Sequence[str], features: int) -> list[str]:
    """The troubles in words."""
    return [
        "no usable decision point, so nothing was learned; an actor flips a coin, LinUCB sends nothing",
        f"fewer usable decision points than the critic's {features} features; the penalty decides the rest",
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
    for text, who in zip(texts, troubles.T, strict=True):
        names = [repr(participant.item()) for participant in participants[who]]
        if names:
            more = f" and {len(names) - SHOWN_PEOPLE} more" if len(names) > SHOWN_PEOPLE else ""
            warnings.warn(f"participant {', '.join(names[:SHOWN_PEOPLE])}{more}: {text}", FitWarning, stacklevel=3)
