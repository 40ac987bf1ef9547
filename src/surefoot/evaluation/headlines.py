"""What an evaluation says, in sentences."""

from __future__ import annotations

from math import isnan

from surefoot.evaluation.values import Contrast, LongRunValue, PolicyValues, Value
from surefoot.inference.intervals import Interval
from surefoot.reports.numbers import format_interval, format_signed, format_value
from surefoot.reports.reward_units import RewardUnit


def write_headlines(found: PolicyValues) -> list[str]:
    """What the preferred estimate says about every policy, and about sending at all, each in a sentence."""
    contrasts = [_describe_contrast(contrast, found.unit) for contrast in found.contrasts]
    return [_describe_value(found.value(row.policy), found.unit) for row in found.overlap] + contrasts


def _describe_value(value: Value, unit: RewardUnit) -> str:
    if isnan(value.value.value):
        return f"These logs say nothing about {value.policy}: no decision point has an action that it takes."
    worth = f"{value.policy} is worth {format_value(value.value)} {unit} per decision point ({_format_ends(value.value)})"
    change = value.difference
    if change.low > 0:
        return f"{worth}, more than what was done, by {_format_change(change, unit)}."
    if change.high < 0:
        return f"{worth}, less than what was done, by {_format_change(-change, unit, change)}."
    return f"{worth}; these logs cannot tell whether that is more than what was done ({_format_change(change, unit)})."


def _describe_contrast(contrast: Contrast, unit: RewardUnit) -> str:
    change = contrast.difference
    if isnan(change.value):
        return f"{contrast.policy} − {contrast.other}: not known from these logs."
    sentence = f"{contrast.policy} − {contrast.other}: {_format_change(change, unit)}"
    return f"{sentence}; the interval includes 0." if change.low <= 0 <= change.high else f"{sentence}."


def _format_ends(interval: Interval) -> str:
    return "no interval: too few people" if isnan(interval.low) else format_interval(interval)


def _format_change(change: Interval, unit: RewardUnit, own: Interval | None = None) -> str:
    """A difference with its interval, and in the reward's own units where the transform allows it."""
    difference = f"{format_value(change)} ({_format_ends(change)})"
    described = unit.describe_difference(own or change)
    return f"{difference}, {described}" if described else difference


def describe_long_run(found: LongRunValue, unit: RewardUnit) -> str:
    """What a policy is worth in the long run, beside never acting, in a sentence."""
    worth = f"In the long run {found.policy} is worth {format_value(found.value)} {unit} per decision point"
    worth += f" ({format_interval(found.value)}), {_compare_with_never(found)}."
    if found.disagreement:
        now = format_signed(found.immediate_difference, 0)
        worth += f" By the next outcome alone it would seem {now}: {found.disagreement}."
    return worth


def _compare_with_never(found: LongRunValue) -> str:
    change = found.difference
    if change.low > 0:
        return f"{format_value(change)} more than never ({format_interval(change)})"
    if change.high < 0:
        return f"{format_value(-change)} less than never ({format_interval(-change)})"
    return f"not surely different from never ({format_value(change)}, {format_interval(change)})"
