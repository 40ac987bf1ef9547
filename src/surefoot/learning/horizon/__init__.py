"""Horizons: how far ahead the consequences of an action count. Adding one is an object given to `register_horizon`."""

from surefoot.learning.horizon.advantage import Advantage, immediate_advantage
from surefoot.learning.horizon.horizon import (
    HORIZONS,
    BatchOutlook,
    Horizon,
    HorizonTask,
    JointFit,
    Outlook,
    find_horizon,
    register_horizon,
)
from surefoot.learning.horizon.immediate import ImmediateHorizon
from surefoot.learning.horizon.long_run import LongRunHorizon

__all__ = [
    "HORIZONS",
    "Advantage",
    "BatchOutlook",
    "Horizon",
    "HorizonTask",
    "ImmediateHorizon",
    "JointFit",
    "LongRunHorizon",
    "Outlook",
    "find_horizon",
    "immediate_advantage",
    "register_horizon",
]
