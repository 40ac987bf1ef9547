"""The plots of an audit."""

import numpy as np

from surefoot.audit.measures import Measures, Sensitivity, find_audited
from surefoot.inference.intervals import ratio_interval
from surefoot.reports import figures
from surefoot.reports.figures import Drawable, Picture, finish_picture

WIDEST = 4.0
"""Residuals beyond this many limits are drawn at the edge."""


def draw_pictures(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> list[Picture]:
    """The pictures of the page; of a critic without a limit the residuals only."""
    pictures = [draw_residuals(measures, figures.new_page_figure())]
    if measures.fitted.critic_.removal is not None:
        pictures += [draw_people(measures), draw_time(measures)]
        pictures += [draw_limits(measures, sensitivity, kind) for kind in ("effects", "rates")]
    return pictures


def draw_residuals(measures: Measures, ax: Drawable) -> Picture:
    """Kept and removed residuals in units of their limit."""
    removal = measures.fitted.critic_.removal
    values = np.clip(measures.relative, -WIDEST, WIDEST)
    bins = np.linspace(-WIDEST, WIDEST, 65).tolist()
    axes = figures.choose_axes(ax, **figures.SMALL)
    axes.hist(values[measures.used & ~measures.removed], bins=bins, color=figures.BLUE, alpha=0.75, label="kept")
    note = "Distance of outcomes from the fit, in the width that normal noise would have."
    if removal is not None:
        outline = {"bins": bins, "histtype": "step", "linewidth": 1.5}
        treated = measures.treated
        axes.hist(values[measures.removed & ~treated], color=figures.GREY, label="removed, nothing sent", **outline)
        axes.hist(values[measures.removed & treated], color=figures.ORANGE, label="removed, sent", **outline)
        axes.axvline(-1, color=figures.INK, linewidth=0.8, linestyle="--", label=removal.name)
        axes.axvline(1, color=figures.INK, linewidth=0.8, linestyle="--")
        note = "Artefacts stand apart. A tail that runs smoothly through the dashed line is a skewed outcome being cut."
    axes.set_yscale("log")  # Matplotlib wants counts above 0 first, and all may have been removed.
    x = f"residual, in {'caps of normal noise' if removal is None else removal.unit} (± 4 and beyond at the edge)"
    description = "Histogram of residuals in units of their limit, kept and removed"
    return finish_picture(axes, description, note, x=x, y="decision points (log scale)", title="Residuals")


def draw_people(measures: Measures) -> Picture:
    """Each participant's share of removed decision points."""
    used = measures.total(measures.used)
    removed = measures.total(measures.removed)
    shares = 100 * removed[used > 0] / used[used > 0]
    rank, shown = figures.thin_out(shares)
    axes = figures.new_figure(**figures.SMALL)[1]
    axes.plot(rank, shown, "o", color=figures.BLUE, markersize=4, label="one participant")
    axes.axhline(100 * removed.sum() / used.sum(), color=figures.ORANGE, label="all people")
    axes.set_ylim(bottom=0)
    note = "A participant far above the others may have a broken sensor."
    note += figures.describe_sample(len(rank), len(shares), "people")
    labels = {"x": "people, by share removed", "y": "decision points removed (%)", "title": "Removal by participant"}
    return finish_picture(axes, "Share of decision points removed for every participant", note, **labels)


def draw_time(measures: Measures) -> Picture:
    """Rates of removal over participants' time, by action."""
    tenth = np.minimum((10 * measures.elapsed).astype(np.int64), 9)
    axes = figures.new_figure(**figures.SMALL)[1]
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
    labels = {"x": "part of the participant's study (%)", "y": "decision points removed (%)"}
    description = "Share of decision points removed over time after sending and after nothing"
    note = "Bars: 95 % intervals over people."
    return finish_picture(axes, description, note, **labels, title="Removal over time, by action")


def draw_limits(measures: Measures, sensitivity: tuple[Sensitivity, ...], kind: str) -> Picture:
    """At several limits the mean effect (`effects`), or the send rate and the share removed (`rates`)."""
    axes = figures.new_figure(**figures.SMALL)[1]
    *grid, unlimited = sensitivity
    limit = measures.fitted.critic_.limit_name
    taus = [row.tau for row in grid]
    without = {"color": figures.GREEN, "linestyle": "--"}
    if kind == "effects":
        values, ends = figures.interval_bars([row.effect for row in grid])
        label = f"with {limit} there"
        axes.errorbar(taus, values, ends, fmt="o-", color=figures.BLUE, markersize=4, linewidth=1, label=label)
        axes.axhline(unlimited.effect.value, label=f"without {limit}", **without)
        texts = ("Mean treatment effect at several limits", "Bars: 95 % intervals over people.")
        labels = {"y": f"mean effect of sending\n({measures.unit})", "title": "Effect and limit"}
    else:
        axes.plot(taus, [100 * row.send_rate for row in grid], "o-", color=figures.BLUE, label="send rate")
        axes.plot(taus, [100 * row.removed for row in grid], "s-", color=figures.ORANGE, label="decision points removed")
        axes.axhline(100 * unlimited.send_rate, label=f"send rate without {limit}", **without)
        axes.set_ylim(0, 100)
        texts = ("Send rate and share removed at several limits", "At the logged states.")
        labels = {"y": "decision points (%)", "title": "Sending and limit"}
    axes.axvline(find_audited(sensitivity).tau, color=figures.GREY, linewidth=0.8, label="this fit")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(taus, [row.label for row in grid])
    return finish_picture(axes, *texts, x="τ (height of the limit)", **labels)
