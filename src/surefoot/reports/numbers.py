"""Numbers, intervals and units as people write them."""

import math
from collections.abc import Iterable, Mapping, Sequence
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
    if not math.isfinite(value):
        return format_number(value)
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def format_percent(share: float, digits: int = 1) -> str:
    """A share as it is written here: `8.6 %`; a dash where it is not a number."""
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def format_points(before: float, after: float, digits: int = 0) -> str:
    """The change between two shares in percentage points, computed from the shares as `format_percent` shows them.

    >>> format_points(0.424, 0.726), format_points(0.0572, 0.0586, 1)
    ('+31', '+0.2')
    """
    return format_signed(round(100 * after, digits) - round(100 * before, digits), digits)


def format_p(p: float) -> str:
    """A p-value with three decimals.

    >>> format_p(0.0127), format_p(2e-5), format_p(float("nan"))
    ('0.013', '< 0.001', '–')
    """
    if math.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def describe_p(p: float) -> str:
    """A p-value in a sentence.

    >>> describe_p(0.0127), describe_p(2e-5)
    ('p = 0.013', 'p < 0.001')
    """
    text = format_p(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def format_value(interval: Any, decimals: int | None = None) -> str:
    """The estimate of an interval with the digits that its width supports, two of the width's own; a column of a table
    gives all its cells the same number of `decimals`."""
    return format_decimals(interval.value, _count_decimals(interval.low, interval.high) if decimals is None else decimals)


def format_beside(value: float, interval: Any) -> str:
    """Another number with the digits that the width of an interval supports."""
    return format_decimals(value, _count_decimals(interval.low, interval.high))


def format_interval(interval: Any, decimals: int | None = None) -> str:
    """`low to high` with as many digits as `format_value`; a dash where it has no ends."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "–"
    places = _count_decimals(interval.low, interval.high) if decimals is None else decimals
    return f"{format_decimals(interval.low, places)} to {format_decimals(interval.high, places)}"


def format_cells(interval: Any, decimals: int | None = None) -> tuple[str, str]:
    """The cells of a table with an estimate and its interval."""
    return format_value(interval, decimals), format_interval(interval, decimals)


def count_decimals(intervals: Iterable[Any]) -> int | None:
    """Decimals for a column of estimates: two digits of the narrowest interval, at most four more than the widest needs.

    >>> from collections import namedtuple
    >>> estimate = namedtuple("Estimate", "value low high")
    >>> count_decimals([estimate(0.1, 0.02, 0.19), estimate(0.006, 0.001, 0.011)])
    3
    """
    counts = [_count_decimals(interval.low, interval.high) for interval in intervals]
    needed = [decimals for decimals in counts if decimals is not None]
    return min(max(needed), min(needed) + 4) if needed else None


def format_column(values: Sequence[Any]) -> list[str]:
    """The cells of a column of plain numbers: all with as many decimals as its median number needs for three digits.

    >>> format_column([0.25, 0.0312, float("nan")]), format_column([4210, 96]), format_column(["p1", None])
    (['0.250', '0.031', '–'], ['4,210', '96'], ['p1', '–'])
    """
    sizes = sorted(abs(value) for value in values if isinstance(value, float) and math.isfinite(value) and value)
    is_whole = all(size == round(size) for size in sizes)
    decimals = 0 if is_whole else max(0, 2 - math.floor(math.log10(sizes[len(sizes) // 2])))
    cells = []
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        cells.append(format_decimals(value, decimals) if is_number else format_number(value))
    return cells


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The cells of a table, column by column."""
    columns = {name: format_column([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return [{name: cells[number] for name, cells in columns.items()} for number in range(len(rows))]


def format_range(low: float, high: float) -> str:
    """The ends of a range of values with two digits of its width.

    >>> format_range(1.935, 26.27), format_range(-0.5, 0.25)
    ('2 to 26', '−0.50 to 0.25')
    """
    decimals = _count_decimals(low, high)
    return f"{format_decimals(low, decimals)} to {format_decimals(high, decimals)}"


def format_estimate(interval: Any, unit: str = "") -> str:
    """Estimate and interval as they stand in a sentence.

    >>> from collections import namedtuple
    >>> estimate = namedtuple("Estimate", "value low high")
    >>> format_estimate(estimate(3.3187, 3.1082, 3.5569)), format_estimate(estimate(1324.6, -201.3, 2850.4), "steps")
    ('3.32 (95 % interval 3.11 to 3.56)', '1,325 steps (95 % interval −201 to 2,850)')
    >>> format_estimate(estimate(0.0057, 0.0004, 0.0109))
    '0.0057 (95 % interval 0.0004 to 0.0109)'
    """
    value = format_value(interval) + (f" {unit}" if unit else "")
    return value if math.isnan(interval.low) else f"{value} (95 % interval {format_interval(interval)})"


def _count_decimals(low: float, high: float) -> int | None:
    """After the point, for two digits of the width; None where there is no width to go by, or one of rounding only.

    An end that is not 0 is not written as 0: an interval without 0 would seem to include it.
    """
    width = high - low
    if not LEAST_WIDTH < width < math.inf:
        return None
    decimals = max(0, 1 - math.floor(math.log10(width)))
    if low * high <= 0:
        return decimals
    nearest = min(abs(low), abs(high))
    return max(decimals, min(-math.floor(math.log10(nearest)), decimals + 3))


def format_decimals(value: float, decimals: int | None) -> str:
    """A number with as many decimals as the others of its column; None where nothing says how many."""
    if decimals is None or not math.isfinite(value):
        return format_number(float(value))
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "−")


def log_to_percent(difference: float) -> float:
    """The change in per cent that a difference of logarithms stands for."""
    try:
        return 100 * math.expm1(difference)
    except OverflowError:
        return math.inf


def format_change(difference: Any) -> str:
    """A difference of logarithms as a change in per cent, with the digits that the width of its interval supports.

    >>> from collections import namedtuple
    >>> format_change(namedtuple("Difference", "value low high")(0.0585, -0.0102, 0.131))
    '+6 % (−1 % to +14 %)'
    """
    percents = [log_to_percent(end) for end in (difference.value, difference.low, difference.high)]
    decimals = _count_decimals(percents[1], percents[2]) or 0
    value, low, high = (f"{format_signed(percent, decimals)} %" for percent in percents)
    return value if math.isnan(percents[1]) else f"{value} ({low} to {high})"


@dataclass(frozen=True)
class OutcomeUnit:
    """The outcome's column and the transform under which it was fitted.

    >>> str(OutcomeUnit("steps", "log(x + 0.5)"))
    'log(steps + 0.5)'
    """

    column: str = "outcome"
    transform: str = "none"
    """`none`, `sqrt`, `log(x)` or `log(x + c)`."""
    words: str = ""
    """The outcome in sentences: "steps in the next half hour"; by default the column."""

    def __str__(self) -> str:
        if self.transform == "none":
            return self.column
        return self.transform.replace("x", self.column) if "(" in self.transform else f"{self.transform}({self.column})"

    def describe_difference(self, difference: Any) -> str:
        """A difference with its interval in the units of the outcome, where the transform allows it; else empty.

        A difference of δ in log(x + c) multiplies x + c by exp(δ).

        >>> from collections import namedtuple
        >>> difference = namedtuple("Difference", "value low high")(0.0585, -0.0102, 0.131)
        >>> OutcomeUnit("steps", "log(x + 0.5)").describe_difference(difference)
        'about +6 % steps (−1 % to +14 %)'
        """
        if not self.transform.startswith("log("):
            return ""
        value, _, ends = format_change(difference).partition(" (")
        return f"about {value} {self.words or self.column}" + (f" ({ends}" if ends else "")
