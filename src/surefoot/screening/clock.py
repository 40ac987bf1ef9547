"""Detects impossible times and duplicated uploads."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import numpy as np

from surefoot.errors import InputError
from surefoot.screening.detectors import Detection, Detector, Floats, ScreenBatch

HOUR = 3600.0
IN_ORDER = 0.05
"""A file in which more than this share of a participant's rows go back in time is not sorted by time, so the order of its
rows does not show clock errors."""


@dataclass(frozen=True)
class Clock(Detector):
    """Clock jumps, repeated hours, decision points in the future or before enrolment, and duplicated uploads.

    The detector needs moments; decision points that are only numbered have no clock. A wrong time is reported and not
    changed. An upload is duplicated if all its values equal those of the decision point a few minutes earlier; the values
    of the second copy become missing.
    """

    name: ClassVar[str] = "clock"
    reasons: ClassVar[tuple[str, ...]] = (
        "in the future",
        "before enrolment",
        "clock jump",
        "hour twice",
        "duplicated upload",
    )
    reported: ClassVar[tuple[str, ...]] = ("in the future", "before enrolment", "clock jump", "hour twice")
    reference: ClassVar[str] = (
        "Weiskopf NG, Weng C (2013), Methods and dimensions of electronic health record data quality assessment, Journal of "
        "the American Medical Informatics Association 20(1):144-151."
    )
    duplicate_minutes: float = 30.0
    """Equal values that are at most this many minutes apart are the same upload."""
    until: str | None = None
    """Decision points after this moment (ISO 8601) lie in the future. The default is the moment of screening."""
    enrolment: str | None = None
    """The column with the moment of enrolment; no participant has decision points before it."""

    def describe(self) -> str:
        return (
            "Decision points in the future or before enrolment, and jumps of the clock, which are reported only. An upload "
            f"that repeats all values of the last {self.duplicate_minutes:g} minutes becomes missing."
        )

    def check(self) -> None:
        if not self.duplicate_minutes >= 0:
            raise InputError(f"clock needs duplicate_minutes >= 0; got {self.duplicate_minutes}")
        self._last_moment()

    def _last_moment(self) -> float:
        if self.until is None:
            return datetime.now().astimezone().timestamp()
        try:
            moment = datetime.fromisoformat(self.until)
        except ValueError:
            raise InputError(f"clock.until is '{self.until}', which is not a time; write 2026-05-31T12:00") from None
        return moment.replace(tzinfo=moment.tzinfo or UTC, microsecond=0).timestamp()

    def learn(self, sample: ScreenBatch) -> tuple[float, float]:
        return self._last_moment(), sample.typical_gap

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        if not batch.layout.clock:
            return
        last_moment, typical_gap = usual
        layout = batch.layout
        jump = _find_jumps(batch)
        wrong = [("in the future", batch.time - last_moment)]
        wrong += [("before enrolment", batch.values[column] - batch.time) for column in layout.positions("enrolment")]
        for reason, late in wrong:
            yield Detection(layout.time, reason, np.where(late > 0, late / HOUR, np.nan))
        yield Detection(layout.time, "clock jump", np.where(jump > HOUR, jump / HOUR, np.nan))
        yield Detection(layout.time, "hour twice", np.where(jump <= HOUR, jump / HOUR, np.nan))
        columns = [*layout.positions("state"), *layout.positions("outcome")]
        values = batch.values[columns]
        gaps = batch.gaps()
        present = ~np.isnan(values)
        same = np.zeros(values.shape, dtype=bool)
        same[..., 1:] = (values[..., 1:] == values[..., :-1]) | ~(present[..., 1:] | present[..., :-1])
        informative = (present & (values != 0)).sum(axis=0) >= 2
        near = (gaps <= 60 * self.duplicate_minutes) & (gaps < 0.5 * typical_gap)
        twice = same.all(axis=0) & informative & near
        for column, has_value in zip(columns, present, strict=True):
            score = np.where(twice & has_value, gaps / 60, np.nan)
            yield Detection(layout.columns[column].name, "duplicated upload", score)


def _find_jumps(batch: ScreenBatch) -> Floats:
    """The error in seconds of rows whose time does not lie between the times of the neighbouring rows in the file; else
    NaN."""
    order = np.argsort(np.where(batch.inside, batch.rows, np.iinfo(np.int64).max), axis=1, kind="stable")
    time = np.take_along_axis(batch.time, order, axis=1)
    before = np.concatenate([np.full_like(time[:, :1], -np.inf), time[:, :-1]], axis=1)
    after = np.concatenate([time[:, 1:], np.full_like(time[:, :1], np.inf)], axis=1)
    after = np.where(np.isnan(after), np.inf, after)
    behind = before - time
    ahead = time - after
    alone = (before <= after) & (behind > 0)
    # Where either of two neighbouring rows may be wrong, the later row is flagged.
    spike = (before <= after) & (ahead > 0) & ~np.concatenate([alone[:, 1:], np.zeros_like(alone[:, :1])], axis=1)
    stays = (behind > 0) & ~np.concatenate([np.zeros_like(spike[:, :1]), spike[:, :-1]], axis=1)
    off = np.where(spike, ahead, np.where(stays, behind, np.nan))
    ordered = (behind > 0).sum(axis=1) <= np.maximum(IN_ORDER * batch.inside.sum(axis=1), 1)
    jump = np.full(time.shape, np.nan)
    np.put_along_axis(jump, order, np.where(ordered[:, None] & np.isfinite(off), off, np.nan), axis=1)
    return jump
