"""The audit as a page: the verdicts, what stands behind them, and everybody's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.audit.findings import AuditFindings
from surefoot.audit.summary import describe_counts
from surefoot.inference.intervals import ratio_interval
from surefoot.reports.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    add_legend,
    describe_sample,
    interval_bars,
    label_axes,
    new_figure,
    thin_out,
)
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 5.2, 3.5
"""Inches: on a telephone the figures are shown at two thirds of this and can still be read."""
WIDEST = 4.0
"""Residuals beyond so many limits are drawn at the edge."""
SHOWN_ROWS, SHOWN_PEOPLE = 12, 200


def render_page(audit: AuditFindings, *, title: str, source: str = "") -> str:
    """A self-contained HTML page."""
    removal = audit.measures.fitted.critic_.removal
    charts = [_draw_residuals(audit)]
    if removal is not None:
        charts += [_draw_people(audit), _draw_time(audit), _draw_effects(audit), _draw_send_rates(audit)]
    return render(
        "audit.html",
        title=title,
        source=source,
        audit=audit,
        counts=describe_counts(audit),
        removal=removal,
        charts=charts,
        people=audit.list_most_removed(SHOWN_PEOPLE),
        people_in_all=len(audit.measures.fitted.logs_.participants),
        removed=audit.removed("pyarrow", most=SHOWN_ROWS).to_pylist(),
        removed_in_all=int(audit.measures.removed.sum()),
        infinite=np.inf,
    )


def _draw_residuals(audit: AuditFindings) -> tuple[Markup, str]:
    measures, removal = audit.measures, audit.measures.fitted.critic_.removal
    values, edges = np.clip(measures.relative, -WIDEST, WIDEST), np.linspace(-WIDEST, WIDEST, 65)
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.hist(values[measures.used & ~measures.removed], bins=list(edges), color=BLUE, alpha=0.75, label="kept")
    note = "How far rewards lie from what the fit expects, in the width that normal noise would have."
    if removal is not None:
        for mask, label, colour in (
            (~measures.treated, "removed, nothing sent", GREY),
            (measures.treated, "removed, sent", ORANGE),
        ):
            gone = values[measures.removed & mask]
            axes.hist(gone, bins=list(edges), histtype="step", linewidth=1.5, color=colour, label=label)
        axes.axvline(-1, color=INK, linewidth=0.8, linestyle="--", label=removal.name)
        axes.axvline(1, color=INK, linewidth=0.8, linestyle="--")
        note = "Artefacts stand apart. A tail that runs smoothly through the dashed line is a skewed reward being cut."
    axes.set_yscale("log")  # Matplotlib wants counts above 0 first, and all may have been removed.
    label_axes(
        axes,
        x=f"residual, in {removal.unit if removal else 'caps of normal noise'} (± 4 and beyond at the edge)",
        y="decision points (log scale)",
        title="Residuals",
    )
    add_legend(figure, axes)
    return inline_svg(figure, "Histogram of residuals in units of their limit, kept and removed"), note


def _draw_people(audit: AuditFindings) -> tuple[Markup, str]:
    measures = audit.measures
    used, removed = measures.total(measures.used), measures.total(measures.removed)
    everybody = 100 * removed[used > 0] / used[used > 0]
    rank, share = thin_out(everybody)
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(rank, share, "o", color=BLUE, markersize=4, label="one participant")
    axes.axhline(100 * removed.sum() / used.sum(), color=ORANGE, label="over all")
    axes.set_ylim(bottom=0)
    label_axes(axes, x="people, by share removed", y="decision points removed (%)", title="Removal by participant")
    add_legend(figure, axes)
    note = "Somebody far above the others may have a broken sensor."
    note += describe_sample(len(rank), len(everybody), "people")
    return inline_svg(figure, "Share of decision points removed for every participant"), note


def _draw_time(audit: AuditFindings) -> tuple[Markup, str]:
    measures, elapsed = audit.measures, audit.measures.elapsed
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    for group, label, colour, aside in (
        (measures.treated, "sent", ORANGE, 0.8),
        (~measures.treated, "nothing sent", GREY, -0.8),
    ):
        found, middles = [], []
        for tenth in range(10):
            rows = measures.used & group & (elapsed >= tenth / 10) & (elapsed < (tenth + 1) / 10)
            if rows.any():
                found.append(ratio_interval(measures.total(rows & measures.removed), measures.total(rows)))
                middles.append(10 * tenth + 5 + aside)
        rates, ends = interval_bars(found, scale=100)
        axes.errorbar(middles, rates, ends, fmt="o", color=colour, label=label, markersize=4, linewidth=1)
    axes.set_ylim(bottom=0)
    x = "part of the participant's study (%)"
    label_axes(axes, x=x, y="decision points removed (%)", title="Removal over time, by action")
    add_legend(figure, axes)
    alternative = "Share of decision points removed over time after sending and after nothing"
    return inline_svg(figure, alternative), "Bars: 95 % intervals over people."


def _draw_effects(audit: AuditFindings) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    grid, limit = audit.sensitivity[:-1], audit.measures.fitted.critic_.removal.name
    taus = [found.tau for found in grid]
    values, ends = interval_bars([found.effect for found in grid])
    axes.errorbar(taus, values, ends, fmt="o-", color=BLUE, markersize=4, linewidth=1, label=f"with {limit} there")
    axes.axhline(audit.sensitivity[-1].effect.value, color=GREEN, linestyle="--", label=f"without {limit}")
    axes.axvline(audit.measures.fitted.critic_.strictness, color=GREY, linewidth=0.8, label="this fit")
    _set_logarithmic(axes, taus)
    label_axes(
        axes, x="τ (how high the limit is)", y=f"mean effect of sending\n({audit.measures.unit})", title="Effect and limit"
    )
    add_legend(figure, axes)
    return inline_svg(figure, "Mean treatment effect at several limits"), "Bars: 95 % intervals over people."


def _draw_send_rates(audit: AuditFindings) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    grid, limit = audit.sensitivity[:-1], audit.measures.fitted.critic_.removal.name
    taus = [found.tau for found in grid]
    axes.plot(taus, [100 * found.send_rate for found in grid], "o-", color=BLUE, label="send rate")
    axes.plot(taus, [100 * found.removed for found in grid], "s-", color=ORANGE, label="decision points removed")
    axes.axhline(100 * audit.sensitivity[-1].send_rate, color=GREEN, linestyle="--", label=f"send rate without {limit}")
    axes.axvline(audit.measures.fitted.critic_.strictness, color=GREY, linewidth=0.8, label="this fit")
    axes.set_ylim(0, 100)
    _set_logarithmic(axes, taus)
    label_axes(axes, x="τ (how high the limit is)", y="decision points (%)", title="Sending and limit")
    add_legend(figure, axes)
    return inline_svg(figure, "Send rate and share removed at several limits"), "At the logged states."


def _set_logarithmic(axes: Axes, ticks: list[float]) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
