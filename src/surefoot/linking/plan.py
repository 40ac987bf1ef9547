"""`link.toml`: where the files are, what their columns mean, and the windows of every state and outcome."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from surefoot.data.derived_states import CLOCK
from surefoot.errors import did_you_mean
from surefoot.study.toml_file import KeyedError, Probability, Section, Text, Words, parse_toml, read_text

FeatureName = Literal["sum", "mean", "last", "count", "minutes since", "share covered"]
WITHOUT_COLUMN = ("count", "minutes since", "share covered")
PREVIOUS = "previous decision"
NEXT = "next decision"


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"'{name}' is not a time zone; write an IANA name such as 'Europe/Zurich' or 'UTC'") from None
    return name


def _check_clock(text: str) -> str:
    if not CLOCK.fullmatch(text):
        raise ValueError(f"'{text}' is not a clock time; write for example '07:00'")
    return text


def _list_streams(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Zone = Annotated[Text, AfterValidator(_check_zone)]
ClockTime = Annotated[str, AfterValidator(_check_clock)]
Streams = Annotated[Words, BeforeValidator(_list_streams), Field(min_length=1)]
Minutes = Annotated[float, Field(gt=0, le=527_040)]


class TimesSection(Section):
    """Columns that say who and when, and how times are written."""

    participant: Text = "participant"
    time: Text = "time"
    """ISO 8601, with an offset (`+02:00`, `Z`) or as a local wall clock shows it."""
    time_format: Text | None = None
    """Of times that are not ISO 8601, such as `%m/%d/%Y %H:%M`."""
    time_unit: Literal["s", "ms", "us"] | None = None
    """Of times that count from 1970 in UTC."""
    zone: Zone | None = None
    """Of local times; the same for everybody."""
    zone_column: Text | None = None
    """The column with the IANA name of each row's zone: people live in several zones, or travel."""

    @model_validator(mode="after")
    def _has_one_zone(self) -> Self:
        if self.zone is not None and self.zone_column is not None:
            raise ValueError("zone and zone_column exclude each other; keep one of them")
        return self


class DecisionsSection(TimesSection):
    """`[decisions]`: the log of decision points. All its columns are kept."""

    fold: Literal["first", "second"] | None = None
    """Which one is meant by a local time in the hour that comes twice in autumn; without it such a time is an error."""
    expected: tuple[ClockTime, ...] = ()
    """Local clock times of the decision points of every day; those without a record are listed."""
    tolerance_minutes: Minutes = 60
    """A record this close to an expected time counts as its record."""


class StreamSection(TimesSection):
    """`[streams.NAME]`: a file of sensor or survey rows."""

    file: Text | None = None
    """Path, from the folder of the plan: .csv, .tsv, .parquet or a folder of .parquet. `--stream` can name another."""
    profile: Text | None = None
    """The platform whose export the file is."""
    table: Text | None = None
    """The table of an export that has several."""
    row_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Each row is about this many minutes, which begin at its time. Without it a row is an event at a moment."""
    worn: Text | None = None
    """A column that is true, or a number above 0 such as a heart rate, in minutes in which the device was worn."""
    ends: Text | None = None
    """When what a row is about ended, such as `endDate`: a window uses the rows that lie in it whole."""
    received: Text | None = None
    """When the row arrived: a state uses only rows that had arrived by the decision."""
    fold: Literal["missing", "first", "second"] = "missing"
    """Local times in the hour that comes twice in autumn: left out and counted, or taken as the first or the second."""
    repeats: Literal["missing", "largest", "smallest", "mean"] = "missing"
    """The value where rows about the same minutes contradict each other."""

    @model_validator(mode="after")
    def _has_one_length(self) -> Self:
        if self.row_minutes is not None and self.ends is not None:
            raise ValueError("row_minutes and ends exclude each other; keep one of them")
        return self


class FeatureSection(Section):
    """A number computed from the rows of a window."""

    is_state: ClassVar[bool]
    stream: Streams
    """Name of a stream, or of several: where two have the same minute, the first that was worn and has a value wins."""
    column: Text | None = None
    feature: FeatureName
    minutes: Minutes | None = None
    """Length of a window that ends (state) or begins (outcome) at the decision."""
    clock: tuple[ClockTime, ClockTime] | None = None
    """Two clock times: the last such window that ended by the decision (state), or the next one (outcome)."""
    at_least: Probability = 0.0
    """The value is missing if less than this share of the window has data (and was worn)."""
    partial: Literal["as is", "scaled"] = "as is"
    """What becomes of a sum over a window with gaps; `scaled` multiplies it by window / minutes with data."""

    @property
    def edge(self) -> str | None:
        """`previous decision`, `next decision`, or the clock time of the window's other end."""
        return None

    @model_validator(mode="after")
    def _has_a_window(self) -> Self:
        edge_name = "since" if self.is_state else "until"
        if [self.minutes, self.clock, self.edge].count(None) != 2:
            raise ValueError(f"needs one window: minutes, {edge_name} or clock; write one of them")
        if self.column is None and self.feature not in WITHOUT_COLUMN:
            raise ValueError(f"the feature '{self.feature}' needs the column that it is computed from; write column = …")
        return self


