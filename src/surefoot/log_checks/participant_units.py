"""Whether participants recorded a complete column in another unit: kilometres for metres, thousands of steps for steps.

The screen compares values with the participant's own record, where such values do not stand out. They stand out when
compared with other participants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import FEW_VALUES
from surefoot.data.trajectories import Trajectories
from surefoot.log_checks.check import Check, find_worst
from surefoot.numerics.masked_quantiles import median
from surefoot.reports.numbers import format_number
from surefoot.study import Study, StudyLogs

Array = NDArray[np.float64]
NAME = "units by participant"
FACTORS = (1.609, 2.205, 10.0, 60.0, 100.0, 1000.0, 3600.0)
"""Kilometres and miles, kilograms and pounds, decimals, minutes and seconds, hours and seconds."""
LEAST_VALUES = 8
"""A participant's level is estimated from at least this many values other than 0."""
LEAST_PEOPLE = 5
LEAST_DEVIATION = 0.1
"""Least standard deviation of the logarithm of people's levels."""
GAP = 2.5
"""Least gap between two groups of people, in standard deviations within the groups; larger for few people."""
LOOK_FACTOR = 1.5
UNSAFE_FACTOR = 8.0
"""Only another unit or another device explains a larger factor between two groups of people."""
UNSAFE_ALONE = 30.0
"""The same limit for a single participant, who may differ more from all others."""
MOST_UNITS = 3
NAMED_PEOPLE = 10


class OtherUnit(NamedTuple):
    """A participant whose values of a column are a multiple of other people's values."""

    participant: Any
    column: str
    level: float
    """Median of the absolute values other than 0."""
    usual: float
    """The same median of other people."""
    factor: float
    """Ratio between the group of participants that stands apart and all others."""
    alone: bool
    """Whether nobody else is in that group."""

    @property
    def unit(self) -> float | None:
        """The nearest factor between two units, if one is near."""
        candidates = [scale for factor in FACTORS for scale in (factor, 1 / factor)]
        nearest = min(candidates, key=lambda scale: abs(np.log(self.factor / scale)))
        return nearest if abs(np.log(self.factor / nearest)) < np.log(2) else None

    @property
    def verdict(self) -> str:
        limit = UNSAFE_ALONE if self.alone else UNSAFE_FACTOR
        return "unsafe" if max(self.factor, 1 / self.factor) >= limit else "look"


def check_units(read: StudyLogs, study: Study | None) -> Check:
    """Compare the level and the spread of every participant's values with other people's, on a scale of ratios."""
    suspects = [suspect for name, values in _list_columns(read, study) for suspect in find_units(read.logs, name, values)]
    numbers = {"participants": [suspect._asdict() for suspect in suspects]}
    if not suspects:
        return Check(NAME, "fine", "no participant's values are consistently a multiple of other people's", "", numbers)
    verdict = find_worst(suspect.verdict for suspect in suspects)
    columns = {suspect.column: [other for other in suspects if other.column == suspect.column] for suspect in suspects}
    reason = "; ".join(_describe(column, people) for column, people in columns.items())
    remedy = (
        "find out in which unit these participants recorded, and bring the column to one unit before anything is analysed; "
        "nothing was removed or converted here"
    )
    return Check(NAME, verdict, reason, remedy, numbers)


