"""Kinds of state variables: a kind reads a column or a JSON value, describes itself, and recognises itself in a log.

A new kind is one class under `@register_kind`, also from outside the package: the study file, `surefoot init`, the screen,
fits, explanations and the service then know it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from surefoot.data import log_columns
from surefoot.errors import InputError
from surefoot.registry import Registry

Cell = float | int | bool | str | None
MOST_LEVELS = 12
GRID_POINTS = 15
"""Points along a number, from its 5 % to its 95 % quantile."""
FEW_VALUES = 3
"""A number with no more distinct values is set to each of them."""


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """A column at first sight, for drafting a study: its numbers if it holds numbers, else its distinct texts."""

    name: str
    rows: int
    missing: int
    numbers: NDArray[np.float64] | None
    """Its finite numbers; None for a column of anything else."""
    levels: list[str]
    """Its texts, the most frequent first; empty for numbers and for other types."""

    @classmethod
    def of(cls, name: str, cells: pa.Array, settings: log_columns.FileSettings = log_columns.PLAIN) -> "ColumnSummary":
        settled = log_columns.settle_missing(cells, log_columns.MISSING)
        cells = log_columns.LogColumn(name, settled, settings=settings).plain_numbers()
        is_text = cells.type in log_columns.TEXT_TYPES and cells.null_count < len(cells)
        if is_text and log_columns.first_failure(cells, pa.float64()) is None:
            cells = cells.cast(pa.float64())
        numbers = None
        levels: list[str] = []
        if log_columns.is_number(cells.type):
            values = cells.cast(pa.float64(), safe=False).drop_null().to_numpy(zero_copy_only=False)
            numbers = values[np.isfinite(values)] / (100 if name in settings.percent else 1)
        elif cells.type in log_columns.TEXT_TYPES or pa.types.is_boolean(cells.type):
            texts, indices = log_columns.LogColumn(name, cells).distinct()
            counts = np.bincount(indices[indices >= 0], minlength=len(texts))
            levels = [texts[code] for code in np.argsort(-counts, kind="stable") if counts[code]]
        return cls(name, len(cells), cells.null_count, numbers, levels)

    def without(self, codes: Sequence[float]) -> "ColumnSummary":
        """The same column with some numbers counted as missing."""
        if self.numbers is None or not codes:
            return self
        numbers = self.numbers[~np.isin(self.numbers, codes)]
        return replace(self, numbers=numbers, missing=self.missing + len(self.numbers) - len(numbers))

    @property
    def is_constant(self) -> bool:
        """Whether it has fewer than two distinct values."""
        if self.numbers is None:
            return len(self.levels) < 2
        return self.numbers.size == 0 or bool(self.numbers.min() == self.numbers.max())

    def shape(self) -> tuple[float, float, float]:
        """Mean, standard deviation and skewness; not finite if the values are too large or all the same."""
        values = np.empty(0) if self.numbers is None else self.numbers
        with np.errstate(all="ignore"):
            mean = values.mean()
            deviation = values.std()
            return float(mean), float(deviation), float(np.mean(((values - mean) / deviation) ** 3))


class StateValues(NamedTuple):
    """The values of a state variable."""

    values: NDArray[np.float64]
    """(rows, state columns), NaN where missing."""
    implausible: NDArray[np.bool_] | None = None
    """Rows whose value was outside the plausible range and counts as missing; None without a range."""


class VariableSetting(NamedTuple):
    """A value to which a state variable is set, to see what a policy then does."""

    label: str
    """Its name; empty for a point on an axis of numbers."""
    shown: float
    """Its position on the axis, in the variable's own unit."""
    columns: tuple[float, ...]
    """The values of the state's columns."""


