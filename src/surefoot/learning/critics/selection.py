"""Which critic a method's parameter means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from surefoot.learning.critics.critic import Critic, find_critic
from surefoot.learning.critics.regressor import RegressorCritic


def make_critic(critic: Any, parameters: Mapping[str, Any] | None = None) -> Critic:
    """A critic by name with those of the parameters that it knows; one that is made already stays as it is, and a regressor
    becomes one."""
    if isinstance(critic, Critic):
        return critic
    if not isinstance(critic, str):
        return RegressorCritic(critic)
    kind = find_critic(critic)
    given = parameters or {}
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})
