"""Kinds of state variables: each class reads a column or a JSON value, says what it is, and recognises itself in a log.

A new kind is a class here and a line in `KINDS`; the study file, `surefoot init`, fits and the service then know it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_summaries import ColumnSummary, quote
from surefoot.data.log_columns import NO, YES, LogColumn
from surefoot.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Cell = float | int | bool | str | None
MOST_LEVELS = 12
GRID_POINTS, FEW_VALUES = 15, 3
"""Points along a number, from its 5 % to its 95 % point; a number that takes so few values is put to each of them."""


@dataclass(frozen=True)
class StateValues:
    """What a state variable's column says: (rows, state columns), NaN where missing."""

    values: NDArray[np.float64]
    implausible: NDArray[np.bool_] | None = None
    """Rows whose value lay outside the plausible range and counts as missing; None without a range."""


class VariableSetting(NamedTuple):
    """A value that a state variable can be put to, to see what a policy then does."""

    label: str
    """Its name; empty for a point on an axis of numbers."""
    shown: float
    """Its place on the axis, in the variable's own units."""
    columns: tuple[float, ...]
    """What the state's columns hold then."""


@dataclass(frozen=True)
class VariableKind(ABC):
    """A kind of state variable with its settings; the study file has one key for each setting."""

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ()
    """Which of the settings below it takes."""
    json_type: ClassVar[str]
    """How a context spells it, in words."""
    json_types: ClassVar[tuple[type, ...]]
    """The types of such values; a value of another type is a mistake of the client, not an implausible measurement."""

    levels: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    centre: float = 0.0
    scale: float = 1.0

    def check(self) -> None:  # noqa: B027 - most kinds have nothing to check
        """Raise ValueError when the settings do not make sense together."""

    def state_columns(self, variable: str) -> tuple[str, ...]:
        """The names of the columns that the variable becomes."""
        return (variable,)

    @abstractmethod
    def read(self, column: LogColumn) -> StateValues:
        """Numbers from a column of a log; what cannot be read is reported to the column's problems."""

    @abstractmethod
    def from_json(self, value: Cell) -> float | str | None:
        """A value of a context as a cell that `read` understands; None where it is not of this kind."""

    @property
    def choices(self) -> tuple[str, ...]:
        """What a form lets somebody choose from; empty for what is written."""
        return self.levels

    def from_text(self, text: str) -> Cell:
        """What somebody chose or wrote in a form, as a context spells it; the text itself where it is not of this kind."""
        return text

    def read_cells(self, cells: Sequence[float | str | None]) -> StateValues:
        """What `read` makes of a column of cells that `from_json` made; kinds of numbers do it without Arrow."""
        import pyarrow as pa

        return self.read(LogColumn(self.name, pa.array(cells, self.arrow_type())))

    def arrow_type(self) -> pa.DataType:
        """The type of a column of cells that `from_json` made."""
        import pyarrow as pa

        return pa.float64()

    def describe(self) -> str:
        """What the variable is, in words."""
        return self.name

    def describe_unit(self, column: str) -> str:
        """What one more in one of its state columns is, in words."""
        return f"1 more of {column}"

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        """Where to put the variable, all its columns together, given the values (rows, columns) that were logged.

        Unless a kind knows better: what was logged, evenly spaced. A combination that never occurred is not among it.
        """
        distinct = np.unique(values, axis=0)
        chosen = distinct[np.unique(np.linspace(0, len(distinct) - 1, min(len(distinct), GRID_POINTS)).round().astype(int))]
        return [
            VariableSetting(", ".join(f"{value:.6g}" for value in row), float(place), tuple(row))
            for place, row in enumerate(chosen.tolist())
        ]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        """Which values were logged, in words; (rows, columns)."""
        return f"{len(np.unique(values, axis=0))} different values were logged"

    @classmethod
    def of_column(cls, column: LogColumn) -> Self:
        """The kind with what must be known of the column to read it."""
        return cls()

    @classmethod
    @abstractmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        """The kind with the settings that the column suggests, if it looks like one."""

    def draft(self, summary: ColumnSummary) -> list[str]:
        """Further lines of the variable's section in a first study file."""
        return []


