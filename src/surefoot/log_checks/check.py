"""The result of a check: a verdict with its reason and remedy."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """The result of one check of logs or of a fit.

    Attributes
    ----------
    name
        Name of the check.
    verdict
        `fine`, `look` or `unsafe`.
    reason
        The evidence.
    remedy
        What to do; empty when nothing needs to be done.
    numbers
        The numbers behind the reason.
    """

    name: str
    verdict: str
    reason: str
    remedy: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")
