"""How figures look: colours that colour-blind readers can tell apart (Okabe and Ito), and plain axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, GREY = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    "#6E6E6E",
)


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 4.0, **more: Any
) -> tuple[Figure, Any]:
    """A figure and its axes that belong to no window and no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **more)


def interval_bars(intervals: Sequence[Any], scale: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values and, for `errorbar`, how far their intervals reach below and above; no bar where an interval has no ends."""
    values, low, high = scale * np.array([(part.value, part.low, part.high) for part in intervals]).reshape(-1, 3).T
    return values, np.nan_to_num(np.stack([values - low, high - values]))


def label_axes(axes: Axes, *, x: str, y: str, title: str = "") -> None:
    """Labels with units, no box, a light grid behind the data."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