@dataclass(frozen=True)
class Number(VariableKind):
    """A number, with a plausible range and a scaling."""

    name: ClassVar[str] = "number"
    takes: ClassVar[tuple[str, ...]] = ("range", "scaling")
    json_type: ClassVar[str] = "a number"
    json_types: ClassVar[tuple[type, ...]] = (int, float)

    def read(self, column: LogColumn) -> StateValues:
        return self._read_numbers(column.numbers())

    def read_cells(self, cells: Sequence[float | str | None]) -> StateValues:
        return self._read_numbers(np.array(cells, dtype=np.float64))

    def _read_numbers(self, values: NDArray[np.float64]) -> StateValues:
        outside = None
        if self.range is not None:
            outside = (values < self.range[0]) | (values > self.range[1])
            values = np.where(outside, np.nan, values)
        if (self.centre, self.scale) != (0.0, 1.0):
            values = (values - self.centre) / self.scale
        return StateValues(values[:, None], outside)

    def from_json(self, value: Cell) -> float | None:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def from_text(self, text: str) -> Cell:
        try:
            number = float(text.replace("−", "-"))
        except ValueError:
            return text
        return number if np.isfinite(number) else text

    def describe(self) -> str:
        words = [self.name]
        if self.range is not None:
            words.append(f"plausible from {self.range[0]:g} to {self.range[1]:g}")
        if (self.centre, self.scale) != (0.0, 1.0):
            words.append(f"scaled as (value − {self.centre:g}) / {self.scale:g}")
        return ", ".join(words)

    def describe_unit(self, column: str) -> str:
        return f"{self.scale:g} more of {column}"

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        distinct = np.unique(values)
        few = len(distinct) <= FEW_VALUES
        low, high = np.quantile(values, (0.05, 0.95))
        grid = distinct if few else np.linspace(low, high, GRID_POINTS)
        shown = self.centre + self.scale * grid
        return [
            VariableSetting(f"{place:.6g}" if few else "", place, (value,))
            for place, value in zip(shown.tolist(), grid.tolist(), strict=True)
        ]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        low, high = self.centre + self.scale * np.quantile(values, (0.05, 0.95))
        return f"90 % of logged values lie from {low:.4g} to {high:.4g}".replace("-", "−")

    @classmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        return None if summary.numbers is None else cls()

    def draft(self, summary: ColumnSummary) -> list[str]:
        if summary.numbers is None:
            return []
        mean, deviation, _ = summary.shape()
        lines = [f"# range = [{summary.numbers.min():g}, {summary.numbers.max():g}] # as seen; check what is plausible"]
        off = "" if not 0.1 <= deviation <= 10 or abs(mean) > 10 else "# "
        if 0 < float(f"{deviation:.3g}") < np.inf:
            lines.append(f"{off}scaling = {{ centre = {mean:.3g}, scale = {deviation:.3g} }} # mean and deviation as seen")
        return lines


@dataclass(frozen=True)
class YesNo(VariableKind):
    """1 for yes, 0 for no."""

    name: ClassVar[str] = "yes/no"
    json_type: ClassVar[str] = "true or false, or 1 or 0"
    json_types: ClassVar[tuple[type, ...]] = (bool, int, float)

    def read(self, column: LogColumn) -> StateValues:
        return StateValues(column.yes_no()[:, None])

    def read_cells(self, cells: Sequence[float | str | None]) -> StateValues:
        return StateValues(np.array(cells, dtype=np.float64)[:, None])

    def from_json(self, value: Cell) -> float | None:
        return float(value) if isinstance(value, int | float) and value in (0, 1) else None

    @property
    def choices(self) -> tuple[str, ...]:
        return ("no", "yes")

    def from_text(self, text: str) -> Cell:
        return {"no": False, "yes": True}.get(text, text)

    def describe_unit(self, column: str) -> str:
        return f"{column} (yes rather than no)"

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        return [VariableSetting("no", 0.0, (0.0,)), VariableSetting("yes", 1.0, (1.0,))]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        return f"yes at {100 * values.mean():.0f} % of decision points"

    @classmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        if summary.numbers is not None:
            return cls() if summary.numbers.size and np.isin(summary.numbers, (0, 1)).all() else None
        return cls() if summary.levels and all(level.lower() in (*YES, *NO) for level in summary.levels) else None


