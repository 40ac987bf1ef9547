"""One column of a log: its cells, as text (CSV) or typed (Parquet, data frames), and how a message names one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.problems import MOST_SHOWN, Problems
from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")
"""How files spell "missing", in addition to an empty cell; a study may add spellings of its own."""
MISSING_SIGNS = (
    *(".", "..", "...", "-", "--", "---", "–", "—", "na", "n/a", "n.a.", "nan", "<na>", "#na", "#n/a", "null", "(null)"),
    *("missing", "undefined", "not available", "no data", "#null!", "#value!", "#div/0!", "#ref!", "#name?", "#num!"),
)
"""What files write for "missing" in any column, in any case of letters; read so where the study says so."""
MISSING_ANSWERS = (
    *("none", "nil", "?", "*", "empty", "blank", "unknown", "inf", "-inf", "infinity", "-infinity", "error", "dk", "k.a."),
    *("refused", "declined", "skip", "skipped", "expired", "condition_skipped", "no answer", "no response", "no_response"),
    *("not answered", "not applicable", "prefer not to answer", "prefer not to say", "don't know", "keine angabe"),
)
"""What stands for "missing" among numbers; in a column of words it may be a level or an action."""
YES = ("1", "1.0", "true", "yes", "t", "y")
NO = ("0", "0.0", "false", "no", "f", "n")
LOOKED_AT = 1000
"""Rows in which a column that says yes or no does so at least once."""
NUMBER = r"[-+]?\d+(\.\d+)?"
DECIMAL_POINT = r"^[-+]?\d*\.(\d{1,2}|\d{4,})$"
EUROPEAN_NUMBER = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*)(,\d*)?([eE][-+]?\d+)?$"
THOUSANDS = {",": ",", " ": "[ \u00a0\u202f\u2009]", "'": "['’]"}
"""What stands between thousands, with its other forms: spaces that do not break a line, a typographer's apostrophe."""
MINUS = "\u2212"
"""The sign of mathematics, which some programs write instead of a hyphen."""
HABITS = {
    r"^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$": "write it without thousands separators, or thousands = ',' in [file]",
    r"^[-+]?\d{1,3}(['’\s]\d{3})+([.,]\d+)?$": "write it without thousands separators, or name them in [file] as thousands",
    r"^[-+]?[\d.]*,\d+$": "write decimals with a point and no thousands separators, or decimal = ',' in [file]",
    r"^[-+]?[\d.,]+\s*%$": "write the number alone, or percent = ['{}'] in [file]",
    r"^[-+]?[\d.,]*\d\s*[^\d\s.,].*$": "write the number alone, without a unit or a remark",
    r"^[^\w\s.,+-]\s*[-+]?[\d.,]+$": "write the number alone, without a sign before it",
}
"""Ways to write numbers that are read only when the study says so, with the remedy; `{}` is the column."""


