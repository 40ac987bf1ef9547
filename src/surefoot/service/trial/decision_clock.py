"""When decision points were, as the study counts time.

Where a day begins at a clock time (`day_boundary = "04:00"`) times are those of a clock on the wall in the trial's time
zone. Elsewhere they count decision points. Either way they increase with `decision_idx`: neither a client's clock that goes
back nor two decision points at the same moment change the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.service.database.schema import EPOCH, decisions
from surefoot.study import Study, TrialSection

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
_own_time = sa.type_coerce(decisions.c.decided_at, sa.BigInteger) - decisions.c.decision_idx
_latest = sa.func.max(_own_time).over(partition_by=decisions.c.participant_id, order_by=decisions.c.decision_idx)
ORDERED = sa.select(decisions.c.id, (_latest + decisions.c.decision_idx).label("ordered_at")).subquery("ordered_decisions")
"""Of every decision its time in microseconds since 1970: its own, or a microsecond for each index after an earlier one that
has a later time."""


def order_moments(moments: Sequence[int], indices: Sequence[int]) -> NDArray[np.int64]:
    """`ORDERED` for the decision points of one participant, in order.

    >>> order_moments([1000, 400, 2000], [0, 1, 5])
    array([1000, 1001, 2000])
    """
    index = np.array(indices, dtype=np.int64)
    return np.asarray(np.maximum.accumulate(np.array(moments, dtype=np.int64) - index) + index)


def read_times(study: Study, rows: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
    """The study's time of rows that have `ordered_at` and `decision_idx`."""
    indices = [row["decision_idx"] for row in rows]
    return count_times(study, [row["ordered_at"] for row in rows] if study.has_clock_days else indices, indices)


def count_times(study: Study, ordered: Sequence[int], indices: Sequence[int]) -> NDArray[Any]:
    """Times of ordered moments: of a clock on the wall, or the decision points' own numbers."""
    if not study.has_clock_days:
        return np.array(indices, dtype=np.int64)
    zone = (study.trial or TrialSection()).zone
    times = [_read_wall_clock(int(moment), index, zone) for moment, index in zip(ordered, indices, strict=True)]
    return np.array(times, dtype="datetime64[us]")


def _read_wall_clock(moment: int, index: int, zone: ZoneInfo) -> datetime:
    """What a clock on the wall shows; in the hour that comes twice in autumn it stands still the second time.

    >>> str(_read_wall_clock(1774773000000000, 3, ZoneInfo("Europe/Zurich")))
    '2026-03-29 10:30:00'
    >>> str(_read_wall_clock(1792892400000000, 3, ZoneInfo("Europe/Zurich")))
    '2026-10-25 02:59:59.000003'
    """
    local = (EPOCH + timedelta(microseconds=moment)).astimezone(zone)
    if local.fold:
        set_back = local.astimezone(UTC).replace(second=0, microsecond=0)
        while (set_back - MINUTE).astimezone(zone).fold:
            set_back -= MINUTE
        # The index keeps decision points in this hour apart and in order.
        local = (set_back - SECOND).astimezone(zone) + timedelta(microseconds=index % 1_000_000)
    return local.replace(tzinfo=None)