@dataclass(frozen=True)
class VariableKind(ABC):
    """A kind of state variable with its settings.

    `levels`, `range` and `scaling` are keys of the study file; further fields of a subclass go under its key `settings`.
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ()
    """Which of `levels`, `range` and `scaling` it takes."""
    is_measured: ClassVar[bool] = False
    """Whether it is a measurement in one column, which the screen can judge."""
    json_type: ClassVar[str]
    """How a context spells it, in words."""
    json_types: ClassVar[tuple[type, ...]] = (int, float)
    """The types of such values; a value of another type is a mistake of the client, not an implausible measurement."""

    levels: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    centre: float = 0.0
    scale: float = 1.0

    def check(self) -> None:  # noqa: B027 - most kinds have nothing to check
        """Raise ValueError if the settings do not make sense together."""

    def state_columns(self, variable: str) -> tuple[str, ...]:
        """The names of the columns that the variable becomes."""
        return (variable,)

    @abstractmethod
    def read(self, column: log_columns.LogColumn) -> StateValues:
        """Numbers from a column of a log; cells that cannot be read are reported to the column's problems."""

    @abstractmethod
    def from_json(self, value: Cell) -> float | str | None:
        """A value of a context as a cell that `read` understands; None if it is not of this kind."""

    def read_cells(self, cells: Sequence[float | str | None]) -> StateValues:
        """`read` for cells from `from_json`; kinds of numbers do it without Arrow."""
        return self.read(log_columns.LogColumn(self.name, pa.array(cells)))

    def write_cells(self, values: NDArray[np.float64]) -> list[Cell]:
        """The inverse of `read` for values (rows, columns) that are not scaled; None where they are missing."""
        if values.shape[1] != 1:
            raise InputError(f"the kind '{self.name}' does not say how its {values.shape[1]} columns are written to a file")
        return [None if np.isnan(value) else value for value in values[:, 0].tolist()]

    @property
    def choices(self) -> tuple[str, ...]:
        """The options of a form; empty for a field of text."""
        return self.levels

    def from_text(self, text: str) -> Cell:
        """The text of a form as a context spells it; the text itself if it is not of this kind."""
        return text

    def describe(self) -> str:
        """The variable in words."""
        return self.name

    def describe_unit(self, column: str) -> str:
        """One unit of one of its state columns in words."""
        return f"1 more of {column}"

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        """Values to which the variable is set, given the logged values (rows, columns).

        By default evenly spaced logged values, so that no combination of columns is invented.
        """
        distinct = np.unique(values, axis=0)
        positions = np.unique(np.linspace(0, len(distinct) - 1, min(len(distinct), GRID_POINTS)).round().astype(int))
        return [
            VariableSetting(", ".join(f"{value:.6g}" for value in row), float(position), tuple(row))
            for position, row in enumerate(distinct[positions].tolist())
        ]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        """The logged values (rows, columns) in words."""
        return f"{len(np.unique(values, axis=0))} different values were logged"

    @classmethod
    def of_column(cls, column: log_columns.LogColumn) -> Self:
        """The kind with the settings that reading the column needs."""
        return cls()

    @classmethod
    @abstractmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        """The kind with the settings that the column suggests; None if it does not look like one."""

    def draft(self, summary: ColumnSummary) -> list[str]:
        """Further lines of the variable's section in a first study file."""
        return []


LARGEST_PLAUSIBLE = 1e9
"""What a client sends beyond it, of a variable or an outcome without a range, is no measurement of a person."""
KINDS: Registry[type[VariableKind]] = Registry("kind")
"""Kinds by their names in the study file; those registered later are recognised first, because they are more special."""
register_kind = KINDS.register


@register_kind
@dataclass(frozen=True)
class Number(VariableKind):
    """A number, with a plausible range and a scaling."""

    name: ClassVar[str] = "number"
    takes: ClassVar[tuple[str, ...]] = ("range", "scaling")
    is_measured: ClassVar[bool] = True
    json_type: ClassVar[str] = "a number"

    def read(self, column: log_columns.LogColumn) -> StateValues:
        return self.read_cells(column.numbers())

    def read_cells(self, cells: Sequence[float | str | None] | NDArray[np.float64]) -> StateValues:
        values = np.asarray(cells, dtype=np.float64)
        outside = None
        if self.range is not None:
            outside = (values < self.range[0]) | (values > self.range[1])
            values = np.where(outside, np.nan, values)
        if (self.centre, self.scale) != (0.0, 1.0):
            values = (values - self.centre) / self.scale
        return StateValues(values[:, None], outside)

    def from_json(self, value: Cell) -> float | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return float(value) if self.range is not None or abs(value) <= LARGEST_PLAUSIBLE else None

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
        points = np.unique(values)
        few = len(points) <= FEW_VALUES
        if not few:
            low, high = np.quantile(values, (0.05, 0.95))
            points = np.linspace(low, high, GRID_POINTS)
        shown = [(self.centre + self.scale * value, value) for value in points.tolist()]
        return [VariableSetting(f"{number:.6g}" if few else "", number, (value,)) for number, value in shown]

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


