"""What the columns of a log seem to be: their roles, the state variables among them, and what must not be one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import VariableKind, recognize_kind
from surefoot.data.column_summaries import ColumnSummary, quote
from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.log_columns import MISSING, NO, LogColumn, first_failure, is_text, settle_missing, whole_array
from surefoot.data.row_identities import (
    describe_alike,
    find_alike_ids,
    find_summary_ids,
    is_availability,
    is_unavailability,
    numbers_rows,
)
from surefoot.data.suspect_columns import (
    find_codes,
    find_missing_words,
    find_platform,
    gives_away_action,
    is_afterwards,
    is_finite_number,
    is_index,
    is_probability,
    looks_like_probability,
    says_the_same,
)
from surefoot.errors import InputError, did_you_mean
from surefoot.study.action_guesses import ActionGuess, guess_actions

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
OTHER_TIMES = r"(?i)time|date|stamp|beep|decision|occasion|instance|slot|session|obs(ervation)?[._ -]?(no|nr|id)?$"
"""Columns that may order a participant's decision points, where none is called as usual."""
PARTS_OF_TIME = r"(?i)day|week|date|slot|hour|time|beep|block|session|occasion|period"
CLOCK = r"\d{1,2}:\d{2}(:\d{2})?"
MIXTURE = "holds text among its numbers"
NEEDED = ("participant", "time", "action", "reward")
UNLIKELY = 4.0
"""A constant so many standard errors from how often something was sent is not the probability of sending."""


@dataclass(frozen=True)
class ColumnGuesses:
    """What every column seems to be."""

    summaries: dict[str, ColumnSummary]
    roles: dict[str, str]
    state: dict[str, VariableKind]
    actions: ActionGuess
    times: pa.Array
    """The cells of the decision times."""
    missing: list[str]
    """Words that stand for "missing" in the file."""
    left_out: dict[str, str]
    """Columns that are neither, with the reason in words that go after the name."""
    warnings: tuple[str, ...]
    """What somebody should check before anything is fitted."""


def guess_columns(table: pa.Table, said: Mapping[str, str | None], settings: FileSettings = PLAIN) -> ColumnGuesses:
    """Look at all columns of a log; `said` gives roles that cannot be guessed."""
    cells, missing = _settle_cells(table, settings)
    summaries = {name: ColumnSummary.of(name, cells[name], replace(PLAIN, percent=settings.percent)) for name in cells}
    roles = _guess_roles(summaries, cells, said)
    doubts: list[str] = []
    if "probability" not in roles:
        roles |= _find_constant_probability(summaries, cells, roles)
        if "probability" in roles:
            doubts = [f"column '{roles['probability']}' is taken for the probability of sending, which it fits; check it"]
    state, left_out = _guess_states(summaries, cells, roles)
    empty = cells[roles["action"]].is_null().to_numpy(zero_copy_only=False) & _find_available(cells, roles)
    spellings = settle_missing(whole_array(table[roles["action"]]), ()).filter(empty).to_pylist()
    return ColumnGuesses(
        summaries=summaries,
        roles=roles,
        state=state,
        actions=guess_actions(summaries[roles["action"]], spellings),
        times=cells[roles["time"]],
        missing=missing,
        left_out=left_out,
        warnings=(
            *doubts,
            *_list_warnings(summaries, cells, roles, missing),
            *_list_id_doubts(cells[roles["participant"]]),
            *_list_mixtures(left_out),
        ),
    )


def _settle_cells(table: pa.Table, settings: FileSettings) -> tuple[dict[str, pa.Array], list[str]]:
    """The cells of every column, null where they are missing; and the words that stand for "missing"."""
    cells = {
        name: LogColumn(name, settle_missing(whole_array(table[name]), MISSING), settings=settings).plain_numbers().cells
        for name in table.column_names
    }
    words = {name: find_missing_words(column) for name, column in cells.items()}
    among_numbers = {word for one in words.values() for word in one.among_numbers}
    settled = {}
    for name, column in cells.items():
        own = (*words[name].signs, *words[name].among_numbers)
        # "None" among numbers is how the file writes "missing", so it is no level elsewhere; an action it may be.
        is_action = re.match(ROLES["action"], name, re.IGNORECASE) is not None
        settled[name] = settle_missing(column, own if is_action else (*own, *among_numbers))
    return settled, sorted(among_numbers | {word for one in words.values() for word in one.signs})