@dataclass(frozen=True, eq=False)
class LogColumn:
    """One column. A cell that cannot be read is reported to `problems` and counts as missing until those are raised."""

    name: str
    cells: pa.Array
    problems: Problems = field(default_factory=Problems)
    settings: FileSettings = PLAIN

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def is_text(self) -> bool:
        return is_text(self.cells.type)

    def report(self, rows: Sequence[int] | NDArray[np.int64], what: str, remedy: str) -> None:
        self.problems.report(self.name, rows, what, remedy)

    def numbers(self) -> NDArray[np.float64]:
        """Numbers and yes/no values as float64, missing as NaN; text is read as numbers with a decimal point."""
        import pyarrow as pa

        cells = self.cells
        if self.is_text and self.has_yes_no():
            return self.yes_no()
        if self.is_text:
            cells = self.plain_numbers().cast(pa.float64(), self._not_a_number)
        known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
        if not any(test(cells.type) for test in known):
            raise InputError(
                f"column '{self.name}' has type {cells.type} where numbers are needed; convert it", column=self.name
            )
        if pa.types.is_boolean(cells.type):
            cells = cells.cast(pa.int8())
        # Nulls of floats become NaN.
        floats = cells if pa.types.is_float64(cells.type) else cells.cast(pa.float64(), safe=False)
        values: NDArray[np.float64] = floats.to_numpy(zero_copy_only=False)
        return values / 100 if self.name in self.settings.percent else values

    def plain_numbers(self) -> LogColumn:
        """Text in which numbers have a decimal point, no thousands separators and no percent sign; others as they are."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.is_text:
            return self
        cells = self.cells
        if pc.any(pc.starts_with(cells, MINUS)).as_py():
            cells = pc.replace_substring_regex(cells, rf"^{MINUS}([\d.,])", r"-\1")
        if self.name in self.settings.percent:
            cells = pc.replace_substring_regex(cells, r"\s*%$", "")
        if self.settings.thousands is not None:
            cells = _join_thousands(cells, self.settings.thousands, self.settings.decimal)
        if self.settings.decimal == ",":
            pointed = pc.fill_null(pc.match_substring_regex(cells, DECIMAL_POINT), False)
            rows = np.flatnonzero(pointed.to_numpy(zero_copy_only=False))
            if rows.size:
                remedy = "write it so, or decimal = '.' in [file]"
                self.report(rows, f"'{cells[int(rows[0])]}' is not a number with a decimal comma", remedy)
                cells = pc.if_else(pointed, pa.scalar(None, cells.type), cells)
            european = pc.replace_substring(pc.replace_substring(cells, ".", ""), ",", ".")
            cells = pc.if_else(pc.match_substring_regex(cells, EUROPEAN_NUMBER), european, cells)
        return replace(self, cells=cells)

    def _not_a_number(self, cells: pa.Array, text: str) -> tuple[pa.Array, str, str]:
        import pyarrow.compute as pc

        # One habit of the file, not as many mistakes as it has numbers.
        for habit, remedy in HABITS.items():
            if re.match(habit, text):
                return pc.match_substring_regex(cells, habit), f"'{text}' is not a number", remedy.format(self.name)
        remedy = "correct it or leave it empty (missing)"
        if text.lower() in (*MISSING_SIGNS, *MISSING_ANSWERS):
            remedy = f"leave it empty, or write missing = ['{text}'] in [columns] if it stands for missing"
        return pc.equal(cells, text), f"'{text}' is not a number", remedy

    def cast(self, kind: pa.DataType, explain: Callable[[pa.Array, str], tuple[pa.Array, str, str]]) -> pa.Array:
        """The cells as that type; of one that cannot be, `explain` says which are like it, what is wrong, and the remedy."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells, found = self.cells, 0
        while (row := first_failure(cells, kind)) is not None:
            if (found := found + 1) > MOST_SHOWN:
                self.problems.stop()
            wrong, what, remedy = explain(cells, cells[row].as_py())
            wrong = pc.fill_null(wrong, False)
            self.report(np.flatnonzero(wrong.to_numpy(zero_copy_only=False)), what, remedy)
            cells = pc.if_else(wrong, pa.scalar(None, cells.type), cells)
        return cells.cast(kind)

    def distinct(self) -> tuple[list[str], NDArray[np.int64]]:
        """The texts that occur, and for every row the place of its text among them, −1 where it is missing.

        Whole numbers and yes/no values are written as text; a float that is whole loses its `.0`.
        """
        import pyarrow as pa

        cells, kind = self.cells, self.cells.type
        plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        if not (self.is_text or any(test(kind) for test in plain)):
            raise InputError(
                f"column '{self.name}' has type {kind} where text or whole numbers are needed; convert it", column=self.name
            )
        encoded = cells.cast(pa.large_string()).dictionary_encode() if pa.types.is_null(kind) else cells.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        indices: NDArray[np.int64] = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        missing = [code for code, value in enumerate(values) if isinstance(value, float) and math.isnan(value)]
        if missing:
            indices = np.where(np.isin(indices, missing), -1, indices)
        return [spell(value) for value in values], indices

    def codes(self, meaning: Mapping[str, float], known: Iterable[str], what: str, remedy: str) -> NDArray[np.float64]:
        """What every cell's text means, NaN where it is missing; `{}` in `what` is a text without a meaning.

        The nearest of the `known` texts is suggested for it.
        TRUE, True and true are one word, unless two of the meanings differ in nothing but case.
        """
        texts, indices = self.distinct()
        in_any_case: dict[str, set[float]] = {}
        for text, code in meaning.items():
            in_any_case.setdefault(text.lower(), set()).add(code)

        def find(text: str) -> float | None:
            # Whole numbers in a column with missing cells are often exported as 1.0.
            code = meaning.get(text, meaning.get(re.sub(r"\.0+$", "", text)))
            same = in_any_case.get(text.lower(), set())
            return next(iter(same)) if code is None and len(same) == 1 else code

        found = [find(text) for text in texts]
        for code, text in enumerate(texts):
            if found[code] is None and (rows := np.flatnonzero(indices == code)).size:
                self.report(rows, what.format(text) + did_you_mean(text, known), remedy)
        codes = np.array([np.nan if code is None else code for code in found], dtype=np.float64)
        # An empty cell of a file with types is not text, but may have a meaning too.
        empty = np.nan if self.is_text else meaning.get("", np.nan)
        values: NDArray[np.float64] = np.append(codes, empty)[indices]
        return values

    def has_yes_no(self) -> bool:
        """Whether a column of text says yes or no, in words, wherever it says something."""
        first = next((text.lower() for text in self.cells.slice(0, LOOKED_AT).to_pylist() if text), "")
        if first not in (*YES, *NO) or first[0].isdigit():
            # Numbers are not looked at one by one.
            return False
        return {text.lower() for text in self.cells.unique().drop_null().to_pylist()} <= {*YES, *NO}

    def yes_no(self) -> NDArray[np.float64]:
        """1.0 for yes, 0.0 for no, NaN for missing."""
        if not self.is_text:
            values = self.numbers()
            odd = np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))
            if odd.size:
                self.report(odd, f"{values[odd[0]]:g} is neither yes nor no", "write 1 or 0")
            return values
        meaning = {**dict.fromkeys(YES, 1.0), **dict.fromkeys(NO, 0.0)}
        return self.codes(meaning, (), "'{}' is neither yes nor no", "write yes or no, true or false, 1 or 0")

    def refuse_missing(self) -> None:
        """Report cells that hold nothing: null, NaN or empty text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.is_text:
            missing = pc.equal(self.cells, "")
        else:
            missing = pc.is_null(self.cells, nan_is_null=pa.types.is_floating(self.cells.type))
        rows = np.flatnonzero(pc.fill_null(missing, True).to_numpy(zero_copy_only=False))
        self.report(rows, "missing", "every decision point needs one (fill it in or drop the row)")


def _join_thousands(cells: pa.Array, thousands: str, decimal: str) -> pa.Array:
    """Numbers without what stands between their thousands.

    >>> import pyarrow as pa
    >>> _join_thousands(pa.array(["1,234.5", "12,5", "home, sweet home"]), ",", ".").to_pylist()
    ['1234.5', '12,5', 'home, sweet home']
    """
    import pyarrow.compute as pc

    between = THOUSANDS.get(thousands, re.escape(thousands))
    grouped = pc.match_substring_regex(cells, rf"^[-+]?\d{{1,3}}({between}\d{{3}})+({re.escape(decimal)}\d*)?$")
    return pc.if_else(grouped, pc.replace_substring_regex(cells, between, ""), cells)


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


def settle_missing(cells: pa.Array, spellings: Sequence[str]) -> pa.Array:
    """Text without surrounding blanks; text and numbers are missing where they are spelled so."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    numbers = [float(word) for word in spellings if re.fullmatch(NUMBER, word)]
    if is_text(cells.type):
        cells = pc.utf8_trim_whitespace(cells.cast(pa.large_string()))
        # A column of whole numbers with missing cells is often exported as 1.0.
        words = [*spellings, *(f"{number:g}.0" for number in numbers)]
        missing = pc.is_in(cells, pa.array(words, pa.large_string()))
    elif numbers and value_family(cells.type) == "numbers":
        missing = pc.is_in(cells.cast(pa.float64(), safe=False), pa.array(numbers, pa.float64()))
    else:
        return cells
    return pc.if_else(missing, pa.scalar(None, cells.type), cells)


def whole_array(column: Any) -> pa.Array:
    """One array from the chunks that a file was read in."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    try:
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    except pa.ArrowException as error:
        raise InputError(
            f"a column cannot be held in memory as one ({error}); write the logs as several Parquet files"
        ) from error


def first_failure(cells: pa.Array, kind: pa.DataType | str) -> int | None:
    """The first row that cannot be cast to that type; None when all can. Halves the rows until one is left."""
    import pyarrow as pa

    def fails(part: pa.Array) -> bool:
        try:
            part.cast(kind)
        except pa.ArrowException:
            return True
        return False

    if not fails(cells):
        return None
    first, size = 0, len(cells)
    while size > 1:
        half = size // 2
        if fails(cells.slice(first, half)):
            size = half
        else:
            first, size = first + half, size - half
    return first


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's kinds of text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def value_family(kind: pa.DataType) -> str:
    """What columns of several files must have in common to be one column."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return "text" if is_text(kind) else str(kind)
