"""Numbers that stand for "no value": −1, 99, 999, −9999."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.screening.detectors import Detector
from surefoot.screening.series import Block, Found
from surefoot.screening.ties import Ties, any_repeats, count_ties

MISSING_CODES = (-1.0, *(sign * (10.0**digits - 1) for digits in range(1, 7) for sign in (1, -1)))
"""Numbers that studies write for "missing"."""
MOST_CODES = 5
"""A column hardly has more."""


@dataclass(frozen=True)
class Codes(Detector):
    """Repeated lonely values.

    In a continuous column hardly any two values are the same, so one that comes up again and again is a code, unless it is
    the least or the greatest (what a sensor reads at its limit) and not a number that studies use as a code. In any column
    a repeated value is a code that lies apart from all others by more than `apart` times the interquartile range, or that
    is the only negative one and is −1, −9, −99 and so on. Zeros are left to `not_worn`.

    Parameters
    ----------
    repeats
        How often a value comes up at least, in separate runs, in the sample of participants.
    apart
        Interquartile ranges between a lonely value and the next.
    """

    name: ClassVar[str] = "codes"
    reasons: ClassVar[tuple[str, ...]] = ("code",)
    reference: ClassVar[str] = (
        "Van den Broeck J, Cunningham SA, Eeckels R, Herbst K (2005), Data cleaning: detecting, diagnosing, and editing "
        "data abnormalities, PLoS Medicine 2(10):e267."
    )
    repeats: int = 5
    apart: float = 5.0

    def check(self) -> None:
        if not (self.repeats >= 2 and self.apart > 0):
            raise InputError(f"codes needs repeats >= 2 and apart > 0; got {self}")

    def learn(self, sample: Block) -> dict[str, tuple[float, ...]]:
        names = [column.name for column in sample.layout.columns]
        found = {names[place]: self._codes(sample.values[place]) for place in sample.layout.measured}
        return {name: codes for name, codes in found.items() if codes}

    def _codes(self, values: NDArray[np.float64]) -> tuple[float, ...]:
        if not any_repeats(values, self.repeats):
            return ()
        ties = count_ties(values)
        often = (ties.counts >= self.repeats) & (ties.values != 0)
        inner = np.arange(len(often)) > 0
        inner[-1:] = False
        known = np.isin(ties.values, MISSING_CODES)
        chosen = often & (self._lonely(ties) | (ties.continuous & (inner | known)))
        negative = ties.values < 0
        if negative.sum() == 1:
            chosen |= often & negative & known
        codes = ties.values[chosen]
        return tuple(codes.tolist()) if len(codes) <= MOST_CODES else ()

    def _lonely(self, ties: Ties) -> NDArray[np.bool_]:
        """Values beyond a gap, with all that lies further out: from either end, as long as a minority lies there."""
        total = ties.counts.sum()
        below = np.cumsum(ties.counts)
        low, high = (ties.values[np.searchsorted(below, share * total)] for share in (0.25, 0.75))
        wide = np.diff(ties.values) > self.apart * max(high - low, np.min(np.diff(ties.values), initial=np.inf))
        lonely = np.zeros(len(ties.values), dtype=bool)
        for gap in np.flatnonzero(wide):
            if below[gap] < 0.25 * total:
                lonely[: gap + 1] = True
            elif total - below[gap] < 0.25 * total:
                lonely[gap + 1 :] = True
        return lonely

    def find(self, block: Block, usual: Any) -> list[Found]:
        found = []
        for name, codes in usual.items():
            hit = np.isin(block.values[block.layout.place(name)], codes)
            if hit.any():
                found.append(Found(name, "code", np.where(hit, 1.0, np.nan)))
        return found
