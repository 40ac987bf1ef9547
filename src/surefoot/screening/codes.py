"""Numbers that stand for "no value": −1, 99, 999, −9999."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.data.suspect_columns import CODES, FEW_VALUES, find_recurring_codes
from surefoot.errors import InputError
from surefoot.screening.detectors import Detection, Detector, Floats, Mask, ScreenBatch, Ties, count_ties

MOST_CODES = 5
"""A column with more candidates than this has no codes; its values merely repeat."""


class ColumnCodes(NamedTuple):
    """Numbers of a column that certainly, or possibly, stand for "no value"."""

    certain: tuple[float, ...]
    possible: tuple[float, ...]


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

    def check(self) -> None:
        if not (self.repeats >= 2 and self.apart > 0):
            raise InputError(f"codes needs repeats >= 2 and apart > 0; got {self}")

    def learn(self, sample: ScreenBatch) -> dict[str, ColumnCodes]:
        names = [column.name for column in sample.layout.columns]
        codes_by_column = {names[k]: self._codes(sample.values[k]) for k in sample.layout.measured}
        return {name: codes for name, codes in codes_by_column.items() if codes.certain or codes.possible}

    def _codes(self, values: Floats) -> ColumnCodes:
        ties = count_ties(values)
        often = (ties.counts >= self.repeats) & (ties.values != 0)
        if not often.any():
            return ColumnCodes((), ())
        inner = np.arange(len(often)) > 0
        inner[-1:] = False
        known = np.isin(ties.values, CODES)
        recurring = often & np.isin(ties.values, find_recurring_codes(ties.values, ties.counts))
        negative = ties.values < 0
        chosen = often & (self._lonely(ties) | (ties.continuous & (inner | known))) | (recurring & negative)
        if negative.sum() == 1 and not _is_next(ties.values):
            chosen |= often & negative & known
        certain = ties.values[chosen]
        possible = ties.values[recurring & ~chosen]
        return ColumnCodes(tuple(certain.tolist()) if len(certain) <= MOST_CODES else (), tuple(possible.tolist()))

    def _lonely(self, ties: Ties) -> Mask:
        """Values beyond a wide gap, at either end, if fewer than a quarter of all values lie there."""
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

    def find(self, batch: ScreenBatch, usual: Any) -> list[Detection]:
        flags = []
        for name, codes in usual.items():
            values = batch.column(name)
            for reason, numbers in (("code", codes.certain), ("possible code", codes.possible)):
                hit = np.isin(values, numbers)
                if hit.any():
                    flags.append(Detection(name, reason, np.where(hit, 1.0, np.nan)))
        return flags


def _is_next(values: Floats) -> bool:
    """Whether a column has few, evenly spaced values, such as −1, 0 and 1; then the least of them is not a code."""
    gaps = np.diff(values)
    if not 0 < len(gaps) < FEW_VALUES - 1:
        return False
    return bool(gaps[0] <= gaps[1:].max(initial=0.0)) or (len(gaps) == 1 and bool(gaps[0] <= 2))
