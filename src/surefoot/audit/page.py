"""The plots of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.audit.measures import Measures, Sensitivity, find_audited
from surefoot.inference.intervals import ratio_interval
from surefoot.reports import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.2
HEIGHT = 3.5
"""Inches: on a telephone the figures are shown at two thirds of this and can still be read."""
WIDEST = 4.0
"""Residuals beyond this many limits are drawn at the edge."""


Picture = tuple["Figure", str, str]
"""A figure, its description for readers who cannot see it, and the note below it."""


def draw_pictures(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> list[Picture]:
    """The pictures of the page; of a critic without a limit the residuals only."""
    if measures.fitted.critic_.removal is None:
        return [draw_residuals(measures)]
    by_limit = [draw_effects(measures, sensitivity), draw_send_rates(measures, sensitivity)]
    return [draw_residuals(measures), draw_people(measures), draw_time(measures), *by_limit]


def draw_residuals(measures: Measures) -> Picture:
    """Kept and removed residuals in units of their limit."""
    removal = measures.fitted.critic_.removal
    values = np.clip(measures.relative, -WIDEST, WIDEST)
    bins = np.linspace(-WIDEST, WIDEST, 65).tolist()
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    axes.hist(values[measures.used & ~measures.removed], bins=bins, color=figures.BLUE, alpha=0.75, label="kept")
    note = "Distance of rewards from the fit, in the width that normal noise would have."
    if removal is not None:
        outline = {"bins": bins, "histtype": "step", "linewidth": 1.5}
        treated = measures.treated
        axes.hist(values[measures.removed & ~treated], color=figures.GREY, label="removed, nothing sent", **outline)
        axes.hist(values[measures.removed & treated], color=figures.ORANGE, label="removed, sent", **outline)
        axes.axvline(-1, color=figures.INK, linewidth=0.8, linestyle="--", label=removal.name)
        axes.axvline(1, color=figures.INK, linewidth=0.8, linestyle="--")
        note = "Artefacts stand apart. A tail that runs smoothly through the dashed line is a skewed reward being cut."
    axes.set_yscale("log")  # Matplotlib wants counts above 0 first, and all may have been removed.
    unit = "caps of normal noise" if removal is None else removal.unit
    x = f"residual, in {unit} (± 4 and beyond at the edge)"
    figures.label_axes(axes, x=x, y="decision points (log scale)", title="Residuals")
    figures.add_legend(figure, axes)
    return figure, "Histogram of residuals in units of their limit, kept and removed", note


def draw_people(measures: Measures) -> Picture:
    """Each participant's share of removed decision points."""
    used = measures.total(measures.used)
    removed = measures.total(measures.removed)
    shares = 100 * removed[used > 0] / used[used > 0]
    rank, shown = figures.thin_out(shares)
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(rank, shown, "o", color=figures.BLUE, markersize=4, label="one participant")
    axes.axhline(100 * removed.sum() / used.sum(), color=figures.ORANGE, label="all people")
    axes.set_ylim(bottom=0)
    figures.label_axes(axes, x="people, by share removed", y="decision points removed (%)", title="Removal by participant")
    figures.add_legend(figure, axes)
    note = "A participant far above the others may have a broken sensor." + figures.describe_sample(
        len(rank), len(shares), "people"
    )
    return figure, "Share of decision points removed for every participant", note


def draw_time(measures: Measures) -> Picture:
    """Rates of removal over participants' time, by action."""
    tenth = np.minimum((10 * measures.elapsed).astype(np.int64), 9)
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    groups = ((measures.treated, "sent", figures.ORANGE, 0.8), (~measures.treated, "nothing sent", figures.GREY, -0.8))
    for group, label, colour, offset in groups:
        present = np.unique(tenth[measures.used & group])
        rates = []
        for number in present:
            rows = measures.used & group & (tenth == number)
            rates.append(ratio_interval(measures.total(rows & measures.removed), measures.total(rows)))
        values, ends = figures.interval_bars(rates, scale=100)
        x = 10 * present + 5 + offset
        axes.errorbar(x, values, ends, fmt="o", color=colour, label=label, markersize=4, linewidth=1)
    axes.set_ylim(bottom=0)
    x_label = "part of the participant's study (%)"
    figures.label_axes(axes, x=x_label, y="decision points removed (%)", title="Removal over time, by action")
    figures.add_legend(figure, axes)
    description = "Share of decision points removed over time after sending and after nothing"
    return figure, description, "Bars: 95 % intervals over people."


def draw_effects(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> Picture:
    """The mean effect at several limits."""
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    *grid, unlimited = sensitivity
    limit = measures.fitted.critic_.limit_name
    taus = [row.tau for row in grid]
    values, ends = figures.interval_bars([row.effect for row in grid])
    axes.errorbar(taus, values, ends, fmt="o-", color=figures.BLUE, markersize=4, linewidth=1, label=f"with {limit} there")
    axes.axhline(unlimited.effect.value, color=figures.GREEN, linestyle="--", label=f"without {limit}")
    _finish_limits(axes, sensitivity)
    figures.label_axes(
        axes, x="τ (height of the limit)", y=f"mean effect of sending\n({measures.unit})", title="Effect and limit"
    )
    figures.add_legend(figure, axes)
    return figure, "Mean treatment effect at several limits", "Bars: 95 % intervals over people."


def draw_send_rates(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> Picture:
    """Send rate and share removed at several limits."""
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    *grid, unlimited = sensitivity
    limit = measures.fitted.critic_.limit_name
    taus = [row.tau for row in grid]
    axes.plot(taus, [100 * row.send_rate for row in grid], "o-", color=figures.BLUE, label="send rate")
    axes.plot(taus, [100 * row.removed for row in grid], "s-", color=figures.ORANGE, label="decision points removed")
    axes.axhline(100 * unlimited.send_rate, color=figures.GREEN, linestyle="--", label=f"send rate without {limit}")
    axes.set_ylim(0, 100)
    _finish_limits(axes, sensitivity)
    figures.label_axes(axes, x="τ (height of the limit)", y="decision points (%)", title="Sending and limit")
    figures.add_legend(figure, axes)
    return figure, "Send rate and share removed at several limits", "At the logged states."


def _finish_limits(axes: Axes, sensitivity: tuple[Sensitivity, ...]) -> None:
    """A line at the audited fit, and a logarithmic axis with a tick at every limit."""
    axes.axvline(find_audited(sensitivity).tau, color=figures.GREY, linewidth=0.8, label="this fit")
    axes.set_xscale("log")
    axes.minorticks_off()
    grid = sensitivity[:-1]
    axes.set_xticks([row.tau for row in grid], [row.label for row in grid])
