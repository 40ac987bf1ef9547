"""Charts as SVG inside the page: positions in per cent, so that they fit a phone and their words keep their size.

No style attribute and no script: the page's security policy allows neither; colours are classes of the page's stylesheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from surefoot.service.dashboard.adherence import SHARES, Adherence
from surefoot.service.dashboard.overview import SOURCES, Day

HEIGHT = 170
ROW = 44
TICKS = 4
BAR = Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"><title>{}</title></rect>')
BAND = Markup('<rect class="band" x="0" y="{:.1f}" width="100%" height="{:.1f}"/>')
POINT = Markup('<circle class="point {}" cx="{:.2f}%" cy="{:.1f}" r="4"><title>{}</title></circle>')


def _svg(parts: list[Markup], height: float, description: str) -> Markup:
    opening = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{:.0f}">').format(
        description, height
    )
    return opening + Markup("").join(parts) + Markup("</svg>")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(x: str, y: float, anchor: str, words: str, kind: str = "") -> Markup:
    return Markup('<text class="{}" x="{}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def _label_places(labels: Sequence[str]) -> list[Markup]:
    """Every few places a label, the last always; of a span only where it begins."""
    last = len(labels) - 1
    step = max(1, round(len(labels) / 5))
    shown = [position for position in range(len(labels)) if (last - position) % step == 0]
    return [
        _text(f"{_centre(position, len(labels)):.2f}%", HEIGHT + 18, "middle", labels[position].partition(" to ")[0])
        for position in shown
    ]


def _centre(place: int, number: int) -> float:
    return 100 * (place + 0.5) / number


def decisions_by_day(days: Sequence[Day]) -> Markup:
    """Stacked bars: decisions of each day by source."""
    top = _round_up(max((day.decisions for day in days), default=0))
    parts: list[Markup] = []
    for tick in range(TICKS + 1):
        y = HEIGHT * (1 - tick / TICKS)
        parts += [_line(0, y, 100, y, "grid"), _text("-8", y + 4, "end", f"{top * tick // TICKS:,}")]
    width = 72 / len(days)
    for position, day in enumerate(days):
        y = float(HEIGHT)
        for source in SOURCES:
            number = day.sources.get(source, 0)
            high = HEIGHT * number / top
            y -= high
            if number:
                words = f"{day.date:%d %b}: {number:,} {source}"
                parts.append(BAR.format(source, _centre(position, len(days)) - width / 2, y, width, high, words))
    words = "; ".join(f"{source} {days[-1].sources.get(source, 0):,}" for source in SOURCES)
    labels = _label_places([f"{day.date:%d %b}" for day in days])
    return _svg(parts + labels, HEIGHT, f"Decisions a day by source over {len(days)} days. Today: {words}.")


def _round_up(number: int) -> int:
    """A round number that four steps divide: 4, 8, 20, 40, 80, 200 …

    >>> [_round_up(number) for number in (0, 3, 7, 13, 41, 250)]
    [4, 4, 8, 20, 80, 400]
    """
    size = 1
    while True:
        for factor in (4, 8, 20):
            if number <= factor * size:
                return factor * size
        size *= 10


@dataclass(frozen=True)
class Series:
    """Values over days or versions; None where there is none, an interval where one is known."""

    name: str
    values: Sequence[tuple[float, float | None, float | None] | None]
    colour: str = ""
    """A class of the stylesheet."""
    interval: str = "95 % interval"
    """What the ends are."""


@dataclass(frozen=True)
class Scale:
    """The vertical axis: its ends, and how a value on it is written."""

    low: float
    high: float
    write: Callable[[float], str]

    @classmethod
    def around(cls, values: Sequence[float], write: Callable[[float], str]) -> Scale:
        """A scale with round steps that holds all values.

        >>> around = Scale.around([-0.31, 0.0, 1.2], str)
        >>> around.low, around.high
        (-0.5, 1.5)
        """
        low, high = min(values), max(values)
        size = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / TICKS))
        steps = (factor * size for factor in (1, 2, 2.5, 5, 10, 20))
        step, first = next(
            (step, first) for step in steps if (first := step * math.floor(low / step)) + TICKS * step >= high
        )
        return cls(first, first + TICKS * step, write)

    def place(self, value: float) -> float:
        """How far down a value is drawn."""
        return HEIGHT * (1 - (value - self.low) / (self.high - self.low))


def write_share(value: float) -> str:
    """A share in per cent.

    >>> write_share(0.256)
    '26 %'
    """
    return f"{100 * value:.0f} %"


SHARE = Scale(0.0, 1.0, write_share)


def draw_series(
    labels: Sequence[str], series: Sequence[Series], scale: Scale, words: str, marks: Sequence[Markup] = ()
) -> Markup:
    """Lines over days or versions on one scale, each point with its value and interval in words; `marks` lie below."""
    parts = [*marks]
    for tick in range(TICKS + 1):
        value = scale.low + (scale.high - scale.low) * tick / TICKS
        y = scale.place(value)
        parts += [_line(0, y, 100, y, "grid"), _text("-8", y + 4, "end", scale.write(value))]
    for line in series:
        parts += _draw_one(labels, line, scale, several=len(series) > 1)
    return _svg(parts + _label_places(labels), HEIGHT, words)


def _draw_one(labels: Sequence[str], series: Series, scale: Scale, *, several: bool) -> list[Markup]:
    parts: list[Markup] = []
    before: tuple[float, float] | None = None
    for position, estimate in enumerate(series.values):
        if estimate is None:
            before = None
            continue
        value, low, high = estimate
        x = _centre(position, len(labels))
        y = scale.place(value)
        words = f"{labels[position]}: {series.name + ' ' if several else ''}{scale.write(value)}"
        if low is not None and high is not None:
            parts.append(_line(x, scale.place(low), x, scale.place(high), f"interval {series.colour}"))
            words += f" ({series.interval} {scale.write(low)} to {scale.write(high)})"
        if before is not None:
            parts.append(_line(*before, x, y, f"trend {series.colour}"))
        parts.append(POINT.format(series.colour, x, y, words))
        before = (x, y)
    return parts


def draw_limits(limits: tuple[float, float], scale: Scale = SHARE) -> list[Markup]:
    """The band between two values, with dashed edges."""
    low, high = (scale.place(limit) for limit in limits)
    return [BAND.format(high, low - high), *(_line(0, y, 100, y, "limit") for y in (low, high))]


def send_rate_by_day(days: Sequence[Day], limits: tuple[float, float]) -> Markup:
    """The observed share of sending with its interval, within the band of the study's probability limits."""
    now = days[-1].send_rate
    today = "nobody was available" if now is None else write_share(now[0])
    least, most = limits
    words = f"Share of available decision points with anything sent, by day. Today: {today}; limits {least:g} to {most:g}."
    rate = Series("send rate", [day.send_rate for day in days])
    return draw_series([f"{day.date:%d %b}" for day in days], [rate], SHARE, words, draw_limits(limits))


