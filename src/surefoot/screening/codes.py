"""Numbers that stand for "no value": −1, 99, 999, −9999."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from surefoot.data.suspect_columns import CODES, FEW_VALUES, find_recurring_codes
from surefoot.errors import InputError
from surefoot.screening.detectors import Detection, Detector, ScreenBatch, Ties, count_ties

MOST_CODES = 5
"""A column with more candidates than this has no codes; its values merely repeat."""


@dataclass(frozen=True)
class Codes(Detector):
    """Repeated values that lie apart from all others.

    In a continuous column hardly any two values are the same, so a value that recurs is a code. The least and the
    greatest value (the limits of a sensor) are codes only if studies commonly use the number as one. In any column a
    repeated value is a code if it lies apart from all others by more than `apart` times the interquartile range, or if it
    is −1, −9, −99 and so on and is either the only negative value or much more common than its neighbours. A positive
    number of that kind (99 among steps) is reported as a possible code and is not removed. `not_worn` judges zeros.
    """

    name: ClassVar[str] = "codes"
    reasons: ClassVar[tuple[str, ...]] = ("code", "possible code")
    reported: ClassVar[tuple[str, ...]] = ("possible code",)
    reference: ClassVar[str] = (
        "Van den Broeck J, Cunningham SA, Eeckels R, Herbst K (2005), Data cleaning: detecting, diagnosing, and editing "
        "data abnormalities, PLoS Medicine 2(10):e267."
    )
    repeats: int = 5
    """Least number of separate runs in which a value must occur in the sample of participants."""
    apart: float = 5.0
    """Least gap between a code and the nearest other value, in interquartile ranges."""

    def describe(self) -> str:
        return (
            f"Numbers that stand for a missing value, such as −1 or 999. They occur at least {self.repeats} times and are "
            "far from all other values."
        )

    def check(self) -> None:
        if not (self.repeats >= 2 and self.apart > 0):
            raise InputError(f"codes needs repeats >= 2 and apart > 0; got {self}")

    def learn(self, sample: ScreenBatch) -> dict[str, dict[str, list[float]]]:
        """By column and reason, the numbers that stand for "no value"."""
        names = [column.name for column in sample.layout.columns]
        return {names[k]: self._find_codes(count_ties(sample.values[k])) for k in sample.layout.measured}

    def _find_codes(self, ties: Ties) -> dict[str, list[float]]:
        often = (ties.counts >= self.repeats) & (ties.values != 0)
        if not often.any():
            return {}
        inner = np.arange(len(often)) > 0
        inner[-1:] = False
        known = np.isin(ties.values, CODES)
        recurring = often & np.isin(ties.values, find_recurring_codes(ties.values, ties.counts))
        negative = ties.values < 0
        # Values beyond a wide gap, at either end, if fewer than a quarter of all values lie there.
        gaps = np.diff(ties.values)
        total = ties.counts.sum()
        below = np.cumsum(ties.counts)
        low, high = (ties.values[np.searchsorted(below, share * total)] for share in (0.25, 0.75))
        lonely = np.zeros(len(ties.values), dtype=bool)
        for gap in np.flatnonzero(gaps > self.apart * max(high - low, np.min(gaps, initial=np.inf))):
            if below[gap] < 0.25 * total:
                lonely[: gap + 1] = True
            elif total - below[gap] < 0.25 * total:
                lonely[gap + 1 :] = True
        chosen = often & (lonely | (ties.continuous & (inner | known))) | (recurring & negative)
        # The least of few, evenly spaced values, such as −1, 0 and 1, is not a code.
        few = 0 < len(gaps) < FEW_VALUES - 1
        evenly = few and bool(gaps[0] <= (2.0 if len(gaps) == 1 else gaps[1:].max()))
        if negative.sum() == 1 and not evenly:
            chosen |= often & negative & known
        certain = ties.values[chosen].tolist()
        return {
            "code": certain if len(certain) <= MOST_CODES else [],
            "possible code": ties.values[recurring & ~chosen].tolist(),
        }

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        for name, codes in usual.items():
            for reason, numbers in codes.items():
                yield Detection(name, reason, np.where(np.isin(batch.column(name), numbers), 1.0, np.nan))