@register_kind
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

    def read(self, column: log_columns.LogColumn) -> StateValues:
        meaning = {level: float(code) for code, level in enumerate(self.levels)}
        remedy = f"declared levels are {list(self.levels)}: add it, or leave the cell empty (missing)"
        code = column.codes(meaning, self.levels, "'{}' was never declared", remedy)
        return StateValues(np.where(np.isnan(code)[:, None], np.nan, code[:, None] == np.arange(1, len(self.levels))))

    def write_cells(self, values: NDArray[np.float64]) -> list[Cell]:
        codes = np.where(values.any(axis=1), values.argmax(axis=1) + 1, 0)
        missing = np.asarray(np.isnan(values).any(axis=1))
        return [None if is_missing else self.levels[code] for code, is_missing in zip(codes, missing.tolist(), strict=True)]

    def from_json(self, value: Cell) -> str | None:
        return value if isinstance(value, str) and value in self.levels else None

    def describe(self) -> str:
        return f"{self.name}, compared with {self.levels[0]}"

    def describe_unit(self, column: str) -> str:
        variable, _, level = column.partition("=")
        return f"{variable} ({level} rather than {self.levels[0]})"

    def list_settings(self, values: NDArray[np.float64]) -> list[VariableSetting]:
        """The logged levels: one column is 1 and all others 0, or all 0 for the reference."""
        logged = np.append(not values.any(axis=1).all(), values.any(axis=0))
        codes = enumerate(np.flatnonzero(logged).tolist())
        one_hot = np.eye(len(self.levels))[:, 1:].tolist()
        return [VariableSetting(self.levels[code], float(position), tuple(one_hot[code])) for position, code in codes]

    def describe_values(self, values: NDArray[np.float64]) -> str:
        others = values.mean(axis=0)
        shares = zip(self.levels, (1 - others.sum(), *others), strict=True)
        return ", ".join(f"{level} {100 * share:.0f} %" for level, share in shares) + " of decision points"

    @classmethod
    def of_column(cls, column: log_columns.LogColumn) -> Self:
        """With the levels that occur, in alphabetical order; those that differ in case alone are one."""
        texts, indices = column.distinct()
        levels = sorted(join_cases(sorted(texts[code] for code in np.unique(indices[indices >= 0]))))
        if not 2 <= len(levels) <= MOST_LEVELS:
            problem = f"column '{column.name}' holds {len(levels)} different values where a category has 2 to {MOST_LEVELS}"
            remedy = "name its levels with Category(levels=(…)), or choose another kind"
            raise InputError(f"{problem}; {remedy}", column=column.name)
        return cls(levels=tuple(levels))

    @classmethod
    def recognize(cls, summary: ColumnSummary) -> Self | None:
        # Text that hardly repeats is a remark, not a category.
        levels = tuple(join_cases(summary.levels))
        is_category = summary.numbers is None and 2 <= len(levels) <= min(MOST_LEVELS, summary.rows // 2)
        return cls(levels=levels) if is_category else None

    def draft(self, summary: ColumnSummary) -> list[str]:
        lines = [f"levels = [{', '.join(map(quote, self.levels))}] # the first is the reference"]
        others = [level for level in summary.levels if level not in self.levels]
        if others:
            lines.append(f"# Read as one with these, which differ in case alone: {', '.join(map(quote, others))}.")
        return lines


@register_kind
@dataclass(frozen=True)
class YesNo(VariableKind):
    """1 for yes, 0 for no."""

    name: ClassVar[str] = "yes/no"
    json_type: ClassVar[str] = "true or false, or 1 or 0"
    json_types: ClassVar[tuple[type, ...]] = (bool, int, float)

    def read(self, column: log_columns.LogColumn) -> StateValues:
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
        words = {level.lower() for level in summary.levels}
        return cls() if words and words <= {*log_columns.YES, *log_columns.NO} else None


def recognize_kind(summary: ColumnSummary) -> VariableKind | None:
    """The kind that a column seems to be."""
    kinds = (KINDS.find(name).recognize(summary) for name in reversed(list(KINDS)))
    return next((kind for kind in kinds if kind is not None), None)


def join_cases(texts: Sequence[str]) -> list[str]:
    """Texts without those that differ from an earlier one in case alone.

    >>> join_cases(["home", "Work", "Home"])
    ['home', 'Work']
    """
    by_case: dict[str, str] = {}
    for text in texts:
        by_case.setdefault(text.lower(), text)
    return list(by_case.values())


def quote(text: str) -> str:
    """A text as TOML writes it: JSON's strings are TOML's basic strings."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