def _guess_states(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str]
) -> tuple[dict[str, VariableKind], dict[str, str]]:
    """The state variables, and why the other columns cannot be one."""
    action = _codes_of(cells[roles["action"]])
    reward = _codes_of(cells[roles["reward"]])
    known = ~np.isnan(action)
    taken = np.unique(action[known], return_inverse=True)[1]
    state: dict[str, VariableKind] = {}
    left_out: dict[str, str] = {}
    for name in (name for name in summaries if name not in roles.values()):
        reason = _reason_against(summaries[name], list(summaries))
        if reason is None:
            values = _codes_of(cells[name])
            if gives_away_action(values[known], taken):
                reason = "says which action was taken"
            elif summaries[roles["reward"]].numbers is not None and says_the_same(values, reward):
                reason = "says what the reward was"
        reason = reason or _describe_mixture(cells[name])
        kind = recognize_kind(summaries[name].without(_codes(summaries[name]))) if reason is None else None
        if kind is None:
            left_out[name] = reason or "holds times, or text with many values"
        else:
            state[name] = kind
    return state, left_out


def _codes(summary: ColumnSummary) -> list[float]:
    return [] if summary.numbers is None else find_codes(summary.numbers)


def _reason_against(summary: ColumnSummary, columns: list[str]) -> str | None:
    """Why a column, looked at by itself, cannot be a state variable."""
    platform = find_platform(summary.name, columns)
    reasons = {
        f"{platform} writes to say which form or survey a row comes from: it belongs to the design, not to the state": (
            platform is not None
        ),
        "counts the rows": is_index(summary),
        "is constant, or holds times": summary.is_constant,
        "says when nothing could be sent: available in [columns] needs the opposite": is_unavailability(summary),
        "is called like a probability": is_probability(summary),
        "is called like something that is known only after the decision": is_afterwards(summary.name),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _describe_mixture(cells: pa.Array) -> str | None:
    """Which text a column of numbers holds; None where it is one or the other."""
    texts = cells.drop_null().to_pylist() if is_text(cells.type) else []
    words = [text for text in texts if not is_finite_number(text)]
    if not words or len(words) >= len(texts) / 2:
        return None
    return f"{MIXTURE} ({len(words):,} rows, such as {quote(words[0])})"


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


def _guess_roles(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], said: Mapping[str, str | None]
) -> dict[str, str]:
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
            advice = _suggest_time(names, cells, chosen) if role == "time" else ""
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
    if role == "available":
        return fits + [name for name in names if is_availability(summaries[name])]
    if role == "time" and "participant" in chosen:
        others = [name for name in names if re.search(OTHER_TIMES, name)]
        return [name for name in (*fits, *others) if _orders_rows(cells[chosen["participant"]], cells[name])] or fits
    return fits


def _suggest_time(names: list[str], cells: Mapping[str, pa.Array], chosen: Mapping[str, str]) -> str:
    """Two columns that tell a participant's decision points apart only together."""
    import pyarrow as pa

    parts = [name for name in names if re.search(PARTS_OF_TIME, name) and name not in chosen.values()]
    for first, second in combinations(parts, 2):
        pairs = [_number_values(cells[name]) for name in (first, second)]
        if pairs[0] is None or pairs[1] is None:
            continue
        joined = pa.array(pairs[0] * (pairs[1].max() + 2) + pairs[1])
        if _orders_rows(cells[chosen["participant"]], joined):
            return f", or put '{first}' and '{second}' into one column, such as 100 * {first} + {second}"
    return ""


def _prefer_repeated(names: list[str], cells: Mapping[str, pa.Array]) -> list[str]:
    """Columns that may name the participants; one that has another value in every row numbers the rows."""
    repeated = [name for name in names if not _differs_everywhere(cells[name])]
    if names and not repeated:
        what = f"column '{names[0]}' has another value in every row, so it seems to number the rows, not the participants"
        raise InputError(f"{what}; say which column names the participants with --participant NAME", column=names[0])
    return repeated


def _differs_everywhere(cells: pa.Array) -> bool:
    values = _number_values(cells)
    return values is not None and numbers_rows(len(np.unique(values)), len(values))


def _orders_rows(participant: pa.Array, time: pa.Array) -> bool:
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


