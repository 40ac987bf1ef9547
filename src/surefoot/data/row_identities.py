"""Whose a row is and whether it is a decision point: ids that look alike, ids that number rows, availability left unnamed.

One place for `surefoot init`, for `Trajectories.from_frame` and for the checks of logs, which all warn of these.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import YesNo
from surefoot.data.column_roles import ColumnNames, UnnamedAvailability
from surefoot.data.column_summaries import ColumnSummary
from surefoot.data.log_columns import LogColumn, whole_array
from surefoot.errors import FitWarning

if TYPE_CHECKING:
    import pyarrow as pa

AVAILABILITY = r"(^|[^A-Za-z])([aA]vail|AVAIL|[eE]ligib|ELIGIB)|[a-z](Avail|Eligib)"
UNAVAILABILITY = r"(?i)(un|in|not|non|no)[._ -]?(avail|eligib)"
"""How a column is called that says whether somebody could be treated, and one that says the opposite."""
AVAILABLE_OR_NOT = f"{AVAILABILITY}|{UNAVAILABILITY.replace('(?i)', '(?i:', 1)})"
SUMMARIES = r"(?i)(grand )?(total|sum|mean|average|overall|all|median|subtotal|gesamt|summe|mittelwert)s?"
"""What a row is called that sums up others."""
FEW_ROWS = 10
"""In fewer rows everybody may well have one."""
SHOWN_PAIRS = 3


def find_alike_ids(participants: Sequence[Any] | NDArray[Any]) -> list[tuple[str, str]]:
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


def find_summary_ids(participants: Sequence[Any] | NDArray[Any]) -> list[str]:
    """Ids that name a sum or a mean over others."""
    return [str(name) for name in participants if isinstance(name, str) and re.fullmatch(SUMMARIES, name)]


def describe_alike(pairs: Sequence[tuple[str, str]]) -> str:
    """Both spellings of the first pairs, as a reason."""
    shown = ", ".join(f"{first!r} and {second!r}" for first, second in pairs[:SHOWN_PAIRS])
    others = f" and {len(pairs) - SHOWN_PAIRS} more pairs" if len(pairs) > SHOWN_PAIRS else ""
    return f"participants {shown}{others} differ in case, blanks or leading zeros alone, and count as different people"


def numbers_rows(participants: int, rows: int) -> bool:
    """Whether everybody has exactly one row, as where a number of the row is taken for the participant."""
    return participants == rows >= FEW_ROWS


def is_availability(summary: ColumnSummary) -> bool:
    """Whether a column is called like availability and says yes or no."""
    named = re.search(AVAILABILITY, summary.name) and not re.search(UNAVAILABILITY, summary.name)
    return bool(named) and YesNo.recognize(summary) is not None and not summary.is_constant


def is_unavailability(summary: ColumnSummary) -> bool:
    """Whether a column says yes where somebody could not be treated."""
    return bool(re.search(UNAVAILABILITY, summary.name)) and YesNo.recognize(summary) is not None


def find_unnamed_availability(
    table: pa.Table, named: Collection[str], action: NDArray[np.float64]
) -> tuple[UnnamedAvailability, ...]:
    """Columns that say when nothing could be sent, apart from those that are read; `action` is that of every row."""
    unnamed = []
    for name in (name for name in table.column_names if name not in named):
        cells = whole_array(table[name])
        summary = ColumnSummary.of(name, cells)
        if is_availability(summary) or is_unavailability(summary):
            says_no = LogColumn(name, cells).yes_no() == float(is_unavailability(summary))
            unnamed.append(UnnamedAvailability(name, int(says_no.sum()), int(np.sum(says_no & (action > 0)))))
    return tuple(unnamed)


def list_doubts(participants: NDArray[Any], rows: int, names: ColumnNames) -> list[tuple[str, str, str]]:
    """(verdict, reason, remedy) of everything that is doubtful about rows and ids; the verdicts are those of checks."""
    doubts = []
    alike = find_alike_ids(participants.tolist())
    if alike:
        doubts.append(("look", describe_alike(alike), "write each id in one way, if they are one participant"))
    if numbers_rows(len(participants), rows):
        problem = f"every participant of column '{names.participant}' has exactly one row, so it seems to number the rows"
        doubts.append(("unsafe", problem, "name the column that says whose each decision point is"))
    for participant in find_summary_ids(participants.tolist()):
        problem = f"participant {participant!r} seems to sum up others"
        doubts.append(("look", problem, "delete such rows"))
    return doubts + [_doubt_availability(column) for column in names.unnamed]


def warn_of_doubts(participants: NDArray[Any], rows: int, names: ColumnNames) -> None:
    """A `FitWarning` for each of them, at the line that called a function of this package."""
    for _, reason, remedy in list_doubts(participants, rows, names):
        warnings.warn(f"{reason}; {remedy}", FitWarning, stacklevel=4)


def _doubt_availability(column: UnnamedAvailability) -> tuple[str, str, str]:
    problem = f"column '{column.name}' seems to say when nothing could be sent ({column.rows:,} rows), but is not named"
    if column.sent:
        reason = f"{problem}; something was sent in {column.sent:,} of these rows"
        return "look", reason, "name it as available if it says so"
    return "unsafe", f"{problem}, so that nothing counts as chosen there", "name it as available"
