"""Surefoot: robust contextual bandits for mobile-health interventions."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from surefoot.errors import FitWarning, InputError, NotFittedError
from surefoot.version import __version__

if TYPE_CHECKING:
    from surefoot import (
        audit,
        client,
        datasets,
        effects,
        evaluation,
        explain,
        fitting,
        inference,
        linking,
        personalisation,
        policies,
        regression,
        rehearsal,
        sample_size,
        screening,
        simulators,
        study,
    )
    from surefoot.data.trajectories import Trajectories
    from surefoot.fitting import FittedStudy, fit_study
    from surefoot.inference.pilot_priors import estimate_prior
    from surefoot.learning import critics, filters, pooling, rules
    from surefoot.learning import horizon as horizons
    from surefoot.learning.methods import METHODS, Method, method
    from surefoot.study import Study, StudyLogs

__all__ = [
    "METHODS",
    "FitWarning",
    "FittedStudy",
    "InputError",
    "Method",
    "NotFittedError",
    "Study",
    "StudyLogs",
    "Trajectories",
    "__version__",
    "audit",
    "client",
    "critics",
    "datasets",
    "effects",
    "estimate_prior",
    "evaluation",
    "explain",
    "filters",
    "fit_study",
    "fitting",
    "horizons",
    "inference",
    "linking",
    "method",
    "personalisation",
    "policies",
    "pooling",
    "regression",
    "rehearsal",
    "rules",
    "sample_size",
    "screening",
    "simulators",
    "study",
]

_LATER = {
    "Trajectories": "surefoot.data.trajectories",
    **dict.fromkeys(("METHODS", "Method", "method"), "surefoot.learning.methods"),
    **dict.fromkeys(("Study", "StudyLogs"), "surefoot.study"),
    **dict.fromkeys(("FittedStudy", "fit_study"), "surefoot.fitting"),
    "estimate_prior": "surefoot.inference.pilot_priors",
}
_MODULES_LATER = {
    **{name: f"surefoot.learning.{name}" for name in ("critics", "filters", "pooling", "rules")},
    "choices": "surefoot.learning.choice",
    "horizons": "surefoot.learning.horizon",
    **{
        name: f"surefoot.{name}"
        for name in (
            *(
                "audit",
                "client",
                "datasets",
                "effects",
                "evaluation",
                "explain",
                "fitting",
                "inference",
                "linking",
                "policies",
            ),
            *("personalisation", "regression", "rehearsal", "sample_size", "screening", "simulators", "study"),
        )
    },
}
"""What is slow to import is imported when it is first asked for: a client of the service needs no mathematics."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    if name in _MODULES_LATER:
        return _import_module(_MODULES_LATER[name])
    raise AttributeError(f"module 'surefoot' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
