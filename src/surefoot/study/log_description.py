"""The meaning of the columns of the logs: the sections of `study.toml` that describe them, checked together."""

import codecs
import math
import re
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from surefoot.data.column_kinds import KINDS, Number, VariableKind
from surefoot.data.derived_states import DayBoundary, DerivedState, find_derived_state
from surefoot.data.log_columns import FileSettings, spell
from surefoot.errors import did_you_mean
from surefoot.reports.numbers import OutcomeUnit
from surefoot.screening.careless import Careless
from surefoot.screening.clock import Clock
from surefoot.screening.codes import Codes
from surefoot.screening.detectors import Detector, Role
from surefoot.screening.level_shifts import LevelShifts
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.screen import DETECTORS
from surefoot.screening.stuck import Stuck
from surefoot.screening.units import Units
from surefoot.study.collection_section import CollectionSection
from surefoot.study.toml_file import Count, Finite, KeyedError, Positive, Probability, Range, Section, Text, Words

LOGARITHM = re.compile(r"log\(\s*x\s*(?:([+-])\s*(\d+(?:\.\d*)?|\.\d+))?\s*\)")
Codings = tuple[str | int | float, ...]


class FileSection(Section):
    """How files of logs write things; only what differs from a plain CSV file."""

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Between columns; by default a comma, and a tab in .tsv."""
    header_rows: Count = 1
    """Rows before the first decision point; the first names the columns, the others are not read. Qualtrics writes 3."""
    ragged: bool = False
    """Whether rows may end early: the cells that they leave out are missing. Empty fields beyond the header are ignored."""
    decimal: Literal[".", ","] = "."
    """With a comma a point separates thousands (1.234,5)."""
    thousands: Literal[",", ".", " ", "'"] | None = None
    """Between thousands, such as "," for 1,234.5."""
    encoding: str = "utf-8"
    """Such as cp1252 (Windows) or utf-16."""
    time_format: str | None = None
    """As in strptime, such as "%d.%m.%Y %H:%M"; by default numbers or ISO 8601."""
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


class Columns(Section):
    """The columns with the participant, the time, the availability and the randomisation probability."""

    participant: str
    """The participant's id."""
    time: str
    """The time of the decision point."""
    available: str | None = None
    """Whether the participant could be treated; without it, always."""
    probability: str | None = None
    """The randomisation probability; without it, unknown."""
    probability_of: Literal["action taken", "sending"] = "action taken"
    """The event whose probability that column holds."""
    missing: Words = ()
    """Spellings of "missing" in addition to an empty cell, NA, NaN and null."""


class Scaling(Section):
    """The scale on which a method sees a state variable: (x − centre) / scale."""

    centre: Finite = 0.0
    """The value that becomes 0."""
    scale: Positive = 1.0
    """The distance from the centre that becomes 1."""


class StateVariable(Section):
    """One state variable; a category becomes a 0/1 column for every level but the first."""

    column: str = ""
    """Its column of the log; by default the name of the variable."""
    kind: str = "number"
    """One of `surefoot.data.column_kinds.KINDS`."""
    levels: Words = ()
    """Of a category, the first as reference."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings of a kind from outside the package."""
    missing: Codings = ()
    """Values of this column that stand for "missing", such as -99."""
    range: Range | None = None
    """Values outside count as missing."""
    unit: str = ""
    """Of the values, for the programmers of the app: the service's description of the API names it."""
    scaling: Annotated[Scaling | None, BeforeValidator(lambda value: None if value == "none" else value)] = None
    """`none`, or { centre = …, scale = … }."""
    use: Literal["critic", "policy", "both"] = "both"
    """Whether the critic, the policy or both see it."""
    device: Text | None = None
    """The device that measures it: the screen judges the columns of one device together."""
    derived: str = ""
    """Computed from the participant's own past instead of read from a column: one of
    `surefoot.data.derived_states.DERIVED_STATES`."""
    discount: Annotated[float, Field(gt=0, le=1)] | None = None
    """Of a derived state that forgets: the share of the past that is left after each decision point."""
    start: Finite | None = None
    """Of a derived state that is a mean: its value before the first outcome."""

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, name: str) -> str:
        return KINDS.find(name).name

    @model_validator(mode="after")
    def _settings_fit(self) -> Self:
        if self.derived and (self.column or self.kind != Number.name or self.range is not None):
            raise ValueError(f"'{self.derived}' is computed, not read: leave out column, kind and range")
        for name in self._memory_settings:
            if not self.derived:
                raise ValueError(f"{name} belongs to a derived state; write derived = 'dose' or another")
            if name not in find_derived_state(self.derived).__dataclass_fields__:
                raise ValueError(f"{name} does not belong to derived = '{self.derived}'")
        kind = KINDS.find(self.kind)
        given = {"levels": self.levels or None, "range": self.range, "scaling": self.scaling}
        for setting, value in given.items():
            if value is not None and setting not in kind.takes:
                others = " or ".join(f"'{name}'" for name in KINDS if setting in KINDS.find(name).takes)
                raise ValueError(f"'{setting}' belongs to kind = {others}, not to '{self.kind}'")
        known = [field.name for field in fields(kind)][len(fields(VariableKind)) :]
        for setting in self.settings:
            if setting not in known:
                near = did_you_mean(setting, known)
                raise ValueError(f"kind '{self.kind}' has no setting '{setting}'{near}; it has {known}")
        self.variable_kind.check()
        return self

    @property
    def _memory_settings(self) -> dict[str, float]:
        given = {"discount": self.discount, "start": self.start}
        return {name: value for name, value in given.items() if value is not None}

    @cached_property
    def derived_state(self) -> DerivedState:
        """The recursion that computes it."""
        return find_derived_state(self.derived)(**self._memory_settings)

    @cached_property
    def variable_kind(self) -> VariableKind:
        """The kind with its settings, which reads the column."""
        scaling = self.scaling or Scaling()
        return KINDS.find(self.kind)(self.levels, self.range, scaling.centre, scaling.scale, **self.settings)