def find_units(logs: Trajectories, column: str, values: Array) -> list[OtherUnit]:
    """Participants whose level and spread are both far from other people's, in the same direction."""
    lengths = np.diff(logs.starts)
    position = np.arange(max(int(lengths.max(initial=0)), 1))
    inside = position < lengths[:, None]
    record = np.where(inside, values[logs.order[np.where(inside, logs.starts[:-1, None] + position, 0)]], np.nan)
    present = ~np.isnan(record) & (record != 0)
    # A column with few different values is a scale of answers, and has no unit.
    if _rises_with_time(record) or len(np.unique(values[~np.isnan(values)])) < FEW_VALUES:
        return []
    record = np.where(present, record, 0.0)
    level = median(np.abs(record), present)
    centre = np.where(np.isfinite(level), median(record, present), 0.0)
    spread = median(np.abs(record - centre[:, None]), present)
    known = np.flatnonzero((present.sum(axis=1) >= LEAST_VALUES) & np.isfinite(spread) & (spread > 0))
    sizes = np.log(np.stack([level[known], spread[known]]))
    suspects = []
    others = np.arange(len(known))
    for _ in range(MOST_UNITS):
        apart = _split(sizes[:, others])
        if apart is None:
            break
        factor = float(np.exp(np.median(sizes[0, others[apart]]) - np.median(sizes[0, others[~apart]])))
        usual = float(np.exp(np.median(sizes[0, others[~apart]])))
        suspects += [
            OtherUnit(logs.participants[person].item(), column, float(level[person]), usual, factor, bool(apart.sum() == 1))
            for person in known[others[apart]]
        ]
        others = others[~apart]
    return suspects


def _split(sizes: Array) -> NDArray[np.bool_] | None:
    """The smaller of two groups of people whose level and spread (2, people; logarithms) differ by one factor.

    The widest gap separates the groups; None if it is narrow compared with the differences within the groups.
    """
    people = sizes.shape[1]
    if people < LEAST_PEOPLE:
        return None
    size = sizes.mean(axis=0)
    in_order = np.sort(size)
    cut = int(np.argmax(np.diff(in_order)))
    upper = size > in_order[cut]
    means = [sizes[:, group].mean(axis=1, keepdims=True) for group in (upper, ~upper)]
    within = size - np.where(upper, means[0].mean(), means[1].mean())
    deviation = max(np.sqrt((within**2).sum() / (people - 2)), LEAST_DEVIATION)
    steps = (means[0] - means[1]).ravel()
    one_factor = steps.min() > np.log(LOOK_FACTOR) and steps.max() < 2 * steps.min()
    if not one_factor or in_order[cut + 1] - in_order[cut] < GAP * (1 + 12 / people) * deviation:
        return None
    return np.asarray(upper if upper.sum() <= people / 2 else ~upper)


def _rises_with_time(record: Array) -> bool:
    """Whether values hardly ever fall within a participant, as those of counters (days in the study) do."""
    steps = np.diff(record, axis=1)
    steps = steps[~np.isnan(steps)]
    return bool(steps.size) and float((steps < 0).mean()) < 0.01


def _list_columns(read: StudyLogs, study: Study | None) -> Iterator[tuple[str, Array]]:
    """The outcome as measured, and every state variable in its own unit."""
    logs = read.logs
    yield logs.names.reward, read.measured_reward
    scaling = {} if study is None else study.scaling
    for position, name in enumerate(logs.state_names):
        centre, scale = scaling.get(name, (0.0, 1.0))
        # Rounding restores exact zeros, which scaling back does not.
        yield name, np.round(logs.state[:, position] * scale + centre, 9)


def _describe(column: str, people: list[OtherUnit]) -> str:
    """`'distance' of 3 participants (4, 9, 12) is about 1/1000 of other people's (median 0.4 against 380)`."""
    names = ", ".join(f"'{suspect.participant}'" for suspect in people[:NAMED_PEOPLE])
    names += f" and {len(people) - NAMED_PEOPLE} more" if len(people) > NAMED_PEOPLE else ""
    typical = sorted(people, key=lambda suspect: suspect.factor)[len(people) // 2]
    factor = typical.unit or typical.factor
    times = f"{factor:.4g} times" if factor > 1 else f"1/{1 / factor:.4g} of"
    count = f"{len(people)} participants" if len(people) > 1 else "participant"
    return (
        f"'{column}' of {count} ({names}) is about {times} other people's throughout (median size "
        f"{format_number(typical.level)}, others {format_number(typical.usual)})"
    )
