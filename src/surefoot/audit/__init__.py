"""The audit of a fit: which decision points it left out, and whether that was safe."""

from surefoot.audit.fit_audit import Audit, audit
from surefoot.audit.measures import Sensitivity
from surefoot.log_checks.check import Check

__all__ = ["Audit", "Check", "Sensitivity", "audit"]


def __dir__() -> list[str]:
    return __all__
