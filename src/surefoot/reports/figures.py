"""The style of figures: colours that colour-blind readers can distinguish, in light and dark mode.

The light colours are those of Okabe and Ito (2008), with brown and navy for lines where their yellow and sky blue are too
pale on white. Figures are drawn in `LIGHT`. In a page or an SVG file each colour becomes a CSS variable, so that the same
drawing follows the reader's dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "blue": ("#0072b2", "#5fb3ee"),
    "orange": ("#d55e00", "#ff9147"),
    "green": ("#009e73", "#3ccfa0"),
    "purple": ("#cc79a7", "#e060c0"),
    "yellow": ("#e69f00", "#f4bd3f"),
    "sky": ("#56b4e9", "#a2d8f7"),
    "brown": ("#7a3d00", "#fff3c4"),
    "navy": ("#1f1f7a", "#8a80ff"),
    "grey": ("#6e7681", "#a5aeb9"),
    "ink": ("#1c2430", "#e7eaee"),
    "grid": ("#e3e7ec", "#38414d"),
    "paper": ("#ffffff", "#14181d"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
DARK = {name: dark for name, (_, dark) in COLOURS.items()}
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BROWN, NAVY, GREY, INK, GRID, PAPER = LIGHT.values()
SERIES = (BLUE, ORANGE, GREEN, PURPLE, BROWN, NAVY)
"""For the lines of one plot, in this order; yellow and sky are for areas only."""
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "labelcolor": INK}
"""The style of a legend that `add_legend` cannot make."""
SMALL: dict[str, Any] = {"width": 5.2, "height": 3.6}
"""Inches: on a telephone the figures are shown at two thirds of this and can still be read."""
Drawable = Union["Axes", "Figure", None]
"""Where a plot is drawn: on axes, on new axes of a figure, or (None) on a figure of pyplot, which notebooks show."""
Picture = tuple["Axes", str, str]
"""Axes, the description of their figure for readers who cannot see it, and the note below it."""


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 4.0, **subplots: Any
) -> tuple[Figure, Any]:
    """A figure and its axes that belong to no window and no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    made = figure.subplots(rows, columns, **subplots)
    for axes in np.ravel(made):
        _style_axes(axes)
    return figure, made


def _style_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_color(GREY)
    axes.tick_params(which="both", color=GREY, labelcolor=INK)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def choose_axes(ax: Drawable, *, width: float, height: float) -> Axes:
    """The axes to draw on; a figure without axes gets this size and one plot."""
    from matplotlib.figure import Figure

    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure()
    if not isinstance(ax, Figure):
        return ax
    ax.set_size_inches(width, height)
    ax.set_layout_engine("constrained")
    axes = ax.subplots()
    _style_axes(axes)
    return axes


def new_page_figure() -> Figure:
    """A figure for a page, to hand to a plot: it belongs to no window."""
    from matplotlib.figure import Figure

    return Figure()


def spread_evenly(values: NDArray[Any], most: int) -> NDArray[Any]:
    """At most that many of them, evenly spaced."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(len(values), most)).round().astype(np.int64))]


def thin_out(values: NDArray[Any], most: int = 300) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Ranks from 1 and sorted values; of many values an evenly spaced sample."""
    chosen = spread_evenly(np.arange(len(values)), most)
    return chosen + 1, np.sort(values)[chosen]


def describe_sample(shown: int, total: int, things: str) -> str:
    """A sentence for the note below a figure of a sample; empty where the figure shows everything.

    >>> describe_sample(300, 100_000, "people")
    ' Shown are 300 of 100,000 people, evenly spaced.'
    """
    return f" Shown are {shown:,} of {total:,} {things}, evenly spaced." if shown < total else ""


def label_axes(axes: Axes, *, x: str, y: str, title: str = "") -> None:
    """Labels with units."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.set_title(title, loc="left", fontsize="medium", color=INK)


def add_legend(axes: Axes, *, columns: int = 2, handles: Sequence[Any] | None = None) -> None:
    """A legend below the figure, where it covers nothing; inside the plot where the figure has other plots."""
    figure = find_figure(axes)
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    if len(figure.axes) == 1 and figure.get_layout_engine() is not None:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, **LEGEND)
    else:
        axes.legend(handles=handles, **LEGEND)


def find_figure(axes: Axes) -> Figure:
    """The figure that holds the axes."""
    return cast("Figure", axes.figure)


def finish_picture(axes: Axes, description: str, note: str, *, x: str, y: str, title: str) -> Picture:
    """A plot with labels and legend, described."""
    label_axes(axes, x=x, y=y, title=title)
    add_legend(axes)
    return axes, description, note


def interval_bars(intervals: Sequence[Any], scale: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values and, for `errorbar`, the distances to the ends of their intervals; 0 where an interval has no ends."""
    values, low, high = (
        scale * np.array([(interval.value, interval.low, interval.high) for interval in intervals]).reshape(-1, 3).T
    )
    return values, np.nan_to_num(np.stack([values - low, high - values]))