def adherence(rows: Sequence[Adherence]) -> Markup:
    """The shares of every day or week: what arrived, was available, came back, was worn."""
    series = [
        Series(name, [None if (share := row.shares[name]) is None else (min(share, 1.0), None, None) for row in rows], name)
        for name in SHARES
    ]
    last_values = "; ".join(f"{line.name} {_tell_last(line)}" for line in series)
    return draw_series(
        [row.label for row in rows], series, SHARE, f"Adherence over {len(rows)} rows. Last known: {last_values}."
    )


def _tell_last(series: Series) -> str:
    known = [value for value in series.values if value is not None]
    return write_share(known[-1][0]) if known else "unknown"


@dataclass(frozen=True)
class ShownCoefficient:
    """A coefficient as it is shown; without ends where no interval is known."""

    action: str
    feature: str
    value: float
    low: float | None
    high: float | None
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.action}: {self.feature}"

    @property
    def number(self) -> str:
        return format_change(self.value)

    @property
    def told(self) -> str:
        return self.number if self.low is None else f"{self.number} ({self.interval})"

    @property
    def interval(self) -> str:
        return "–" if self.low is None or self.high is None else f"{format_change(self.low)} to {format_change(self.high)}"


def format_change(value: float) -> str:
    """A number with a sign that looks like one.

    >>> format_change(-0.1234), format_change(12.3456), format_change(0.0)
    ('−0.123', '+12.3', '0')
    """
    return "0" if value == 0 else f"{value:+.3g}".replace("-", "−")


def coefficients(rows: Sequence[ShownCoefficient]) -> Markup:
    """Each coefficient as a point on one scale around zero, its interval as a line."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    reach = 1.08 * max(ends, default=1.0) or 1.0

    def place(value: float) -> float:
        return 50 * (1 + value / reach)

    height = ROW * len(rows)
    parts = [_line(50, 0, 50, height, "zero")]
    for number, row in enumerate(rows):
        y = ROW * number
        parts.append(_text("0", y + 14, "start", row.label))
        # On a phone there is no room beside long names; the table has the numbers too.
        parts.append(_text("100%", y + 14, "end", row.told, "spare"))
        if row.low is not None and row.high is not None:
            parts.append(_line(place(row.low), y + 28, place(row.high), y + 28, "interval"))
        parts.append(POINT.format("", place(row.value), y + 28, row.label))
    for share, words in ((0.0, format_change(-reach)), (50.0, "0"), (100.0, format_change(reach))):
        anchor = {0.0: "start", 50.0: "middle", 100.0: "end"}[share]
        parts.append(_text(f"{share:g}%", height + 16, anchor, words))
    listing = "; ".join(f"{row.label} {row.told}" for row in rows)
    return _svg(parts, height, f"Coefficients in logits with 95 % intervals: {listing}.")
