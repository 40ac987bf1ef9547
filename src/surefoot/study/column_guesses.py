"""Guesses about the columns of a log: their roles, the state variables, and the columns that cannot be one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import ColumnSummary, VariableKind, YesNo, quote, recognize_kind
from surefoot.data.log_columns import (
    MISSING,
    NO,
    PLAIN,
    FileSettings,
    LogColumn,
    first_failure,
    is_text,
    settle_missing,
    whole_array,
)
from surefoot.data.suspect_columns import (
    find_codes,
    find_missing_words,
    find_platform,
    gives_away_action,
    is_afterwards,
    is_availability,
    is_finite_number,
    is_index,
    is_probability,
    is_unavailability,
    list_id_doubts,
    looks_like_probability,
    numbers_rows,
)
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.leaks import correlate_with_outcome
from surefoot.study.action_guesses import guess_actions

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
"""Usual names of columns with these roles; the probability is also recognised by its values."""
OTHER_TIMES = (
    r"(?i)time|date|stamp|beep|decision|occasion|instance|slot|session|counter|sequence|index|"
    r"obs(ervation)?[._ -]?(no|nr|id)?$"
)
"""Columns that may order a participant's decision points, where none has a usual name."""
PARTS_OF_TIME = r"(?i)day|week|date|slot|hour|time|beep|block|session|occasion|period"
NEEDED = ("participant", "time", "action", "reward")
UNLIKELY = 4.0
"""A constant this many standard errors from the share of prompts is not the probability of sending."""
CLOCK = r"^\d{1,2}:\d{2}(:\d{2})?$"
MIXTURE = "holds text among its numbers"


