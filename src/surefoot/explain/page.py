"""The policy card as a page, with the curves behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.explain.consequences import ActionConsequence
from surefoot.explain.differences import Difference
from surefoot.explain.explained_policy import ExplainedPolicy
from surefoot.explain.policy_card import choose_coefficients, make_card
from surefoot.explain.response import Curve
from surefoot.explain.time_courses import TimeCourse
from surefoot.reports.figures import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SERIES,
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

WIDTH, HEIGHT = 5.2, 3.6
SHOWN_PEOPLE = 60
"""A figure with a mark for each participant shows at most so many, evenly spaced."""


def render_page(explained: ExplainedPolicy, *, title: str, source: str = "") -> str:
    """A self-contained HTML page."""
    names = explained.fitted.logs_.action_names
    return render(
        "explain.html",
        title=title,
        card=make_card(explained, title),
        explanation=explained,
        answers=[_draw_curve(curve, names) for curve in explained.curves],
        differences=[_draw_difference(found, str(explained.unit)) for found in explained.differences],
        consequences=[_draw_lags(found) for found in explained.consequences],
        when=[*map(_draw_course, explained.courses), _draw_people(explained)],
        charts=[_draw_coefficients(explained, part.part) for part in reversed(explained.fitted.coefficient_parts_)],
        source=source,
    )


def _draw_coefficients(explained: ExplainedPolicy, part: str) -> tuple[Markup, str]:
    """A forest plot: features in the order of the state, the intercept last, whatever the part."""
    names = explained.fitted.logs_.action_names
    order = {feature: place for place, feature in enumerate((*explained.fitted.logs_.state_names, "intercept"))}
    rows = [row for row in explained.coefficients.rows if row.part == part and row.action != names[0]]
    every = len(rows)
    rows = choose_coefficients(rows)
    rows.sort(key=lambda row: (names.index(row.action), order[row.feature]))
    labels = [f"{row.action}: {row.feature}" if len(names) > 2 else row.feature for row in rows]
    values, ends = interval_bars([row.interval for row in rows])
    figure, axes = new_figure(width=WIDTH, height=1.6 + 0.33 * len(rows))
    label = f"{explained.fitted.pooling_.estimates.lower()}, 95 % interval"
    place = np.arange(len(rows))
    axes.errorbar(values, place, xerr=ends, fmt="o", color=BLUE, markersize=4, linewidth=1.2, label=label)
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--", label="no difference")
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if part == "policy":
        label_axes(axes, x="logit per unit", y="", title="Policy: what makes it send")
        note = "To the right of the dashed line: more likely to send."
    else:
        label_axes(axes, x=f"{explained.unit} per unit, over doing nothing", y="", title="Critic: the effect of sending")
        note = "The gain of sending that the critic expects, by feature."
    if len(rows) < every:
        note += f" The {len(rows)} largest of {every}, in units of their standard errors; the table has all."
    add_legend(figure, axes)
    return inline_svg(figure, f"Coefficients of the {part} with intervals"), note


def _draw_lags(found: ActionConsequence) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    shown = found.lags[: max(found.felt + 2, 3)]
    axes.bar([0], shown[:1], color=BLUE, width=0.7, label="now")
    axes.bar(np.arange(1, len(shown)), shown[1:], color=ORANGE, width=0.7, label="later")
    axes.axhline(0, color=INK, linewidth=0.8)
    label_axes(axes, x="decision points after it", y="change in the outcome", title=f"{found.action}, now and later")
    add_legend(figure, axes)
    return inline_svg(figure, f"Change in the outcome after {found.action}"), "At the mean state, beside doing nothing."


def _draw_difference(found: Difference, unit: str) -> tuple[Markup, str]:
    """Everybody's own fit, and where it was drawn to, by the latter."""
    there = np.flatnonzero(~np.isnan(found.own))
    order = there[np.argsort(found.drawn[there])]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), SHOWN_PEOPLE)).round().astype(np.int64))]
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    place = np.arange(1, len(shown) + 1)
    axes.vlines(place, found.own[shown], found.drawn[shown], color=GREY, linewidth=0.8)
    axes.plot(place, found.own[shown], "o", color=GREY, markersize=3, label="own decision points alone")
    axes.plot(place, found.drawn[shown], "o", color=BLUE, markersize=4, label="drawn towards everybody's")
    axes.axhline(found.population, color=ORANGE, linestyle="--", label="population")
    label_axes(axes, x="people, by their coefficient", y=f"{unit} per unit", title=found.label)
    add_legend(figure, axes)
    note = f"Own fits were drawn {100 * found.pulled:.0f} % of the way to everybody's."
    note += describe_sample(len(shown), len(order), "people")
    return inline_svg(figure, f"Own and partially pooled coefficients: {found.label}"), note


