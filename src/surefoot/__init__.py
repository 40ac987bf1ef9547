"""Surefoot: robust contextual bandits for mobile-health interventions."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from surefoot import policies
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError, NotFittedError
from surefoot.learning import filters
from surefoot.learning.methods import ACCB, METHODS, SACCB, LinUCB, PosteriorSampler, method
from surefoot.version import __version__

if TYPE_CHECKING:
    from surefoot import (
        audit,
        datasets,
        effects,
        evaluation,
        explain,
        fitting,
        regression,
        sample_size,
        screening,
        simulators,
        study,
    )
    from surefoot.fitting import FittedStudy, fit_study
    from surefoot.study import Study, StudyLogs

__all__ = [
    "ACCB",
    "METHODS",
    "SACCB",
    "FitWarning",
    "FittedStudy",
    "InputError",
    "LinUCB",
    "NotFittedError",
    "PosteriorSampler",
    "Study",
    "StudyLogs",
    "Trajectories",
    "__version__",
    "audit",
    "datasets",
    "effects",
    "evaluation",
    "explain",
    "filters",
    "fit_study",
    "fitting",
    "method",
    "policies",
    "regression",
    "sample_size",
    "screening",
    "simulators",
    "study",
]

_LATER = {
    **dict.fromkeys(("Study", "StudyLogs"), "surefoot.study"),
    **dict.fromkeys(("FittedStudy", "fit_study"), "surefoot.fitting"),
}
_MODULES_LATER = (
    *("audit", "datasets", "effects", "evaluation", "explain", "fitting", "regression"),
    *("sample_size", "screening", "simulators", "study"),
)
"""What is slow to import is imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    if name in _MODULES_LATER:
        return _import_module(f"surefoot.{name}")
    raise AttributeError(f"module 'surefoot' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
