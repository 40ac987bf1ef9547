"""One column of a log: cells as text (CSV) or typed (Parquet, data frames), read as numbers, codes, times or ids."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean

MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")
"""Spellings of "missing"; a study may add its own."""
TEXT_TYPES = frozenset({pa.string(), pa.large_string(), pa.string_view()})
"""Arrow's types of text."""
MISSING_SIGNS = (
    *(".", "..", "...", "-", "--", "---", "–", "—", "na", "n/a", "n.a.", "nan", "<na>", "#na", "#n/a", "null", "(null)"),
    *("missing", "undefined", "not available", "no data", "#null!", "#value!", "#div/0!", "#ref!", "#name?", "#num!"),
)
"""What files write for "missing" in any column, in any case; read as missing if the study says so."""
MISSING_ANSWERS = (
    *("none", "nil", "?", "*", "empty", "blank", "unknown", "inf", "-inf", "infinity", "-infinity", "error", "dk", "k.a."),
    *("refused", "declined", "skip", "skipped", "expired", "condition_skipped", "no answer", "no response", "no_response"),
    *("not answered", "not applicable", "prefer not to answer", "prefer not to say", "don't know", "keine angabe"),
)
"""What stands for "missing" among numbers; in a column of words it may be a level or an action."""
YES = ("1", "1.0", "true", "yes", "t", "y")
NO = ("0", "0.0", "false", "no", "f", "n")
EUROPEAN_NUMBER = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*)(,\d*)?([eE][-+]?\d+)?$"
THOUSANDS = {",": ",", " ": "[ \u00a0\u202f\u2009]", "'": "['’]"}
"""Separators of thousands with their variants: spaces that do not break a line, a typographic apostrophe."""
MINUS = "\u2212"
"""The mathematical sign, which some programs write instead of a hyphen."""
NOT_ISO = "is not a time in ISO 8601"
NUMBER_HABITS = {
    r"^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$": "write it without thousands separators, or thousands = ',' in [file]",
    r"^[-+]?\d{1,3}(['’\s]\d{3})+([.,]\d+)?$": "write it without thousands separators, or name them in [file] as thousands",
    r"^[-+]?[\d.]*,\d+$": "write decimals with a point and no thousands separators, or decimal = ',' in [file]",
    r"^[-+]?[\d.,]+\s*%$": "write the number alone, or percent = ['{column}'] in [file]",
    r"^[-+]?[\d.,]*\d\s*[^\d\s.,].*$": "write the number alone, without a unit or a remark",
    r"^[^\w\s.,+-]\s*[-+]?[\d.,]+$": "write the number alone, without a sign before it",
} | {
    f"(?i)^{re.escape(word)}$": "leave it empty, or write missing = ['{text}'] in [columns] if it stands for missing"
    for word in (*MISSING_SIGNS, *MISSING_ANSWERS)
}
"""Ways to write numbers that are read only if the study says so, with the remedy."""
TIME_HABITS = {
    r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}": (
        NOT_ISO,
        "write ISO 8601 (2015-07-22T16:30:00), or time_format in [file] where all times have one format",
    ),
    r"^(\d{1,2}[ .-]+[A-Za-z]{3,}|[A-Za-z]{3,9}[.,]? ).*\d": (
        NOT_ISO,
        "write ISO 8601 (2015-07-22T16:30:00), or time_format in [file], such as '%d-%b-%Y %H:%M'",
    ),
    r"^\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?$": (
        "is a time of day without a day",
        "write both in one column (2015-07-22T16:30:00)",
    ),
}
"""Ways to write times that are read only if the study says so, or not at all, with problem and remedy."""
MOST_SHOWN = 20
"""Problems named in one error."""
Place = Callable[[int], str]
"""The name of a row in messages: `row 17` of a frame, `line 19` of a file."""
Rows = Sequence[int] | NDArray[np.int64]


@dataclass(frozen=True)
class FileSettings:
    """How a file writes columns, numbers and times: the keys of `[file]` in a study, with the defaults of plain CSV."""

    separator: str | None = None
    header_rows: int = 1
    ragged: bool = False
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"
    time_format: str | None = None
    percent: tuple[str, ...] = ()
    sheet: str | None = None


