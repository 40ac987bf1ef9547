"""Columns and ids that are not what they seem: codes for "missing", columns that reveal the action, ids that look alike,
availability that was not named.

`surefoot init` leaves such columns out; fits, audits, screening and the checks of logs warn of them.
"""

import re
import unicodedata
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from surefoot.data.column_kinds import ColumnSummary, YesNo
from surefoot.data.log_columns import LogColumn, whole_array
from surefoot.data.log_table import ColumnNames, UnnamedAvailability
from surefoot.errors import FitWarning

AVAILABILITY = r"(^|[^A-Za-z])([aA]vail|AVAIL|[eE]ligib|ELIGIB)|[a-z](Avail|Eligib)"
UNAVAILABILITY = r"(?i)(un|in|not|non|no)[._ -]?(avail|eligib)"
"""Names of columns that say whether somebody could be treated, and of columns that say the opposite."""
AVAILABLE_OR_NOT = f"{AVAILABILITY}|{UNAVAILABILITY.replace('(?i)', '(?i:', 1)})"
SUMMARIES = r"(?i)(grand )?(total|sum|mean|average|overall|all|median|subtotal|gesamt|summe|mittelwert)s?"
"""Names of rows that summarise others."""
CODES = (-1, *(sign * (10**digits - 1) for digits in range(1, 7) for sign in (1, -1)), 77, 777, 88, 888)
"""Numbers that questionnaires and devices write for "missing"."""
LEAST_RECURRING = 5
LEAST_REPEATED = 3
FEW_VALUES = 12
"""In a column with fewer distinct values every value is common."""
STANDS_OUT = 5.0
NEIGHBOURS = 5
"""A value stands out if it is `STANDS_OUT` times as common as its `NEIGHBOURS` next values on either side."""
FEWEST_ROWS = 30
GIVES_AWAY = 0.9
"""A column reveals the action if it removes this share of the errors of the best constant guess."""
FEW_ROWS = 10
"""Among fewer rows everybody may have one."""
SHOWN_PAIRS = 3


def find_codes(values: NDArray[np.float64]) -> list[float]:
    """Codes for "missing": lonely ones, and negative numbers of `CODES` that stand out, wherever they lie.

    >>> find_codes(np.array([20.5, 21, 19, 22, 18.5, -99, -99, -99, 20] * 4))
    [-99.0]
    """
    lonely = find_lonely_codes(values)
    recurring = find_recurring_codes(*np.unique(values[np.isfinite(values)], return_counts=True))
    return lonely + [code for code in recurring if code < 0 and code not in lonely]


def find_lonely_codes(values: NDArray[np.float64]) -> list[float]:
    """Smallest and largest values that are repeated and lie apart from all others."""
    codes: list[float] = []
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    while counts.sum() >= FEWEST_ROWS and len(distinct) > 3:
        repeated = [end for end in (0, -1) if counts[end] >= LEAST_REPEATED]
        end = next((end for end in repeated if _lies_apart(distinct, counts, end)), None)
        if end is None:
            break
        codes.append(float(distinct[end]))
        distinct = np.delete(distinct, end)
        counts = np.delete(counts, end)
    return codes


def _lies_apart(distinct: NDArray[np.float64], counts: NDArray[np.int64], end: int) -> bool:
    others = np.delete(distinct, end)
    with np.errstate(over="ignore"):
        gap = np.min(np.abs(others - distinct[end]))
        width = np.ptp(others)
        widest_step = np.diff(others).max()
    if distinct[end] not in CODES:
        # Any other value: further from the others than they are from each other, and more common than most of them.
        return bool(gap / 2 > width and counts[end] >= np.median(counts))
    # A negative code in a measurement that cannot be negative need not be far away.
    measured = width > 100 or np.mean(others != np.round(others)) > 0.5
    return bool(gap > min(width / 2, 1.5 * widest_step) or (measured and distinct[end] < 0 <= others.min()))


