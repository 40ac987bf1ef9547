"""The plots of an explanation."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.explain.coefficients import Coefficients, Difference, choose_coefficients
from surefoot.explain.response import ActionConsequence, Curve, TimeCourse
from surefoot.learning.methods import Method
from surefoot.reports import figures
from surefoot.reports.numbers import RewardUnit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 5.2
HEIGHT = 3.6
SHOWN_PEOPLE = 60
"""A figure with a mark for each participant shows at most this many, evenly spaced."""
Picture = tuple["Figure", str, str]
"""A figure, its description for readers who cannot see it, and the note below it."""


def draw_coefficients(fitted: Method, coefficients: Coefficients, part: str, unit: RewardUnit) -> Picture:
    """A forest plot: features in the order of the state, the intercept last, for both parts."""
    names = fitted.logs_.action_names
    order = {feature: number for number, feature in enumerate((*fitted.logs_.state_names, "intercept"))}
    every = [row for row in coefficients.rows if row.part == part and row.action != names[0]]
    rows = choose_coefficients(every)
    rows.sort(key=lambda row: (names.index(row.action), order[row.feature]))
    values, ends = figures.interval_bars([row.interval for row in rows])
    figure, axes = figures.new_figure(width=WIDTH, height=1.6 + 0.33 * len(rows))
    label = f"{fitted.pooling_.estimates.lower()}, 95 % interval"
    axes.errorbar(
        values, np.arange(len(rows)), xerr=ends, fmt="o", color=figures.BLUE, markersize=4, linewidth=1.2, label=label
    )
    axes.axvline(0, color=figures.INK, linewidth=0.8, linestyle="--", label="no difference")
    labels = [f"{row.action}: {row.feature}" if len(names) > 2 else row.feature for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if part == "policy":
        figures.label_axes(axes, x="logit per unit", y="", title="Policy: what makes it send")
        note = "To the right of the dashed line: more likely to send."
    else:
        figures.label_axes(axes, x=f"{unit} per unit, over doing nothing", y="", title="Critic: the effect of sending")
        note = "The gain of sending that the critic expects, by feature."
    if len(rows) < len(every):
        note += f" The {len(rows)} largest of {len(every)}, in units of their standard errors; the table has all."
    figures.add_legend(figure, axes)
    return figure, f"Coefficients of the {part} with intervals", note


def draw_lags(consequence: ActionConsequence) -> Picture:
    """The change in the outcome after an action."""
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    shown = consequence.lags[: max(consequence.felt + 2, 3)]
    axes.bar([0], shown[:1], color=figures.BLUE, width=0.7, label="now")
    axes.bar(np.arange(1, len(shown)), shown[1:], color=figures.ORANGE, width=0.7, label="later")
    axes.axhline(0, color=figures.INK, linewidth=0.8)
    title = f"{consequence.action}, now and later"
    figures.label_axes(axes, x="decision points after it", y="change in the outcome", title=title)
    figures.add_legend(figure, axes)
    note = "At the mean state, compared with doing nothing."
    return figure, f"Change in the outcome after {consequence.action}", note


def draw_difference(difference: Difference, unit: str) -> Picture:
    """Everybody's individual and partially pooled estimate, in the order of the latter."""
    known = np.flatnonzero(~np.isnan(difference.individual))
    order = known[np.argsort(difference.drawn[known])]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), SHOWN_PEOPLE)).round().astype(np.int64))]
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    rank = np.arange(1, len(shown) + 1)
    individual = difference.individual[shown]
    drawn = difference.drawn[shown]
    axes.vlines(rank, individual, drawn, color=figures.GREY, linewidth=0.8)
    axes.plot(rank, individual, "o", color=figures.GREY, markersize=3, label="own decision points alone")
    axes.plot(rank, drawn, "o", color=figures.BLUE, markersize=4, label="drawn towards the population")
    axes.axhline(difference.population, color=figures.ORANGE, linestyle="--", label="population")
    figures.label_axes(axes, x="people, by their coefficient", y=f"{unit} per unit", title=difference.label)
    figures.add_legend(figure, axes)
    note = f"Individual fits were drawn {100 * difference.pulled:.0f} % of the way to the population."
    note += figures.describe_sample(len(shown), len(order), "people")
    return figure, f"Own and partially pooled coefficients: {difference.label}", note