PLAIN = FileSettings()


def frame_row(row: int) -> str:
    """The name of a row of a data frame, from 0."""
    return f"row {row}"


class Problems:
    """Mistakes in the cells of a log; `raise_any` raises one error that names the first twenty.

    >>> problems = Problems()
    >>> problems.report("mood", [3, 7], "'fine' is not a number", "correct it")
    >>> problems.raise_any()
    Traceback (most recent call last):
    surefoot.errors.InputError: row 3, column 'mood': 'fine' is not a number (and 1 more row); correct it
    """

    def __init__(self, name_row: Place = frame_row, participant: Callable[[int], Any] | None = None) -> None:
        self.name_row = name_row
        self.participant = participant
        self._reported: list[tuple[int, str, str]] = []
        """First row, column and message of every problem."""
        self._rows: dict[str, set[int]] = {}

    def report(self, column: str, rows: Rows, reason: str, remedy: str) -> None:
        """Report rows of a column that are wrong for one reason; a cell is reported only once."""
        known = self._rows.setdefault(column, set())
        new = [int(row) for row in rows if int(row) not in known]
        if new:
            known.update(new)
            participant = "" if self.participant is None else f", participant {self.participant(new[0])!r}"
            others = "" if len(new) == 1 else f" (and {len(new) - 1:,} more row{'s' if len(new) > 2 else ''})"
            message = f"{self.name_row(new[0])}, column '{column}'{participant}: {reason}{others}; {remedy}"
            self._reported.append((new[0], column, message))

    def raise_any(self, column: str | None = None) -> None:
        """Raise the error if anything was reported, or anything about one column."""
        if self._reported if column is None else self._rows.get(column):
            self.stop()

    def stop(self) -> NoReturn:
        """Raise the error about everything reported so far, in the order of the rows."""
        reported = sorted(self._reported, key=lambda problem: problem[0])
        lines = [message for _, _, message in reported[:MOST_SHOWN]]
        if len(reported) > MOST_SHOWN:
            lines.append(f"These are the first {MOST_SHOWN} of {len(reported)} problems.")
        row, column, _ = reported[0]
        participant = None if self.participant is None else self.participant(row)
        raise InputError("\n".join(lines), row=row, column=column, participant=participant)


