"""Detects lasting changes of a participant's level or scale (a new device, a recalibration) and reports them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION, median
from surefoot.screening.detectors import Detection, Detector, Floats, Mask, ScreenBatch

SIZE_DEVIATION = 0.6
"""Standard deviation of |z| for normal z."""
PIECES = 16
QUARTILE = 0.6745
"""Upper quartile of the standard normal distribution."""
WINSOR = 2.5
"""Values are cut at this many robust standard deviations, so that an outlier does not look like a change of level."""


@dataclass(frozen=True)
class LevelShifts(Detector):
    """The decision point at which a participant's level, or scale, changes most.

    With z the values in robust standard deviations, cut at ± 2.5, and k of n before the change:
    √(k (n − k) / n) · |mean after − mean before| / √((1 + ρ) / (1 − ρ)), ρ the correlation of neighbouring z; the
    statistic of the scale uses |z| / 0.6 instead of z. The detector uses complete records, because it removes nothing.
    """

    name: ClassVar[str] = "level_shifts"
    reasons: ClassVar[tuple[str, ...]] = ("level shift", "scale shift")
    reported: ClassVar[tuple[str, ...]] = ("level shift", "scale shift")
    reference: ClassVar[str] = (
        "Page ES (1954), Continuous inspection schemes, Biometrika 41:100-115; Killick R, Fearnhead P, Eckley IA (2012), "
        "Optimal detection of changepoints with a linear computational cost, JASA 107(500):1590-1598."
    )
    threshold: float = 6.0
    """Changes with at least this statistic are reported; normal values reach 5 once in 10,000 records."""
    size: float = 1.0
    """Least change of the level, in robust standard deviations."""
    shortest: int = 10
    """Least number of decision points on either side of a change."""

    def describe(self) -> str:
        return (
            f"Lasting changes of a participant's level or scale, with at least {self.shortest} decision points before and "
            "after. They are reported and not removed."
        )

    def check(self) -> None:
        if not (self.threshold > 0 and self.size >= 0 and self.shortest >= 2):
            raise InputError(f"level_shifts needs threshold > 0, size >= 0 and shortest >= 2; got {self}")

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        columns = batch.layout.measured
        shape = batch.values.shape
        if not columns or shape[2] < 2 * self.shortest:
            return
        values = batch.values[columns].reshape(-1, shape[2])
        present = ~np.isnan(values)
        # In robust standard deviations from the participant's median, cut; 0 where missing or without spread.
        centre = median(values, present)[:, None]
        deviation = np.where(present, values - np.where(np.isfinite(centre), centre, 0.0), 0.0)
        unit = MAD_TO_STANDARD_DEVIATION * median(np.abs(deviation), present)[:, None]
        z = np.clip(deviation / np.where(np.isfinite(unit) & (unit > 0), unit, np.inf), -WINSOR, WINSOR)
        for reason, series in (("level shift", z), ("scale shift", np.abs(z) / SIZE_DEVIATION)):
            score = np.full(z.shape, np.nan)
            likely = _could_change(series, present, self.threshold)
            score[likely] = self._find_change(series[likely], present[likely])
            for column, scores in zip(columns, score.reshape(len(columns), *shape[1:]), strict=True):
                yield Detection(batch.layout.columns[column].name, reason, scores)

    def _find_change(self, z: Floats, present: Mask) -> Floats:
        """The statistic at the first decision point after the largest change of each participant; NaN elsewhere."""
        before: NDArray[np.int64] = np.cumsum(present, axis=1) - present
        total = before[:, -1:] + present[:, -1:]
        after: NDArray[np.int64] = total - before
        first = np.cumsum(z, axis=1) - z
        last = first[:, -1:] + z[:, -1:] - first
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.abs(last / after - first / before)
            statistic = step * np.sqrt(before * after / total)
            # ρ comes from differences, whose correlation is −(1 − ρ) / 2: a change of level affects only one of them.
            moves = np.where(present[:, 1:] & present[:, :-1], np.diff(z, axis=1), 0.0)
            correlation = 1 + 2 * (moves[:, 1:] * moves[:, :-1]).sum(axis=1) / (moves**2).sum(axis=1)
        correlation = np.clip(np.nan_to_num(correlation), 0.0, 0.95)
        allowed = (np.minimum(before, after) >= self.shortest) & present & (step >= self.size)
        statistic = np.where(allowed, statistic, 0.0) / np.sqrt((1 + correlation) / (1 - correlation))[:, None]
        best = np.argmax(statistic, axis=1)[:, None]
        highest = np.take_along_axis(statistic, best, axis=1)
        score = np.full(z.shape, np.nan)
        np.put_along_axis(score, best, np.where(highest >= self.threshold, highest, np.nan), axis=1)
        return score


def _could_change(z: Floats, present: Mask, threshold: float) -> Mask:
    """Participants who may have a change, judged quickly from the sums over 16 pieces of their record.

    A change that reaches the threshold reaches half of it at the nearest boundary of two pieces.
    """
    pieces = np.linspace(0, z.shape[1], PIECES + 1).astype(np.int64)[:-1]
    count = np.add.reduceat(present, pieces, axis=1, dtype=np.int64)
    total = np.add.reduceat(z, pieces, axis=1)
    before = np.cumsum(count, axis=1)[:, :-1]
    first = np.cumsum(total, axis=1)[:, :-1]
    after = count.sum(axis=1)[:, None] - before
    last = total.sum(axis=1)[:, None] - first
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = np.abs(last / after - first / before) * np.sqrt(before * after / (before + after))
        # Differences of neighbouring pieces show how correlated the values are; a change affects only one of them.
        unit = np.median(np.abs(np.diff(total / np.sqrt(count), axis=1)), axis=1) / (QUARTILE * np.sqrt(2))
        statistic = statistic / np.maximum(unit, 1.0)[:, None]
    return np.asarray(np.nan_to_num(statistic).max(axis=1) > 0.5 * threshold)
