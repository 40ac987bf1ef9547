"""Critics: what the expected reward is learned with. Adding one is a subclass of `Critic` under `register_critic`."""

from surefoot.learning.critics.critic import (
    CRITICS,
    Capped,
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
