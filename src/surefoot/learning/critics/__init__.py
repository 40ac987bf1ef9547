"""Critics: what the expected reward is learned with. Adding one is a subclass of `Critic` under `register_critic`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from surefoot.learning.critics.capped import Capped
from surefoot.learning.critics.critic import (
    CRITICS,
    Critic,
    CriticBatch,
    CriticFit,
    Removal,
    RemovingCritic,
    find_critic,
    register_critic,
)
from surefoot.learning.critics.high_breakdown import HighBreakdown
from surefoot.learning.critics.regressor import RegressorCritic
from surefoot.learning.critics.ridge import Ridge

__all__ = [
    "CRITICS",
    "Capped",
    "Critic",
    "CriticBatch",
    "CriticFit",
    "HighBreakdown",
    "RegressorCritic",
    "Removal",
    "RemovingCritic",
    "Ridge",
    "find_critic",
    "make_critic",
    "register_critic",
]


def make_critic(critic: Any, parameters: Mapping[str, Any] | None = None) -> Critic:
    """The critic that a method's parameter means.

    A name gives a new critic with those of the parameters that it has. A `Critic` is returned as it is, and a regressor is
    wrapped in a `RegressorCritic`.
    """
    if isinstance(critic, Critic):
        return critic
    if not isinstance(critic, str):
        return RegressorCritic(critic)
    kind = find_critic(critic)
    given = parameters or {}
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})
