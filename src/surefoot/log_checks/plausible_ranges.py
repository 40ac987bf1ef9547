"""Whether a plausible range drops so many values that it is more likely wrong than they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.log_checks.check import Check, find_worst
from surefoot.reports.numbers import format_percent
from surefoot.study import Study, StudyLogs

LOOK_SHARE = 0.20
"""Of the values of a column: a fifth of them are hardly all faults."""
UNSAFE_SHARE = 0.50
"""Where most values are outside, the range is in another unit than the column."""


def check_ranges(read: StudyLogs, study: Study | None) -> Check:
    """Count the values that were outside the range of their column and became missing."""
    shares = {}
    for column, counts in read.implausible.items():
        outside = int(counts.sum())
        measured = outside + int((~np.isnan(_find_values(read, study, column))).sum())
        shares[column] = outside / measured if measured else 0.0
    words = [
        f"{format_percent(share)} of '{column}' ({int(read.implausible[column].sum()):,} values)"
        for column, share in shares.items()
        if share > 0
    ]
    numbers = {"shares": shares}
    if not words:
        return Check("plausible ranges", "fine", "no value is outside a plausible range", "", numbers)
    reason = f"values outside the plausible range of their column are implausible and count as missing: {', '.join(words)}"
    verdict = find_worst(_judge(share) for share in shares.values())
    wrong = [f"'{column}'" for column, share in shares.items() if _judge(share) == verdict]
    remedy = f"check the range of {', '.join(wrong)} in the study: is it in the unit of the column?"
    return Check("plausible ranges", verdict, reason, remedy if verdict != "fine" else "", numbers)


def _judge(share: float) -> str:
    if share > UNSAFE_SHARE:
        return "unsafe"
    return "look" if share > LOOK_SHARE else "fine"


def _find_values(read: StudyLogs, study: Study | None, column: str) -> NDArray[np.float64]:
    """The values of a column of the logs that are left."""
    if column == read.logs.names.reward:
        return read.measured_reward
    names = [column] if study is None else [name for name, (source, _) in study.state_kinds.items() if source == column]
    name = names[0] if study is None else study.columns_of(names[0])[0]
    return read.logs.state[:, read.logs.state_names.index(name)]
