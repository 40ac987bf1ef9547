"""Off-policy values as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.evaluation.estimators import find_estimator
from surefoot.evaluation.values import LOGGED, Contrast, LongRunValue, OffPolicy, Value
from surefoot.inference.intervals import Interval, describe_roughness
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
from surefoot.reports.reward_units import RewardUnit

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (GREY, ORANGE, GREEN, BLUE, PURPLE, YELLOW, SKY)
"""Of the estimators, in their order."""


def render_page(found: OffPolicy, *, title: str, unit: RewardUnit, source: str = "") -> str:
    """A self-contained HTML page; `unit` is what the reward is counted in."""
    charts = [_draw_values(found, unit), _draw_differences(found, unit), _draw_overlap(found)]
    return render(
        "evaluate.html",
        title=title,
        headlines=write_headlines(found, unit),
        long_run=[long_run_headline(row, unit) for row in found.long_run if row.policy != "never"],
        found=found,
        few=describe_roughness(found.people),
        charts=charts,
        labels={name: find_estimator(name).label for name in found.estimators},
        logged=LOGGED,
        unit=unit,
        source=source,
    )


def write_headlines(found: OffPolicy, unit: RewardUnit) -> list[str]:
    """What the preferred estimate says about every policy, and about sending at all, each in a sentence."""
    contrasts = [_describe_contrast(contrast, unit) for contrast in found.contrasts]
    return [_describe_value(found.value(row.policy), unit) for row in found.overlap] + contrasts


def _describe_value(value: Value, unit: RewardUnit) -> str:
    worth = f"{value.policy} is worth {format_value(value.value)} {unit} per decision point ({format_interval(value.value)})"
    change = value.difference
    if change.low > 0:
        return f"{worth}, more than what was done, by {_format_change(change, unit)}."
    if change.high < 0:
        return f"{worth}, less than what was done, by {_format_change(-change, unit, change)}."
    return f"{worth}; these logs cannot tell whether that is more than what was done ({_format_change(change, unit)})."


def _describe_contrast(contrast: Contrast, unit: RewardUnit) -> str:
    change = contrast.difference
    told = f"{contrast.policy} − {contrast.other}: {_format_change(change, unit)}"
    return f"{told}." if change.excludes_zero else f"{told}; the interval includes 0."


def _format_change(change: Interval, unit: RewardUnit, own: Interval | None = None) -> str:
    """A difference with its interval, and in the reward's own units where the transform allows it."""
    told, described = f"{format_value(change)} ({format_interval(change)})", unit.describe_difference(own or change)
    return f"{told}, {described}" if described else told


def long_run_headline(found: LongRunValue, unit: RewardUnit) -> str:
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


def _draw_values(found: OffPolicy, unit: RewardUnit) -> tuple[Markup, str]:
    figure, axes = _dots(found, "value", f"{unit} per decision point", "Value")
    logged = found.value(LOGGED).value
    axes.axvline(logged.value, color=INK, linewidth=0.8, linestyle="--", label=LOGGED)
    add_legend(figure, axes)
    note = "Dots are estimates, bars 95 % intervals over people where there are any. Dashed: the mean of the logs."
    return inline_svg(figure, f"Values of the policies by {len(found.estimators)} estimators"), note


def _draw_differences(found: OffPolicy, unit: RewardUnit) -> tuple[Markup, str]:
    figure, axes = _dots(found, "difference", f"{unit} per decision point", "More than was logged")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    add_legend(figure, axes)
    note = "To the right of the dashed line a policy is worth more than the one that was used."
    return inline_svg(figure, "Differences to the logging policy"), note


def _draw_overlap(found: OffPolicy) -> tuple[Markup, str]:
    names = [row.policy for row in found.overlap]
    figure, axes = new_figure(width=5.2, height=1.5 + 0.4 * len(names))
    for poor, label, colour in ((False, "enough", BLUE), (True, "too little", ORANGE)):
        rows = [place for place, row in enumerate(found.overlap) if bool(row.warning) == poor]
        share = [100 * found.overlap[place].effective_sample_size / found.decision_points for place in rows]
        axes.barh(rows, share, color=colour, height=0.6, label=label)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    label_axes(axes, x="effective sample size (% of decision points)", y="", title="Overlap with the logs")
    add_legend(figure, axes)
    return inline_svg(figure, "Effective sample sizes"), "How much of the logs speaks about each policy."
