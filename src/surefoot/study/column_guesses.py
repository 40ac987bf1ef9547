"""Guesses about the columns of a log: their roles, the state variables, and the columns that cannot be one."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from surefoot.data import log_columns, suspect_columns
from surefoot.data.column_kinds import MOST_LEVELS, ColumnSummary, VariableKind, YesNo, join_cases, quote, recognize_kind
from surefoot.data.file_detection import detect_time_format
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.leaks import correlate_with_outcome

TREATMENTS = r"(message|prompt|notification|suggestion|reminder|nudge|intervention|text message|e-?mail|tip)"
"""Words for a treatment that sentences can use."""
ROLES = {
    "participant": r"^(user|person|participant|subject|subj|patient|client|respondent|record|connection|pid|uid|id)"
    r"([._ -]?(id|index|name|number|num|nr|no|code))?$",
    "time": r"^(time|timestamp|time[._ -]?stamp[._ -]?(sent|scheduled)|decision|decision[._ -]?(index|point|time|no)|t|date|"
    r"datetime|when)$",
    "available": r"^(avail|available|availability|is[._ -]?available|eligible|is[._ -]?eligible)$",
    "action": r"^(a|action|send|sent|treat|treatment|treated|arm|condition|randomi[sz]ed|"
    rf"{TREATMENTS}(ed|[._ -]?(sent|delivered))?)$",
    "outcome": r"^(r|y|reward|outcome|proximal[._ -]?outcome|steps?|response)$",
}
"""Usual names of columns with these roles; the probability is also recognised by its values."""
MEASUREMENTS = (
    r"(?i)^(?!.*(before|prior|prev|past|last|lag|base|recent|mean|avg|average|goal|since|until|sleep|so[._ -]?far))"
    r"(.+[._ -])?(steps?|step[._ -]?count|minutes?|mins|mvpa|calories|kcal|distance|duration|outcome|reward)([._ -].+)?$"
)
"""Names of outcomes that people often measure; one column may be guessed by them."""
PROBABILITY = (
    r"(?i)^((p|pi|pr|prob|probs|probability|propensity|p?score)[._ -]?"
    rf"(of[._ -])?(a|action|arm|treat\w*|sen[dt]\w*|rand\w*|{TREATMENTS})?[._ -]?\d*|"
    rf"(rand\w*|treat\w*|action|send|sent|a\d?|arm\w*|assign\w*|{TREATMENTS})[._ -]?(p|pr|prob|probability|propensity))$"
)
INDEX = r"(?i)^(|unnamed: ?\d+|index|row([._ -]?(number|name|names|id|no))?|x\d?|\.\.\.\d+|_c\d+|level_\d+)$"
"""Names that programs give to the number of a row."""
AFTERWARDS = (
    r"(?i)(^|[._ -])(after|post|next|later|future|follow[._ -]?up|respon\w+|outcome|result|click\w*|opened|dismissed|"
    r"answered|thumbs\w*|reaction|completed|engaged)([._ -]|\d|$)"
)
"""Names of columns that are usually known only after the decision."""
PLATFORMS = {
    "REDCap": (
        r"^(redcap_\w+|record_id)$",
        r"^(redcap_(event_name|repeat_instrument|repeat_instance|data_access_group|survey_identifier)|\w+_complete)$",
    ),
    "Qualtrics": (
        r"^(ResponseId|RecordedDate|DistributionChannel)$",
        r"^(StartDate|EndDate|Status|IPAddress|Progress|Duration \(in seconds\)|Finished|RecordedDate|ResponseId|"
        r"Recipient\w+|External(Data)?Reference|Location(Latitude|Longitude)|DistributionChannel|UserLanguage|Q_\w+Score)$",
    ),
    "m-Path": (
        r"^(connectionId|scheduledBeepId)$",
        r"^(connectionId|legacyCode|code|alias|initials|accountCode|\w*BeepId|questionList(Name|Label)|fromProtocolName|"
        r"\w*[tT]imeStamp\w*|timeZoneOffset|deltaUTC)$",
    ),
}
"""Columns that identify a platform, and columns in which it says which form, event or survey a row comes from."""
OTHER_TIMES = (
    r"(?i)time|date|stamp|beep|decision|occasion|instance|slot|session|counter|sequence|index|"
    r"obs(ervation)?[._ -]?(no|nr|id)?$"
)
"""Columns that may order a participant's decision points, where none has a usual name."""
PARTS_OF_TIME = r"(?i)day|week|date|slot|hour|time|beep|block|session|occasion|period"
UNLIKELY = 4.0
"""A constant this many standard errors from the share of prompts is not the probability of sending."""
CLOCK = r"^\d{1,2}:\d{2}(:\d{2})?$"
MIXTURE = "holds text among its numbers"
MOST_WORDS = 3
MOST_WORD_ROWS = 0.2
"""So few distinct words, in so small a share of the rows, stand for "missing" among numbers."""
NOTHING = (
    r"(?i)^(no|not|non|none|nothing|null|nil|nope|never|off|0|control|controls|ctrl|placebo|sham|usual|care as usual|"
    r"untreated|unsent|withheld|withhold|wait|waiting|waitlist|silent|silence|skip|skipped|baseline|do nothing)(?![a-z])"
)
"""Usual names of an action that means "nothing"; `no message` too."""


