"""All checks of a fit, and those of what hangs on where its limit lies."""

from __future__ import annotations

from dataclasses import replace

from surefoot.audit.data_checks import check_missing
from surefoot.audit.drift_checks import check_drift
from surefoot.audit.horizon_checks import check_horizon
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.audit.removal_checks import check_removal
from surefoot.log_checks.check import Check
from surefoot.log_checks.outcomes_by_action import PILES_NAME
from surefoot.log_checks.participant_units import NAME as UNITS_NAME
from surefoot.reports.numbers import format_estimate, format_number, format_percent

NEIGHBOURS, SEND_LOOK = (0.7, 1.6), 0.20
"""Between τ times these the effect should stay within its own interval, and the send rate should move by less than this."""

REMOVAL_CHECKS = (
    "share removed",
    "skewness",
    "reward removed",
    "depends on action",
    "depends on participant",
    "depends on tau",
)
OUTCOME_CHECKS = (PILES_NAME, UNITS_NAME)
"""Checks of logs that explain what a critic removes."""
NO_HELP = (
    "A robust critic is no remedy: where zeros come after nothing only, it takes the smaller group of outcomes for "
    "outliers, and its effects are further from the truth than those of least squares (surefoot reproduce s6, 'reward 0 "
    "after nothing only')"
)


def judge(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> tuple[Check, ...]:
    """All checks, in the order in which one would ask."""
    other = measures.fitted.critic_.compared_with
    further = () if other is None else (_compare_critics(measures, sensitivity, other),)
    first = (
        check_missing(measures),
        *check_removal(measures),
        _check_sensitivity(measures, sensitivity),
        check_drift(measures, find_own(measures, sensitivity).effect),
    )
    return (*first, *check_horizon(measures), *further)


def order_advice(log_checks: tuple[Check, ...], fit_checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """All checks, with the advice of those on removal after that of an unsafe check of outcomes.

    Where outcomes are in two units, or their zeros depend on the action, another limit of the critic mends nothing.
    """
    causes = [check.name for check in log_checks if check.name in OUTCOME_CHECKS and check.verdict == "unsafe"]
    if not causes:
        return (*log_checks, *fit_checks)
    advised = [
        replace(check, remedy=f"{check.remedy}. {NO_HELP}") if check.name == PILES_NAME and check.remedy else check
        for check in log_checks
    ]
    names = " and ".join(f"'{name}'" for name in causes)
    first = f"settle {names} first, then audit again: a wrong outcome is no outlier, and no limit of the critic mends it"
    following = [
        replace(check, remedy=first) if check.remedy and check.name in REMOVAL_CHECKS else check for check in fit_checks
    ]
    return (*advised, *following)


def find_own(measures: Measures, grid: tuple[Sensitivity, ...]) -> Sensitivity:
    """The fit under audit among those with other limits."""
    return next(found for found in grid if found.tau == measures.fitted.critic_.strictness)


def _compare_critics(measures: Measures, sensitivity: tuple[Sensitivity, ...], critic: str) -> Check:
    """What this critic changed beside another: for comparison only, so always fine."""
    other, theirs = measures.with_critic(critic)
    title = other.fitted.critic_.title
    ours = find_own(measures, sensitivity)
    numbers = {
        "share": ours.removed,
        "share_of_the_cap": theirs.removed,
        "reward": measures.reward_share()[0],
        "reward_of_the_cap": other.reward_share()[0],
        "effect": ours.effect.value,
        "effect_of_the_cap": theirs.effect.value,
    }
    reason = (
        f"{title} would remove {format_percent(theirs.removed)} of decision points holding "
        f"{format_percent(numbers['reward_of_the_cap'], 0)} of the total reward; this critic removes "
        f"{format_percent(ours.removed)} holding {format_percent(numbers['reward'], 0)}. Mean effect of sending "
        f"{format_number(ours.effect.value)} instead of {format_number(theirs.effect.value)}"
    )
    return Check(f"against {title}", "fine", reason, "", numbers)


def describe_effect(measures: Measures, found: Sensitivity) -> str:
    """The mean effect with its interval, and in the reward's own units where the transform allows it."""
    own = measures.unit.describe_difference(found.effect)
    return f"mean effect of sending {format_estimate(found.effect)}" + (f", {own}" if own else "")


def _check_sensitivity(measures: Measures, grid: tuple[Sensitivity, ...]) -> Check:
    here, critic = find_own(measures, grid), measures.fitted.critic_
    effect = describe_effect(measures, here)
    if critic.removal is None:
        return Check("depends on tau", "fine", f"{critic.title} has no limit that could move it; {effect}")
    close = [found for found in grid if NEIGHBOURS[0] <= found.tau / here.tau <= NEIGHBOURS[1]]
    least, most = min(found.effect.value for found in close), max(found.effect.value for found in close)
    moved = least < here.effect.low or most > here.effect.high
    opposed = any(a.effect.low > 0 and b.effect.high < 0 for a in close for b in close)
    sends = [found.send_rate for found in close]
    verdict = "unsafe" if opposed else "look" if moved or max(sends) - min(sends) > SEND_LOOK else "fine"
    reason = (
        f"{effect}; with tau from {close[0].tau:g} to {close[-1].tau:g} it goes from {format_number(least)} to "
        f"{format_number(most)}, and the send rate from {format_percent(min(sends), 0)} to "
        f"{format_percent(max(sends), 0)}; without {critic.removal.name} {format_number(grid[-1].effect.value)} and "
        f"{format_percent(grid[-1].send_rate, 0)}"
    )
    remedy = "the answer depends on where the limit is: choose tau before looking at effects, or transform the reward"
    return Check("depends on tau", verdict, reason, remedy if verdict != "fine" else "", {"least": least, "most": most})
