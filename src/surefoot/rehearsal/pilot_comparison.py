"""What a comparison of simulated pilots with the real one found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.rehearsal.check_statistics import PilotRecords
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.reports.numbers import format_number


@dataclass(frozen=True)
class PilotCheck:
    """One number of the pilot beside the same of many simulated ones.

    Attributes
    ----------
    name
        What was compared.
    observed
        In the pilot.
    simulated, low, high
        Median, 2.5 % and 97.5 % point over the simulated pilots.
    share_below
        The share of simulated numbers below the observed one.
    verdict
        `fine` where the observed number lies among the simulated ones or too near to matter, else `look`.
    """

    name: str
    observed: float
    simulated: float
    low: float
    high: float
    share_below: float
    verdict: str

    @property
    def sentence(self) -> str:
        """What is wrong, in words; empty where nothing is."""
        if self.verdict == "fine":
            return ""
        shown = f"{self.name}: {format_number(self.observed)} in the pilot, {format_number(self.simulated)} simulated"
        ratio = self.simulated / self.observed if self.observed else np.nan
        return f"{shown} ({100 * ratio:.0f} % of it)" if 0 < ratio < 100 else shown


@dataclass(frozen=True, eq=False)
class PilotComparison:
    """All comparisons of a model with its pilot.

    Attributes
    ----------
    model
        The model.
    checks
        One for every number.
    pilots
        How many were simulated.
    observed, simulated
        The records that they were computed from.
    """

    model: PilotModel
    checks: tuple[PilotCheck, ...]
    pilots: int
    observed: PilotRecords
    simulated: PilotRecords

    @property
    def verdict(self) -> str:
        return "fine" if all(one.verdict == "fine" for one in self.checks) else "look"

    @property
    def differences(self) -> tuple[str, ...]:
        """What does not look like the pilot, one sentence each."""
        return tuple(one.sentence for one in self.checks if one.sentence)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per check."""
        names = ("name", "observed", "simulated", "low", "high", "share_below", "verdict")
        return make_frame({name: [getattr(one, name) for one in self.checks] for name in names}, backend)
