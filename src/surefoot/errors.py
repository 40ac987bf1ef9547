"""Errors and warnings that say where to look and what to do."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Data or an argument was refused; the message names the place and the remedy.

    Attributes
    ----------
    row
        Of the table, from 0; None where it is not about one row.
    column
        Its name; None where it is not about one column.
    participant
        The id; None where it is not about one participant.
    """

    def __init__(
        self, message: str, *, row: int | None = None, column: str | None = None, participant: object = None
    ) -> None:
        super().__init__(message)
        self.row, self.column, self.participant = row, column, participant


class NotFittedError(AttributeError):
    """A result of a method that is not fitted yet was requested."""


class FitWarning(UserWarning):
    """A result is defined but uncertain: too few data, or doubtful rows; the message names the participant or the column."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest valid name, whatever its case, or nothing when none is near.

    >>> did_you_mean("outcom", ["outcome", "time"]) + did_you_mean("STEPS", ["steps"])
    " (did you mean 'outcome'?) (did you mean 'steps'?)"
    """
    # Of two names that differ in nothing but case, the one that is spelled more like it comes first.
    by_case = {option.lower(): option for option in sorted(valid, key=lambda option: option != name)[::-1]}
    matches = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.5)
    return f" (did you mean '{by_case[matches[0]]}'?)" if matches else ""


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not among the known ones, and list those."""
    names = list(known)
    if name not in names:
        raise InputError(f"there is no {kind} '{name}'{did_you_mean(str(name), names)}; choose from {names}")
