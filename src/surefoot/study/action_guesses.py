"""Guesses about the actions of a log: the code that means "nothing", and the event of the logged probabilities."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.data.column_kinds import MOST_LEVELS, ColumnSummary, YesNo, join_cases, quote
from surefoot.data.log_columns import spell
from surefoot.data.log_table import LogTable
from surefoot.data.mean_weights import FITS, SURE, MeanWeights
from surefoot.data.suspect_columns import CODES
from surefoot.errors import InputError
from surefoot.study.log_description import LogDescription
from surefoot.study.log_reader import parse_logs

NOTHING = (
    r"(?i)^(no|not|non|none|nothing|null|nil|nope|never|off|0|control|controls|ctrl|placebo|sham|usual|care as usual|"
    r"untreated|unsent|withheld|withhold|wait|waiting|waitlist|silent|silence|skip|skipped|baseline|do nothing)(?![a-z])"
)
"""Usual names of an action that means "nothing"; `no message` too."""
READINGS = ("action taken", "sending")


@dataclass(frozen=True)
class ActionGuess:
    """The actions of a log, the one that means "nothing" first."""

    names: tuple[str, ...]
    values: tuple[float | str, ...] | None = None
    """Their codes in the log; None where these are their names, or 0, 1 and so on."""
    reason: str = ""
    """Why the first is taken for "nothing", where it could be another."""

    @property
    def lines(self) -> list[str]:
        """The lines of `[actions]` that say it."""
        lines = [f"names = [{', '.join(map(quote, self.names))}]"]
        if self.values is not None:
            written = (quote(value) if isinstance(value, str) else spell(value) for value in self.values)
            lines += ["# Their codes in the log, in the same order.", f"values = [{', '.join(written)}]"]
        return [f"# Check: {self.reason}.", *lines] if self.reason else lines


def guess_actions(column: ColumnSummary, empty: Sequence[str | None]) -> ActionGuess:
    """The actions of a column; `empty` are its cells without an action although something could be sent."""
    if column.numbers is not None:
        guess = _guess_codes(column, empty)
    elif YesNo.recognize(column) and len({level.lower() for level in column.levels}) > 1:
        return ActionGuess(("nothing", "send"))
    else:
        guess = _guess_words(column, empty)
    actions = len(guess.names)
    if actions > MOST_LEVELS:
        problem = f"column '{column.name}' holds {actions} different values, too many for actions"
        remedy = "say with --action NAME which column holds the actions, or add one with 0 for nothing and 1 for sent"
        raise InputError(f"{problem}; {remedy}", column=column.name)
    return guess


def _guess_codes(column: ColumnSummary, empty: Sequence[str | None]) -> ActionGuess:
    codes: list[float] = np.unique(column.numbers).tolist() if column.numbers is not None else []
    if len(codes) < 2:
        return _guess_single(column, codes, empty)
    if codes == list(range(len(codes))):
        names = ("nothing", "send") if len(codes) == 2 else ("nothing", *(f"send {code:g}" for code in codes[1:]))
        return ActionGuess(names)
    nothing = 0.0 if 0.0 in codes else codes[0]
    others = [code for code in codes if code != nothing]
    names = ("nothing", *(["send"] if len(others) == 1 else [f"send {code:g}" for code in others]))
    why = "because 0 usually does" if nothing == 0 else "because it is the smallest code"
    reason = f"{nothing:g} is taken for {quote('nothing')}, {why}"
    strange = [code for code in others if code in CODES and abs(code) > len(codes)]
    if strange:
        count = np.sum(column.numbers == strange[0])
        reason += (
            f"; {strange[0]:g} ({count:,} rows) may stand for missing: then empty these cells, and mark them not available"
        )
    return ActionGuess(names, (nothing, *others), reason)


def _guess_words(column: ColumnSummary, empty: Sequence[str | None]) -> ActionGuess:
    levels = join_cases(column.levels)
    nothing = [level for level in levels if re.match(NOTHING, level)]
    if len(levels) < 2 or (empty and not nothing):
        return _guess_single(column, levels, empty)
    first = nothing[0] if nothing else levels[0]
    names = (first, *(level for level in levels if level != first))
    if len(nothing) == 1:
        return ActionGuess(names, reason=f"{quote(first)} is taken for the action that means nothing, because of its name")
    return ActionGuess(names, reason=f"which of these means nothing? {quote(first)} is a guess; it must stand first")


def _guess_single(column: ColumnSummary, codes: Sequence[float | str], empty: Sequence[str | None]) -> ActionGuess:
    """Where nothing but an empty cell can mean "nothing"."""
    if not codes or not empty:
        problem = (
            f"column '{column.name}' holds {spell(codes[0]) if codes else 'nothing'} only, so no two actions can be compared"
        )
        raise InputError(f"{problem}; say with --action NAME which column holds the actions", column=column.name)
    names = ["send"] if len(codes) == 1 else [code if isinstance(code, str) else f"send {code:g}" for code in codes]
    spelling = Counter(cell or "" for cell in empty).most_common(1)[0][0]
    cell = quote(spelling) if spelling else "an empty cell"
    reason = f"{cell} ({len(empty):,} rows) is taken for {quote('nothing')}, because no other value can mean it"
    return ActionGuess(("nothing", *names), (spelling, *codes), reason)


@dataclass(frozen=True)
class Convention:
    """The event whose probability is logged."""

    lines: list[str]
    """For the study, with the evidence."""
    distance: float
    """Of the mean weights from 1, in standard errors."""


def choose_convention(study: LogDescription, rows: LogTable) -> Convention:
    """The reading of the probabilities with which every action's mean weight is 1."""
    if len(study.actions.names) > 2:
        return Convention(["# With several actions it must be that of the action taken."], 0.0)
    means: dict[str, str] = {}
    distances = dict.fromkeys(READINGS, np.inf)
    for reading in READINGS:
        columns = study.columns.model_copy(update={"probability_of": reading})
        try:
            # Weights need no screened values.
            weights = MeanWeights.of(parse_logs(study.model_copy(update={"columns": columns, "screen": None}), rows).logs)
        except InputError:
            continue  # The fit reports what is wrong with the cells.
        if weights is not None:
            means[reading] = weights.describe(reading)
            distances[reading] = weights.worst(reading)
    best = min(READINGS, key=lambda reading: distances[reading])
    other = next(reading for reading in READINGS if reading != best)
    lines = ['# The event of that probability: "action taken" or "sending".']
    if not means:
        lines += ["# Check: the logs could not be read (surefoot fit says why), so this is a guess."]
        best = READINGS[0]
    elif distances[best] > SURE:
        lines += [f"# Check: neither fits. Mean weights must be 1; with {quote(best)} they are {means[best]}."]
    elif distances[other] < FITS:
        best = READINGS[0]
        lines += [f"# Check: the logs fit either way (mean weights {means[best]}, where 1 is expected)."]
    else:
        instead = f"with {quote(other)} {means[other]}" if other in means else f"{quote(other)} is impossible"
        lines += [f"# Decided by the mean weights, which must be 1: with {quote(best)} {means[best]}; {instead}."]
    return Convention([*lines, f"probability_of = {quote(best)}"], distances[best])


def choose_order(study: LogDescription, rows: LogTable, guess: ActionGuess) -> tuple[ActionGuess, Convention]:
    """The guess, or the other action as "nothing" where only that fits the logged probabilities; and their convention."""
    convention = choose_convention(study, rows)
    if not guess.reason or len(guess.names) > 2 or convention.distance <= SURE:
        return guess, convention
    names = guess.names[::-1] if guess.values is None else guess.names
    values = None if guess.values is None else guess.values[::-1]
    spellings = None if values is None else tuple(map(spell, values))
    actions = study.actions.model_copy(update={"names": names, "values": spellings})
    other = choose_convention(study.model_copy(update={"actions": actions}), rows)
    if other.distance >= FITS:
        return guess, convention
    first = names[0] if spellings is None else spellings[0]
    reason = f"{first} is taken for nothing, because only so do the probabilities fit how often each action was taken"
    return ActionGuess(names, values, reason), other
