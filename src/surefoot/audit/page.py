"""The audit as a page: the verdicts, what stands behind them, and everybody's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.audit import Audit
from surefoot.reports.figures import BLUE, GREEN, GREY, INK, ORANGE, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 5.2, 3.5
"""Inches: on a telephone the figures are shown at two thirds of this and can still be read."""
WIDEST = 4.0
"""Residuals beyond so many caps are drawn at the edge."""
SHOWN_ROWS = 12


def render_page(audit: Audit, *, title: str, source: str = "") -> str:
    """A self-contained HTML page."""
    charts = [_residuals(audit), _people(audit), _time(audit)]
    if len(audit.sensitivity) > 1:
        charts += [_effects(audit), _send_rates(audit)]
    people, removed = audit.people("pyarrow").to_pylist(), audit.removed("pyarrow").to_pylist()
    removed.sort(key=lambda row: -abs(row["residual"]))
    return render(
        "audit.html",
        title=title,
        source=source,
        audit=audit,
        totals=audit.totals(),
        charts=charts,
        people=people,
        participant=audit.measures.fitted.logs_.names.participant,
        removed=removed[:SHOWN_ROWS],
        removed_in_all=len(removed),
        infinite=np.inf,
    )


def _residuals(audit: Audit) -> tuple[Markup, str]:
    measures = audit.measures
    values = np.clip(measures.relative, -WIDEST, WIDEST)
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    edges = np.linspace(-WIDEST, WIDEST, 65)
    axes.hist(values[measures.used & ~measures.removed], bins=list(edges), color=BLUE, alpha=0.75, label="kept")
    for mask, label, colour in (
        (~measures.treated, "removed, nothing sent", GREY),
        (measures.treated, "removed, sent", ORANGE),
    ):
        gone = values[measures.removed & mask]
        axes.hist(gone, bins=list(edges), histtype="step", linewidth=1.5, color=colour, label=label)
    axes.set_yscale("log")
    if measures.fitted.critic_.removal is not None:
        for edge in (-1, 1):
            axes.axvline(edge, color=INK, linewidth=0.8, linestyle="--")
    label_axes(
        axes,
        x="residual, in caps (± 4 and beyond at the edge)",
        y="decision points (log scale)",
        title="Residuals and the cap",
    )
    add_legend(figure, axes)
    note = "Artefacts stand apart. A tail that runs smoothly through the dashed line is a skewed reward being cut."
    return inline_svg(figure, "Histogram of residuals in units of the cap, kept and removed"), note


def _people(audit: Audit) -> tuple[Markup, str]:
    measures = audit.measures
    used, removed = measures.total(measures.used), measures.total(measures.removed)
    share = 100 * np.sort(removed[used > 0] / used[used > 0])
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(np.arange(1, len(share) + 1), share, "o", color=BLUE, markersize=4)
    axes.axhline(100 * removed.sum() / used.sum(), color=ORANGE, label="over all")
    axes.set_ylim(bottom=0)
    label_axes(axes, x="people, by share removed", y="decision points removed (%)", title="Removal by participant")
    add_legend(figure, axes)
    return inline_svg(figure, "Share of decision points removed for every participant"), "One dot is one participant."


def _time(audit: Audit) -> tuple[Markup, str]:
    measures, logs = audit.measures, audit.measures.fitted.logs_
    lengths = np.diff(logs.starts)
    place = np.empty(len(logs))
    place[logs.order] = (np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)) / np.repeat(lengths, lengths)
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    for group, label, colour in ((measures.treated, "sent", ORANGE), (~measures.treated, "nothing sent", GREY)):
        found, middles = [], []
        for tenth in range(10):
            rows = measures.used & group & (place >= tenth / 10) & (place < (tenth + 1) / 10)
            if rows.sum():
                found.append(measures.bootstrap.ratio(measures.total(rows & measures.removed), measures.total(rows)))
                middles.append(10 * tenth + 5 + (0.8 if label == "sent" else -0.8))
        rates, ends = interval_bars(found, scale=100)
        axes.errorbar(middles, rates, ends, fmt="o", color=colour, label=label, markersize=4, linewidth=1)
    axes.set_ylim(bottom=0)
    label_axes(
        axes, x="part of the participant's study (%)", y="decision points removed (%)", title="Removal over time, by action"
    )
    add_legend(figure, axes)
    return inline_svg(
        figure, "Share of decision points removed over time after sending and after nothing"
    ), "Bars: 95 % over people."


def _effects(audit: Audit) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    grid = audit.sensitivity[:-1]
    taus = [found.tau for found in grid]
    values, ends = interval_bars([found.effect for found in grid])
    axes.errorbar(taus, values, ends, fmt="o-", color=BLUE, markersize=4, linewidth=1, label="capped")
    axes.axhline(audit.sensitivity[-1].effect.value, color=GREEN, linestyle="--", label="without the cap")
    axes.axvline(audit.measures.fitted.critic_.strictness, color=GREY, linewidth=0.8, label="this fit")
    _logarithmic(axes, taus)
    label_axes(
        axes, x="τ (height of the cap)", y="mean effect of sending\n(units of the fitted reward)", title="Effect and the cap"
    )
    add_legend(figure, axes)
    return inline_svg(figure, "Mean treatment effect at several heights of the cap"), "Bars: 95 % over people."


def _send_rates(audit: Audit) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    taus = [found.tau for found in audit.sensitivity[:-1]]
    axes.plot(taus, [100 * found.send_rate for found in audit.sensitivity[:-1]], "o-", color=BLUE, label="send rate")
    axes.plot(
        taus, [100 * found.removed for found in audit.sensitivity[:-1]], "s-", color=ORANGE, label="decision points removed"
    )
    axes.axhline(100 * audit.sensitivity[-1].send_rate, color=GREEN, linestyle="--", label="send rate without the cap")
    axes.axvline(audit.measures.fitted.critic_.strictness, color=GREY, linewidth=0.8)
    axes.set_ylim(0, 100)
    _logarithmic(axes, taus)
    label_axes(axes, x="τ (height of the cap)", y="%", title="Sending and the cap")
    add_legend(figure, axes)
    return inline_svg(figure, "Send rate and share removed at several heights of the cap"), "At the logged states."


def _logarithmic(axes: Axes, ticks: list[float]) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
