"""What the fitted reward is counted in, and differences of it said in the reward's own units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from surefoot.reports.numbers import format_signed


@dataclass(frozen=True)
class RewardUnit:
    """The reward's column and the transform under which it was fitted.

    >>> str(RewardUnit("steps", "log(x + 0.5)"))
    'log(steps + 0.5)'
    """

    column: str = "reward"
    transform: str = "none"
    """`none`, `sqrt`, `log(x)` or `log(x + c)`."""

    def __str__(self) -> str:
        if self.transform == "none":
            return self.column
        return self.transform.replace("x", self.column) if "(" in self.transform else f"{self.transform}({self.column})"

    def describe_difference(self, difference: Any) -> str:
        """A difference with its interval in the reward's own units, where the transform allows it; else empty.

        A difference of δ in log(x + c) multiplies x + c by exp(δ).

        >>> from collections import namedtuple
        >>> difference = namedtuple("Difference", "value low high")(0.0585, -0.0102, 0.131)
        >>> RewardUnit("steps", "log(x + 0.5)").describe_difference(difference)
        'about +6 % steps (−1 % to +14 %)'
        """
        if not self.transform.startswith("log("):
            return ""
        percents = [100 * math.expm1(end) for end in (difference.value, difference.low, difference.high)]
        # Two digits of the width, as for every estimate; without an interval a whole percent.
        width = percents[2] - percents[1]
        decimals = max(0, 1 - math.floor(math.log10(width))) if width > 0 else 0
        value, low, high = (f"{format_signed(percent, decimals)} %" for percent in percents)
        words = f"about {value} {self.column}"
        return words if math.isnan(percents[1]) else f"{words} ({low} to {high})"
