"""Artefacts as the screen found them: how often they begin, how long they last, and what a device shows meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.rehearsal.pilot_data import shift
from surefoot.rehearsal.state_parts import Moment, StatePart, YesNoPart
from surefoot.rehearsal.varying import Varying

Floats = NDArray[np.float64]
MOSTLY = 0.8
"""A share of the flagged values above which they are said to be all of one kind."""
MOST_VALUES = 500


class ShownValue(ABC):
    """What a column shows while a device does not measure."""

    @abstractmethod
    def show(self, before: Floats, showing: Floats, begins: NDArray[np.bool_], uniform: Floats) -> Floats:
        """From the last value that was measured, the one that is shown already, and where the artefact begins."""


@dataclass(frozen=True)
class Constant(ShownValue):
    """Always the same: the 0 of a device that is not worn, the 999 of a failure."""

    value: float

    def show(self, before: Floats, showing: Floats, begins: NDArray[np.bool_], uniform: Floats) -> Floats:
        return np.full(showing.shape, self.value)


@dataclass(frozen=True)
class Held(ShownValue):
    """The last value that was measured."""

    def show(self, before: Floats, showing: Floats, begins: NDArray[np.bool_], uniform: Floats) -> Floats:
        return np.where(begins, before, showing)


@dataclass(frozen=True, eq=False)
class Drawn(ShownValue):
    """One of those that were flagged in the pilot."""

    pool: Floats

    def show(self, before: Floats, showing: Floats, begins: NDArray[np.bool_], uniform: Floats) -> Floats:
        return self.pool[(uniform * len(self.pool)).astype(np.int64)]


def describe_values(flagged: Floats, measured: Floats) -> ShownValue:
    """What a column showed where it was flagged, (people, decision points), NaN elsewhere; `measured` are the others."""
    pool = flagged[~np.isnan(flagged)]
    distinct, counts = np.unique(pool, return_counts=True)
    if counts.max() >= MOSTLY * len(pool):
        return Constant(float(distinct[counts.argmax()]))
    whole = np.where(np.isnan(flagged), measured, flagged)
    here = ~np.isnan(flagged)
    if (whole == shift(whole, np.nan))[here].mean() >= MOSTLY:
        return Held()
    return Drawn(np.quantile(pool, np.linspace(0, 1, min(len(pool), MOST_VALUES)), method="nearest"))


@dataclass(frozen=True, eq=False)
class ArtefactPart(StatePart):
    """A device, and one reason not to trust it: a two-state chain, and what each of its columns shows while it is on."""

    numbers: ClassVar[int] = 2
    device: str
    reason: str
    coefficients: Varying
    """Of the chain: [1, before, clock …]."""
    shown: dict[str, ShownValue]

    @property
    def rows(self) -> int:
        return 1 + len(self.shown)

    @property
    def _chain(self) -> YesNoPart:
        return YesNoPart(self.coefficients, shown=False)

    def begin(self, moment: Moment, uniform: Floats) -> Floats:
        on = self._chain.begin(moment, uniform)
        return self._show(on, np.zeros((self.rows, *moment.time.shape)), moment, uniform)

    def advance(self, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        return self._show(self._chain.advance(own[:1], moment, uniform), own, moment, uniform)

    def _show(self, on: Floats, own: Floats, moment: Moment, uniform: Floats) -> Floats:
        begins = (on[0] > 0) & (own[0] == 0)
        values = [
            how.show(moment.seen.get(column, np.zeros(on[0].shape)), showing, begins, uniform[1])
            for showing, (column, how) in zip(own[1:], self.shown.items(), strict=True)
        ]
        return np.stack([on[0], *values])

    def overlay(self, own: Floats, column: str, values: Floats) -> Floats:
        """Values of a column, with what is shown instead where the artefact is on."""
        if column not in self.shown:
            return values
        return np.where(own[0] > 0, own[1 + list(self.shown).index(column)], values)