def draw_curve(curve: Curve, names: tuple[str, ...]) -> Picture:
    """The probability of every action as a variable moves."""
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    for code in range(1, len(names)):
        name = names[code]
        colour = figures.SERIES[(code - 1) % len(figures.SERIES)]
        mean, low, high = (100 * values[:, code] for values in (curve.probability, curve.low, curve.high))
        if curve.labels:
            label = f"{name}; bar: {curve.band}" if curve.band else name
            ends = np.maximum([mean - low, high - mean], 0.0)  # A mean may lie beyond the quantiles of its draws.
            axes.errorbar(range(len(mean)), mean, ends, fmt="o", color=colour, label=label, markersize=5)
            continue
        axes.plot(curve.grid, mean, color=colour, label=name)
        if curve.band:
            axes.fill_between(curve.grid, low, high, color=colour, alpha=0.2, linewidth=0, label=curve.band)
    note = "Other variables as logged."
    if curve.labels:
        axes.set_xticks(range(len(curve.labels)), curve.labels)
        axes.set_xlim(-0.5, len(curve.labels) - 0.5)
        if len(curve.labels) > 2:
            note = "The variable as a whole, one value at a time; other variables as logged."
    axes.set_ylim(0, 100)
    y = "probability (%)" if len(names) > 2 else f"probability of {names[1]} (%)"
    figures.label_axes(axes, x=curve.variable, y=y, title=f"As {curve.variable} moves")
    figures.add_legend(figure, axes)
    note += figures.describe_sample(*curve.points, "decision points")
    return figure, f"Probability of each action by {curve.variable}", note


def draw_course(course: TimeCourse) -> Picture:
    """The number of people over time; NaN leaves a gap in a line."""
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    people = np.where(course.people > 0, course.people, np.nan)
    axes.plot(course.position, people, ".-", color=figures.GREY, linewidth=1, label="with a usable decision point")
    axes.plot(course.position, people * course.treated, "o-", color=figures.BLUE, markersize=4, label="would be treated")
    axes.plot(course.position, people * course.logged, "s--", color=figures.ORANGE, markersize=3, label="were treated")
    margin = (course.position[-1] - course.position[0]) / 40 or 0.5
    axes.set_xlim(course.position[0] - margin, course.position[-1] + margin)
    axes.set_ylim(bottom=0)
    figures.label_axes(axes, x=course.label, y="people", title="How many people, when")
    figures.add_legend(figure, axes)
    note = "Expected number of people at a decision point. Where a line is broken there are no data."
    return figure, f"People who would be treated by {course.label}", note


def draw_people(send_rates: NDArray[np.float64], logged_rate: float) -> Picture:
    """Each participant's mean probability of being sent something."""
    rates = 100 * send_rates[~np.isnan(send_rates)]
    rank, shown = figures.thin_out(rates)
    figure, axes = figures.new_figure(width=WIDTH, height=HEIGHT)
    axes.plot(rank, shown, "o", color=figures.BLUE, markersize=4, label="one participant")
    axes.axhline(100 * logged_rate, color=figures.ORANGE, linestyle="--", label="as logged, all people")
    axes.set_ylim(0, 100)
    figures.label_axes(axes, x="people, by send rate", y="would be sent something (%)", title="How often each participant")
    figures.add_legend(figure, axes)
    note = "The policy's mean probability of sending at each participant's logged states."
    note += figures.describe_sample(len(rank), len(rates), "people")
    return figure, "Send rate of every participant", note
