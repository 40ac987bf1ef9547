"""What the columns of a log seem to be: their roles, the state variables among them, and what must not be one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import ColumnSummary, VariableKind, quote, recognize_kind
from surefoot.data.log_columns import MISSING, PLAIN, FileSettings, LogColumn, is_text, settle_missing, whole_array
from surefoot.data.suspect_columns import (
    find_codes,
    find_missing_words,
    find_platform,
    gives_away_action,
    is_afterwards,
    is_finite_number,
    is_index,
    is_probability,
    is_unavailability,
    list_id_doubts,
    looks_like_probability,
)
from surefoot.study.action_guesses import ActionGuess, guess_actions
from surefoot.study.role_guesses import (
    ROLES,
    code_values,
    find_available,
    find_constant_probability,
    guess_roles,
    orders_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

CLOCK = r"\d{1,2}:\d{2}(:\d{2})?"
MIXTURE = "holds text among its numbers"


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
    roles = guess_roles(summaries, cells, said)
    doubts: list[str] = []
    if "probability" not in roles:
        roles |= find_constant_probability(summaries, cells, roles)
        if "probability" in roles:
            doubts = [f"column '{roles['probability']}' is taken for the probability of sending, which it fits; check it"]
    empty = cells[roles["action"]].is_null().to_numpy(zero_copy_only=False) & find_available(cells, roles)
    spellings = settle_missing(whole_array(table[roles["action"]]), ()).filter(empty).to_pylist()
    actions = guess_actions(summaries[roles["action"]], spellings)
    state, left_out = _guess_states(summaries, cells, roles)
    return ColumnGuesses(
        summaries=summaries,
        roles=roles,
        state=state,
        actions=actions,
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
        name: LogColumn(name, settle_missing(whole_array(table[name]), MISSING), settings=settings).plain_numbers()
        for name in table.column_names
    }
    words = {name: find_missing_words(column) for name, column in cells.items()}
    among_numbers = {word for column_words in words.values() for word in column_words.among_numbers}
    settled = {}
    for name, column in cells.items():
        missing = (*words[name].signs, *words[name].among_numbers)
        # "None" among numbers is how the file writes "missing", so it is no level elsewhere; an action it may be.
        is_action = re.match(ROLES["action"], name, re.IGNORECASE) is not None
        settled[name] = settle_missing(column, missing if is_action else (*missing, *among_numbers))
    return settled, sorted(among_numbers | {word for column_words in words.values() for word in column_words.signs})


def _guess_states(
    summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str]
) -> tuple[dict[str, VariableKind], dict[str, str]]:
    """The state variables, and why the other columns cannot be one."""
    names = [name for name in summaries if name not in roles.values()]
    reasons = {name: _reason_against(summaries[name], list(summaries)) for name in names}
    action = code_values(cells[roles["action"]])
    known = ~np.isnan(action)
    taken = np.unique(action[known], return_inverse=True)[1]
    for name in (name for name in names if reasons[name] is None):
        if gives_away_action(code_values(cells[name])[known], taken):
            reasons[name] = "says which action was taken"
    if summaries[roles["reward"]].numbers is not None:
        honest = [name for name in names if reasons[name] is None]
        reasons |= _find_outcome_leaks(honest, summaries, cells, roles)
    state: dict[str, VariableKind] = {}
    left_out: dict[str, str] = {}
    for name in names:
        reason = reasons[name] or _describe_mixture(cells[name])
        kind = recognize_kind(summaries[name].without(_codes(summaries[name]))) if reason is None else None
        if kind is None:
            left_out[name] = reason or "holds times, or text with many values"
        else:
            state[name] = kind
    return state, left_out


def _find_outcome_leaks(
    names: Sequence[str], summaries: Mapping[str, ColumnSummary], cells: Mapping[str, pa.Array], roles: Mapping[str, str]
) -> dict[str, str]:
    """The columns that say what the outcome was, in words."""
    import pyarrow as pa
    from pyarrow import compute

    from surefoot.inference.leaks import correlate_with_outcome

    if not names:
        return {}
    keys = pa.table({role: cells[roles[role]] for role in ("participant", "time")})
    # Lags need the order of people and time; the rows of a file may have another one.
    try:
        order = compute.sort_indices(keys, sort_keys=[("participant", "ascending"), ("time", "ascending")]).to_numpy()
    except pa.ArrowException:
        return {}  # Lists and the like have no order; the log is refused when it is read.
    columns = {name: code_values(cells[name])[order] for name in (*names, roles["reward"])}
    for name, values in columns.items():
        values[np.isin(values, _codes(summaries[name]))] = np.nan
    outcome = columns.pop(roles["reward"])
    values = np.column_stack([
        column if summaries[name].numbers is not None else _replace_levels(column, outcome)
        for name, column in columns.items()
    ])  # fmt: skip
    action = np.unique(code_values(cells[roles["action"]])[order], return_inverse=True)[1]
    person = np.unique(code_values(cells[roles["participant"]])[order], return_inverse=True)[1]
    correlations = correlate_with_outcome(values, outcome, action, person)
    words = {}
    for j in np.flatnonzero(correlations.suspicious).tolist():
        nearly = "says" if correlations.unsafe[j] else "nearly says"
        words[names[j]] = f"{nearly} what the outcome was (correlation {correlations.size[j]:.3f} beyond the past)"
    return words


def _replace_levels(codes: NDArray[np.float64], outcome: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean outcome of every level, so that levels have an order; as they are where there are many."""
    known = np.isfinite(codes) & np.isfinite(outcome)
    levels, inverse, counts = np.unique(codes[known], return_inverse=True, return_counts=True)
    if len(levels) > known.sum() / 10:
        return codes
    means = np.bincount(inverse, weights=outcome[known]) / counts
    places = np.minimum(np.searchsorted(levels, codes), len(levels) - 1)
    return np.where(np.isin(codes, levels), means[places], np.nan) if len(levels) else codes