class StateSection(FeatureSection):
    """`[states.NAME]`: known when it is decided. No key lets the window reach beyond the decision."""

    is_state: ClassVar[bool] = True
    since: Literal["previous decision"] | ClockTime | None = None
    """The window begins at the previous decision, or at this clock time, and ends at the decision."""

    @property
    def edge(self) -> str | None:
        return self.since


class OutcomeSection(FeatureSection):
    """`[outcomes.NAME]`: from the decision on."""

    is_state: ClassVar[bool] = False
    until: Literal["next decision"] | ClockTime | None = None
    """The window begins at the decision and ends at the next one, or at this clock time."""

    @property
    def edge(self) -> str | None:
        return self.until


class LinkPlan(Section):
    """The plan of `surefoot link`.

    Attributes
    ----------
    decisions
        The log of decision points.
    streams
        Files of raw rows, by name.
    states
        What is known when it is decided, by name.
    outcomes
        What comes after it, by name.

    Examples
    --------
    >>> plan = LinkPlan.parse('''
    ... [decisions]
    ... zone = "Europe/Zurich"
    ... [streams.steps]
    ... row_minutes = 1
    ... [states.steps_before]
    ... stream = "steps"
    ... column = "steps"
    ... feature = "sum"
    ... minutes = 60
    ... ''')
    >>> plan.features["steps_before"].minutes
    60.0
    """

    _noun: ClassVar[str] = "plan"
    decisions: DecisionsSection = DecisionsSection()
    streams: dict[Text, StreamSection]
    states: dict[Text, StateSection] = Field(default_factory=dict)
    outcomes: dict[Text, OutcomeSection] = Field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file."""
        path = Path(path)
        return cls.parse(read_text(path, remedy="`surefoot link init DECISIONS --stream FILE` writes one"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "link.toml") -> Self:
        """Read a text; `name` is what messages call it."""
        return parse_toml(cls, text, name)

    @cached_property
    def features(self) -> dict[str, FeatureSection]:
        """States and outcomes by name."""
        return {**self.states, **self.outcomes}

    def columns_of(self, stream: str) -> list[str]:
        """The columns of a stream that hold values of features."""
        columns = [feature.column for feature in self.features.values() if stream in feature.stream]
        return sorted({column for column in columns if column is not None})

    def row_minutes_of(self, feature: FeatureSection) -> int | None:
        """Minutes of a row of the feature's streams; None for events."""
        return self.streams[feature.stream[0]].row_minutes

    @model_validator(mode="after")
    def _names_what_there_is(self) -> Self:
        if not self.features:
            raise ValueError("has neither [states.NAME] nor [outcomes.NAME]; write at least one of them")
        for name in self.states.keys() & self.outcomes.keys():
            raise KeyedError(("outcomes", name), "a state has this name already; choose another")
        for section, features in (("states", self.states), ("outcomes", self.outcomes)):
            for name, feature in features.items():
                self._check_feature((section, name), feature)
        return self

    def _check_feature(self, key: tuple[str, str], feature: FeatureSection) -> None:
        for stream in feature.stream:
            if stream not in self.streams:
                words = f"there is no [streams.{stream}]{did_you_mean(stream, self.streams)}; it has {list(self.streams)}"
                raise KeyedError((*key, "stream"), words)
        lengths = {self.streams[stream].row_minutes for stream in feature.stream}
        if len(lengths) > 1:
            raise KeyedError((*key, "stream"), "streams that complete each other need the same row_minutes")
        if lengths == {None}:
            for name, usual in (("at_least", 0.0), ("partial", "as is")):
                if getattr(feature, name) != usual:
                    words = "only rows about minutes cover a window; write row_minutes in the stream, or leave it out"
                    raise KeyedError((*key, name), words)
            if feature.feature == "share covered":
                raise KeyedError((*key, "feature"), "events cover no minutes; write row_minutes in the stream")
        if feature.feature == "minutes since" and not feature.is_state:
            raise KeyedError((*key, "feature"), "'minutes since' looks back from the decision; write it in [states.NAME]")
        if feature.partial == "scaled" and feature.feature != "sum":
            raise KeyedError((*key, "partial"), f"only a sum can be scaled, not '{feature.feature}'; leave it out")
