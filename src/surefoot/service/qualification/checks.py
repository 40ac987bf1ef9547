"""What one check of the qualification says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QualificationCheck:
    """One line of the report."""

    name: str
    wanted: str
    found: str
    passed: bool
