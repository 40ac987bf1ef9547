"""Surefoot: robust contextual bandits for mobile-health interventions."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from surefoot import evaluation, filters, policies, simulators
from surefoot.errors import FitWarning, InputError, NotFittedError
from surefoot.methods import ACCB, METHODS, SACCB, LinUCB, method
from surefoot.trajectories import Trajectories
from surefoot.version import __version__

if TYPE_CHECKING:
    from surefoot.study import Study, StudyLogs

__all__ = [
    "ACCB",
    "METHODS",
    "SACCB",
    "FitWarning",
    "InputError",
    "LinUCB",
    "NotFittedError",
    "Study",
    "StudyLogs",
    "Trajectories",
    "__version__",
    "evaluation",
    "filters",
    "method",
    "policies",
    "simulators",
]

_LATER = {"Study": "surefoot.study", "StudyLogs": "surefoot.study"}
"""Names whose modules are slow to import, imported when they are first asked for."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    raise AttributeError(f"module 'surefoot' has no attribute '{name}'")
