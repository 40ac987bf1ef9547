"""Who takes part on which day: people enter in cohorts, and may leave, the sooner the more they were sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.random_streams import streams
from surefoot.rehearsal.design import TrialDesign
from surefoot.rehearsal.pilot_data import DOSE_DISCOUNT
from surefoot.simulators.simulator import Seed


class Attendance:
    """Everybody's days, (trials, people).

    After each of the own days d = 1 … days − 1 the cumulative hazard grows by λ₀ exp(β b), b the burden (what was sent,
    discounted by 0.9 at every decision point) and λ₀ = −log(1 − drop_out) / (days − 1): a participant leaves when it
    passes a number of their own, exponential with mean 1. The same seed gives the same number whatever is sent.

    Attributes
    ----------
    entry
        (people) The day of the trial on which everybody enters.
    left
        The own day after which somebody left; NaN for others.
    """

    def __init__(self, design: TrialDesign, seeds: Sequence[Seed]) -> None:
        self._design = design
        self.entry = np.array(design.entries)
        people = range(design.participants)
        self._patience = np.array([[rng.exponential() for rng in streams(one, "staying", people)] for one in seeds])
        self._hazard = -np.log1p(-design.drop_out) / max(design.days - 1, 1)
        self._passed = np.zeros(self._patience.shape)
        self._burden = np.zeros(self._patience.shape)
        self.left = np.full(self._patience.shape, np.nan)

    def list_active(self, day: int) -> NDArray[np.bool_]:
        """Who takes part on a day of the trial."""
        own = day - self.entry
        return np.asarray((own >= 0) & (own < self._design.days) & np.isnan(self.left))

    def add_prompts(self, sent: NDArray[np.bool_], active: NDArray[np.bool_]) -> None:
        """What was sent at a decision point."""
        self._burden = np.where(active, DOSE_DISCOUNT * self._burden + sent, self._burden)

    def end_day(self, day: int, active: NDArray[np.bool_]) -> None:
        """Let those leave whose patience has come to its end; after the last own day there is nothing to leave."""
        if self._hazard == 0:
            return
        own = day - self.entry
        staying = active & (own < self._design.days - 1)
        growth = self._hazard * np.exp(self._design.drop_out_burden * self._burden)
        self._passed = np.where(staying, self._passed + growth, self._passed)
        leaving = staying & (self._passed > self._patience)
        self.left = np.where(leaving, own, self.left)