@dataclass(frozen=True, eq=False)
class LogColumn:
    """One column. A cell that cannot be read is reported to `problems` and counts as missing until those are raised."""

    name: str
    cells: pa.Array
    problems: Problems = field(default_factory=Problems)
    settings: FileSettings = PLAIN

    def report(self, rows: Rows, reason: str, remedy: str) -> None:
        self.problems.report(self.name, rows, reason, remedy)

    def _refuse_type(self, needed: str) -> NoReturn:
        raise InputError(f"column '{self.name}' has type {self.cells.type}{needed}", column=self.name)

    def numbers(self) -> NDArray[np.float64]:
        """Numbers and yes/no values as float64, missing as NaN."""
        cells = self.cells
        if self.cells.type in TEXT_TYPES:
            # Words for yes and no are among the first rows; numbers are not examined one by one.
            first = next((text.lower() for text in cells.slice(0, 1000).to_pylist() if text), "")
            is_word = first in (*YES, *NO) and not first[0].isdigit()
            if is_word and {text.lower() for text in cells.unique().drop_null().to_pylist()} <= {*YES, *NO}:
                return self.yes_no()
            problem = "is not a number"
            habits = {pattern: (problem, remedy) for pattern, remedy in NUMBER_HABITS.items()}
            remedy = "correct it or leave it empty (missing)"
            cells = self._cast(self.plain_numbers(), pa.float64(), problem, remedy, habits)
        if pa.types.is_boolean(cells.type):
            cells = cells.cast(pa.int8())
        if not (is_number(cells.type) or pa.types.is_null(cells.type)):
            self._refuse_type(" where numbers are needed; convert it")
        # Nulls of floats become NaN.
        floats = cells if pa.types.is_float64(cells.type) else cells.cast(pa.float64(), safe=False)
        values: NDArray[np.float64] = floats.to_numpy(zero_copy_only=False)
        return values / 100 if self.name in self.settings.percent else values

    def plain_numbers(self) -> pa.Array:
        """The cells, with a decimal point and without thousands separators and percent signs in texts that are numbers."""
        cells = self.cells
        if self.cells.type not in TEXT_TYPES:
            return cells
        decimal = self.settings.decimal
        thousands = self.settings.thousands
        if pc.any(pc.starts_with(cells, MINUS)).as_py():
            cells = pc.replace_substring_regex(cells, rf"^{MINUS}([\d.,])", r"-\1")
        if self.name in self.settings.percent:
            cells = pc.replace_substring_regex(cells, r"\s*%$", "")
        if thousands is not None:
            between = THOUSANDS.get(thousands, re.escape(thousands))
            grouped = pc.match_substring_regex(cells, rf"^[-+]?\d{{1,3}}({between}\d{{3}})+({re.escape(decimal)}\d*)?$")
            cells = pc.if_else(grouped, pc.replace_substring_regex(cells, between, ""), cells)
        if decimal == ",":
            pointed = pc.match_substring_regex(cells, r"^[-+]?\d*\.(\d{1,2}|\d{4,})$")
            rows = find_true(pointed)
            if rows.size:
                reason = f"'{cells[int(rows[0])]}' is not a number with a decimal comma"
                self.report(rows, reason, "write it with a comma, or decimal = '.' in [file]")
                cells = pc.if_else(pointed, pa.scalar(None, cells.type), cells)
            english = pc.replace_substring(pc.replace_substring(cells, ".", ""), ",", ".")
            cells = pc.if_else(pc.match_substring_regex(cells, EUROPEAN_NUMBER), english, cells)
        return cells

    def _cast(
        self, cells: pa.Array, kind: pa.DataType, problem: str, remedy: str, habits: Mapping[str, tuple[str, str]]
    ) -> pa.Array:
        """Cast the cells, and report those that cannot be cast; a habit of the file is one mistake in however many rows."""
        for _ in range(MOST_SHOWN):
            row = first_failure(cells, kind)
            if row is None:
                return cells.cast(kind)
            text = cells[row].as_py()
            habit = next((pattern for pattern in habits if re.match(pattern, text)), None)
            wrong = pc.equal(cells, text) if habit is None else pc.match_substring_regex(cells, habit)
            reason, advice = (problem, remedy) if habit is None else habits[habit]
            self.report(find_true(wrong), f"'{text}' {reason}", advice.format(column=self.name, text=text))
            cells = pc.if_else(pc.fill_null(wrong, False), pa.scalar(None, cells.type), cells)
        if first_failure(cells, kind) is not None:
            self.problems.stop()
        return cells.cast(kind)

    def distinct(self) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct values as text and, for every row, the position of its text among them, −1 where it is missing."""
        kind = self.cells.type
        plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        if not (self.cells.type in TEXT_TYPES or any(test(kind) for test in plain)):
            self._refuse_type(" where text or whole numbers are needed; convert it")
        cells = self.cells.cast(pa.large_string()) if pa.types.is_null(kind) else self.cells
        encoded = cells.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        indices: NDArray[np.int64] = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        missing = [code for code, value in enumerate(values) if isinstance(value, float) and math.isnan(value)]
        return [spell(value) for value in values], np.where(np.isin(indices, missing), -1, indices) if missing else indices

    def codes(self, meaning: Mapping[str, float], known: Iterable[str], reason: str, remedy: str) -> NDArray[np.float64]:
        """The meaning of every cell's text, NaN where it is missing; `{}` in `reason` is a text without a meaning.

        The message suggests the nearest of the `known` texts.
        TRUE, True and true are one word, unless two of the meanings differ in case alone.
        """
        texts, indices = self.distinct()
        in_any_case: dict[str, set[float]] = {}
        for text, code in meaning.items():
            in_any_case.setdefault(text.lower(), set()).add(code)
        values = np.full(len(texts) + 1, np.nan)
        # An empty cell of a typed file is not text, but may have a meaning too.
        values[-1] = np.nan if self.cells.type in TEXT_TYPES else meaning.get("", np.nan)
        for position, text in enumerate(texts):
            # Whole numbers in a column with missing cells are often exported as 1.0.
            value = meaning.get(text, meaning.get(re.sub(r"\.0+$", "", text)))
            alike = in_any_case.get(text.lower(), set())
            if value is None and len(alike) == 1:
                value = next(iter(alike))
            if value is not None:
                values[position] = value
            elif (rows := np.flatnonzero(indices == position)).size:
                self.report(rows, reason.format(text) + did_you_mean(text, known), remedy)
        return np.asarray(values[indices])

    def yes_no(self) -> NDArray[np.float64]:
        """1.0 for yes, 0.0 for no, NaN for missing."""
        if self.cells.type in TEXT_TYPES:
            meaning = {**dict.fromkeys(YES, 1.0), **dict.fromkeys(NO, 0.0)}
            return self.codes(meaning, (), "'{}' is neither yes nor no", "write yes or no, true or false, 1 or 0")
        values = self.numbers()
        odd = np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))
        if odd.size:
            self.report(odd, f"{values[odd[0]]:g} is neither yes nor no", "write 1 or 0")
        return values

    def actions(self, names: Sequence[str], values: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Action codes by the values that stand for them or, if none are given, by number, by name or by yes/no."""
        meaning: dict[str, float] = {}
        if values is None:
            yes_no = {**dict.fromkeys(NO, 0.0), **dict.fromkeys(YES, 1.0)} if len(names) == 2 else {}
            meaning = yes_no | {str(code): float(code) for code in range(len(names))}
        known = list(names if values is None else values)
        meaning |= {text: float(code) for code, text in enumerate(known)}
        remedy = f"declared are {known}: add it to the actions, or correct the row"
        return self.codes(meaning, known, "action '{}' was never declared", remedy)

    def _require_cells(self) -> None:
        """Refuse null, NaN and empty text, and raise everything reported about the column."""
        if self.cells.type in TEXT_TYPES:
            missing = pc.equal(self.cells, "")
        else:
            missing = pc.is_null(self.cells, nan_is_null=pa.types.is_floating(self.cells.type))
        rows = find_true(pc.fill_null(missing, True))
        self.report(rows, "missing", "every decision point needs one (fill it in or drop the row)")
        self.problems.raise_any(self.name)

    def participants(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The sorted ids and, for every row, the position of its participant among them."""
        cells = self.cells
        self._require_cells()
        if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or self.cells.type in TEXT_TYPES):
            self._refuse_type("; a participant's id is a whole number or text")
        if cells.type in TEXT_TYPES:
            # NumPy's text ends at zero characters: two participants would become one.
            wrong = find_true(pc.match_substring(cells, "\0")).tolist()
        else:
            wrong = [row for row in (first_failure(cells, pa.int64()),) if row is not None]
        if wrong:
            self.report(wrong, f"{cells[wrong[0]].as_py()!r} is not a participant's id", "ids are whole numbers or text")
            self.problems.stop()
        encoded = (cells if self.cells.type in TEXT_TYPES else cells.cast(pa.int64())).dictionary_encode()
        distinct = np.asarray(encoded.dictionary.to_pylist(), dtype=np.str_ if self.cells.type in TEXT_TYPES else np.int64)
        participants, position = np.unique(distinct, return_inverse=True)
        return participants, position.astype(np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]

    def times(self) -> NDArray[Any]:
        """Decision times as int64, float64 or (dates, timestamps, ISO 8601 text) datetime64; with a zone they become UTC."""
        cells = self.cells
        layout = self.settings.time_format
        self._require_cells()
        if self.cells.type in TEXT_TYPES and layout is None:
            cells = self._parse_instants()
        elif self.cells.type in TEXT_TYPES:
            cells = pc.strptime(self.cells, format=layout, unit="us", error_is_null=True)
            wrong = find_true(cells.is_null())
            if wrong.size:
                reason = f"'{self.cells[int(wrong[0])]}' does not fit time_format '{layout}'"
                self.report(wrong, reason, "correct it, or the format in [file]")
                self.problems.stop()
        elif pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
            cells = to_microseconds(cells, self.name)
        elif not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
            self._refuse_type("; a decision time is a number, a date or a timestamp")
        values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return values

    def _parse_instants(self) -> pa.Array:
        """ISO 8601 text: all without a zone, or all with one (the zones may differ), which gives UTC."""
        cells = self.cells
        if first_failure(cells.slice(0, 1), pa.float64()) is None:
            problem = "is not a number, unlike the times before it"
            self._cast(cells, pa.float64(), problem, "write all times as numbers, or all in ISO 8601", {})
            self.problems.raise_any(self.name)
            raise InputError(
                f"column '{self.name}': times are text; convert them to numbers or to ISO 8601", column=self.name
            )
        zoned = pc.match_substring_regex(cells, r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$").to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(zoned != zoned[0])
        if odd.size:
            has = "has no" if zoned[0] else "has a"
            reason = f"'{cells[int(odd[0])]}' {has} time zone, unlike the rows before it"
            self.report(odd, reason, "give all times a zone, or none")
            cells = pc.if_else(pa.array(zoned != zoned[0]), cells[0], cells)
        kind = pa.timestamp("us", "UTC" if zoned[0] else None)
        remedy = "write times as numbers or in ISO 8601 (2015-07-22T16:30:00)"
        times = self._cast(cells, kind, "is not a time", remedy, TIME_HABITS)
        self.problems.raise_any(self.name)
        return times.cast(pa.timestamp("us"))


def to_microseconds(cells: pa.Array, name: str) -> pa.Array:
    """Dates and timestamps of any unit as timestamps in microseconds; those with a zone become UTC."""
    zone = cells.type.tz if pa.types.is_timestamp(cells.type) else None
    try:
        cells = cells.cast(options=pc.CastOptions(pa.timestamp("us", zone), allow_time_truncate=True))
    except pa.ArrowException as error:
        raise InputError(f"column '{name}': {error}; correct the times", column=name) from error
    # Arrow stores an instant with a zone in UTC; dropping the label keeps the instant.
    return cells.cast(pa.timestamp("us"))


def settle_missing(cells: pa.Array, spellings: Sequence[str]) -> pa.Array:
    """The cells without dictionaries and surrounding blanks, null where they spell "missing"."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    numbers = [float(word) for word in spellings if re.fullmatch(r"[-+]?\d+(\.\d+)?", word)]
    if cells.type in TEXT_TYPES:
        cells = pc.utf8_trim_whitespace(cells.cast(pa.large_string()))
        # A column of whole numbers with missing cells is often exported as 1.0.
        words = [*spellings, *(f"{number:g}.0" for number in numbers)]
        missing = pc.is_in(cells, pa.array(words, pa.large_string()))
    elif numbers and is_number(cells.type):
        missing = pc.is_in(cells.cast(pa.float64(), safe=False), pa.array(numbers, pa.float64()))
    else:
        return cells
    return pc.if_else(missing, pa.scalar(None, cells.type), cells)


def spell(value: Any) -> str:
    """A cell as text: `true` and `false`, whole numbers without a decimal point.

    >>> spell(True), spell(2.0), spell(0.25), spell("home")
    ('true', '2', '0.25', 'home')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def find_true(mask: pa.Array) -> NDArray[np.int64]:
    """The rows at which a mask is true, not null."""
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def whole_array(column: Any) -> pa.Array:
    """One array from the chunks that a file was read in."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    try:
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    except pa.ArrowException as error:
        raise InputError(
            f"a column cannot be held in memory as one ({error}); write the logs as several Parquet files"
        ) from error


def first_failure(cells: pa.Array, kind: pa.DataType) -> int | None:
    """The first row that cannot be cast to that type, by halving; None if all can."""
    low = 0
    high = len(cells)
    middle = high
    while True:
        try:
            cells.slice(low, middle - low).cast(kind)
            low = middle
        except pa.ArrowException:
            high = middle
        if low == high:
            return None
        if high - low == 1:
            return low
        middle = (low + high) // 2


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's types of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def value_family(kind: pa.DataType) -> str:
    """What columns of several files must have in common to be one column."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "nothing"
    if is_number(kind):
        return "numbers"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return "text" if kind in TEXT_TYPES else str(kind)
