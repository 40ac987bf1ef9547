"""Power of the F test with a small-sample denominator, and the smallest trial that has enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError

SMALLEST = 10
"""Below so many people the formulas promise nothing."""
LARGEST = 1_000_000


@dataclass(frozen=True)
class Design:
    """What a trial tests, per participant."""

    noncentrality: Callable[[float], float]
    """Of one participant, when the effect is multiplied by this factor."""
    tested: int
    """p, the coefficients that are tested together."""
    effects: int
    """All coefficients of the effect."""
    controls: int
    """q, with the intercept."""
    level: float
    effect: float
    """The mean effect that the factor multiplies."""
    effect_words: str
    assumptions: tuple[str, ...]

    def power(self, people: int, scale: float = 1.0) -> float:
        """P(F_{p, N − p − q}(N λ) > its critical value)."""
        from scipy.stats import f, ncf

        degrees = people - self.effects - self.controls
        if degrees < 1:
            raise InputError(
                f"{people} people are too few for {self.effects} effect and {self.controls} control coefficients; "
                f"at least {self.effects + self.controls + 1} are needed"
            )
        critical = f.isf(self.level, self.tested, degrees)
        return float(ncf.sf(critical, self.tested, degrees, people * self.noncentrality(scale)))

    def people(self, power: float, scale: float = 1.0) -> int:
        """The smallest number of people, at least 10, with at least this power."""
        low = max(SMALLEST, self.effects + self.controls + 1)
        if self.power(low, scale) >= power:
            return low
        high = low
        while self.power(high, scale) < power:
            low, high = high, 2 * high
            if high > LARGEST:
                raise InputError(f"more than {LARGEST:,} people would be needed; the effect is too small, or nothing")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, scale) >= power else (middle, high)
        return high


@dataclass(frozen=True)
class SampleSize:
    """How many people, with which power.

    Attributes
    ----------
    people
        Participants.
    power
        Of the test with so many.
    design
        What the test and its non-centrality are.
    wanted_power
        None when people were given and power was asked.
    """

    people: int
    power: float
    design: Design
    wanted_power: float | None

    @property
    def sentence(self) -> str:
        """For the protocol, with every assumption."""
        aim = "" if self.wanted_power is None else f" (at least {100 * self.wanted_power:.0f} % was wanted)"
        degrees = self.people - self.design.effects - self.design.controls
        return (
            f"With {self.people} participants the trial detects {self.design.effect_words} with "
            f"{100 * self.power:.1f} % power{aim} at level {self.design.level:g} (F test with {self.design.tested} and "
            f"{degrees} degrees of freedom). Assumed: {'; '.join(self.design.assumptions)}."
        )

    def table(self, factors: Sequence[float] = (0.5, 0.75, 1.0, 1.25, 1.5), powers: Sequence[float] = (0.8, 0.9)) -> Any:
        """People needed if the effect were smaller or larger: a frame with columns effect, people_80, people_90, power.

        Effects that no trial could have or detect are left out.
        """
        rows = []
        for factor in factors:
            try:
                people = {f"people_{100 * power:g}": self.design.people(power, factor) for power in powers}
            except InputError:
                continue
            rows.append({"effect": factor * self.design.effect, **people, "power": self.design.power(self.people, factor)})
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, "pyarrow")

    def curve(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers of people, and the power with each."""
        fewest = max(SMALLEST, self.design.effects + self.design.controls + 1)
        people = np.unique(np.linspace(fewest, max(2 * self.people, fewest + 10), 60).astype(np.int64))
        return people, np.array([self.design.power(int(n)) for n in people])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "people": self.people,
            "power": self.power,
            "level": self.design.level,
            "degrees_of_freedom": [self.design.tested, self.people - self.design.effects - self.design.controls],
            "assumptions": list(self.design.assumptions),
            "sentence": self.sentence,
            "table": self.table().to_pylist(),
        }


def settle(design: Design, power: float | None, people: int | None) -> SampleSize:
    """People for a power, or power for people."""
    if not 0 < design.level < 1:
        raise InputError(f"level is {design.level:g}; it lies between 0 and 1")
    if people is not None:
        if power is not None:
            raise InputError("give people (to learn the power) or power (to learn the people), not both")
        return SampleSize(int(people), design.power(int(people)), design, None)
    wanted = 0.8 if power is None else power
    if not 0 < wanted < 1:
        raise InputError(f"power is {wanted:g}; it lies between 0 and 1")
    if not design.noncentrality(1.0) > 0:
        raise InputError("the effect is nothing, and no number of people detects that; give an effect")
    needed = design.people(wanted)
    return SampleSize(needed, design.power(needed), design, wanted)
