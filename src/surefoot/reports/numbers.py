"""Numbers, intervals and units as people write them."""

import math
from dataclasses import dataclass
from typing import Any

LEAST_WIDTH = 1e-9
"""Numbers whose interval is narrower are written with three or four digits: more would say where rounding ends."""


def format_number(value: Any) -> str:
    """A number as people write it: three or four digits, thousands apart; what is missing is a dash; text stays text.

    >>> format_number(14836.2), format_number(-12.3456), format_number(0.04321), format_number(float("nan"))
    ('14,836', '−12.35', '0.0432', '–')
    >>> format_number(float("inf"))
    '∞'
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        # Minus signs that look like minus signs.
        return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3g}").replace(
            "-", "−"
        )
    return "–" if value is None else str(value)


def format_signed(value: float, digits: int) -> str:
    """A change: `+0.9`, `−1.1`; a dash where it is not a number.

    >>> format_signed(0.94, 1), format_signed(-1.06, 1), format_signed(-0.001, 1)
    ('+0.9', '−1.1', '+0.0')
    """
    return "–" if math.isnan(value) else f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def format_percent(share: float, digits: int = 1) -> str:
    """A share as it is written here: `8.6 %`; a dash where it is not a number."""
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def format_value(interval: Any) -> str:
    """The estimate of an interval with the digits that its width supports: two of the width's own."""
    return _format_rounded(interval.value, _count_decimals(interval))


def format_beside(value: float, interval: Any) -> str:
    """Another number with the digits that the width of an interval supports."""
    return _format_rounded(value, _count_decimals(interval))


def format_interval(interval: Any) -> str:
    """`low to high` with as many digits as `format_value`; a dash where it has no ends."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "–"
    decimals = _count_decimals(interval)
    return f"{_format_rounded(interval.low, decimals)} to {_format_rounded(interval.high, decimals)}"


def format_estimate(interval: Any, unit: str = "") -> str:
    """Estimate and interval as they stand in a sentence.

    >>> from collections import namedtuple
    >>> estimate = namedtuple("Estimate", "value low high")
    >>> format_estimate(estimate(3.3187, 3.1082, 3.5569)), format_estimate(estimate(1324.6, -201.3, 2850.4), "steps")
    ('3.32 (95 % interval 3.11 to 3.56)', '1,325 steps (95 % interval −201 to 2,850)')
    """
    value = format_value(interval) + (f" {unit}" if unit else "")
    return value if math.isnan(interval.low) else f"{value} (95 % interval {format_interval(interval)})"


def _count_decimals(interval: Any) -> int | None:
    """After the point, for two digits of the width; None where there is no width to go by, or one of rounding only."""
    width = interval.high - interval.low
    return max(0, 1 - math.floor(math.log10(width))) if LEAST_WIDTH < width < math.inf else None


def _format_rounded(value: float, decimals: int | None) -> str:
    if decimals is None or math.isnan(value):
        return format_number(float(value))
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "−")


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
        """A difference with its interval in the units of the reward, where the transform allows it; else empty.

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
