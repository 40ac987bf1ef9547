"""Off-policy values as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.evaluation.estimators import find_estimator
from surefoot.evaluation.headlines import describe_long_run, write_headlines
from surefoot.evaluation.values import LOGGED, PolicyValues
from surefoot.inference.intervals import describe_roughness
from surefoot.reports.figures import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    NAVY,
    ORANGE,
    PURPLE,
    add_legend,
    interval_bars,
    label_axes,
    new_figure,
)
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (GREY, ORANGE, GREEN, BLUE, PURPLE, BROWN, NAVY)
"""Of the estimators, in their order."""


def render_page(found: PolicyValues, *, title: str, source: str = "") -> str:
    """A self-contained HTML page."""
    charts = [_draw_values(found), _draw_differences(found), _draw_overlap(found)]
    return render(
        "evaluate.html",
        title=title,
        headlines=write_headlines(found),
        long_run=[describe_long_run(row, found.unit) for row in found.long_run if row.policy != "never"],
        found=found,
        few=describe_roughness(found.people),
        charts=charts,
        labels={name: find_estimator(name).label for name in found.estimators},
        logged=LOGGED,
        unit=found.unit,
        source=source,
    )


def _dots(found: PolicyValues, which: str, x: str, title: str) -> tuple[Figure, Axes]:
    names = [row.policy for row in found.overlap]
    figure, axes = new_figure(width=5.2, height=2.0 + 0.55 * len(names))
    apart = 0.64 / len(found.estimators)
    for step, estimator in enumerate(found.estimators):
        rows = [getattr(found.value(name, estimator), which) for name in names]
        place = np.arange(len(names)) + apart * (step - (len(found.estimators) - 1) / 2)
        values, ends = interval_bars(rows)
        label, colour = find_estimator(estimator).label, COLOURS[step % len(COLOURS)]
        axes.errorbar(values, place, xerr=ends, fmt="o", color=colour, label=label, markersize=4, linewidth=1.2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    label_axes(axes, x=x, y="", title=title)
    return figure, axes


def _draw_values(found: PolicyValues) -> tuple[Markup, str]:
    figure, axes = _dots(found, "value", f"{found.unit} per decision point", "Value")
    logged = found.value(LOGGED).value
    axes.axvline(logged.value, color=INK, linewidth=0.8, linestyle="--", label=LOGGED)
    add_legend(figure, axes)
    note = "Dots are estimates, bars 95 % intervals over people where there are any. Dashed: the mean of the logs."
    return inline_svg(figure, f"Values of the policies by {len(found.estimators)} estimators"), note


def _draw_differences(found: PolicyValues) -> tuple[Markup, str]:
    figure, axes = _dots(found, "difference", f"{found.unit} per decision point", "More than was logged")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    add_legend(figure, axes)
    note = "To the right of the dashed line a policy is worth more than the one that was used."
    return inline_svg(figure, "Differences to the logging policy"), note


def _draw_overlap(found: PolicyValues) -> tuple[Markup, str]:
    names = [row.policy for row in found.overlap]
    figure, axes = new_figure(width=5.2, height=1.5 + 0.4 * len(names))
    for poor, label, colour in ((False, "enough", BLUE), (True, "too little", ORANGE)):
        rows = [place for place, row in enumerate(found.overlap) if bool(row.warning) == poor]
        if rows:
            share = [100 * found.overlap[place].effective_sample_size / found.decision_points for place in rows]
            axes.barh(rows, share, color=colour, height=0.6, label=label)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    label_axes(axes, x="effective sample size (% of decision points)", y="", title="Overlap with the logs")
    add_legend(figure, axes)
    return inline_svg(figure, "Effective sample sizes"), "How much of the logs speaks about each policy."
