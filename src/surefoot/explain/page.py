"""The policy card as a page, with the curves behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.explain import ActionConsequence, Course, Curve, Explanation
from surefoot.explain.policy_card import Card
from surefoot.reports.figures import BLUE, GREY, INK, ORANGE, SERIES, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 5.2, 3.4


def render_page(explanation: Explanation, card: Card, *, source: str = "") -> str:
    """A self-contained HTML page."""
    names = explanation.fitted.logs_.action_names
    charts = [_coefficients(explanation, part) for part in ("policy", "critic")]
    answers = [_curve(curve, names) for curve in explanation.curves]
    when = [_course(course) for course in explanation.courses] + [_people(explanation)]
    return render(
        "explain.html",
        title=card.title,
        card=card,
        explanation=explanation,
        charts=[chart for chart in charts if chart is not None],
        consequences=[_lags(found) for found in explanation.consequences],
        answers=answers,
        when=when,
        source=source,
    )


def _coefficients(explanation: Explanation, part: str) -> tuple[Markup, str] | None:
    reference = explanation.fitted.logs_.action_names[0]
    rows = [row for row in explanation.coefficients.rows if row.part == part and row.action != reference]
    if not rows:
        return None
    several = len({row.action for row in rows}) > 1
    labels = [f"{row.action}: {row.feature}" if several else row.feature for row in rows]
    values, ends = interval_bars([row.interval for row in rows])
    figure, axes = new_figure(width=WIDTH, height=1.4 + 0.33 * len(rows))
    axes.errorbar(values, np.arange(len(rows)), xerr=ends, fmt="o", color=BLUE, markersize=4, linewidth=1.2)
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(rows)), labels)
    axes.margins(y=0.5 / len(rows))
    axes.invert_yaxis()
    if part == "policy":
        label_axes(axes, x="logit per unit", y="", title="Policy: what makes it send")
        note = "To the right of the dashed line: more likely to send."
    else:
        label_axes(axes, x="reward per unit, over doing nothing", y="", title="Critic: the effect of sending")
        note = "The gain of sending that the critic expects, by feature."
    return inline_svg(
        figure, f"Coefficients of the {part} with intervals"
    ), f"{note} {explanation.fitted.pooling_.estimates}, bars 95 %."


def _lags(found: ActionConsequence) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    shown = found.lags[: max(found.felt + 2, 3)]
    axes.bar(np.arange(len(shown)), shown, color=[BLUE, *[ORANGE] * (len(shown) - 1)], width=0.7)
    axes.axhline(0, color=INK, linewidth=0.8)
    label_axes(
        axes, x="decision points after it", y="change in the outcome", title=f"{found.action} now (blue) and later (orange)"
    )
    return inline_svg(figure, f"Change in the outcome after {found.action}"), "At the mean state, beside doing nothing."


def _curve(curve: Curve, names: tuple[str, ...]) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    two = len(curve.grid) <= 3
    for code in range(1, len(names)):
        colour, mean = SERIES[(code - 1) % len(SERIES)], 100 * curve.probability[:, code]
        low, high = 100 * curve.low[:, code], 100 * curve.high[:, code]
        if two:
            axes.errorbar(curve.grid, mean, [mean - low, high - mean], fmt="o", color=colour, label=names[code])
        else:
            axes.plot(curve.grid, mean, color=colour, label=names[code])
            axes.fill_between(curve.grid, low, high, color=colour, alpha=0.2, linewidth=0)
    if two:
        axes.set_xticks(curve.grid, [f"{value:g}" for value in curve.grid])
        margin = 0.5 * (curve.grid[-1] - curve.grid[0]) or 1.0
        axes.set_xlim(curve.grid[0] - margin, curve.grid[-1] + margin)
    axes.set_ylim(0, 100)
    if len(names) > 2:
        add_legend(figure, axes)
    what = "probability (%)" if len(names) > 2 else f"probability of {names[1]} (%)"
    label_axes(axes, x=curve.variable, y=what, title=f"As {curve.variable} moves")
    note = "Other variables as logged." + (f" Band: {curve.band}." if curve.band else "")
    return inline_svg(figure, f"Probability of each action by {curve.variable}"), note


def _course(course: Course) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(course.place, course.people, color=GREY, linewidth=1, label="with a usable decision point")
    axes.plot(course.place, course.people * course.treated, "o-", color=BLUE, markersize=4, label="would be treated")
    axes.plot(course.place, course.people * course.logged, "--", color=ORANGE, label="were treated")
    axes.set_ylim(bottom=0)
    label_axes(axes, x=course.label, y="people", title="How many people, when")
    add_legend(figure, axes)
    return inline_svg(figure, f"People who would be treated by {course.label}"), "Expected number at a decision point."


def _people(explanation: Explanation) -> tuple[Markup, str]:
    rates = 100 * np.sort(explanation.send_rates[~np.isnan(explanation.send_rates)])
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(np.arange(1, len(rates) + 1), rates, "o", color=BLUE, markersize=4)
    axes.axhline(100 * explanation.logged_rate, color=ORANGE, linestyle="--", label="as logged, over all")
    axes.set_ylim(0, 100)
    label_axes(axes, x="people, by send rate", y="would be sent something (%)", title="How often each participant")
    add_legend(figure, axes)
    return inline_svg(figure, "Send rate of every participant"), "One dot is one participant."
