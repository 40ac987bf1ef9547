"""The sections of `study.toml` that say what the columns of the logs mean."""

from __future__ import annotations

import codecs
import math
import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from surefoot.data.column_kinds import KINDS, VariableKind
from surefoot.data.derived_states import DerivedState, find_derived_state
from surefoot.data.file_settings import FileSettings
from surefoot.data.log_columns import spell
from surefoot.errors import did_you_mean
from surefoot.study.toml_types import Finite, Probability, Range, Section, Words

LOGARITHM = re.compile(r"log\(\s*x\s*(?:([+-])\s*(\d+(?:\.\d*)?|\.\d+))?\s*\)")


Device = Annotated[str, Field(min_length=1)] | None


class Columns(Section):
    """Which columns say who and when, whether the participant could be treated, and with which probability.

    Attributes
    ----------
    participant
        Who.
    time
        When.
    available
        Whether the participant could be treated; without one, always.
    probability
        With which probability; without one, unknown.
    probability_of
        What that column is the probability of.
    missing
        Spellings of "missing" in addition to an empty cell, NA, NaN and null.
    """

    participant: str
    time: str
    available: str | None = None
    probability: str | None = None
    probability_of: Literal["action taken", "sending"] = "action taken"
    missing: Words = ()


class Scaling(Section):
    """(x − centre) / scale.

    Attributes
    ----------
    centre
        What becomes 0.
    scale
        What becomes 1, counted from there.
    """

    centre: Finite = 0.0
    scale: Annotated[Finite, Field(gt=0)] = 1.0


class StateVariable(Section):
    """One state variable; a category becomes a 0/1 column for every level but the first.

    Attributes
    ----------
    column
        The name of the variable unless given.
    kind
        One of `surefoot.data.column_kinds.KINDS`.
    levels
        Of a category, the first as reference.
    missing
        What stands for "missing" in this column, such as -99.
    range
        Values outside count as missing.
    scaling
        `none`, or { centre = …, scale = … }.
    use
        Whether the critic, the policy or both see it.
    device
        What measures it: the screen judges the columns of one device together.
    derived
        Computed from the participant's own past instead of read from a column: one of
        `surefoot.data.derived_states.DERIVED_STATES`.
    discount
        Of a derived state that forgets: how much of the past is left after each decision point.
    start
        Of a derived state that is a mean: its value before anything is known.
    """

    column: str = ""
    kind: str = "number"
    levels: Words = ()
    missing: tuple[str | int | float, ...] = ()
    range: Range | None = None
    scaling: Annotated[Scaling | None, BeforeValidator(lambda value: None if value == "none" else value)] = None
    use: Literal["critic", "policy", "both"] = "both"
    device: Device = None
    derived: str = ""
    discount: Annotated[float, Field(gt=0, le=1)] | None = None
    start: Finite | None = None

    @model_validator(mode="after")
    def _derivation_fits(self) -> StateVariable:
        given = {"discount": self.discount, "start": self.start}
        if not self.derived:
            wrong = [name for name, value in given.items() if value is not None]
            if wrong:
                raise ValueError(f"{wrong[0]} belongs to a derived state; write derived = 'dose' or another")
            return self
        kind = find_derived_state(self.derived)
        if self.column or self.kind != "number" or self.range is not None:
            raise ValueError(f"'{self.derived}' is computed, not read: leave out column, kind and range")
        for name, value in given.items():
            if value is not None and name not in kind.__dataclass_fields__:
                raise ValueError(f"{name} does not belong to derived = '{self.derived}'")
        return self

    @property
    def derived_state(self) -> DerivedState:
        """What computes it, with its settings."""
        given = {"discount": self.discount, "start": self.start}
        return find_derived_state(self.derived)(**{name: value for name, value in given.items() if value is not None})

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, name: str) -> str:
        if name not in KINDS:
            raise ValueError(f"there is no kind '{name}'{did_you_mean(name, KINDS)}; choose from {list(KINDS)}")
        return name

    @model_validator(mode="after")
    def _settings_fit(self) -> StateVariable:
        given = {"levels": bool(self.levels), "range": self.range is not None, "scaling": self.scaling is not None}
        for setting in [name for name, is_given in given.items() if is_given]:
            if setting not in KINDS[self.kind].takes:
                others = " or ".join(f"'{name}'" for name, kind in KINDS.items() if setting in kind.takes)
                raise ValueError(f"'{setting}' belongs to kind = {others}, not to '{self.kind}'")
        self.variable_kind.check()
        return self

    @property
    def variable_kind(self) -> VariableKind:
        """The kind with its settings: what reads the column."""
        scaling = self.scaling or Scaling()
        return KINDS[self.kind](self.levels, self.range, scaling.centre, scaling.scale)


