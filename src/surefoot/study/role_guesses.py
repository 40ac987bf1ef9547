"""Which column of a log plays which role, guessed from names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import ColumnSummary, YesNo
from surefoot.data.log_columns import NO, LogColumn, first_failure, is_text
from surefoot.data.suspect_columns import find_platform, is_availability, is_probability, numbers_rows
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

ROLES = {
    "participant": r"^(user|person|participant|subject|subj|patient|client|respondent|record|connection|pid|uid|id)"
    r"([._ -]?(id|index|name|number|num|nr|no|code))?$",
    "time": r"^(time|timestamp|time[._ -]?stamp[._ -]?(sent|scheduled)|decision|decision[._ -]?(index|point|time|no)|t|date|"
    r"datetime|when)$",
    "available": r"^(avail|available|availability|is[._ -]?available|eligible|is[._ -]?eligible)$",
    "action": r"^(a|action|send|sent|treat|treatment|treated|arm|intervention|message|prompt|notification|condition|"
    r"(message|prompt|notification|suggestion)[._ -]?sent|randomi[sz]ed)$",
    "reward": r"^(r|y|reward|outcome|proximal[._ -]?outcome|steps?|response)$",
}
"""How columns with these roles are usually called; that of the probability is known by its values too."""
OTHER_TIMES = (
    r"(?i)time|date|stamp|beep|decision|occasion|instance|slot|session|counter|sequence|index|"
    r"obs(ervation)?[._ -]?(no|nr|id)?$"
)
"""Columns that may order a participant's decision points, where none is called as usual."""
PARTS_OF_TIME = r"(?i)day|week|date|slot|hour|time|beep|block|session|occasion|period"
NEEDED = ("participant", "time", "action", "reward")
UNLIKELY = 4.0
"""A constant so many standard errors from how often something was sent is not the probability of sending."""


def guess_roles(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], said: Mapping[str, str | None]
) -> dict[str, str]:
    """The column of every role; `said` gives those that were named, and one that cannot be found is refused."""
    names = list(summaries)
    chosen = {role: name for role, name in said.items() if name is not None}
    for role, name in chosen.items():
        if name not in names:
            raise InputError(f"there is no column '{name}'{did_you_mean(name, names)} for {role}; the table has {names}")
    for role in (role for role in ROLES if role not in chosen):
        fits = _find_candidates(role, chosen, summaries, cells)
        if fits:
            chosen[role] = fits[0]
    probable = [name for name in names if is_probability(summaries[name]) and name not in chosen.values()]
    if "probability" not in chosen and probable:
        # Of p0 and p1, the latter is that of sending.
        chosen["probability"] = next((name for name in probable if not name.endswith("0")), probable[0])
    for role in NEEDED:
        if role not in chosen:
            advice = _suggest_time(summaries, cells, chosen) if role == "time" else ""
            raise InputError(
                f"no column looks like the {role}; say which with --{role} NAME{advice} (the table has {names})"
            )
    return chosen


def _find_candidates(
    role: str, chosen: Mapping[str, str], summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array]
) -> list[str]:
    """The columns that may have a role, the likeliest first."""
    names = [name for name in summaries if name not in chosen.values()]
    fits = [name for name in names if re.match(ROLES[role], name, re.IGNORECASE)]
    if role == "participant":
        return _prefer_repeated(fits, cells)
    if role == "reward":
        return [name for name in fits if _may_be_outcome(summaries[name])]
    if role == "available":
        return fits + [name for name in names if is_availability(summaries[name])]
    if role == "time" and "participant" in chosen:
        others = [name for name in names if re.search(OTHER_TIMES, name) and _may_be_time(summaries[name])]
        # What a platform counts comes after what says a time.
        others.sort(key=lambda name: find_platform(name, list(summaries)) is not None)
        return [name for name in (*fits, *others) if orders_rows(cells[chosen["participant"]], cells[name])] or fits
    return fits


