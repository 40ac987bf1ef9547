"""Charts as SVG inside the page: positions in per cent, so that they fit a phone and their words keep their size.

No style attribute and no script: the page's security policy allows neither; colours are classes of the page's stylesheet.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

HEIGHT = 170
ROW = 44
TICKS = 4
BAR = Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"><title>{}</title></rect>')
BAND = Markup('<rect class="band" x="0" y="{:.1f}" width="100%" height="{:.1f}"/>')
LINE = Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>')
POINT = Markup('<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{}"><title>{}</title></circle>')
SVG = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{:.0f}">{}</svg>')
TEXT = Markup('<text class="{}" x="{}" y="{:.1f}" text-anchor="{}">{}</text>')
Estimate = tuple[float, float | None, float | None]
"""A value, and the ends of its interval where one is known."""


def make_svg(shapes: Sequence[Markup], height: float, description: str) -> Markup:
    """A chart with its description for those who do not see it."""
    return SVG.format(description, height, Markup("").join(shapes))


def write_share(value: float) -> str:
    """A share in per cent.

    >>> write_share(0.256)
    '26 %'
    """
    return f"{100 * value:.0f} %"


def format_change(value: float) -> str:
    """A number with a sign that looks like one.

    >>> format_change(-0.1234), format_change(12.3456), format_change(0.0)
    ('−0.123', '+12.3', '0')
    """
    return "0" if value == 0 else f"{value:+.3g}".replace("-", "−")


@dataclass(frozen=True)
class Scale:
    """The vertical axis: its ends, and how a value on it is written."""

    low: float
    high: float
    write: Callable[[float], str]

    @classmethod
    def around(cls, values: Sequence[float], write: Callable[[float], str]) -> "Scale":
        """A scale with round steps that holds all values.

        >>> around = Scale.around([-0.31, 0.0, 1.2], str)
        >>> around.low, around.high, [Scale.around([0, number], str).high for number in (7, 13, 41, 250)]
        (-0.5, 1.5, [8.0, 20.0, 80.0, 400.0])
        """
        low, high = min(values), max(values)
        size = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / TICKS))
        steps = (factor * size for factor in (1, 2, 5, 10, 20))
        step, first = next(
            (step, first) for step in steps if (first := step * math.floor(low / step)) + TICKS * step >= high
        )
        return cls(first, first + TICKS * step, write)

    def place(self, value: float) -> float:
        """How far down a value is drawn."""
        return HEIGHT * (1 - (value - self.low) / (self.high - self.low))

    def frame(self, shapes: Sequence[Markup], labels: Sequence[str], words: str, marks: Sequence[Markup] = ()) -> Markup:
        """A chart with this axis over the marks, below the shapes; with a label at every few positions and at the last."""
        values = [self.low + (self.high - self.low) * tick / TICKS for tick in range(TICKS + 1)]
        grid = [LINE.format("grid", 0, self.place(value), 100, self.place(value)) for value in values]
        axis = [TEXT.format("", "-8", self.place(value) + 4, "end", self.write(value)) for value in values]
        step = max(1, round(len(labels) / 5))
        positions = range((len(labels) - 1) % step, len(labels), step)
        # A span is labelled by its beginning.
        starts = [(f"{_centre(position, labels):.2f}%", labels[position].partition(" to ")[0]) for position in positions]
        below = [TEXT.format("", x, HEIGHT + 18, "middle", start) for x, start in starts]
        return make_svg([*marks, *grid, *axis, *shapes, *below], HEIGHT, words)


SHARE = Scale(0.0, 1.0, write_share)


def _centre(position: int, labels: Sequence[str]) -> float:
    return 100 * (position + 0.5) / len(labels)


def draw_stacks(labels: Sequence[str], stacks: Sequence[Mapping[str, Any]], names: Sequence[str], words: str) -> Markup:
    """Stacked bars of counts, each part with its count in words; the names are classes of the stylesheet."""
    scale = Scale.around([0, 4, *(sum(stack[name] for name in names) for stack in stacks)], "{:,.0f}".format)
    shapes = []
    width = 72 / len(stacks)
    for position, stack in enumerate(stacks):
        total = 0
        for name in names:
            number = stack[name]
            total += number
            if number:
                corner = (_centre(position, labels) - width / 2, scale.place(total))
                size = (width, HEIGHT * number / scale.high)
                shapes.append(BAR.format(name, *corner, *size, f"{labels[position]}: {number:,} {name}"))
    return scale.frame(shapes, labels, words)


def draw_lines(
    labels: Sequence[str],
    lines: Mapping[str, Sequence[Estimate | None]],
    words: str,
    scale: Scale = SHARE,
    marks: Sequence[Markup] = (),
    interval: str = "95 % interval",
) -> Markup:
    """Lines by name over days or versions, each point with its value and interval in words; None where there is none.

    Several lines have their names as classes of the stylesheet.
    """
    shapes = []
    for name, estimates in lines.items():
        colour = name if len(lines) > 1 else ""
        previous: tuple[float, float] | None = None
        for position, estimate in enumerate(estimates):
            if estimate is None:
                previous = None
                continue
            value, low, high = estimate
            x = _centre(position, labels)
            y = scale.place(value)
            title = f"{labels[position]}: {colour}{' ' if colour else ''}{scale.write(value)}"
            if low is not None and high is not None:
                shapes.append(LINE.format(f"interval {colour}", x, scale.place(low), x, scale.place(high)))
                title += f" ({interval} {scale.write(low)} to {scale.write(high)})"
            if previous is not None:
                shapes.append(LINE.format(f"trend {colour}", *previous, x, y))
            shapes.append(POINT.format(f"point {colour}", x, y, 4, title))
            previous = (x, y)
    return scale.frame(shapes, labels, words, marks)


def draw_limits(limits: tuple[float, float]) -> list[Markup]:
    """The band between two shares, with dashed edges."""
    low, high = (SHARE.place(limit) for limit in limits)
    return [BAND.format(high, low - high), *(LINE.format("limit", 0, y, 100, y) for y in (low, high))]


def describe_coefficient(row: Mapping[str, Any]) -> str:
    """A coefficient with its interval, where one is known."""
    number = format_change(row["value"])
    return number if row["low"] is None else f"{number} ({format_change(row['low'])} to {format_change(row['high'])})"


def draw_coefficients(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Each coefficient as a point on one scale around zero, its interval as a line."""
    ends = [abs(row[name]) for row in rows for name in ("value", "low", "high") if row[name] is not None]
    reach = 1.08 * max(ends, default=1.0) or 1.0

    def place(value: float) -> float:
        return 50 * (1 + value / reach)

    height = ROW * len(rows)
    shapes = [LINE.format("zero", 50, 0, 50, height)]
    for number, row in enumerate(rows):
        y = ROW * number
        label = f"{row['action']}: {row['feature']}"
        shapes.append(TEXT.format("", "0", y + 14, "start", label))
        # A phone has no room next to long names; the table has the numbers too.
        shapes.append(TEXT.format("spare", "100%", y + 14, "end", describe_coefficient(row)))
        if row["low"] is not None:
            shapes.append(LINE.format("interval", place(row["low"]), y + 28, place(row["high"]), y + 28))
        shapes.append(POINT.format("point ", place(row["value"]), y + 28, 4, label))
    for share, anchor, value in ((0, "start", -reach), (50, "middle", 0.0), (100, "end", reach)):
        shapes.append(TEXT.format("", f"{share}%", height + 16, anchor, format_change(value)))
    listing = "; ".join(f"{row['action']}: {row['feature']} {describe_coefficient(row)}" for row in rows)
    return make_svg(shapes, height, f"Coefficients with 95 % intervals: {listing}.")