class Actions(Section):
    """The actions; the first is "nothing"."""

    column: str = "action"
    """The column of the log that holds them."""
    names: Words = ("nothing", "send")
    """One name for every action."""
    values: tuple[str | int | float | bool, ...] | None = None
    """The code of each action in the log, in the order of the names."""
    probabilities: tuple[Probability, ...] | None = None
    """The design's probability of each action at an available decision point, where the log holds none."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
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


class OutcomeSection(Section):
    """The outcome, which the method optimises."""

    column: str = "outcome"
    """The column of the log that holds it."""
    missing: Codings = ()
    """Values of this column that stand for "missing", such as -99."""
    range: Range | None = None
    """Values outside count as missing; applied before everything else."""
    unit: str = ""
    """Of the values, for the programmers of the app."""
    winsorise: Range | None = None
    """Values outside are moved to the limit; applied before the transform."""
    transform: str = "none"
    """`none`, `sqrt`, `log(x)` or `log(x + c)`."""
    device: Text | None = None
    """The device that measures it: the screen judges the columns of one device together."""
    zero: Literal["real", "unknown"] = "unknown"
    """`real` where an outcome of 0 is behaviour: if zeros are rarer after an action, that is an effect of the action.
    `unknown` where it may also be a device that was not worn."""
    real_values: tuple[Finite, ...] = ()
    """The same as `zero = "real"` for other values that many outcomes share."""

    def is_real(self, value: float) -> bool:
        """Whether the study says that outcomes with this value are behaviour."""
        if value == 0 and self.zero == "real":
            return True
        return any(math.isclose(value, real, rel_tol=1e-5) for real in self.real_values)

    @field_validator("transform")
    @classmethod
    def _transform_is_known(cls, transform: str) -> str:
        if transform not in ("none", "sqrt") and LOGARITHM.fullmatch(transform.strip()) is None:
            raise ValueError(f"'{transform}' is not a transform; write 'none', 'sqrt', or 'log(x + 0.5)' with your number")
        return transform

    @property
    def offset(self) -> float | None:
        """c of log(x + c); None for another transform."""
        match = LOGARITHM.fullmatch(self.transform.strip())
        return None if match is None else float(f"{match[1] or '+'}{match[2] or '0'}")

    @property
    def limits(self) -> tuple[float, float] | None:
        """The lowest and highest possible outcome, winsorised and transformed; None where it has no limits.

        >>> OutcomeSection(range=(0, 400), winsorise=(4, 900), transform="sqrt").limits
        (2.0, 20.0)
        """
        given = [limits for limits in (self.range, self.winsorise) if limits is not None]
        if not given:
            return None
        low = max(limits[0] for limits in given)
        high = min(limits[1] for limits in given)
        if self.transform == "none":
            return low, high
        if self.offset is None:
            return math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))
        return (math.log(low + self.offset), math.log(high + self.offset)) if low + self.offset > 0 else None


class QuestionnaireSection(Section):
    """Items that are answered in one go."""

    items: Words
    """Columns, in the order in which the items are asked."""
    scores: Words = ()
    """State variables computed from the items; they become missing with them."""
    seconds: Text | None = None
    """The column with the time that answering took."""

    @model_validator(mode="after")
    def _has_items(self) -> Self:
        if len(self.items) < 2 or len(set(self.items)) < len(self.items):
            raise ValueError(f"items needs at least two different columns; got {list(self.items)}")
        return self


def _read_switch(section: Any) -> Any:
    """`on = false` makes a detector None; the other keys of its section are its parameters."""
    if not isinstance(section, dict) or "on" not in section:
        return section
    if not isinstance(section["on"], bool):
        raise ValueError(f"on must be true or false; got {section['on']!r}")
    return {name: value for name, value in section.items() if name != "on"} if section["on"] else None


def _check_detector(detector: "DetectorType | None") -> "DetectorType | None":
    if detector is not None:
        detector.check()
    return detector


DetectorType = TypeVar("DetectorType", bound=Detector)
Switched = Annotated[DetectorType | None, BeforeValidator(_read_switch), AfterValidator(_check_detector)]


class ScreenSection(Section):
    """`[screen]` with a section for every detector; without it only the service's updates screen."""

    on: bool = True
    """Whether values are screened."""
    columns: Words = ()
    """State columns and the outcome column that are screened; by default all that hold numbers."""
    outcome: bool = True
    """Whether flagged outcomes become missing; otherwise they are reported, and stay."""
    devices: Words = ()
    """Devices that `not_worn` judges; by default all that columns name."""
    clock: Switched[Clock] = Clock()
    codes: Switched[Codes] = Codes()
    not_worn: Switched[NotWorn] = NotWorn()
    stuck: Switched[Stuck] = Stuck()
    units: Switched[Units] = Units()
    careless: Switched[Careless] = Careless()
    level_shifts: Switched[LevelShifts] = LevelShifts()

    def detectors(self) -> tuple[Detector, ...]:
        """The detectors that are on, in the order in which they run."""
        detectors = (getattr(self, name) for name in DETECTORS)
        return tuple(detector for detector in detectors if detector is not None)

    @property
    def enrolment(self) -> str | None:
        """The column with the moment of enrolment."""
        return None if self.clock is None else self.clock.enrolment


