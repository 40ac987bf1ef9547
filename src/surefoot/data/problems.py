"""What is wrong with the cells of a log, collected so that one run tells all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError

Place = Callable[[int], str]
"""How a row is called in messages: `row 17` of a frame, `line 19` of a file."""
MOST_SHOWN = 20


def frame_row(row: int) -> str:
    """As in a data frame, from 0."""
    return f"row {row}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in one column, in one row or in several."""

    row: int
    column: str
    rows: int
    what: str
    remedy: str


class Problems:
    """Problems of the cells of some rows; `raise_any` raises one error that names the first twenty of them.

    >>> problems = Problems()
    >>> problems.report("mood", [3, 7], "'fine' is not a number", "correct it")
    >>> problems.raise_any()
    Traceback (most recent call last):
    surefoot.errors.InputError: row 3, column 'mood': 'fine' is not a number (and 1 more row); correct it
    """

    def __init__(self, place: Place = frame_row, participant: Callable[[int], Any] | None = None) -> None:
        self.place, self.participant = place, participant
        self._found: list[Problem] = []
        self._rows: dict[str, set[int]] = {}

    def report(self, column: str, rows: Sequence[int] | NDArray[np.int64], what: str, remedy: str) -> None:
        """Some rows of a column are wrong for one reason; a cell that was reported already is not reported again."""
        known = self._rows.setdefault(column, set())
        new = [int(row) for row in rows if int(row) not in known]
        if new:
            known.update(new)
            self._found.append(Problem(new[0], column, len(new), what, remedy))

    def raise_any(self, column: str | None = None) -> None:
        """Raise the error if anything was reported, or anything about one column."""
        if self._found if column is None else self._rows.get(column):
            self.stop()

    def stop(self) -> NoReturn:
        """Raise the error about everything reported so far, in the order of the rows."""
        found = sorted(self._found, key=lambda problem: problem.row)
        lines = [self._words(problem) for problem in found[:MOST_SHOWN]]
        if len(found) > MOST_SHOWN:
            lines.append(f"These are the first {MOST_SHOWN} of {len(found)} problems.")
        first = found[0]
        participant = None if self.participant is None else self.participant(first.row)
        raise InputError("\n".join(lines), row=first.row, column=first.column, participant=participant)

    def _words(self, problem: Problem) -> str:
        who = "" if self.participant is None else f", participant {self.participant(problem.row)!r}"
        more = "" if problem.rows == 1 else f" (and {problem.rows - 1:,} more row{'s' if problem.rows > 2 else ''})"
        return f"{self.place(problem.row)}, column '{problem.column}'{who}: {problem.what}{more}; {problem.remedy}"