class Actions(Section):
    """What can be sent; the first is "nothing".

    Attributes
    ----------
    column
        The column of the log that holds it.
    names
        One name for every action.
    values
        What stands for each action in the log, in the order of the names.
    probabilities
        The design's probability of each action at an available decision point, where the log holds none.
    """

    column: str = "action"
    names: Words = ("nothing", "send")
    values: tuple[str | int | float | bool, ...] | None = None
    probabilities: tuple[Probability, ...] | None = None

    @model_validator(mode="after")
    def _lengths_fit(self) -> Actions:
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError("names must be at least two different names, the first of which means 'nothing'")
        for name, given in (("values", self.values), ("probabilities", self.probabilities)):
            if given is not None and len(given) != len(self.names):
                raise ValueError(f"{name} must hold one entry for each of the {len(self.names)} actions; got {len(given)}")
        if self.values is not None and len(set(self.texts or ())) < len(self.values):
            raise ValueError("values must differ from each other")
        if self.probabilities is not None and abs(sum(self.probabilities) - 1) > 1e-9:
            raise ValueError(f"probabilities sum to {sum(self.probabilities):g}; they must sum to 1")
        return self

    @property
    def texts(self) -> tuple[str, ...] | None:
        """`values` as they read in a CSV file."""
        return None if self.values is None else tuple(map(spell, self.values))


class Reward(Section):
    """What is optimised.

    Attributes
    ----------
    column
        The column of the log that holds it.
    missing
        What stands for "missing" in this column, such as -99.
    range
        Values outside count as missing; looked at before anything else.
    winsorise
        Values outside are moved to the limit; done before the transform.
    transform
        `none`, `sqrt`, `log(x)` or `log(x + c)`.
    device
        What measures it: the screen judges the columns of one device together.
    zero
        `real` where an outcome of 0 is behaviour: if zeros are rarer after an action, that is an effect of the action.
        `unknown` where it may also be a device that was not worn.
    real_values
        The same as `zero = "real"` for other values that many outcomes share.
    """

    column: str = "reward"
    missing: tuple[str | int | float, ...] = ()
    range: Range | None = None
    winsorise: Range | None = None
    transform: str = "none"
    device: Device = None
    zero: Literal["real", "unknown"] = "unknown"
    real_values: tuple[Finite, ...] = ()

    def is_real(self, value: float) -> bool:
        """Whether the study says that outcomes with this value are behaviour."""
        if value == 0 and self.zero == "real":
            return True
        return any(math.isclose(value, real, rel_tol=1e-5) for real in self.real_values)

    @field_validator("transform")
    @classmethod
    def _transform_is_known(cls, transform: str) -> str:
        if transform not in ("none", "sqrt") and _offset(transform) is None:
            raise ValueError(f"'{transform}' is not a transform; write 'none', 'sqrt', or 'log(x + 0.5)' with your number")
        return transform

    @property
    def offset(self) -> float | None:
        """c of log(x + c); None for another transform."""
        return _offset(self.transform)


def _offset(transform: str) -> float | None:
    found = LOGARITHM.fullmatch(transform.strip())
    return None if found is None else float(f"{found[1] or '+'}{found[2] or '0'}")


class FileSection(Section):
    """How files of logs write things; only what differs from a plain CSV file."""

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Between columns; by default a comma, and a tab in .tsv."""
    header_rows: Annotated[int, Field(ge=1)] = 1
    """Rows before the first decision point; the first names the columns, the others are not read. Qualtrics writes 3."""
    ragged: bool = False
    """Whether rows may end early: what they leave out is missing. Empty fields beyond the header are ignored."""
    decimal: Literal[".", ","] = "."
    """With a comma a point separates thousands (1.234,5)."""
    thousands: Literal[",", ".", " ", "'"] | None = None
    """Between thousands, such as "," for 1,234.5."""
    encoding: str = "utf-8"
    """Such as cp1252 (Windows) or utf-16."""
    time_format: str | None = None
    """As strptime has it, such as "%d.%m.%Y %H:%M"; by default numbers or ISO 8601."""
    percent: Words = ()
    """Columns whose numbers are percentages, with or without the sign: they are divided by 100."""
    sheet: str | None = None
    """Of an Excel workbook; by default the first."""

    @field_validator("encoding")
    @classmethod
    def _encoding_is_known(cls, name: str) -> str:
        try:
            codecs.lookup(name)
        except LookupError as error:
            raise ValueError(f"there is no encoding '{name}'; write 'utf-8', 'cp1252' or 'utf-16'") from error
        return name

    @field_validator("time_format")
    @classmethod
    def _format_names_the_day(cls, layout: str | None) -> str | None:
        if layout is not None and not ("%d" in layout and re.search("%[mbB]", layout)):
            raise ValueError(f"'{layout}' does not say where day and month stand; write it like '%d.%m.%Y %H:%M'")
        return layout

    @property
    def settings(self) -> FileSettings:
        return FileSettings(**self.model_dump())
