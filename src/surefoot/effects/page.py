"""Effects as a page: what was found in a sentence, a forest plot, the effect over study days, and what stands beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.report import EffectCurve, EffectRow, EffectsReport
from surefoot.effects.text import quality_lines
from surefoot.reports.figures import BLUE, GREY, INK, add_legend, label_axes, new_figure
from surefoot.reports.numbers import format_number
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes


def page(report: EffectsReport, *, title: str, source: str = "") -> str:
    """A self-contained HTML page."""
    charts = [_forest(report)]
    if report.curve is not None:
        charts.append(_over_days(report, report.curve))
    estimator = ESTIMATORS[report.estimator]
    return render(
        "effects.html",
        title=title,
        source=source,
        report=report,
        charts=charts,
        estimator=estimator,
        quality=quality_lines(report.quality),
        percent=_percent if report.words.relative else None,
    )


def _unit(report: EffectsReport) -> str:
    analysis = report.main.points.analysis
    if report.words.chance:
        return "log relative risk"
    return "outcome" if analysis.transform == "none" else analysis.transform.replace("x", analysis.outcome)


def _percent(row: EffectRow) -> str:
    """e^effect − 1, with its interval."""
    value, low, high = (f"{100 * math.expm1(end):+.0f}".replace("-", "−") for end in (row.estimate, row.low, row.high))
    return f"{value} ({low} to {high})"


def _forest(report: EffectsReport) -> tuple[Markup, str]:
    """Averages and values at moderators; slopes per unit have another unit and stand in the table."""
    rows = [row for row in report.table if "per 1 of " not in row.effect]
    place, values = np.arange(len(rows)), np.array([row.estimate for row in rows])
    ends = np.array([(row.estimate - row.low, row.high - row.estimate) for row in rows]).T
    figure, axes = new_figure(width=5.6, height=1.5 + 0.5 * len(rows))
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
    label = "estimate, 95 % interval"
    axes.errorbar(values, place, xerr=ends, fmt="o", color=BLUE, markersize=5, linewidth=1.4, capsize=3, label=label)
    labels = [row.effect if row.effect == row.analysis else f"{row.effect}\n({row.analysis})" for row in rows]
    axes.set_yticks(place, labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    label_axes(axes, x=f"Effect on {_unit(report)}", y="", title="Effects")
    add_legend(figure, axes)
    _percent_axis(axes, report)
    note = "Intervals are corrected for few participants."
    return inline_svg(figure, "Forest plot: " + "; ".join(f"{row.effect} {row.estimate:.3g}" for row in rows)), note


def _over_days(report: EffectsReport, curve: EffectCurve) -> tuple[Markup, str]:
    figure, axes = new_figure(width=5.6, height=3.4)
    axes.axhline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
    axes.fill_between(curve.values, curve.low, curve.high, color=BLUE, alpha=0.2, linewidth=0, label="95 % interval")
    axes.plot(curve.values, curve.effect, color=BLUE, linewidth=1.8, label="effect")
    axes.margins(x=0)
    label_axes(axes, x=f"{curve.over} of the study" if curve.over == "day" else curve.over, y=f"Effect on {_unit(report)}",
          title=f"Effect over {curve.over}")  # fmt: skip
    add_legend(figure, axes, columns=3)
    note = "A straight line with its pointwise 95 % band; a trend of another shape would look otherwise."
    first, last = format_number(float(curve.effect[0])), format_number(float(curve.effect[-1]))
    return inline_svg(figure, f"Effect over {curve.over}, from {first} to {last}"), note


def _percent_axis(axes: Axes, report: EffectsReport) -> None:
    """Ratios as per cent along the upper edge."""
    if not report.words.relative:
        return
    low, high = axes.get_xlim()
    marks = [mark for mark in (-75, -50, -25, 0, 25, 50, 100, 200, 400) if low < math.log1p(mark / 100) < high]
    upper = axes.twiny()
    upper.set_xlim(low, high)
    upper.set_xticks(
        [math.log1p(mark / 100) for mark in marks], [f"{mark:+d} %".replace("-", "−").replace("+0", "0") for mark in marks]
    )
    upper.tick_params(colors=GREY, labelsize="small")
    upper.spines[["right", "left", "bottom"]].set_visible(False)
    upper.spines["top"].set_color(GREY)
