"""Critics: what the expected reward is learned with. Adding one is a subclass of `Critic` under `register_critic`."""

from typing import Any

from surefoot.learning.critics.capped import Capped
from surefoot.learning.critics.critic import (
    CRITICS,
    Critic,
    CriticFit,
    Removal,
    RemovingCritic,
    Ridge,
    fit_ridge,
    register_critic,
)
from surefoot.learning.critics.high_breakdown import HighBreakdown
from surefoot.learning.critics.regressor import (
    CappedGradientBoosting,
    CappedRandomForest,
    GradientBoosting,
    RandomForest,
    RegressorCritic,
)
from surefoot.learning.part import make_part

__all__ = [
    "CRITICS",
    "Capped",
    "CappedGradientBoosting",
    "CappedRandomForest",
    "Critic",
    "CriticFit",
    "GradientBoosting",
    "HighBreakdown",
    "RandomForest",
    "RegressorCritic",
    "Removal",
    "RemovingCritic",
    "Ridge",
    "fit_ridge",
    "register_critic",
]


def make_critic(critic: Any) -> Critic:
    """The critic that is meant by a name, by a mapping with `name` and parameters, by itself, or by a regressor."""
    named = isinstance(critic, str | dict | Critic)
    return make_part(CRITICS, critic) if named else RegressorCritic(critic)