@dataclass(frozen=True)
class ActionGuess:
    """The actions of a log, the one that means "nothing" first."""

    names: tuple[str, ...]
    values: tuple[float | str, ...] | None = None
    """Their codes in the log; None where these are their names, or 0, 1 and so on."""
    reason: str = ""
    """Why the first is taken for "nothing", where it could be another."""


class ColumnGuesses:
    """Guesses about every column of a log.

    `roles` are the columns of participant, time and so on, `actions` a guess about the actions, `state` the kinds of the
    state variables, `left_out` the other columns with the reasons, `missing` the words that stand for "missing", and
    `warnings` sentences about doubtful guesses.
    """

    def __init__(
        self, table: pa.Table, named: Mapping[str, str | None], settings: log_columns.FileSettings = log_columns.PLAIN
    ) -> None:
        self.cells, self.missing = _settle_cells(table, settings)
        plain = replace(log_columns.PLAIN, percent=settings.percent)
        self.summaries = {name: ColumnSummary.of(name, cells, plain) for name, cells in self.cells.items()}
        self.values = {name: _code_values(cells) for name, cells in self.cells.items()}
        self.roles = {role: name for role, name in named.items() if name is not None}
        self.warnings: list[str] = []
        self._guess_roles()
        self._available = np.ones(len(table), dtype=bool)
        if "available" in self.roles:
            texts, indices = log_columns.LogColumn("", self.cells[self.roles["available"]]).distinct()
            self._available = ~np.isin(indices, [code for code, text in enumerate(texts) if text.lower() in log_columns.NO])
        self._guess_constant_probability()
        empty = self._is_missing("action") & self._available
        cells = log_columns.settle_missing(log_columns.whole_array(table[self.roles["action"]]), ())
        self.actions = guess_actions(self.summaries[self.roles["action"]], cells.filter(empty).to_pylist())
        self.state: dict[str, VariableKind] = {}
        self.left_out: dict[str, str] = {}
        self._guess_states()
        self.warnings += [*self._list_gaps(), *self._list_doubts()]

    def _free_names(self) -> list[str]:
        return [name for name in self.summaries if name not in self.roles.values()]

    def _is_missing(self, role: str) -> NDArray[np.bool_]:
        return np.asarray(self.cells[self.roles[role]].is_null().to_numpy(zero_copy_only=False))

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
        measured = [name for name in self._free_names() if re.match(MEASUREMENTS, name) and self._is_measured(name)]
        if "outcome" not in self.roles and len(measured) == 1:
            self.roles["outcome"] = measured[0]
            self.warnings.append(f"column '{measured[0]}' is taken for the outcome because of its name; check it")
        missing = [role for role in ("participant", "time", "action", "outcome") if role not in self.roles]
        if missing:
            advice = self._suggest_time() if "time" in missing and "participant" not in missing else ""
            options = " ".join(f"--{role} NAME" for role in missing)
            problem = f"no column looks like the {' or the '.join(missing)}"
            raise InputError(f"{problem}; say which with {options}{advice} (the table has {names})")

    def _find_candidates(self, role: str) -> list[str]:
        """The columns that may have a role, the likeliest first."""
        names = self._free_names()
        usual = [name for name in names if re.match(ROLES[role], name, re.IGNORECASE)]
        if role == "participant":
            values = {name: _number_values(self.cells[name]) for name in usual}
            repeated = [
                name
                for name, ids in values.items()
                if ids is None or not suspect_columns.numbers_rows(len(np.unique(ids)), len(ids))
            ]
            if usual and not repeated:
                problem = f"column '{usual[0]}' has another value in every row, so it seems to number the rows"
                remedy = "say which column names the participants with --participant NAME"
                raise InputError(f"{problem}, not the participants; {remedy}", column=usual[0])
            return repeated
        if role == "outcome":
            return [name for name in usual if self._is_measured(name)]
        if role == "available":
            return usual + [name for name in names if suspect_columns.is_availability(self.summaries[name])]
        if role == "time" and "participant" in self.roles:
            # Numbers that order decision points are whole or very large; counters of a platform come last.
            others = [
                name
                for name, numbers in ((name, self.summaries[name].numbers) for name in names)
                if (re.search(OTHER_TIMES, name) or _holds_dates(self.cells[name]))
                and (numbers is None or ((numbers == np.round(numbers)) | (numbers > 10_000)).all())
            ]
            others.sort(key=lambda name: find_platform(name, list(self.summaries)) is not None)
            return [name for name in (*usual, *others) if self._orders_rows(self.cells[name])] or usual
        return usual

    def _is_measured(self, name: str) -> bool:
        """Whether a column holds numbers, also with units, or yes and no: answers in words have no mean."""
        summary = self.summaries[name]
        is_yes_no = YesNo.recognize(summary) is not None
        return not summary.levels or is_yes_no or any(re.search(r"\d", text) for text in summary.levels)

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
        candidates = [name for name in self._free_names() if re.search(PARTS_OF_TIME, name)]
        for first, second in combinations(candidates, 2):
            outer = _number_values(self.cells[first])
            inner = _number_values(self.cells[second])
            if outer is not None and inner is not None and self._orders_rows(pa.array(outer * (inner.max() + 2) + inner)):
                are_numbers = all(self.summaries[name].numbers is not None for name in (first, second))
                example = f"100 * {first} + {second}" if are_numbers else "2024-05-31 08:30"
                return f", or put '{first}' and '{second}' into one column, such as {example}"
        return ""

    def _guess_constant_probability(self) -> None:
        """A column with a constant between 0 and 1 may be the probability of sending."""
        action = self.values[self.roles["action"]][self._available]
        known = action[~np.isnan(action)]
        shares = np.unique(known, return_counts=True)[1] / max(1, known.size)
        for name in self._free_names() if "probability" not in self.roles and len(shares) == 2 else ():
            numbers = self.summaries[name].numbers
            if numbers is not None and numbers.size and self.summaries[name].is_constant and 0 < numbers[0] < 1:
                error = np.sqrt(numbers[0] * (1 - numbers[0]) / max(1, action.size))
                if np.abs(shares - numbers[0]).min() < UNLIKELY * error:
                    self.roles["probability"] = name
                    self.warnings.append(f"column '{name}' is taken for the probability of sending, which it fits; check it")
                    return

    def _guess_states(self) -> None:
        """The state variables, and the reasons against the other columns."""
        names = self._free_names()
        reasons = {name: self._find_reason(name) for name in names}
        action = self.values[self.roles["action"]]
        known = ~np.isnan(action)
        taken = np.unique(action[known], return_inverse=True)[1]
        for name in (name for name in names if reasons[name] is None):
            if suspect_columns.gives_away_action(self.values[name][known], taken):
                reasons[name] = "says which action was taken"
        if self.summaries[self.roles["outcome"]].numbers is not None:
            reasons |= self._find_outcome_leaks([name for name in names if reasons[name] is None])
        for name in names:
            reason = reasons[name]
            texts = self.cells[name].drop_null().to_pylist() if self.cells[name].type in log_columns.TEXT_TYPES else []
            words = [text for text in texts if not is_finite_number(text)]
            if reason is None and words and len(words) < len(texts) / 2:
                reason = f"{MIXTURE} ({len(words):,} rows, such as {quote(words[0])})"
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
        only = ""
        if summary.is_constant and 0 < summary.missing < summary.rows:
            # A ticked answer, for example.
            numbers = () if summary.numbers is None else tuple(f"{number:g}" for number in summary.numbers[:1])
            only = "".join((*map(quote, summary.levels), *numbers))
        reasons = {
            f"{platform} writes to say which form or survey a row comes from: design, not state": platform is not None,
            "counts the rows": is_index(summary),
            f"holds {only} or nothing: write 0 where an empty cell means no": bool(only),
            "is constant, or holds times": summary.is_constant,
            "says when nothing could be sent: available in [columns] needs the opposite": suspect_columns.is_unavailability(
                summary
            ),
            "is called like a probability": is_probability(summary),
            "is called like something that is known only after the decision": bool(re.search(AFTERWARDS, name)),
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _find_outcome_leaks(self, names: Sequence[str]) -> dict[str, str]:
        """The columns that reveal the outcome, with the reason in words."""
        keys = pa.table({role: self.cells[self.roles[role]] for role in ("participant", "time")})
        # Lags need the order of people and time; the rows of a file may have another one.
        try:
            order = pc.sort_indices(keys, sort_keys=[("participant", "ascending"), ("time", "ascending")]).to_numpy()
        except pa.ArrowException:
            return {}  # Lists and the like have no order; the log is refused when it is read.
        columns = {name: self.values[name][order].copy() for name in (*names, self.roles["outcome"])}
        for name, values in columns.items():
            values[np.isin(values, list_codes(self.summaries[name]))] = np.nan
        outcome = columns.pop(self.roles["outcome"])
        for name, codes in columns.items():
            known = np.isfinite(codes) & np.isfinite(outcome)
            levels, inverse, counts = np.unique(codes[known], return_inverse=True, return_counts=True)
            if self.summaries[name].numbers is None and 0 < len(levels) <= known.sum() / 10:
                # Levels get an order by their mean outcomes.
                means = np.bincount(inverse, weights=outcome[known]) / counts
                positions = np.minimum(np.searchsorted(levels, codes), len(levels) - 1)
                columns[name] = np.where(np.isin(codes, levels), means[positions], np.nan)
        if not columns:
            return {}
        action, person = (
            np.unique(self.values[self.roles[role]][order], return_inverse=True)[1] for role in ("action", "participant")
        )
        correlations = correlate_with_outcome(np.column_stack(list(columns.values())), outcome, action, person)
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
            unfit = [name for name in self.summaries if re.match(PROBABILITY, name)]
            named = "".join(f" ('{name}' holds no numbers from 0 to 1)" for name in unfit)
            yield f"no column looks like the randomisation probability{named}, which effects and evaluate need; {remedy}"
        elif unknown := int((self._is_missing("probability") & self._available).sum()):
            remedy = "fill it in, or mark the participant as not available"
            problem = f"column '{roles['probability']}' is empty in {unknown:,} rows at which something could be sent"
            yield f"{problem}; effects refuses them: {remedy}"
        if self.summaries[roles["outcome"]].is_constant:
            problem = f"column '{roles['outcome']}' holds no two different outcomes"
            yield f"{problem}; say with --outcome NAME which column holds them"
        if "available" not in roles:
            for name in (name for name, summary in self.summaries.items() if suspect_columns.is_unavailability(summary)):
                remedy = "write a column with 1 where something could be sent and name it with --available NAME"
                yield f"column '{name}' seems to say when nothing could be sent; {remedy}"

    def _list_doubts(self) -> Iterator[str]:
        """Warnings about rows, times, ids and text that do not fit."""
        instances = self.cells.get("redcap_repeat_instrument")
        if instances is not None and 0 < instances.null_count < len(instances):
            problem = f"is empty in {instances.null_count:,} rows, which are of another form"
            remedy = "export the repeated instrument alone, or delete the rows without decision points"
            yield f"column 'redcap_repeat_instrument' {problem}; {remedy}"
        clocks = [
            name
            for name, cells in self.cells.items()
            if cells.type in log_columns.TEXT_TYPES and pc.all(pc.match_substring_regex(cells, CLOCK)).as_py()
        ]
        time = self.roles["time"]
        if time in clocks or (clocks and not self._orders_rows(self.cells[time])):
            columns = " and ".join(map(repr, dict.fromkeys((time, *clocks))))
            yield f"column {columns}: day and time of day must stand in one column, such as 2024-05-31 08:30"
        participants = self.cells[self.roles["participant"]]
        ids = log_columns.LogColumn("", participants).distinct()[0] if participants.type in log_columns.TEXT_TYPES else []
        yield from (f"{reason}; {remedy}" for _, reason, remedy in suspect_columns.list_id_doubts(ids))
        for name, reason in self.left_out.items():
            if reason.startswith(MIXTURE):
                yield f"column '{name}' {reason}, so that it is left out; correct the text, or name it in missing"


def _settle_cells(table: pa.Table, settings: log_columns.FileSettings) -> tuple[dict[str, pa.Array], list[str]]:
    """The cells of every column, null where they are missing; and the words that stand for "missing"."""
    cells = {}
    for name in table.column_names:
        column = log_columns.settle_missing(log_columns.whole_array(table[name]), log_columns.MISSING)
        cells[name] = log_columns.LogColumn(name, column, settings=settings).plain_numbers()
    words = {name: find_missing_words(column) for name, column in cells.items()}
    everywhere = {word for _, among_numbers in words.values() for word in among_numbers}
    settled = {}
    for name, column in cells.items():
        # "None" among numbers is how the file writes "missing", so it is no level elsewhere; an action it may be.
        is_action = re.match(ROLES["action"], name, re.IGNORECASE) is not None
        signs, among_numbers = words[name]
        settled[name] = log_columns.settle_missing(column, [*signs, *(among_numbers if is_action else everywhere)])
    return settled, sorted(everywhere | {word for signs, _ in words.values() for word in signs})


def find_missing_words(cells: pa.Array) -> tuple[list[str], list[str]]:
    """Words of a column that stand for "missing": in any column, and because all other cells are numbers.

    >>> find_missing_words(pa.array(["3", "4", "watch off", "5", "n/a", "4", "3", "6"]))
    (['n/a'], ['watch off'])
    """
    rows = Counter(cells.drop_null().to_pylist() if cells.type in log_columns.TEXT_TYPES else ())
    words = [text for text in rows if not is_finite_number(text)]
    signs = [word for word in words if word.lower() in log_columns.MISSING_SIGNS]
    others = [word for word in words if word not in signs]
    numbers = rows.total() - sum(rows[word] for word in words)
    if numbers <= sum(rows[word] for word in others):
        return signs, []
    answers = [word for word in others if word.lower() in log_columns.MISSING_ANSWERS]
    unknown = [word for word in others if word not in answers]
    few = len(unknown) <= MOST_WORDS and sum(rows[word] for word in unknown) <= MOST_WORD_ROWS * numbers
    if few and not any(re.search(r"\d", word) for word in unknown):
        answers += unknown
    return signs, answers


def is_finite_number(text: str) -> bool:
    """Whether a text is a number; `inf` and `nan` are not."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def is_probability(summary: ColumnSummary) -> bool:
    """Whether a column has the name of a probability and holds numbers from 0 to 1."""
    numbers = summary.numbers
    if numbers is None or not numbers.size or not re.match(PROBABILITY, summary.name):
        return False
    return bool(numbers.min() >= 0 and numbers.max() <= 1)


def is_index(summary: ColumnSummary) -> bool:
    """Whether a column counts the rows."""
    numbers = summary.numbers
    if numbers is None or numbers.size < 2 or summary.missing or not re.match(INDEX, summary.name):
        return False
    return bool((numbers[1:] == numbers[:-1] + 1).all())


def find_platform(name: str, columns: Sequence[str]) -> str | None:
    """The platform that wrote a column to tell rows apart; None if it may hold a measurement.

    >>> find_platform("redcap_event_name", ["record_id", "redcap_event_name"]), find_platform("Status", ["id", "Status"])
    ('REDCap', None)
    """
    for platform, (mark, columns_of_platform) in PLATFORMS.items():
        if re.match(columns_of_platform, name) and any(re.match(mark, column) for column in columns):
            return platform
    return None


def list_codes(summary: ColumnSummary) -> list[float]:
    """Numbers of a column that seem to stand for "missing"."""
    return [] if summary.numbers is None else suspect_columns.find_codes(summary.numbers)


def _holds_dates(cells: pa.Array) -> bool:
    """Whether every cell is a date.

    >>> _holds_dates(pa.array(["2026-01-05 08:00", None])), _holds_dates(pa.array(["5", "6"]))
    (True, False)
    """
    if cells.type not in log_columns.TEXT_TYPES:
        return bool(pa.types.is_temporal(cells.type))
    if log_columns.first_failure(cells, pa.float64()) is None:
        return False
    is_iso = any(log_columns.first_failure(cells, pa.timestamp("us", zone)) is None for zone in (None, "UTC"))
    return is_iso or bool(detect_time_format(cells))


def _number_values(cells: pa.Array) -> NDArray[np.int64] | None:
    """The same number for the same value, −1 where it is missing; None for cells that cannot be compared."""
    try:
        return np.asarray(cells.dictionary_encode().indices.fill_null(-1))
    except pa.ArrowException:
        return None


def _code_values(cells: pa.Array) -> NDArray[np.float64]:
    """Numbers as they are, other values as numbers from 0 for the distinct ones; NaN where missing."""
    column = log_columns.LogColumn("", cells)
    if log_columns.is_number(cells.type) or (
        cells.type in log_columns.TEXT_TYPES and log_columns.first_failure(cells, pa.float64()) is None
    ):
        return column.numbers()
    if cells.type not in log_columns.TEXT_TYPES and not pa.types.is_boolean(cells.type):
        return np.full(len(cells), np.nan)
    indices = column.distinct()[1]
    return np.where(indices < 0, np.nan, indices)


def guess_actions(column: ColumnSummary, empty: Sequence[str | None]) -> ActionGuess:
    """The actions of a column; `empty` are its cells without an action although something could be sent."""
    levels = join_cases(column.levels)
    nothing = [level for level in levels if re.match(NOTHING, level)]
    codes: Sequence[float | str] = levels
    if column.numbers is not None:
        codes = np.unique(column.numbers).tolist()
    elif YesNo.recognize(column) and len(codes) > 1:
        return ActionGuess(("nothing", "send"))
    if len(codes) < 2 or (column.numbers is None and empty and not nothing):
        # Nothing but an empty cell can mean "nothing".
        if not codes or not empty:
            single = log_columns.spell(codes[0]) if codes else "nothing"
            problem = f"column '{column.name}' holds {single} only, so no two actions can be compared"
            raise InputError(f"{problem}; say with --action NAME which column holds the actions", column=column.name)
        spelling = Counter(cell or "" for cell in empty).most_common(1)[0][0]
        cell = quote(spelling) if spelling else "an empty cell"
        reason = f"{cell} ({len(empty):,} rows) is taken for {quote('nothing')}, because no other value can mean it"
        guess = ActionGuess(("nothing", *_name_codes(codes)), (spelling, *codes), reason)
    elif column.numbers is not None:
        guess = _guess_codes(column, np.unique(column.numbers).tolist())
    else:
        first = nothing[0] if nothing else column.levels[0]
        reason = f"which of these means nothing? {quote(first)} is a guess; it must stand first"
        if len(nothing) == 1:
            reason = f"{quote(first)} is taken for the action that means nothing, because of its name"
        guess = ActionGuess((first, *(str(level) for level in codes if level != first)), reason=reason)
    if len(guess.names) > MOST_LEVELS:
        problem = f"column '{column.name}' holds {len(guess.names)} different values, too many for actions"
        remedy = "say with --action NAME which column holds the actions, or add one with 0 for nothing and 1 for sent"
        raise InputError(f"{problem}; {remedy}", column=column.name)
    return guess


def _name_codes(codes: Sequence[float | str]) -> list[str]:
    """Names of the actions other than nothing."""
    return ["send"] if len(codes) == 1 else [code if isinstance(code, str) else f"send {code:g}" for code in codes]


def _guess_codes(column: ColumnSummary, codes: Sequence[float]) -> ActionGuess:
    nothing = 0.0 if 0.0 in codes else codes[0]
    others = [code for code in codes if code != nothing]
    names = ("nothing", *_name_codes(others))
    if list(codes) == list(range(len(codes))):
        return ActionGuess(names)
    why = "because 0 usually does" if nothing == 0 else "because it is the smallest code"
    reason = f"{nothing:g} is taken for {quote('nothing')}, {why}"
    strange = [code for code in others if code in suspect_columns.CODES and abs(code) > len(codes)]
    if strange:
        rows = f"{strange[0]:g} ({np.sum(column.numbers == strange[0]):,} rows)"
        reason += f"; {rows} may stand for missing: then empty these cells, and mark them not available"
    return ActionGuess(names, (nothing, *others), reason)