def _draw_curve(curve: Curve, names: tuple[str, ...]) -> tuple[Markup, str]:
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    for code in range(1, len(names)):
        _draw_action(axes, curve, code, names[code], SERIES[(code - 1) % len(SERIES)])
    if curve.labels:
        axes.set_xticks(range(len(curve.labels)), curve.labels)
        axes.set_xlim(-0.5, len(curve.labels) - 0.5)
    axes.set_ylim(0, 100)
    what = "probability (%)" if len(names) > 2 else f"probability of {names[1]} (%)"
    label_axes(axes, x=curve.variable, y=what, title=f"As {curve.variable} moves")
    add_legend(figure, axes)
    note = "Other variables as logged."
    if curve.labels and len(curve.labels) > 2:
        note = "The variable as a whole, one value at a time; other variables as logged."
    note += describe_sample(*curve.points, "decision points")
    return inline_svg(figure, f"Probability of each action by {curve.variable}"), note


def _draw_action(axes: Axes, curve: Curve, code: int, name: str, colour: str) -> None:
    mean, low, high = (100 * part[:, code] for part in (curve.probability, curve.low, curve.high))
    if curve.labels:
        label = f"{name}; bar: {curve.band}" if curve.band else name
        ends = np.maximum([mean - low, high - mean], 0.0)  # A mean may lie beyond the quantiles of its draws.
        axes.errorbar(range(len(mean)), mean, ends, fmt="o", color=colour, label=label, markersize=5)
        return
    axes.plot(curve.grid, mean, color=colour, label=name)
    if curve.band:
        axes.fill_between(curve.grid, low, high, color=colour, alpha=0.2, linewidth=0, label=curve.band)


def _draw_course(course: TimeCourse) -> tuple[Markup, str]:
    """What is not a number leaves a gap in a line, and nobody is drawn where nobody was."""
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    there = np.where(course.people > 0, course.people, np.nan)
    axes.plot(course.place, there, ".-", color=GREY, linewidth=1, label="with a usable decision point")
    axes.plot(course.place, there * course.treated, "o-", color=BLUE, markersize=4, label="would be treated")
    axes.plot(course.place, there * course.logged, "s--", color=ORANGE, markersize=3, label="were treated")
    aside = (course.place[-1] - course.place[0]) / 40 or 0.5
    axes.set_xlim(course.place[0] - aside, course.place[-1] + aside)
    axes.set_ylim(bottom=0)
    label_axes(axes, x=course.label, y="people", title="How many people, when")
    add_legend(figure, axes)
    note = "Expected number of people at a decision point. Where a line is broken there are no data."
    return inline_svg(figure, f"People who would be treated by {course.label}"), note


def _draw_people(explained: ExplainedPolicy) -> tuple[Markup, str]:
    everybody = 100 * explained.send_rates[~np.isnan(explained.send_rates)]
    rank, rates = thin_out(everybody)
    figure, axes = new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(rank, rates, "o", color=BLUE, markersize=4, label="one participant")
    axes.axhline(100 * explained.logged_rate, color=ORANGE, linestyle="--", label="as logged, over all")
    axes.set_ylim(0, 100)
    label_axes(axes, x="people, by send rate", y="would be sent something (%)", title="How often each participant")
    add_legend(figure, axes)
    note = "The policy's mean probability of sending at each participant's logged states."
    note += describe_sample(len(rank), len(everybody), "people")
    return inline_svg(figure, "Send rate of every participant"), note
