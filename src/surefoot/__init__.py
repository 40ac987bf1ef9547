"""Surefoot: robust contextual bandits for mobile-health interventions."""

from surefoot import evaluation, filters, policies, simulators
from surefoot.errors import FitWarning, InputError, NotFittedError
from surefoot.methods import ACCB, METHODS, SACCB, LinUCB, method
from surefoot.trajectories import Trajectories
from surefoot.version import __version__

__all__ = [
    "ACCB",
    "METHODS",
    "SACCB",
    "FitWarning",
    "InputError",
    "LinUCB",
    "NotFittedError",
    "Trajectories",
    "__version__",
    "evaluation",
    "filters",
    "method",
    "policies",
    "simulators",
]
