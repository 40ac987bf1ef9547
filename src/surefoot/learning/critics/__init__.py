"""Critics: what the expected reward is learned with. Adding one is a subclass of `Critic` under `register_critic`."""

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
from surefoot.learning.critics.selection import make_critic

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
