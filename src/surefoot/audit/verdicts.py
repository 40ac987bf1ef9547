"""What a check answers with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

VERDICTS = ("fine", "look", "unsafe")


@dataclass(frozen=True)
class Check:
    """One question about the fit, and its answer.

    Attributes
    ----------
    name
        The question, in a word or two.
    verdict
        `fine`, `look` or `unsafe`.
    reason
        What was found.
    remedy
        What to do; empty when nothing needs to be done.
    numbers
        What the reason rests on.
    """

    name: str
    verdict: str
    reason: str
    remedy: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def find_worst(verdicts: Iterable[str]) -> str:
    """The one that asks for most attention."""
    return max(verdicts, key=VERDICTS.index)