@dataclass(frozen=True)
class Category(VariableKind):
    """One 0/1 column for every level but the first, which is the reference."""

    name: ClassVar[str] = "category"
    takes: ClassVar[tuple[str, ...]] = ("levels",)
    json_type: ClassVar[str] = "one of its levels as text"
    json_types: ClassVar[tuple[type, ...]] = (str,)

    def check(self) -> None:
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels):
            raise ValueError("a category needs at least two different levels, for example levels = ['other', 'home']")

    def state_columns(self, variable: str) -> tuple[str, ...]:
        return tuple(f"{variable}={level}" for level in self.levels[1:])

    def read(self, column: LogColumn) -> StateValues:
        meaning = {level: float(code) for code, level in enumerate(self.levels)}
        remedy = f"declared levels are {list(self.levels)}: add it, or leave the cell empty (missing)"
        code = column.codes(meaning, self.levels, "'{}' was never declared", remedy)
        return StateValues(np.where(np.isnan(code)[:, None], np.nan, code[:, None] == np.arange(1, len(self.levels))))

    def from_json(self, value: Cell) -> str | None:
        return value if isinstance(value, str) and value in self.levels else None

    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.large_string()

    def describe(self) -> str:
        return f"{self.name}, compared with {self.levels[0]}"

    def describe_unit(self, column: str) -> str:
        variable, _, level = column.partition("=")
        return f"{variable} ({level} rather than {self.levels[0]})"

    def _shares(self, values: NDArray[np.float64]) -> list[float]:
        """How often each level was logged."""
        others = values.mean(axis=0)
        return [float(1 - others.sum()), *others.tolist()]

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        """Level by level, those that were logged: one column is 1 and all others 0, or all 0 for the reference."""
        one_hot = np.eye(len(self.levels))[:, 1:].tolist()
        logged = [code for code, share in enumerate(self._shares(values)) if share > 0]
        return [VariableSetting(self.levels[code], float(place), tuple(one_hot[code])) for place, code in enumerate(logged)]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        shares = zip(self.levels, self._shares(values), strict=True)
        return ", ".join(f"{level} {100 * share:.0f} %" for level, share in shares) + " of decision points"

    @classmethod
    def of_column(cls, column: LogColumn) -> Self:
        """With the levels that occur, in alphabetical order; those that differ in case alone are one."""
        texts, indices = column.distinct()
        used = [text for code, text in enumerate(texts) if (indices == code).any()]
        levels = sorted(join_cases(sorted(used)))
        if not 2 <= len(levels) <= MOST_LEVELS:
            problem = f"column '{column.name}' holds {len(levels)} different values where a category has 2 to {MOST_LEVELS}"
            remedy = "name its levels with Category(levels=(…)), or choose another kind"
            raise InputError(f"{problem}; {remedy}", column=column.name)
        return cls(levels=tuple(levels))

    @classmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        # Text that hardly repeats is a remark, not a category.
        levels = tuple(join_cases(summary.levels))
        if summary.numbers is None and 2 <= len(levels) <= min(MOST_LEVELS, summary.rows // 2):
            return cls(levels=levels)
        return None

    def draft(self, summary: ColumnSummary) -> list[str]:
        lines = [f"levels = [{', '.join(map(quote, self.levels))}] # the first is the reference"]
        others = [level for level in summary.levels if level not in self.levels]
        if others:
            lines.append(f"# Read as one with these, which differ in case alone: {', '.join(map(quote, others))}.")
        return lines


def join_cases(texts: Sequence[str]) -> list[str]:
    """Texts without those that differ from an earlier one in case alone.

    >>> join_cases(["home", "Work", "Home"])
    ['home', 'Work']
    """
    by_case: dict[str, str] = {}
    for text in texts:
        by_case.setdefault(text.lower(), text)
    return list(by_case.values())


KINDS: dict[str, type[VariableKind]] = {kind.name: kind for kind in (Number, Category, YesNo)}
"""The kinds by the names that the study file has for them."""


def recognize_kind(summary: ColumnSummary) -> VariableKind | None:
    """The kind that a column seems to be. Later ones are asked first: they are more special."""
    found = (kind.recognize(summary) for kind in reversed(KINDS.values()))
    return next((kind for kind in found if kind is not None), None)
