"""What the columns of a log seem to be: their roles, the state variables among them, and what must not be one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import VariableKind, recognize_kind
from surefoot.data.column_summaries import ColumnSummary, quote
from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.log_columns import MISSING, LogColumn, first_failure, is_text, settle_missing, whole_array
from surefoot.data.log_files import LogRows
from surefoot.data.mean_weights import FITS, SURE, MeanWeights
from surefoot.data.suspect_columns import (
    find_codes,
    gives_away_action,
    is_afterwards,
    is_index,
    is_probability,
    says_the_same,
)
from surefoot.errors import InputError, did_you_mean
from surefoot.study.log_description import LogDescription
from surefoot.study.log_reader import parse_logs

if TYPE_CHECKING:
    import pyarrow as pa

ROLES = {
    "participant": r"^(user|person|participant|subject|patient|pid|uid|id)([._ -]?(id|index|name|number|no))?$",
    "time": r"^(time|timestamp|decision|decision[._ -]?(index|point|time|no)|t|date|datetime|when)$",
    "available": r"^(avail|available|availability|is[._ -]?available|eligible)$",
    "action": r"^(a|action|send|sent|treat|treatment|treated|arm|intervention|message|prompt|notification)$",
    "reward": r"^(r|y|reward|outcome|proximal[._ -]?outcome|steps?|response)$",
}
"""How columns with these roles are usually called; that of the probability is known by its values too."""
READINGS = ("action taken", "sending")
NEEDED = ("participant", "time", "action", "reward")


@dataclass(frozen=True)
class ColumnGuesses:
    """What every column seems to be."""

    summaries: dict[str, ColumnSummary]
    roles: dict[str, str]
    state: dict[str, VariableKind]
    left_out: dict[str, str]
    """Columns that are neither, with the reason in words that go after the name."""
    file: list[str] = field(default_factory=list)
    """The lines of the section on the file."""


def guess_columns(table: pa.Table, said: Mapping[str, str | None], settings: FileSettings = PLAIN) -> ColumnGuesses:
    """Look at all columns of a log; `said` gives roles that cannot be guessed."""
    cells = {
        name: LogColumn(name, settle_missing(whole_array(table[name]), MISSING), settings=settings).plain_numbers().cells
        for name in table.column_names
    }
    summaries = {name: ColumnSummary.of(name, cells[name], replace(PLAIN, percent=settings.percent)) for name in cells}
    roles = _guess_roles(summaries, said)
    action, reward = _codes_of(cells[roles["action"]]), _codes_of(cells[roles["reward"]])
    known = ~np.isnan(action)
    taken = np.unique(action[known], return_inverse=True)[1]
    state: dict[str, VariableKind] = {}
    left_out: dict[str, str] = {}
    for name in (name for name in summaries if name not in roles.values()):
        reason = _reason_against(summaries[name])
        if reason is None:
            values = _codes_of(cells[name])
            if gives_away_action(values[known], taken):
                reason = "says which action was taken"
            elif summaries[roles["reward"]].numbers is not None and says_the_same(values, reward):
                reason = "says what the reward was"
        kind = recognize_kind(summaries[name].without(_codes(summaries[name]))) if reason is None else None
        if kind is None:
            left_out[name] = reason or "holds times, or text with many values"
        else:
            state[name] = kind
    return ColumnGuesses(summaries, roles, state, left_out)


def _codes(summary: ColumnSummary) -> list[float]:
    return [] if summary.numbers is None else find_codes(summary.numbers)


def _reason_against(summary: ColumnSummary) -> str | None:
    """Why a column, looked at by itself, cannot be a state variable."""
    if is_index(summary):
        return "counts the rows"
    if summary.is_constant:
        return "is constant, or holds times"
    if is_probability(summary):
        return "is called like a probability"
    if is_afterwards(summary.name):
        return "is called like something that is known only after the decision"
    return None


def _codes_of(cells: pa.Array) -> NDArray[np.float64]:
    """Numbers as they are, other values as numbers from 0 for the distinct ones; NaN where missing."""
    import pyarrow as pa

    column = LogColumn("", cells)
    if not is_text(cells.type) and not pa.types.is_boolean(cells.type):
        numeric = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type)
        return column.numbers() if numeric else np.full(len(cells), np.nan)
    if is_text(cells.type) and first_failure(cells, pa.float64()) is None:
        return column.numbers()
    indices = column.distinct()[1]
    return np.where(indices < 0, np.nan, indices)


def _guess_roles(summaries: Mapping[str, ColumnSummary], said: Mapping[str, str | None]) -> dict[str, str]:
    names = list(summaries)
    chosen = {role: name for role, name in said.items() if name is not None}
    for role, name in chosen.items():
        if name not in names:
            raise InputError(f"there is no column '{name}'{did_you_mean(name, names)} for {role}; the table has {names}")
    for role, pattern in ROLES.items():
        fits = [name for name in names if re.match(pattern, name, re.IGNORECASE) and name not in chosen.values()]
        if role not in chosen and fits:
            chosen[role] = fits[0]
    probable = [name for name in names if is_probability(summaries[name]) and name not in chosen.values()]
    if "probability" not in chosen and probable:
        # Of p0 and p1, the latter is that of sending.
        chosen["probability"] = next((name for name in probable if not name.endswith("0")), probable[0])
    for role in NEEDED:
        if role not in chosen:
            raise InputError(f"no column looks like the {role}; say which with --{role} NAME (the table has {names})")
    return chosen


def choose_convention(study: LogDescription, rows: LogRows) -> list[str]:
    """Lines that say what the probabilities are of: that reading with which every action's mean weight is 1."""
    if len(study.actions.names) > 2:
        return ["# With several actions it must be that of the action taken."]
    found = {reading: _read_as(study, rows, reading) for reading in READINGS}
    means = {reading: weights.words(reading) for reading, weights in found.items() if weights is not None}
    distances = {reading: np.inf if weights is None else weights.worst(reading) for reading, weights in found.items()}
    best = min(READINGS, key=lambda reading: distances[reading])
    other = next(reading for reading in READINGS if reading != best)
    lines = ['# What it is the probability of: "action taken" or "sending".']
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
    return [*lines, f"probability_of = {quote(best)}"]


def _read_as(study: LogDescription, rows: LogRows, reading: str) -> MeanWeights | None:
    """The mean weights of one reading; None where the logs cannot be read so."""
    columns = study.columns.model_copy(update={"probability_of": reading})
    try:
        # Weights need no screened values.
        return MeanWeights.of(parse_logs(study.model_copy(update={"columns": columns, "screen": None}), rows).logs)
    except InputError:
        # What is wrong with the cells is told by the fit.
        return None