class LogDescription(Section):
    """The meaning of the columns of the logs."""

    file: FileSection = FileSection()
    columns: Columns
    state: Annotated[dict[str, StateVariable], Field(min_length=1)]
    actions: Actions = Actions()
    outcome: OutcomeSection = OutcomeSection()
    collection: CollectionSection = CollectionSection()
    """How the actions in the logs were chosen."""
    screen: ScreenSection | None = None
    """Which values are marked missing before anything is fitted; none without the section."""
    questionnaire: dict[str, QuestionnaireSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _columns_agree(self) -> Self:
        named = (self.columns.participant, self.columns.time, self.columns.available, self.columns.probability)
        roles = [column for column in (*named, self.actions.column, self.outcome.column) if column is not None]
        twice = [column for column in roles if roles.count(column) > 1]
        if twice:
            raise ValueError(f"column '{twice[0]}' is named twice; every role needs a column of its own")
        for name, variable in self.state.items():
            column = variable.column or name
            if column in (self.outcome.column, self.actions.column):
                role = "outcome" if column == self.outcome.column else "action"
                reason = f"its column is the {role}, which is known only after the decision"
                remedy = "a state holds what was known before it, so leave this variable out"
                raise KeyedError(("state", name), f"{reason}; {remedy}")
        for name in self.state_names:
            if name in roles:
                raise ValueError(f"state variable '{name}' has the name of another role's column; give it another name")
        if len(set(self.state_names)) < len(self.state_names):
            raise ValueError("two state variables have the same name")
        if self.columns.probability is not None and self.actions.probabilities is not None:
            raise ValueError("columns.probability and actions.probabilities both say the probability; keep one")
        if self.columns.probability_of == "sending" and len(self.actions.names) > 2:
            reason = "'sending' says nothing about which of several actions was sent"
            raise KeyedError(("columns", "probability_of"), f"{reason}; log the probability of the action taken")
        return self

    @model_validator(mode="after")
    def _screen_agrees(self) -> Self:
        measured = {name: variable for name, variable in self.state.items() if variable.variable_kind.is_measured}
        for name, questionnaire in self.questionnaire.items():
            for score in questionnaire.scores:
                if score not in measured:
                    near = did_you_mean(score, self.state)
                    key = ("questionnaire", name, "scores")
                    raise KeyedError(key, f"there is no number state variable '{score}'{near}")
        if self.screen is not None:
            self._check_screen(self.screen, measured)
        return self

    def _check_screen(self, screen: ScreenSection, measured: dict[str, StateVariable]) -> None:
        known = [*(variable.column or name for name, variable in measured.items()), self.outcome.column]
        for column in screen.columns:
            if column not in known:
                near = did_you_mean(column, known)
                raise KeyedError(
                    ("screen", "columns"), f"there is no number column '{column}'{near} in the study; it has {known}"
                )
        named = (*(variable.device for variable in measured.values()), self.outcome.device)
        devices = [device for device in named if device is not None]
        for device in screen.devices:
            if device not in devices:
                near = did_you_mean(device, devices)
                remedy = f"write device = '{device}' where a number column or the outcome comes from it, or leave it out"
                raise KeyedError(("screen", "devices"), f"no column comes from device '{device}'{near}; {remedy}")
        for name, variable in self.state.items():
            if variable.device is not None and variable.device not in devices:
                reason = f"device '{variable.device}' has nothing to judge: '{name}' is {variable.kind}"
                remedy = "name the device of a number column, or leave it out"
                raise KeyedError(("state", name, "device"), f"{reason}; {remedy}")

    def extra_columns(self) -> dict[str, Role]:
        """Columns that only the screen needs, with their roles: items outside the state, answering times, enrolment."""
        if self.screen is None or not self.screen.on:
            return {}
        known = {variable.column or name for name, variable in self.state.items()} | {self.outcome.column}
        wanted: dict[str, Role] = {}
        for questionnaire in self.questionnaire.values():
            wanted |= {item: "item" for item in questionnaire.items if item not in known}
            if questionnaire.seconds is not None:
                wanted[questionnaire.seconds] = "seconds"
        enrolment = self.screen.enrolment
        return wanted if enrolment is None else {**wanted, enrolment: "enrolment"}

    def with_screen(self) -> Self:
        """The same study, screened: by the detectors of its `[screen]`, or by all where it has none."""
        chosen = (self.screen or ScreenSection()).model_copy(update={"on": True})
        return self.model_copy(update={"screen": chosen})

    @cached_property
    def state_kinds(self) -> dict[str, tuple[str, VariableKind]]:
        """For every state variable that is read its column in the log and its kind."""
        return {
            name: (variable.column or name, variable.variable_kind)
            for name, variable in self.state.items()
            if not variable.derived
        }

    @cached_property
    def derived_states(self) -> dict[str, DerivedState]:
        """The state variables that are computed from the past."""
        return {name: variable.derived_state for name, variable in self.state.items() if variable.derived}

    @property
    def days(self) -> DayBoundary:
        """Where a day of the logs ends; None where the study does not say."""
        return None

    @cached_property
    def read_names(self) -> tuple[str, ...]:
        """The state's columns that are read from the log."""
        return tuple(column for name in self.state_kinds for column in self.state_columns[name])

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """The state's columns after categories became 0/1 columns, `location=home` and so on."""
        return tuple(column for columns in self.state_columns.values() for column in columns)

    @cached_property
    def state_columns(self) -> dict[str, tuple[str, ...]]:
        """The state's columns that each state variable becomes."""
        return {name: variable.variable_kind.state_columns(name) for name, variable in self.state.items()}

    @property
    def variable_kinds(self) -> dict[str, VariableKind]:
        """The kind of every state variable, read or derived."""
        return {name: variable.variable_kind for name, variable in self.state.items()}

    @property
    def outcome_unit(self) -> OutcomeUnit:
        """The unit of the fitted outcome."""
        return OutcomeUnit(self.outcome.column, self.outcome.transform)

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """Centre and scale of every column of the state with a scaling."""
        return {
            column: (variable.scaling.centre, variable.scaling.scale)
            for name, variable in self.state.items()
            if variable.scaling is not None
            for column in self.state_columns[name]
        }

    @property
    def descriptions(self) -> dict[str, str]:
        """Every column of the state in words."""
        return {
            column: f"derived: {variable.derived}" if variable.derived else variable.variable_kind.describe()
            for name, variable in self.state.items()
            for column in self.state_columns[name]
        }