def _may_be_outcome(summary: ColumnSummary) -> bool:
    """Whether a column holds numbers, if only with their units, or yes and no; nobody could average answers in words."""
    return not summary.levels or bool(YesNo.recognize(summary)) or any(re.search(r"\d", text) for text in summary.levels)


def _may_be_time(summary: ColumnSummary) -> bool:
    """Whether a column holds no measurement: numbers that order decision points are whole or very large."""
    numbers = summary.numbers
    return numbers is None or bool(((numbers == np.round(numbers)) | (numbers > 10_000)).all())


def _suggest_time(summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], chosen: Mapping[str, str]) -> str:
    """Two columns that tell a participant's decision points apart only together."""
    import pyarrow as pa

    candidates = [name for name in summaries if re.search(PARTS_OF_TIME, name) and name not in chosen.values()]
    for first, second in combinations(candidates, 2):
        pairs = [_number_values(cells[name]) for name in (first, second)]
        if pairs[0] is None or pairs[1] is None:
            continue
        joined = pa.array(pairs[0] * (pairs[1].max() + 2) + pairs[1])
        if orders_rows(cells[chosen["participant"]], joined):
            are_numbers = all(summaries[name].numbers is not None for name in (first, second))
            example = f"100 * {first} + {second}" if are_numbers else "2024-05-31 08:30"
            return f", or put '{first}' and '{second}' into one column, such as {example}"
    return ""


def _prefer_repeated(names: list[str], cells: Mapping[str, pa.Array]) -> list[str]:
    """Columns that may name the participants; one that has another value in every row numbers the rows."""
    repeated = [name for name in names if not _differs_everywhere(cells[name])]
    if names and not repeated:
        problem = f"column '{names[0]}' has another value in every row, so it seems to number the rows, not the participants"
        raise InputError(f"{problem}; say which column names the participants with --participant NAME", column=names[0])
    return repeated


def _differs_everywhere(cells: pa.Array) -> bool:
    values = _number_values(cells)
    return values is not None and numbers_rows(len(np.unique(values)), len(values))


def orders_rows(participant: pa.Array, time: pa.Array) -> bool:
    """Whether a column has another value at each of a participant's decision points."""
    ids = _number_values(participant)
    times = _number_values(time)
    if ids is None or times is None or time.null_count > len(time) / 2:
        return False
    pairs = np.column_stack([ids, times])[times >= 0]
    return len(np.unique(pairs, axis=0)) == len(pairs)


def _number_values(cells: pa.Array) -> NDArray[np.int64] | None:
    """The same number for the same value, −1 where it is missing; None for cells that nobody can compare."""
    import pyarrow as pa

    try:
        return np.asarray(cells.dictionary_encode().indices.fill_null(-1))
    except pa.ArrowException:
        return None


def find_constant_probability(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str]
) -> dict[str, str]:
    """The column of a constant between 0 and 1 that may be how often something was sent."""
    action = code_values(cells[roles["action"]])[find_available(cells, roles)]
    shares = np.unique(action[~np.isnan(action)], return_counts=True)[1] / max(1, np.sum(~np.isnan(action)))
    for name, summary in summaries.items():
        values = summary.numbers
        if name in roles.values() or values is None or not values.size or not summary.is_constant or not 0 < values[0] < 1:
            continue
        error = np.sqrt(values[0] * (1 - values[0]) / max(1, action.size))
        if len(shares) == 2 and np.abs(shares - values[0]).min() < UNLIKELY * error:
            return {"probability": name}
    return {}


def find_available(cells: Mapping[str, pa.Array], roles: Mapping[str, str]) -> NDArray[np.bool_]:
    """The rows at which something could be sent."""
    if "available" not in roles:
        return np.ones(len(cells[roles["action"]]), dtype=bool)
    texts, indices = LogColumn("", cells[roles["available"]]).distinct()
    unavailable = [code for code, text in enumerate(texts) if text.lower() in NO]
    return ~np.isin(indices, unavailable)


def code_values(cells: pa.Array) -> NDArray[np.float64]:
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
