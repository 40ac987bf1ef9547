"""Derived states: what a participant's own past says about them now, alike from logs, in simulations and in a trial.

Delayed effects need memory. Every derived state is a small recursion: it remembers a few numbers, gives its value at a
decision point from what came before, and takes in the action and the outcome when they are known. Arrays of any engine and
plain numbers go through the same lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.decision_times import DayBoundary, count_days, count_moments
from surefoot.registry import Registry

Memory = tuple[Any, ...]
"""Numbers, or arrays of them, that a derived state carries from one decision point to the next."""


@dataclass(frozen=True)
class DerivedState(ABC):
    """One derived state; the fields of a subclass are its parameters."""

    name: ClassVar[str]
    needs_days: ClassVar[bool] = False
    """Whether the study must say where a day ends."""
    follows_outcomes: ClassVar[bool] = False
    """Whether it changes with what came back."""

    @abstractmethod
    def begin(self, zero: Any) -> Memory:
        """What is remembered before the first decision point, in the shape of `zero`."""

    @abstractmethod
    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        """At a decision point; `time` and `day` count from the participant's first one."""

    @abstractmethod
    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        """After it: `sent` is 1.0 for an action other than 0, `known` 1.0 where the outcome is (0 stands for others)."""


DERIVED_STATES: Registry[type[DerivedState]] = Registry("derived state")
register_derived_state, find_derived_state = DERIVED_STATES.register, DERIVED_STATES.find


@register_derived_state
@dataclass(frozen=True)
class Dose(DerivedState):
    """The discounted count of prompts: d′ = λ d + 1{prompt}, 0 at first."""

    name: ClassVar[str] = "dose"
    discount: float = 0.95
    """λ, for every decision point."""

    def begin(self, zero: Any) -> Memory:
        return (zero,)

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        return memory[0]

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        return (self.discount * memory[0] + sent,)


@register_derived_state
@dataclass(frozen=True)
class OutcomeMean(DerivedState):
    """The discounted mean of the outcomes so far, those that are missing left out; `start` counts as one of them at first.

    m = (Σ λ^age · y) / (Σ λ^age) over the known outcomes and the start.
    """

    name: ClassVar[str] = "outcome mean"
    follows_outcomes: ClassVar[bool] = True
    discount: float = 0.95
    start: float = nan
    """Before the first outcome; missing unless given."""

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
    """Time since the last prompt: decision points, or hours where times are timestamps; before the first prompt as if one
    had come just before the first decision point."""

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

    def begin(self, zero: Any) -> Memory:
        return ()

    def value(self, memory: Memory, time: Any, day: Any) -> Any:
        return day

    def advance(self, memory: Memory, sent: Any, outcome: Any, known: Any, time: Any) -> Memory:
        return ()


def derive_states(
    derived: Mapping[str, DerivedState],
    participant_index: NDArray[np.int64],
    time: NDArray[Any],
    action: NDArray[np.float64],
    outcome: NDArray[np.float64],
    day_boundary: DayBoundary,
) -> dict[str, NDArray[np.float64]]:
    """Every derived state at every row of logs, by name; a missing action counts as none.

    >>> found = derive_states({"dose": Dose(0.5)}, np.zeros(3, int), np.arange(3), np.ones(3), np.zeros(3), None)
    >>> found["dose"]
    array([0. , 1. , 1.5])
    """
    order = np.lexsort((time, participant_index))
    lengths = np.bincount(participant_index)
    starts = np.cumsum(lengths) - lengths
    elapsed, days = _since_first(time, order, starts, lengths, day_boundary)
    sent = (np.nan_to_num(action) != 0).astype(np.float64)
    known = (~np.isnan(outcome)).astype(np.float64)
    earned = np.nan_to_num(outcome)
    found = {name: np.empty(len(order)) for name in derived}
    # Everybody at their first decision point, then at their second, …: those with the most come first.
    by_length = np.argsort(-lengths, kind="stable")
    memories = {name: state.begin(np.zeros(len(lengths))) for name, state in derived.items()}
    for place in range(int(lengths.max(initial=0))):
        people = by_length[: int(np.searchsorted(-lengths[by_length], -place, side="left"))]
        rows = order[starts[people] + place]
        for name, state in derived.items():
            memory = tuple(part[: len(people)] for part in memories[name])
            with np.errstate(invalid="ignore"):
                found[name][rows] = state.value(memory, elapsed[rows], days[rows])
            memories[name] = state.advance(memory, sent[rows], earned[rows], known[rows], elapsed[rows])
    return found


def _since_first(
    time: NDArray[Any],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    day_boundary: DayBoundary,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Time and days of every row since the participant's first: decision points, hours, or the time's own unit."""
    hours = 3600.0 if time.dtype.kind == "M" else 1.0
    moments: list[NDArray[Any]] = [count_moments(time) / hours]
    if day_boundary is not None:
        moments.append(count_days(time, day_boundary, "time"))
    since = []
    for moment in moments:
        found = np.empty(len(order))
        found[order] = moment[order] - np.repeat(moment[order[starts]], lengths)
        since.append(found)
    return since[0], since[-1] if day_boundary is not None else np.full(len(order), np.nan)
