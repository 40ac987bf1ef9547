"""Derived states: variables computed from a participant's own past, alike from logs, in simulations and in a trial.

Delayed effects need memory. Every derived state is a small recursion: it remembers a few numbers, gives its value at a
decision point from them, and takes in the action and the outcome when they are known. Arrays of any engine and plain
numbers go through the same lines.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.registry import Registry

Memory = tuple[Any, ...]
"""Numbers, or arrays of them, that a derived state carries from one decision point to the next."""
DayBoundary = int | str | None
"""Decision points a day, for times that count them; the clock time at which a day begins, for timestamps."""
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class DerivedState(ABC):
    """One derived state; the fields of a subclass are its parameters."""

    name: ClassVar[str]
    needs_days: ClassVar[bool] = False
    """Whether the study must say where a day ends."""
    follows_outcomes: ClassVar[bool] = False
    """Whether it depends on past outcomes."""

    def begin(self, zero: Any) -> Memory:
        """The memory before the first decision point, in the shape of `zero`."""
        return ()

    @abstractmethod
    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        """At a decision point; `time` and `day` count from the participant's first one."""

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        """After it: `sent` is 1.0 for an action other than 0, `known` 1.0 if the outcome is (else `outcome` is 0)."""
        return memory


DERIVED_STATES: Registry[type[DerivedState]] = Registry("derived state")
register_derived_state = DERIVED_STATES.register
find_derived_state = DERIVED_STATES.find


@register_derived_state
@dataclass(frozen=True)
class Dose(DerivedState):
    """The discounted count of prompts: d′ = λ d + 1{prompt}, 0 at first; λ is `discount`."""

    name: ClassVar[str] = "dose"
    discount: float = 0.95

    def begin(self, zero: Any) -> Memory:
        return (zero,)

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        return memory[0]

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        return (self.discount * memory[0] + sent,)


@register_derived_state
@dataclass(frozen=True)
class OutcomeMean(DerivedState):
    """The discounted mean of the known outcomes so far: m = (Σ λ^age · y) / (Σ λ^age).

    `start` counts as the first outcome; without it the mean is missing before the first known outcome.
    """

    name: ClassVar[str] = "outcome mean"
    follows_outcomes: ClassVar[bool] = True
    discount: float = 0.95
    start: float = nan

    def begin(self, zero: Any) -> Memory:
        given = 0.0 if isnan(self.start) else 1.0
        return (zero + (self.start if given else 0.0), zero + given)

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        total, weight = memory
        # 0 / 0 is missing, in arrays and in plain numbers alike.
        return total / weight if not isinstance(weight, float) or weight else nan

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        total, weight = memory
        return (self.discount * total + outcome * known, self.discount * weight + known)


@register_derived_state
@dataclass(frozen=True)
class TimeSincePrompt(DerivedState):
    """Time since the last prompt, in decision points, or in hours if times are timestamps; before the first prompt as if
    one had come just before the first decision point."""

    name: ClassVar[str] = "time since prompt"

    def begin(self, zero: Any) -> Memory:
        return (zero - 1.0,)

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        return time - memory[0]

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        return (sent * time + (1.0 - sent) * memory[0],)


@register_derived_state
@dataclass(frozen=True)
class DayInStudy(DerivedState):
    """Days since the participant's first decision point, 0 on the first day."""

    name: ClassVar[str] = "day in study"
    needs_days: ClassVar[bool] = True

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        return day


def derive_states(
    derived: Mapping[str, DerivedState],
    participant_index: NDArray[np.int64],
    time: NDArray[Any],
    action: NDArray[np.float64],
    outcome: NDArray[np.float64],
    day_boundary: DayBoundary,
) -> dict[str, NDArray[np.float64]]:
    """Every derived state at every row of logs, by name; a missing action counts as none.

    >>> states = derive_states({"dose": Dose(0.5)}, np.zeros(3, int), np.arange(3), np.ones(3), np.zeros(3), None)
    >>> states["dose"]
    array([0. , 1. , 1.5])
    """
    order = np.lexsort((time, participant_index))
    lengths = np.bincount(participant_index)
    starts = np.cumsum(lengths) - lengths
    first = order[starts][participant_index]  # Each row's first decision point of the same participant.
    moment = count_moments(time) / (3600.0 if time.dtype.kind == "M" else 1.0)
    elapsed = moment - moment[first]
    days = np.full(len(order), np.nan)
    if day_boundary is not None:
        day = count_days(time, day_boundary, "time")
        days = (day - day[first]).astype(np.float64)
    sent = (np.nan_to_num(action) != 0).astype(np.float64)
    known = (~np.isnan(outcome)).astype(np.float64)
    earned = np.nan_to_num(outcome)
    states = {name: np.empty(len(order)) for name in derived}
    # Everybody at their first decision point, then at their second, …: those with the most come first.
    by_length = np.argsort(-lengths, kind="stable")
    memories = {name: state.begin(np.zeros(len(lengths))) for name, state in derived.items()}
    for point in range(int(lengths.max(initial=0))):
        people = by_length[: int(np.searchsorted(-lengths[by_length], -point, side="left"))]
        rows = order[starts[people] + point]
        for name, state in derived.items():
            memory = tuple(values[: len(people)] for values in memories[name])
            with np.errstate(invalid="ignore"):
                states[name][rows] = state.value(memory, elapsed[rows], days[rows])
            memories[name] = state.advance(memory, sent[rows], earned[rows], known[rows], elapsed[rows])
    return states


def count_days(time: NDArray[Any], boundary: int | str, column: str) -> NDArray[np.int64]:
    """The day of every time, counted from an arbitrary one."""
    moment = count_moments(time)
    if isinstance(boundary, int):
        if moment.dtype.kind != "i":
            problem = f"is {boundary} decision points a day, but column '{column}' holds times that do not count them"
            remedy = "write the clock time at which a day begins, for example day_boundary = '04:00'"
            raise InputError(f"day_boundary {problem}; {remedy}", column=column)
        return moment // boundary
    if time.dtype.kind != "M":
        problem = f"is the clock time {boundary}, but column '{column}' holds no timestamps"
        remedy = "write how many decision points there are a day, for example day_boundary = 5"
        raise InputError(f"day_boundary {problem}; {remedy}", column=column)
    clock = CLOCK.fullmatch(boundary)
    if clock is None:
        raise InputError(f"day_boundary is '{boundary}'; write a clock time like '04:00', or decision points a day")
    begins = 3600 * int(clock[1]) + 60 * int(clock[2])
    return np.floor((moment - begins) / DAY_SECONDS).astype(np.int64)


def count_moments(time: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as they are, timestamps in seconds."""
    if time.dtype.kind == "M":
        return np.asarray(time.astype("datetime64[us]").astype(np.int64) / 1e6)
    return time.astype(np.int64 if time.dtype.kind in "iu" else np.float64)
