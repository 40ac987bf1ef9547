"""Charts as SVG inside the page: positions in per cent, so that they fit a phone and their words keep their size.

No style attribute and no script: the page's security policy allows neither; colours are classes of the page's stylesheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

HEIGHT = 170
ROW = 44
TICKS = 4
BAR = Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"><title>{}</title></rect>')
BAND = Markup('<rect class="band" x="0" y="{:.1f}" width="100%" height="{:.1f}"/>')
POINT = Markup('<circle class="{}" cx="{:.2f}%" cy="{:.1f}" r="{}"><title>{}</title></circle>')
SVG = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{:.0f}">{}</svg>')


def make_svg(shapes: Sequence[Markup], height: float, description: str) -> Markup:
    """A chart with its description for those who do not see it."""
    return SVG.format(description, height, Markup("").join(shapes))


def draw_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A line; `kind` names classes of the stylesheet."""
    return Markup('<line class="{}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def draw_text(x: str, y: float, anchor: str, words: str, kind: str = "") -> Markup:
    """Words at a position."""
    return Markup('<text class="{}" x="{}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def _label_positions(labels: Sequence[str]) -> list[Markup]:
    """A label at every few positions and at the last; a span is labelled by its beginning."""
    last = len(labels) - 1
    step = max(1, round(len(labels) / 5))
    return [
        draw_text(f"{_centre(position, len(labels)):.2f}%", HEIGHT + 18, "middle", label.partition(" to ")[0])
        for position, label in enumerate(labels)
        if (last - position) % step == 0
    ]


def _centre(position: int, number: int) -> float:
    return 100 * (position + 0.5) / number


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

    def draw_grid(self) -> list[Markup]:
        """Lines and labels of the axis."""
        shapes = []
        for tick in range(TICKS + 1):
            value = self.low + (self.high - self.low) * tick / TICKS
            y = self.place(value)
            shapes += [draw_line(0, y, 100, y, "grid"), draw_text("-8", y + 4, "end", self.write(value))]
        return shapes


def write_share(value: float) -> str:
    """A share in per cent.

    >>> write_share(0.256)
    '26 %'
    """
    return f"{100 * value:.0f} %"


SHARE = Scale(0.0, 1.0, write_share)


def draw_stacks(labels: Sequence[str], stacks: Sequence[Mapping[str, int]], names: Sequence[str], words: str) -> Markup:
    """Stacked bars of counts, each part with its count in words; the names are classes of the stylesheet."""
    scale = Scale(0, _round_up(max((sum(stack.values()) for stack in stacks), default=0)), "{:,.0f}".format)
    shapes = scale.draw_grid()
    width = 72 / len(stacks)
    for position, (label, stack) in enumerate(zip(labels, stacks, strict=True)):
        left = _centre(position, len(stacks)) - width / 2
        total = 0
        for name in names:
            number = stack.get(name, 0)
            total += number
            if number:
                height = HEIGHT * number / scale.high
                shapes.append(BAR.format(name, left, scale.place(total), width, height, f"{label}: {number:,} {name}"))
    return make_svg(shapes + _label_positions(labels), HEIGHT, words)


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

    def draw(self, labels: Sequence[str], scale: Scale, *, named: bool) -> list[Markup]:
        """The points, joined by lines where neighbours are known."""
        shapes: list[Markup] = []
        previous: tuple[float, float] | None = None
        for position, estimate in enumerate(self.values):
            if estimate is None:
                previous = None
                continue
            value, low, high = estimate
            x = _centre(position, len(labels))
            y = scale.place(value)
            words = f"{labels[position]}: {self.name + ' ' if named else ''}{scale.write(value)}"
            if low is not None and high is not None:
                shapes.append(draw_line(x, scale.place(low), x, scale.place(high), f"interval {self.colour}"))
                words += f" ({self.interval} {scale.write(low)} to {scale.write(high)})"
            if previous is not None:
                shapes.append(draw_line(*previous, x, y, f"trend {self.colour}"))
            shapes.append(POINT.format(f"point {self.colour}", x, y, 4, words))
            previous = (x, y)
        return shapes


def draw_series(
    labels: Sequence[str], series: Sequence[Series], scale: Scale, words: str, marks: Sequence[Markup] = ()
) -> Markup:
    """Lines over days or versions on one scale, each point with its value and interval in words; `marks` lie below."""
    shapes = [*marks, *scale.draw_grid()]
    for line in series:
        shapes += line.draw(labels, scale, named=len(series) > 1)
    return make_svg(shapes + _label_positions(labels), HEIGHT, words)


def draw_limits(limits: tuple[float, float], scale: Scale = SHARE) -> list[Markup]:
    """The band between two values, with dashed edges."""
    low, high = (scale.place(limit) for limit in limits)
    return [BAND.format(high, low - high), *(draw_line(0, y, 100, y, "limit") for y in (low, high))]


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
    def words(self) -> str:
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


def draw_coefficients(rows: Sequence[ShownCoefficient]) -> Markup:
    """Each coefficient as a point on one scale around zero, its interval as a line."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    reach = 1.08 * max(ends, default=1.0) or 1.0

    def place(value: float) -> float:
        return 50 * (1 + value / reach)

    height = ROW * len(rows)
    shapes = [draw_line(50, 0, 50, height, "zero")]
    for number, row in enumerate(rows):
        y = ROW * number
        shapes.append(draw_text("0", y + 14, "start", row.label))
        # A phone has no room next to long names; the table has the numbers too.
        shapes.append(draw_text("100%", y + 14, "end", row.words, "spare"))
        if row.low is not None and row.high is not None:
            shapes.append(draw_line(place(row.low), y + 28, place(row.high), y + 28, "interval"))
        shapes.append(POINT.format("point ", place(row.value), y + 28, 4, row.label))
    for share, anchor, value in ((0, "start", -reach), (50, "middle", 0.0), (100, "end", reach)):
        shapes.append(draw_text(f"{share}%", height + 16, anchor, format_change(value)))
    listing = "; ".join(f"{row.label} {row.words}" for row in rows)
    return make_svg(shapes, height, f"Coefficients in logits with 95 % intervals: {listing}.")