def _codes(summary: ColumnSummary) -> list[float]:
    return [] if summary.numbers is None else find_codes(summary.numbers)


def _reason_against(summary: ColumnSummary, columns: list[str]) -> str | None:
    """Why a column, looked at by itself, cannot be a state variable."""
    platform = find_platform(summary.name, columns)
    reasons = {
        f"{platform} writes to say which form or survey a row comes from: design, not state": platform is not None,
        "counts the rows": is_index(summary),
        f"holds {_only_value(summary)} or nothing: write 0 where an empty cell means no": bool(_only_value(summary)),
        "is constant, or holds times": summary.is_constant,
        "says when nothing could be sent: available in [columns] needs the opposite": is_unavailability(summary),
        "is called like a probability": is_probability(summary),
        "is called like something that is known only after the decision": is_afterwards(summary.name),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _only_value(summary: ColumnSummary) -> str:
    """What a column holds wherever it holds something, as answers of which several may be ticked; empty where it differs."""
    if not summary.is_constant or not 0 < summary.missing < summary.rows:
        return ""
    if summary.levels:
        return quote(summary.levels[0])
    return f"{summary.numbers[0]:g}" if summary.numbers is not None and summary.numbers.size else ""


def _describe_mixture(cells: pa.Array) -> str | None:
    """Which text a column of numbers holds; None where it is one or the other."""
    texts = cells.drop_null().to_pylist() if is_text(cells.type) else []
    words = [text for text in texts if not is_finite_number(text)]
    if not words or len(words) >= len(texts) / 2:
        return None
    return f"{MIXTURE} ({len(words):,} rows, such as {quote(words[0])})"


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
        unknown = cells[roles["probability"]].is_null().to_numpy(zero_copy_only=False) & find_available(cells, roles)
        if unknown.any():
            remedy = "fill it in, or mark the participant as not available"
            problem = f"column '{roles['probability']}' is empty in {unknown.sum():,} rows at which something could be sent"
            yield f"{problem}; effects refuses them: {remedy}"
    if summaries[roles["reward"]].is_constant:
        yield f"column '{roles['reward']}' holds no two different outcomes; say with --reward NAME which column holds them"
    if "available" not in roles:
        for name in (name for name, summary in summaries.items() if is_unavailability(summary)):
            remedy = "write a column with 1 where something could be sent and name it with --available NAME"
            yield f"column '{name}' seems to say when nothing could be sent; {remedy}"
    instances = cells.get("redcap_repeat_instrument")
    if instances is not None and 0 < instances.null_count < len(instances):
        remedy = "export the repeated instrument alone, or delete the rows without decision points"
        problem = f"column 'redcap_repeat_instrument' is empty in {instances.null_count:,} rows, which are of another form"
        yield f"{problem}; {remedy}"
    clocks = [name for name, column in cells.items() if name != roles["time"] and _is_clock(column)]
    if _is_clock(cells[roles["time"]]) or (clocks and not orders_rows(cells[roles["participant"]], cells[roles["time"]])):
        when = " and ".join(repr(name) for name in dict.fromkeys([roles["time"], *clocks]))
        yield f"column {when}: day and time of day must stand in one column, such as 2024-05-31 08:30"


def _list_id_doubts(cells: pa.Array) -> Iterator[str]:
    """Ids that are one participant, and ids of no participant."""
    ids = LogColumn("", cells).distinct()[0] if is_text(cells.type) else []
    for reason, remedy in list_id_doubts(ids):
        yield f"{reason}; {remedy}"


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