class ColumnGuesses:
    """Guesses about every column of a log.

    `roles` are the columns of participant, time and so on, `state` the kinds of the state variables, `left_out` the other
    columns with the reasons, `missing` the words that stand for "missing", and `warnings` sentences about doubtful guesses.
    """

    def __init__(self, table: pa.Table, named: Mapping[str, str | None], settings: FileSettings = PLAIN) -> None:
        self.cells, self.missing = _settle_cells(table, settings)
        plain = replace(PLAIN, percent=settings.percent)
        self.summaries = {name: ColumnSummary.of(name, cells, plain) for name, cells in self.cells.items()}
        self.roles = {role: name for role, name in named.items() if name is not None}
        self._guess_roles()
        self.warnings: list[str] = []
        if "probability" not in self.roles and (constant := self._find_constant_probability()) is not None:
            self.roles["probability"] = constant
            self.warnings.append(f"column '{constant}' is taken for the probability of sending, which it fits; check it")
        empty = self._is_missing("action") & self._available
        spellings = settle_missing(whole_array(table[self.roles["action"]]), ()).filter(empty).to_pylist()
        self.actions = guess_actions(self.summaries[self.roles["action"]], spellings)
        self.state: dict[str, VariableKind] = {}
        self.left_out: dict[str, str] = {}
        self._guess_states()
        self.warnings += [*self._list_gaps(), *self._list_doubts()]

    def _guess_roles(self) -> None:
        names = list(self.summaries)
        for role, name in self.roles.items():
            if name not in names:
                raise InputError(f"there is no column '{name}'{did_you_mean(name, names)} for {role}; the table has {names}")
        for role in ROLES:
            candidates = [] if role in self.roles else self._find_candidates(role)
            if candidates:
                self.roles[role] = candidates[0]
        probable = [name for name in self._free_names() if is_probability(self.summaries[name])]
        if "probability" not in self.roles and probable:
            # Of p0 and p1, the latter is that of sending.
            self.roles["probability"] = next((name for name in probable if not name.endswith("0")), probable[0])
        for role in NEEDED:
            if role not in self.roles:
                advice = self._suggest_time() if role == "time" else ""
                request = f"say which with --{role} NAME{advice}"
                raise InputError(f"no column looks like the {role}; {request} (the table has {names})")

    def _free_names(self) -> list[str]:
        return [name for name in self.summaries if name not in self.roles.values()]

    def _find_candidates(self, role: str) -> list[str]:
        """The columns that may have a role, the likeliest first."""
        names = self._free_names()
        usual = [name for name in names if re.match(ROLES[role], name, re.IGNORECASE)]
        if role == "participant":
            return self._prefer_repeated(usual)
        if role == "reward":
            return [name for name in usual if _may_be_outcome(self.summaries[name])]
        if role == "available":
            return usual + [name for name in names if is_availability(self.summaries[name])]
        if role == "time" and "participant" in self.roles:
            others = [name for name in names if re.search(OTHER_TIMES, name) and _may_be_time(self.summaries[name])]
            # Counters of a platform come after columns that hold a time.
            others.sort(key=lambda name: find_platform(name, list(self.summaries)) is not None)
            return [name for name in (*usual, *others) if self._orders_rows(self.cells[name])] or usual
        return usual

    def _prefer_repeated(self, names: list[str]) -> list[str]:
        """Columns that may name the participants: a column with another value in every row numbers the rows."""
        repeated = []
        for name in names:
            values = _number_values(self.cells[name])
            if values is None or not numbers_rows(len(np.unique(values)), len(values)):
                repeated.append(name)
        if names and not repeated:
            problem = (
                f"column '{names[0]}' has another value in every row, so it seems to number the rows, not the participants"
            )
            raise InputError(f"{problem}; say which column names the participants with --participant NAME", column=names[0])
        return repeated

    def _orders_rows(self, time: pa.Array) -> bool:
        """Whether a column has another value at each of a participant's decision points."""
        ids = _number_values(self.cells[self.roles["participant"]])
        times = _number_values(time)
        if ids is None or times is None or time.null_count > len(time) / 2:
            return False
        pairs = np.column_stack([ids, times])[times >= 0]
        return len(np.unique(pairs, axis=0)) == len(pairs)

    def _suggest_time(self) -> str:
        """Two columns that distinguish a participant's decision points only together."""
        import pyarrow as pa

        candidates = [name for name in self._free_names() if re.search(PARTS_OF_TIME, name)]
        for first, second in combinations(candidates, 2):
            outer = _number_values(self.cells[first])
            inner = _number_values(self.cells[second])
            if outer is None or inner is None:
                continue
            if self._orders_rows(pa.array(outer * (inner.max() + 2) + inner)):
                are_numbers = all(self.summaries[name].numbers is not None for name in (first, second))
                example = f"100 * {first} + {second}" if are_numbers else "2024-05-31 08:30"
                return f", or put '{first}' and '{second}' into one column, such as {example}"
        return ""

    @property
    def _available(self) -> NDArray[np.bool_]:
        """The rows at which something could be sent."""
        if "available" not in self.roles:
            return np.ones(len(self.cells[self.roles["action"]]), dtype=bool)
        texts, indices = LogColumn("", self.cells[self.roles["available"]]).distinct()
        unavailable = [code for code, text in enumerate(texts) if text.lower() in NO]
        return ~np.isin(indices, unavailable)

    def _is_missing(self, role: str) -> NDArray[np.bool_]:
        return np.asarray(self.cells[self.roles[role]].is_null().to_numpy(zero_copy_only=False))

    def _find_constant_probability(self) -> str | None:
        """A column with a constant between 0 and 1 that may be the probability of sending."""
        action = _code_values(self.cells[self.roles["action"]])[self._available]
        known = action[~np.isnan(action)]
        shares = np.unique(known, return_counts=True)[1] / max(1, known.size)
        for name in self._free_names():
            values = self.summaries[name].numbers
            if values is None or not values.size or not self.summaries[name].is_constant or not 0 < values[0] < 1:
                continue
            error = np.sqrt(values[0] * (1 - values[0]) / max(1, action.size))
            if len(shares) == 2 and np.abs(shares - values[0]).min() < UNLIKELY * error:
                return name
        return None

    def _guess_states(self) -> None:
        """The state variables, and the reasons against the other columns."""
        names = self._free_names()
        reasons = {name: self._find_reason(name) for name in names}
        action = _code_values(self.cells[self.roles["action"]])
        known = ~np.isnan(action)
        taken = np.unique(action[known], return_inverse=True)[1]
        for name in (name for name in names if reasons[name] is None):
            if gives_away_action(_code_values(self.cells[name])[known], taken):
                reasons[name] = "says which action was taken"
        if self.summaries[self.roles["reward"]].numbers is not None:
            reasons |= self._find_outcome_leaks([name for name in names if reasons[name] is None])
        for name in names:
            reason = reasons[name] or _describe_mixture(self.cells[name])
            summary = self.summaries[name]
            kind = recognize_kind(summary.without(list_codes(summary))) if reason is None else None
            if kind is None:
                self.left_out[name] = reason or "holds times, or text with many values"
            else:
                self.state[name] = kind

    def _find_reason(self, name: str) -> str | None:
        """Why a column, looked at by itself, cannot be a state variable."""
        summary = self.summaries[name]
        platform = find_platform(name, list(self.summaries))
        only = _find_only_value(summary)
        reasons = {
            f"{platform} writes to say which form or survey a row comes from: design, not state": platform is not None,
            "counts the rows": is_index(summary),
            f"holds {only} or nothing: write 0 where an empty cell means no": bool(only),
            "is constant, or holds times": summary.is_constant,
            "says when nothing could be sent: available in [columns] needs the opposite": is_unavailability(summary),
            "is called like a probability": is_probability(summary),
            "is called like something that is known only after the decision": is_afterwards(name),
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _find_outcome_leaks(self, names: Sequence[str]) -> dict[str, str]:
        """The columns that reveal the outcome, with the reason in words."""
        import pyarrow as pa
        from pyarrow import compute

        if not names:
            return {}
        keys = pa.table({role: self.cells[self.roles[role]] for role in ("participant", "time")})
        # Lags need the order of people and time; the rows of a file may have another one.
        try:
            order = compute.sort_indices(keys, sort_keys=[("participant", "ascending"), ("time", "ascending")]).to_numpy()
        except pa.ArrowException:
            return {}  # Lists and the like have no order; the log is refused when it is read.
        columns = {name: _code_values(self.cells[name])[order] for name in (*names, self.roles["reward"])}
        for name, values in columns.items():
            values[np.isin(values, list_codes(self.summaries[name]))] = np.nan
        outcome = columns.pop(self.roles["reward"])
        numbers = [
            values if self.summaries[name].numbers is not None else _replace_levels(values, outcome)
            for name, values in columns.items()
        ]
        action = np.unique(_code_values(self.cells[self.roles["action"]])[order], return_inverse=True)[1]
        person = np.unique(_code_values(self.cells[self.roles["participant"]])[order], return_inverse=True)[1]
        correlations = correlate_with_outcome(np.column_stack(numbers), outcome, action, person)
        reasons = {}
        for index in np.flatnonzero(correlations.suspicious).tolist():
            nearly = "says" if correlations.unsafe[index] else "nearly says"
            size = f"correlation {correlations.size[index]:.3f} beyond the past"
            reasons[names[index]] = f"{nearly} what the outcome was ({size})"
        return reasons

    def _list_gaps(self) -> Iterator[str]:
        """Warnings about probability, outcome and availability that the log does not give."""
        roles = self.roles
        if self.missing:
            count = "counts" if len(self.missing) == 1 else "count"
            words = ", ".join(map(repr, self.missing))
            yield f"{words} {count} as missing (missing in [columns]); take out what is a value"
        if "probability" not in roles:
            remedy = "name its column with --probability NAME, or write the design's probabilities in [actions]"
            unfit = [name for name in self.summaries if looks_like_probability(name)]
            named = "".join(f" ('{name}' holds no numbers from 0 to 1)" for name in unfit)
            yield f"no column looks like the randomisation probability{named}, which effects and evaluate need; {remedy}"
        elif unknown := int((self._is_missing("probability") & self._available).sum()):
            remedy = "fill it in, or mark the participant as not available"
            problem = f"column '{roles['probability']}' is empty in {unknown:,} rows at which something could be sent"
            yield f"{problem}; effects refuses them: {remedy}"
        if self.summaries[roles["reward"]].is_constant:
            problem = f"column '{roles['reward']}' holds no two different outcomes"
            yield f"{problem}; say with --reward NAME which column holds them"
        if "available" not in roles:
            for name in (name for name, summary in self.summaries.items() if is_unavailability(summary)):
                remedy = "write a column with 1 where something could be sent and name it with --available NAME"
                yield f"column '{name}' seems to say when nothing could be sent; {remedy}"

    def _list_doubts(self) -> Iterator[str]:
        """Warnings about rows, times, ids and text that do not fit."""
        instances = self.cells.get("redcap_repeat_instrument")
        if instances is not None and 0 < instances.null_count < len(instances):
            remedy = "export the repeated instrument alone, or delete the rows without decision points"
            problem = (
                f"column 'redcap_repeat_instrument' is empty in {instances.null_count:,} rows, which are of another form"
            )
            yield f"{problem}; {remedy}"
        time = self.cells[self.roles["time"]]
        clocks = [name for name, cells in self.cells.items() if name != self.roles["time"] and _is_clock(cells)]
        if _is_clock(time) or (clocks and not self._orders_rows(time)):
            columns = " and ".join(repr(name) for name in (self.roles["time"], *clocks))
            yield f"column {columns}: day and time of day must stand in one column, such as 2024-05-31 08:30"
        participants = self.cells[self.roles["participant"]]
        ids = LogColumn("", participants).distinct()[0] if is_text(participants.type) else []
        yield from (f"{reason}; {remedy}" for reason, remedy in list_id_doubts(ids))
        for name, reason in self.left_out.items():
            if reason.startswith(MIXTURE):
                yield f"column '{name}' {reason}, so that it is left out; correct the text, or name it in missing"


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


def list_codes(summary: ColumnSummary) -> list[float]:
    """Numbers of a column that seem to stand for "missing"."""
    return [] if summary.numbers is None else find_codes(summary.numbers)


def _may_be_outcome(summary: ColumnSummary) -> bool:
    """Whether a column holds numbers, also with units, or yes and no: answers in words have no mean."""
    return not summary.levels or bool(YesNo.recognize(summary)) or any(re.search(r"\d", text) for text in summary.levels)


def _may_be_time(summary: ColumnSummary) -> bool:
    """Whether a column holds no measurement: numbers that order decision points are whole or very large."""
    numbers = summary.numbers
    return numbers is None or bool(((numbers == np.round(numbers)) | (numbers > 10_000)).all())


def _number_values(cells: pa.Array) -> NDArray[np.int64] | None:
    """The same number for the same value, −1 where it is missing; None for cells that cannot be compared."""
    import pyarrow as pa

    try:
        return np.asarray(cells.dictionary_encode().indices.fill_null(-1))
    except pa.ArrowException:
        return None


def _code_values(cells: pa.Array) -> NDArray[np.float64]:
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


def _replace_levels(codes: NDArray[np.float64], outcome: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean outcome of every level, so that levels have an order; as they are where there are many."""
    known = np.isfinite(codes) & np.isfinite(outcome)
    levels, inverse, counts = np.unique(codes[known], return_inverse=True, return_counts=True)
    if len(levels) > known.sum() / 10:
        return codes
    means = np.bincount(inverse, weights=outcome[known]) / counts
    positions = np.minimum(np.searchsorted(levels, codes), len(levels) - 1)
    return np.where(np.isin(codes, levels), means[positions], np.nan) if len(levels) else codes


def _find_only_value(summary: ColumnSummary) -> str:
    """The single value of a column that is empty elsewhere, such as a ticked answer; empty where values differ."""
    if not summary.is_constant or not 0 < summary.missing < summary.rows:
        return ""
    if summary.levels:
        return quote(summary.levels[0])
    return f"{summary.numbers[0]:g}" if summary.numbers is not None and summary.numbers.size else ""


def _describe_mixture(cells: pa.Array) -> str | None:
    """The text in a column of numbers; None where it is one or the other."""
    texts = cells.drop_null().to_pylist() if is_text(cells.type) else []
    words = [text for text in texts if not is_finite_number(text)]
    if not words or len(words) >= len(texts) / 2:
        return None
    return f"{MIXTURE} ({len(words):,} rows, such as {quote(words[0])})"


def _is_clock(cells: pa.Array) -> bool:
    """Whether all cells are a time of day without a day."""
    import pyarrow.compute as pc

    if not is_text(cells.type) or cells.null_count == len(cells):
        return False
    return bool(pc.all(pc.match_substring_regex(cells, CLOCK)).as_py())
