"""The plots of an explanation."""

import numpy as np
from numpy.typing import NDArray

from surefoot.explain.coefficients import Coefficients, Difference, choose_coefficients
from surefoot.explain.response import ActionConsequence, Curve, EffectCourse, TimeCourse
from surefoot.learning.methods import Method
from surefoot.reports import figures
from surefoot.reports.figures import Drawable, Picture, finish_picture, spread_evenly
from surefoot.reports.numbers import OutcomeUnit

SHOWN_PEOPLE = 60
"""A figure with a mark for each participant shows at most this many, evenly spaced."""


def draw_coefficients(fitted: Method, coefficients: Coefficients, part: str, unit: OutcomeUnit, ax: Drawable) -> Picture:
    """A forest plot: features in the order of the state, the intercept last, for both parts."""
    logs = fitted.logs_
    names = logs.action_names
    features = (*logs.state_names, "intercept")
    every = [row for row in coefficients.rows if row.part == part and row.action != names[0]]
    rows = choose_coefficients(every)
    rows.sort(key=lambda row: (names.index(row.action), features.index(row.feature)))
    values, ends = figures.interval_bars([row.interval for row in rows])
    axes = figures.choose_axes(ax, width=figures.SMALL["width"], height=1.6 + 0.33 * len(rows))
    label = f"{fitted.pooling_.estimates.lower()}, 95 % interval"
    axes.errorbar(
        values, np.arange(len(rows)), xerr=ends, fmt="o", color=figures.BLUE, markersize=4, linewidth=1.2, label=label
    )
    axes.axvline(0, color=figures.INK, linewidth=0.8, linestyle="--", label="no difference")
    axes.set_yticks(range(len(rows)), [f"{row.action}: {row.feature}" if len(names) > 2 else row.feature for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    title = "Critic: the effect of sending"
    x = f"{unit} per unit, over doing nothing"
    note = "The gain of sending that the critic expects, by feature."
    if part == "policy":
        title = "Policy: what makes it send"
        x = "logit per unit"
        note = "To the right of the dashed line: more likely to send."
    if len(rows) < len(every):
        note += f" The {len(rows)} largest of {len(every)}, in units of their standard errors; the table has all."
    return finish_picture(axes, f"Coefficients of the {part} with intervals", note, x=x, y="", title=title)


def draw_lags(consequence: ActionConsequence) -> Picture:
    """The change in the outcome after an action."""
    axes = figures.new_figure(**figures.SMALL)[1]
    shown = consequence.lags[: max(consequence.felt + 2, 3)]
    axes.bar([0], shown[:1], color=figures.BLUE, width=0.7, label="now")
    axes.bar(np.arange(1, len(shown)), shown[1:], color=figures.ORANGE, width=0.7, label="later")
    axes.axhline(0, color=figures.INK, linewidth=0.8)
    labels = {"x": "decision points after it", "y": "change in the outcome", "title": f"{consequence.action}, now and later"}
    note = "At the mean state, compared with doing nothing."
    return finish_picture(axes, f"Change in the outcome after {consequence.action}", note, **labels)


def draw_effect_course(course: EffectCourse, unit: str) -> Picture:
    """The effect of an action over a participant's time, with its band."""
    axes = figures.new_figure(**figures.SMALL)[1]
    axes.plot(course.position, course.effect, color=figures.BLUE, label="effect in the population")
    axes.fill_between(
        course.position, course.low, course.high, color=figures.BLUE, alpha=0.2, linewidth=0, label="pointwise 95 % interval"
    )
    axes.axhline(0, color=figures.INK, linewidth=0.8, linestyle="--", label="no effect")
    note = "At the mean state, compared with doing nothing. The change is the same for everybody."
    labels = {"x": "decision point of the participant", "y": unit, "title": f"Effect of {course.action} over the study"}
    return finish_picture(axes, f"Effect of {course.action} by decision point of the participant", note, **labels)


def draw_difference(difference: Difference, unit: str) -> Picture:
    """Everybody's individual and partially pooled estimate, in the order of the latter."""
    known = np.flatnonzero(~np.isnan(difference.individual))
    order = known[np.argsort(difference.drawn[known])]
    shown = spread_evenly(order, SHOWN_PEOPLE)
    axes = figures.new_figure(**figures.SMALL)[1]
    rank = np.arange(1, len(shown) + 1)
    individual = difference.individual[shown]
    drawn = difference.drawn[shown]
    axes.vlines(rank, individual, drawn, color=figures.GREY, linewidth=0.8)
    axes.plot(rank, individual, "o", color=figures.GREY, markersize=3, label="own decision points alone")
    axes.plot(rank, drawn, "o", color=figures.BLUE, markersize=4, label="drawn towards the population")
    axes.axhline(difference.population, color=figures.ORANGE, linestyle="--", label="population")
    note = f"Individual fits were shrunk {100 * difference.pulled:.0f} % of the way to the population."
    note += figures.describe_sample(len(shown), len(order), "people")
    labels = {"x": "people, by their coefficient", "y": f"{unit} per unit", "title": difference.label}
    return finish_picture(axes, f"Own and partially pooled coefficients: {difference.label}", note, **labels)


def draw_curve(curve: Curve, names: tuple[str, ...]) -> Picture:
    """The probability of every action as a variable moves."""
    axes = figures.new_figure(**figures.SMALL)[1]
    for code in range(1, len(names)):
        colour = figures.SERIES[(code - 1) % len(figures.SERIES)]
        mean, low, high = (100 * values[:, code] for values in (curve.probability, curve.low, curve.high))
        if curve.labels:
            label = f"{names[code]}; bar: {curve.band}" if curve.band else names[code]
            ends = np.maximum([mean - low, high - mean], 0.0)  # A mean may lie beyond the quantiles of its draws.
            axes.errorbar(range(len(mean)), mean, ends, fmt="o", color=colour, label=label, markersize=5)
            continue
        axes.plot(curve.grid, mean, color=colour, label=names[code])
        if curve.band:
            axes.fill_between(curve.grid, low, high, color=colour, alpha=0.2, linewidth=0, label=curve.band)
    note = "Other variables as logged."
    if curve.labels:
        axes.set_xticks(range(len(curve.labels)), curve.labels)
        axes.set_xlim(-0.5, len(curve.labels) - 0.5)
        if len(curve.labels) > 2:
            note = "The variable as a whole, one value at a time; other variables as logged."
    axes.set_ylim(0, 100)
    note += figures.describe_sample(*curve.points, "decision points")
    y = "probability (%)" if len(names) > 2 else f"probability of {names[1]} (%)"
    labels = {"x": curve.variable, "y": y, "title": f"As {curve.variable} moves"}
    return finish_picture(axes, f"Probability of each action by {curve.variable}", note, **labels)


def draw_course(course: TimeCourse) -> Picture:
    """The number of people over time; NaN leaves a gap in a line."""
    axes = figures.new_figure(**figures.SMALL)[1]
    people = np.where(course.people > 0, course.people, np.nan)
    axes.plot(course.position, people, ".-", color=figures.GREY, linewidth=1, label="with a usable decision point")
    axes.plot(course.position, people * course.treated, "o-", color=figures.BLUE, markersize=4, label="would be treated")
    axes.plot(course.position, people * course.logged, "s--", color=figures.ORANGE, markersize=3, label="were treated")
    margin = (course.position[-1] - course.position[0]) / 40 or 0.5
    axes.set_xlim(course.position[0] - margin, course.position[-1] + margin)
    axes.set_ylim(bottom=0)
    note = "Expected number of people at a decision point. Where a line is broken there are no data."
    labels = {"x": course.label, "y": "people", "title": "How many people, when"}
    return finish_picture(axes, f"People who would be treated by {course.label}", note, **labels)


def draw_people(send_rates: NDArray[np.float64], logged_rate: float) -> Picture:
    """Each participant's mean probability of being sent something."""
    rates = 100 * send_rates[~np.isnan(send_rates)]
    rank, shown = figures.thin_out(rates)
    axes = figures.new_figure(**figures.SMALL)[1]
    axes.plot(rank, shown, "o", color=figures.BLUE, markersize=4, label="one participant")
    axes.axhline(100 * logged_rate, color=figures.ORANGE, linestyle="--", label="as logged, all people")
    axes.set_ylim(0, 100)
    note = "The policy's mean probability of sending at each participant's logged states."
    note += figures.describe_sample(len(rank), len(rates), "people")
    labels = {"x": "people, by send rate", "y": "would be sent something (%)", "title": "How often each participant"}
    return finish_picture(axes, "Send rate of every participant", note, **labels)
