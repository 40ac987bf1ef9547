"""Numbers and intervals as people write them."""

from __future__ import annotations

import math
from typing import Any


def format_number(value: Any) -> str:
    """A number as people write it: three or four digits, thousands apart; what is missing is a dash; text stays text.

    >>> format_number(14836.2), format_number(-12.3456), format_number(0.04321), format_number(float("nan"))
    ('14,836', '−12.35', '0.0432', '–')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
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
    """A share as it is written here: `8.6 %`."""
    return f"{100 * share:.{digits}f} %"


def format_interval(interval: Any) -> str:
    """`low to high` of an interval; a dash where it has no ends."""
    if math.isnan(interval.low):
        return "–"
    return f"{format_number(interval.low)} to {format_number(interval.high)}"
