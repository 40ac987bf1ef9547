"""Checks of columns: codes for missing values, and plausible ranges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import find_lonely_codes, find_recurring_codes
from surefoot.log_checks.check import Check, find_worst
from surefoot.reports.numbers import format_percent
from surefoot.study import Study, StudyLogs

MOST_ROWS = 20_000
"""Of more decision points a sample is examined for codes."""
LOOK_SHARE = 0.20
"""Share of a column's values outside its range from which the range itself is doubtful."""
UNSAFE_SHARE = 0.50
"""If most values are outside, the range and the column have different units."""


def check_columns(read: StudyLogs, study: Study | None) -> Check:
    """Look for repeated values that lie apart from all others: codes for missing values."""
    logs = read.logs
    scaling = {} if study is None else study.scaling
    rows = np.flatnonzero(logs.available)
    rows = rows[:: -(-len(rows) // MOST_ROWS) or 1]
    columns = {}
    for j, name in enumerate(logs.state_names):
        centre, scale = scaling.get(name, (0.0, 1.0))
        # Rounded, because scaling back does not give a code to the last bit.
        columns[f"state variable '{name}'"] = np.round(logs.state[rows, j] * scale + centre, 9)
    columns[f"reward '{logs.names.reward}'"] = read.raw_reward[rows]
    suspects = []
    reasons = []
    remedies = []
    for name, values in columns.items():
        lonely = find_lonely_codes(values)
        recurring = find_recurring_codes(*np.unique(values[np.isfinite(values)], return_counts=True))
        for code in dict.fromkeys([*lonely, *recurring]):
            standing = "apart from all other values" if code in lonely else "more often than the values next to it"
            suspects.append(name)
            reasons.append(f"{name} holds {code:.6g} again and again, {standing}")
            remedies.append(f"if it stands for missing, write missing = [{code:.6g}] in its section")
    if not suspects:
        return Check("suspect columns", "fine", "no column repeats a value that stands apart")
    remedy = "; ".join(dict.fromkeys(remedies))
    return Check("suspect columns", "look", "; ".join(reasons), remedy, {"columns": suspects})


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
    """The values of a column that are inside its range."""
    if column == read.logs.names.reward:
        return read.measured_reward
    names = [column] if study is None else [name for name, (source, _) in study.state_kinds.items() if source == column]
    name = names[0] if study is None else study.columns_of(names[0])[0]
    return read.logs.state[:, read.logs.state_names.index(name)]
