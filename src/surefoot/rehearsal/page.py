"""The page of checks: simulated pilots beside the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.rehearsal.check_statistics import mean
from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, label_axes, new_figure
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup

    from surefoot.rehearsal.pilot_comparison import PilotComparison

Floats = NDArray[np.float64]
BINS = 40


def render_checks(checks: PilotComparison, *, title: str, source: str) -> str:
    """A self-contained HTML page."""
    charts = [_draw_values(checks), _draw_days(checks)]
    if checks.model.anatomy.clock.per_day > 1:
        charts.insert(1, _draw_hours(checks))
    return render("rehearsal_checks.html", title=title, source=source, checks=checks, charts=charts,
                  family=checks.model.anatomy.family)  # fmt: skip


def _unit(checks: PilotComparison) -> str:
    study = checks.model.anatomy.study
    return str(study.reward_unit) if checks.model.anatomy.reward is not None else study.reward.column


def _draw_values(checks: PilotComparison) -> tuple[Markup, str]:
    """The distribution of rewards."""
    figure, axes = new_figure(width=5.6, height=3.4)
    real, drawn = checks.observed.reward, checks.simulated.reward
    edges = np.linspace(np.nanmin(real), np.nanmax(real), BINS + 1)
    shares = np.array([np.histogram(one[~np.isnan(one)], edges)[0] / (~np.isnan(one)).sum() for one in drawn])
    low, high = 100 * np.quantile(shares, (0.025, 0.975), axis=0)
    middle = (edges[1:] + edges[:-1]) / 2
    axes.fill_between(middle, low, high, color=BLUE, alpha=0.25, linewidth=0, step="mid", label="95 % of simulated pilots")
    observed = 100 * np.histogram(real[~np.isnan(real)], edges)[0] / (~np.isnan(real)).sum()
    axes.step(middle, observed, color=ORANGE, where="mid", linewidth=1.6, label="pilot")
    label_axes(axes, x=_unit(checks), y="% of decision points", title="Outcomes")
    add_legend(figure, axes)
    note = "How often outcomes of each size came."
    return inline_svg(figure, note), note


def _draw_hours(checks: PilotComparison) -> tuple[Markup, str]:
    per_day = checks.model.anatomy.clock.per_day
    figure, axes = new_figure(width=5.6, height=3.4)

    def means(records: NDArray[np.float64], slot: NDArray[np.int64]) -> Floats:
        return np.stack([mean(np.where(slot == one, records, np.nan)) for one in range(per_day)], axis=1)

    drawn = means(checks.simulated.reward, checks.simulated.slot)
    real = means(checks.observed.reward, checks.observed.slot)[0]
    _draw_band(axes, np.arange(1, per_day + 1), drawn, real)
    axes.set_xticks(np.arange(1, per_day + 1)[:: max(1, per_day // 8)])
    label_axes(axes, x="decision point of the day", y=f"mean {_unit(checks)}", title="Time of day")
    add_legend(figure, axes)
    note = "The mean outcome at each decision point of the day."
    return inline_svg(figure, note), note


def _draw_days(checks: PilotComparison) -> tuple[Markup, str]:
    per_day = checks.model.anatomy.clock.per_day
    points = checks.observed.reward.shape[-1]
    pieces = np.array_split(np.arange(points), min(14, points))
    figure, axes = new_figure(width=5.6, height=3.4)

    def means(records: Floats) -> Floats:
        return np.stack([mean(records[..., piece]) for piece in pieces], axis=1)

    days = np.array([piece.mean() for piece in pieces]) / per_day
    _draw_band(axes, days, means(checks.simulated.reward), means(checks.observed.reward)[0])
    label_axes(axes, x="day", y=f"mean {_unit(checks)}", title="Over the study")
    add_legend(figure, axes)
    note = "The mean outcome over the days of the study."
    return inline_svg(figure, note), note


def _draw_band(axes: object, x: Floats | NDArray[np.int64], drawn: Floats, real: Floats) -> None:
    low, middle, high = np.nanquantile(drawn, (0.025, 0.5, 0.975), axis=0)
    axes.fill_between(x, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % of simulated pilots")  # type: ignore[attr-defined]
    axes.plot(x, middle, color=GREY, linewidth=1.0, label="median")  # type: ignore[attr-defined]
    axes.plot(x, real, color=ORANGE, marker="o", markersize=3, linewidth=1.6, label="pilot")  # type: ignore[attr-defined]