def _find_constant_probability(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str]
) -> dict[str, str]:
    """The column of a constant between 0 and 1 that may be how often something was sent."""
    action = _codes_of(cells[roles["action"]])[_find_available(cells, roles)]
    shares = np.unique(action[~np.isnan(action)], return_counts=True)[1] / max(1, np.sum(~np.isnan(action)))
    for name, summary in summaries.items():
        values = summary.numbers
        if name in roles.values() or values is None or not values.size or not summary.is_constant or not 0 < values[0] < 1:
            continue
        error = np.sqrt(values[0] * (1 - values[0]) / max(1, action.size))
        if len(shares) == 2 and np.abs(shares - values[0]).min() < UNLIKELY * error:
            return {"probability": name}
    return {}


def _find_available(cells: Mapping[str, pa.Array], roles: Mapping[str, str]) -> NDArray[np.bool_]:
    """The rows at which something could be sent."""
    if "available" not in roles:
        return np.ones(len(cells[roles["action"]]), dtype=bool)
    texts, indices = LogColumn("", cells[roles["available"]]).distinct()
    unavailable = [place for place, text in enumerate(texts) if text.lower() in NO]
    return ~np.isin(indices, unavailable)


def _list_warnings(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str], missing: list[str]
) -> Iterator[str]:
    """What the file leaves open."""
    if missing:
        count = "counts" if len(missing) == 1 else "count"
        words = ", ".join(map(repr, missing))
        yield f"{words} {count} as missing (missing in [columns]); take out what is a value"
    if "probability" not in roles:
        remedy = "name its column with --probability NAME, or write the design's probabilities in [actions]"
        named = "".join(f" ('{name}' holds no numbers from 0 to 1)" for name in summaries if looks_like_probability(name))
        yield f"no column looks like the randomisation probability{named}, which effects and evaluate need; {remedy}"
    else:
        unknown = cells[roles["probability"]].is_null().to_numpy(zero_copy_only=False) & _find_available(cells, roles)
        if unknown.any():
            remedy = "fill it in, or mark the participant as not available"
            what = f"column '{roles['probability']}' is empty in {unknown.sum():,} rows at which something could be sent"
            yield f"{what}; effects refuses them: {remedy}"
    if summaries[roles["reward"]].is_constant:
        yield f"column '{roles['reward']}' holds no two different outcomes; say with --reward NAME which column holds them"
    if "available" not in roles:
        for name in (name for name, summary in summaries.items() if is_unavailability(summary)):
            remedy = "write a column with 1 where something could be sent and name it with --available NAME"
            yield f"column '{name}' seems to say when nothing could be sent; {remedy}"
    instances = cells.get("redcap_repeat_instrument")
    if instances is not None and 0 < instances.null_count < len(instances):
        remedy = "export the repeated instrument alone, or delete the rows without decision points"
        what = f"column 'redcap_repeat_instrument' is empty in {instances.null_count:,} rows, which are of another form"
        yield f"{what}; {remedy}"
    clocks = [name for name, column in cells.items() if name != roles["time"] and _is_clock(column)]
    if _is_clock(cells[roles["time"]]) or (clocks and not _orders_rows(cells[roles["participant"]], cells[roles["time"]])):
        when = " and ".join(repr(name) for name in dict.fromkeys([roles["time"], *clocks]))
        yield f"column {when}: day and time of day must stand in one column, such as 2024-05-31 08:30"


def _list_id_doubts(cells: pa.Array) -> Iterator[str]:
    """Ids that are one participant, and ids of no participant."""
    ids = LogColumn("", cells).distinct()[0] if is_text(cells.type) else []
    alike = find_alike_ids(ids)
    if alike:
        yield f"{describe_alike(alike)}; write each id in one way, if they are one participant"
    for participant in find_summary_ids(ids):
        yield f"participant {participant!r} seems to sum up others; delete such rows"


def _list_mixtures(left_out: Mapping[str, str]) -> Iterator[str]:
    for name, reason in left_out.items():
        if reason.startswith(MIXTURE):
            yield f"column '{name}' {reason}, so that it is left out; correct the text, or name it in missing"


def _is_clock(cells: pa.Array) -> bool:
    """Whether all cells are a time of day without a day."""
    import pyarrow.compute as pc

    if not is_text(cells.type) or cells.null_count == len(cells):
        return False
    return bool(pc.all(pc.match_substring_regex(cells, f"^{CLOCK}$")).as_py())
