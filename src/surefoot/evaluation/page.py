"""Off-policy values as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.evaluation.estimators import find_estimator
from surefoot.evaluation.values import LOGGED, LongRunValue, OffPolicy
from surefoot.reports.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    add_legend,
    interval_bars,
    label_axes,
    new_figure,
)
from surefoot.reports.numbers import format_interval, format_signed, format_value
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (GREY, ORANGE, GREEN, BLUE, PURPLE, YELLOW, SKY)
"""Of the estimators, in their order."""


def render_page(found: OffPolicy, *, title: str, unit: str, source: str = "") -> str:
    """A self-contained HTML page; `unit` is what the reward is counted in."""
    headlines = [headline(found, row.policy, unit) for row in found.overlap]
    charts = [_values(found, unit), _differences(found, unit), _overlap(found)]
    return render(
        "evaluate.html",
        title=title,
        headlines=headlines,
        long_run=[long_run_headline(row, unit) for row in found.long_run if row.policy != "never"],
        found=found,
        charts=charts,
        labels={name: find_estimator(name).label for name in found.estimators},
        logged=LOGGED,
        unit=unit,
        source=source,
    )


def headline(found: OffPolicy, policy: str, unit: str) -> str:
    """What the doubly robust estimate says about a policy, in a sentence."""
    value = found.value(policy)
    worth = f"{policy} is worth {format_value(value.value)} {unit} per decision point ({format_interval(value.value)})"
    change = value.difference
    if change.low > 0:
        return f"{worth}, more than what was done, by {format_value(change)} ({format_interval(change)})."
    if change.high < 0:
        return f"{worth}, less than what was done, by {format_value(-change)} ({format_interval(-change)})."
    return (
        f"{worth}; these logs cannot tell whether that is more than what was done "
        f"({format_value(change)}, {format_interval(change)})."
    )


def long_run_headline(found: LongRunValue, unit: str) -> str:
    """What a policy is worth in the long run, beside never acting, in a sentence."""
    worth = f"In the long run {found.policy} is worth {format_value(found.value)} {unit} per decision point"
    worth += f" ({format_interval(found.value)}), {_compare_with_never(found)}."
    if found.disagreement:
        now = format_signed(found.immediate_difference, 0)
        worth += f" By the next outcome alone it would seem {now}: {found.disagreement}."
    return worth


def _compare_with_never(found: LongRunValue) -> str:
    change = found.difference
    if change.low > 0:
        return f"{format_value(change)} more than never ({format_interval(change)})"
    if change.high < 0:
        return f"{format_value(-change)} less than never ({format_interval(-change)})"
    return f"not surely different from never ({format_value(change)}, {format_interval(change)})"


def _dots(found: OffPolicy, which: str, x: str, title: str) -> tuple[Figure, Axes]:
    names = [row.policy for row in found.overlap]
    figure, axes = new_figure(width=5.2, height=1.6 + 0.55 * len(names))
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


def _values(found: OffPolicy, unit: str) -> tuple[Markup, str]:
    figure, axes = _dots(found, "value", f"{unit} per decision point", "Value")
    logged = found.value(LOGGED).value
    axes.axvline(logged.value, color=INK, linewidth=0.8, linestyle="--", label=LOGGED)
    add_legend(figure, axes)
    note = "Dots are estimates, bars 95 % intervals over people where there are any. Dashed: the mean of the logs."
    return inline_svg(figure, f"Values of the policies by {len(found.estimators)} estimators"), note


def _differences(found: OffPolicy, unit: str) -> tuple[Markup, str]:
    figure, axes = _dots(found, "difference", f"{unit} per decision point", "More than was logged")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    note = "To the right of the dashed line a policy is worth more than the one that was used. The same colours."
    return inline_svg(figure, "Differences to the logging policy"), note


def _overlap(found: OffPolicy) -> tuple[Markup, str]:
    names = [row.policy for row in found.overlap]
    figure, axes = new_figure(width=5.2, height=1.3 + 0.4 * len(names))
    share = [100 * row.effective_sample_size / found.decision_points for row in found.overlap]
    axes.barh(names, share, color=[ORANGE if row.warning else BLUE for row in found.overlap], height=0.6)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    label_axes(axes, x="effective sample size (% of decision points)", y="", title="Overlap with the logs")
    return inline_svg(figure, "Effective sample sizes"), "How much of the logs speaks about each policy; orange: too little."