def find_recurring_codes(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> list[float]:
    """Numbers of `CODES` that stand out among many distinct values; not the largest value unless it is negative.

    >>> steps = np.array([-99.0] * 20 + [-3.0, 99.0, 100.0] + list(range(1, 60)))
    >>> find_recurring_codes(*np.unique(steps, return_counts=True))
    [-99.0]
    """
    if len(distinct) < FEW_VALUES:
        return []
    inside = (distinct < 0) | (np.arange(len(distinct)) < len(distinct) - 1)
    listed = np.flatnonzero(np.isin(distinct, CODES) & (counts >= LEAST_RECURRING) & inside)
    return [float(distinct[position]) for position in listed if stands_out(counts, int(position))]


def stands_out(counts: NDArray[np.int64], position: int) -> bool:
    """Whether a value is much more common than its neighbours; counts are in the order of the values."""
    before = counts[max(position - NEIGHBOURS, 0) : position]
    after = counts[position + 1 : position + NEIGHBOURS + 1]
    return bool(counts[position] >= STANDS_OUT * np.median(np.concatenate([before, after])))


def gives_away_action(values: NDArray[Any], action: NDArray[np.int64]) -> bool:
    """Whether a column (numbers with NaN, or codes of text) reveals the action, also by being missing."""
    if len(action) < FEWEST_ROWS:
        return False
    missing = np.isnan(values)
    groups = np.unique(np.where(missing, np.inf, values), return_inverse=True)[1]
    if groups.max() >= len(action) // 10:
        # A measurement reveals the action if one threshold separates sent from not sent.
        order = np.argsort(values)
        in_order = values[order]
        ahead = np.cumsum(np.where(action[order] > 0, 1.0, -1.0) * ~missing[order])
        # A threshold among equal values separates nothing.
        ends = np.append(in_order[1:] != in_order[:-1], True)
        threshold = in_order[np.argmax(np.where(ends, np.abs(ahead - ahead[-1] / 2), -1))]
        groups = np.where(missing, 2, values > threshold)
    table = np.zeros((groups.max() + 1, action.max() + 1))
    np.add.at(table, (groups, action), 1)
    totals = np.sort(table.sum(axis=0))[::-1]
    base = totals[0] / len(action)
    accuracy = table.max(axis=1).sum() / len(action)
    return bool(totals[1:2].sum() >= 5 and accuracy - base >= GIVES_AWAY * (1 - base))


def find_alike_ids(participants: Sequence[Any]) -> list[tuple[str, str]]:
    """Pairs of ids that differ in case, blanks or leading zeros alone.

    >>> find_alike_ids(["P01", "P1", "P10", "p10 "])
    [('P01', 'P1'), ('P10', 'p10 ')]
    """
    by_spelling: dict[str, str] = {}
    pairs = []
    for participant in (name for name in participants if isinstance(name, str)):
        plain = re.sub(r"\s+", "", unicodedata.normalize("NFKC", participant)).casefold()
        first = by_spelling.setdefault(re.sub(r"(?<![\d.])0+(?=\d)", "", plain), participant)
        if first != participant:
            pairs.append((str(first), str(participant)))
    return pairs


def list_id_doubts(participants: Sequence[Any]) -> list[tuple[str, str, str]]:
    """(verdict, reason, remedy) of ids that may be one participant, and of ids that are no participant."""
    doubts = []
    pairs = find_alike_ids(participants)
    if pairs:
        shown = ", ".join(f"{first!r} and {second!r}" for first, second in pairs[:SHOWN_PAIRS])
        others = f" and {len(pairs) - SHOWN_PAIRS} more pairs" if len(pairs) > SHOWN_PAIRS else ""
        reason = f"participants {shown}{others} differ only in case, blanks or leading zeros, and count as different people"
        doubts.append(("look", reason, "write each id in one way if they are the same participant"))
    for participant in (name for name in participants if isinstance(name, str) and re.fullmatch(SUMMARIES, name)):
        doubts.append(("look", f"participant {str(participant)!r} looks like a summary of others", "delete such rows"))
    return doubts


def numbers_rows(participants: int, rows: int) -> bool:
    """Whether everybody has exactly one row, as if row numbers were taken for participants."""
    return participants == rows >= FEW_ROWS


def is_availability(summary: ColumnSummary) -> bool:
    """Whether a column has the name of availability and holds yes and no."""
    named = re.search(AVAILABILITY, summary.name) and not re.search(UNAVAILABILITY, summary.name)
    return bool(named) and YesNo.recognize(summary) is not None and not summary.is_constant


def is_unavailability(summary: ColumnSummary) -> bool:
    """Whether a column says yes where somebody could not be treated."""
    return bool(re.search(UNAVAILABILITY, summary.name)) and YesNo.recognize(summary) is not None


def find_unnamed_availability(
    table: pa.Table, named: Collection[str], action: NDArray[np.float64]
) -> tuple[UnnamedAvailability, ...]:
    """Columns of availability that have no role; `action` is that of every row."""
    unnamed = []
    for name in (name for name in table.column_names if name not in named):
        cells = whole_array(table[name])
        summary = ColumnSummary.of(name, cells)
        if is_availability(summary) or is_unavailability(summary):
            says_no = LogColumn(name, cells).yes_no() == float(is_unavailability(summary))
            unnamed.append(UnnamedAvailability(name, int(says_no.sum()), int(np.sum(says_no & (action > 0)))))
    return tuple(unnamed)


def list_doubts(participants: NDArray[Any], rows: int, names: ColumnNames) -> list[tuple[str, str, str]]:
    """(verdict, reason, remedy) of everything doubtful about rows and ids; the verdicts are those of checks."""
    doubts = list_id_doubts(participants.tolist())
    if numbers_rows(len(participants), rows):
        reason = f"every participant of column '{names.participant}' has exactly one row, so it seems to number the rows"
        doubts.append(("unsafe", reason, "name the column that identifies the participant"))
    for column in names.unnamed:
        blocked = f"nothing could be sent in {column.rows:,} rows"
        reason = f"column '{column.name}' looks like availability ({blocked}), but has no role"
        if column.sent:
            reason += f"; something was sent in {column.sent:,} of these rows"
            doubts.append(("look", reason, "name it as available if it says so"))
        else:
            reason += ", so that these rows count as decisions to send nothing"
            doubts.append(("unsafe", reason, "name it as available"))
    return doubts


def warn_of_doubts(participants: NDArray[Any], rows: int, names: ColumnNames) -> None:
    """A `FitWarning` for each of them, at the line that called a function of this package."""
    for _, reason, remedy in list_doubts(participants, rows, names):
        warnings.warn(f"{reason}; {remedy}", FitWarning, stacklevel=4)
