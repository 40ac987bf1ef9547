"""Horizons: how far ahead the consequences of an action count. Adding one is a subclass under `register_horizon`."""

from surefoot.learning.horizon.horizon import HORIZONS, Horizon, Immediate, register_horizon
from surefoot.learning.horizon.long_run import LongRun

__all__ = ["HORIZONS", "Horizon", "Immediate", "LongRun", "register_horizon"]
