"""Horizons: how far ahead the consequences of an action count. Adding one is a subclass under `register_horizon`."""

from surefoot.learning.horizon.horizon import HORIZONS, Horizon, Immediate, LongRun, register_horizon

__all__ = ["HORIZONS", "Horizon", "Immediate", "LongRun", "register_horizon"]
