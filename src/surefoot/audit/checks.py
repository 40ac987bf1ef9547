"""The rules: from measures to verdicts in plain words. Every limit is here; docs/audit.md says why it is where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.audit.measures import NEAR, Measures, Sensitivity
from surefoot.inference.intervals import Interval, wilson_interval
from surefoot.numerics.skewness import medcouple, skewness
from surefoot.reports.numbers import format_estimate, format_number, format_percent, format_signed

VERDICTS = ("fine", "look", "unsafe")
MISSING_LOOK, MISSING_UNSAFE = 0.10, 0.40
"""Share of available decision points that no fit can use."""
REMOVED_LOOK, REMOVED_UNSAFE = 0.125, 0.25
"""Share of used decision points beyond the cap: 7.6 % and 5 % of true outliers; a quarter is no longer a tail."""
SKEW_LOOK, SKEW_UNSAFE = 0.10, 0.20
"""Medcouple of the residuals that were kept, surely above: 0 for symmetric noise, 0.34 for exponential noise uncut."""
ONE_SIDED = 0.80
"""Share of removed decision points on one side from which the cut is one-sided."""
REWARD_LOOK = 1 / 3
"""Share of the total reward that removed decision points hold."""
DIFFERENCE_LOOK, DIFFERENCE_UNSAFE = 0.02, 0.05
"""Difference in the rate of near removals, with an interval that excludes zero."""
TIME_LOOK, TIME_UNSAFE = 0.03, 0.10
"""Difference in the rate of removal between the last and the first third of people's time."""
PERSON_LOOK, PEOPLE_UNSAFE = 0.25, 0.20
"""A participant loses surely more than the first share of decision points; more than the second share of people do."""
NEIGHBOURS, SEND_LOOK = (0.7, 1.6), 0.20
"""Between τ times these the effect should stay within its own interval, and the send rate should move by less than this."""


@dataclass(frozen=True)
class Check:
    """One question about the fit, and its answer."""

    name: str
    verdict: str
    reason: str
    remedy: str
    """Empty when nothing needs to be done."""
    numbers: dict[str, Any]


def worst(verdicts: list[str]) -> str:
    """The one that asks for most attention."""
    return max(verdicts, key=VERDICTS.index)


def judge(measures: Measures, sensitivity: tuple[Sensitivity, ...]) -> tuple[Check, ...]:
    """All checks, in the order in which one would ask."""
    shape = _Shape.of(measures)
    other = measures.fitted.critic_.compared_with
    further = () if other is None else (_compare_critics(measures, sensitivity, other),)
    return (
        _check_missing(measures),
        _check_removed(measures),
        _check_skewness(measures, shape),
        _check_reward(measures, shape),
        _check_action(measures),
        _check_time(measures),
        _check_participant(measures),
        _check_sensitivity(measures, sensitivity),
        *further,
    )


def _compare_critics(measures: Measures, sensitivity: tuple[Sensitivity, ...], critic: str) -> Check:
    """What this critic changed beside another: for comparison only, so always fine."""
    other, theirs = measures.with_critic(critic)
    title = other.fitted.critic_.title
    ours = next(found for found in sensitivity if found.tau == measures.fitted.critic_.strictness)
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


@dataclass(frozen=True)
class _Shape:
    """Does the cap cut through a tail? Artefacts leave the rest symmetric; a skewed reward is skewed below the cap too."""

    medcouple: float
    error: float
    """Standard error of the medcouple for symmetric noise, √(1.25 / n)."""
    moment: float
    above: float
    """Share of removed decision points above the fit."""

    @classmethod
    def of(cls, measures: Measures) -> _Shape:
        kept = measures.relative[measures.used & ~measures.removed]
        gone = measures.relative[measures.removed]
        above = float((gone > 0).mean()) if len(gone) else 0.5
        return cls(medcouple(kept), float(np.sqrt(1.25 / max(len(kept), 1))), skewness(kept), above)

    def surely_exceeds(self, limit: float) -> bool:
        return abs(self.medcouple) - 2 * self.error > limit

    @property
    def side(self) -> str:
        return "above" if self.above >= 0.5 else "below"

    @property
    def one_sided(self) -> bool:
        """Nearly all on one side, and that is the side of the longer tail."""
        most = max(self.above, 1 - self.above)
        return most >= ONE_SIDED and (self.medcouple > 0) == (self.above >= 0.5)


def _check_missing(measures: Measures) -> Check:
    logs, people = measures.fitted.logs_, len(measures.fitted.logs_.participants)
    unusable = logs.available & ~measures.used
    share = float(unusable.sum() / max(logs.available.sum(), 1))
    empty = int((measures.total(measures.used) == 0).sum())
    verdict = "unsafe" if share > MISSING_UNSAFE else "look" if share > MISSING_LOOK or empty else "fine"
    gaps = {name: int((logs.available & np.isnan(logs.state[:, j])).sum()) for j, name in enumerate(logs.state_names)}
    gaps[logs.names.reward] = int((logs.available & np.isnan(logs.reward)).sum())
    most = max(gaps, key=lambda name: gaps[name])
    reason = f"{format_percent(share)} of {int(logs.available.sum())} available decision points have a missing value"
    if share > 0:
        reason += f", most often '{most}' ({gaps[most]})"
    if empty:
        reason += f"; {empty} of {people} people have no usable decision point"
    remedy = f"find out why '{most}' is missing; a variable that is often missing is better left out of the state"
    return Check("missing values", verdict, reason, remedy if verdict != "fine" else "", {"share": share, "by_column": gaps})


def _check_removed(measures: Measures) -> Check:
    used, removed = int(measures.used.sum()), int(measures.removed.sum())
    share = removed / used
    far = removed - int(measures.near.sum())
    verdict = "unsafe" if share > REMOVED_UNSAFE else "look" if share > REMOVED_LOOK else "fine"
    critic = measures.fitted.critic_
    if critic.removal is None:
        reason = f"{critic.title} has no cap: all {used} decision points count"
    else:
        reason = f"{critic.removal.removes} {format_percent(share)} of {used} decision points"
        if critic.removal.because:
            reason += f", {critic.removal.because}"
        if critic.removal.normal_share is not None:
            reason += f" ({format_percent(critic.removal.normal_share)} would go from normal noise alone)"
        reason += f"; {format_percent(far / used)} stand apart, beyond {NEAR:g} times {critic.removal.name}"
    remedy = "raise tau, or give the reward a transform under which its noise has one hump and short tails"
    return Check(
        "share removed", verdict, reason, remedy if verdict != "fine" else "", {"share": share, "far_share": far / used}
    )


def _suggest_transform(measures: Measures) -> str:
    reward = measures.fitted.logs_.reward[measures.used]
    if reward.min() >= 0 and skewness(reward) > 1:
        smallest = reward[reward > 0].min()
        return (
            f"the reward is skewed; try log(x + {0.5 if smallest >= 1 else smallest / 2:.3g}), or a method without the cap"
        )
    return "plot the reward's residuals; try another transform of the reward, raise tau, or use a method without the cap"


def _check_skewness(measures: Measures, shape: _Shape) -> Check:
    verdict = "fine"
    if shape.surely_exceeds(SKEW_LOOK):
        cut = measures.removed.any() and shape.one_sided
        verdict = "unsafe" if shape.surely_exceeds(SKEW_UNSAFE) and cut else "look"
    tail = "upper" if shape.medcouple > 0 else "lower"
    shown = "close to symmetric" if verdict == "fine" else f"skewed, with the longer tail on the {tail} side"
    measured = f"medcouple {format_signed(shape.medcouple, 2)}, moment skewness {format_signed(shape.moment, 2)}"
    reason = f"the residuals that were kept are {shown} ({measured})"
    if verdict == "unsafe":
        most = max(shape.above, 1 - shape.above)
        reason += (
            f", and {format_percent(most, 0)} of removed decision points lie {shape.side} the fit: "
            "the cap cuts through that tail"
        )
    numbers = {"medcouple": shape.medcouple, "moment": shape.moment, "removed_above": shape.above}
    return Check("skewness", verdict, reason, _suggest_transform(measures) if verdict != "fine" else "", numbers)


def _check_reward(measures: Measures, shape: _Shape) -> Check:
    share, points = measures.reward_share()[0], measures.removed.sum() / measures.used.sum()
    tail = shape.surely_exceeds(SKEW_LOOK) and shape.one_sided
    verdict = "fine" if share <= REWARD_LOOK else "unsafe" if tail else "look"
    most = max(shape.above, 1 - shape.above)
    side = (
        f", {'nearly all' if most > 0.95 else f'{format_percent(most, 0)}'} {shape.side} the fit"
        if most >= ONE_SIDED
        else ""
    )
    reason = (
        f"the cap removes {format_percent(points)} of decision points holding {format_percent(share, 0)} of the total "
        f"reward{side}"
    )
    remedy = ""
    if verdict == "unsafe":
        remedy = _suggest_transform(measures)
    elif verdict == "look":
        remedy = "look at the removed decision points one by one: if they are real, what the policy is for was thrown away"
    return Check("reward removed", verdict, reason, remedy, {"share": share, "decision_point_share": float(points)})


def _format_points(found: Interval) -> str:
    value, low, high = (format_signed(100 * part, 1) for part in (found.value, found.low, found.high))
    return f"{value} points (95 % interval {low} to {high})"


def _grade_difference(found: Interval, look: float, unsafe: float) -> str:
    if not found.excludes_zero or abs(found.value) <= look:
        return "fine"
    return "unsafe" if abs(found.value) > unsafe else "look"


def _check_action(measures: Measures) -> Check:
    treated = measures.treated
    near = measures.rate_difference(measures.near, treated, ~treated)
    far = measures.rate_difference(measures.removed & ~measures.near, treated, ~treated)
    every = measures.rate_difference(measures.removed, treated, ~treated)
    verdict = _grade_difference(near, DIFFERENCE_LOOK, DIFFERENCE_UNSAFE)
    reason = (
        f"removal after sending less removal after nothing: {_format_points(near)} up to {NEAR:g} times the limit, "
        f"{_format_points(far)} beyond"
    )
    if verdict == "fine" and near.excludes_zero:
        reason += f"; near the limit the rates differ, but by less than {100 * DIFFERENCE_LOOK:g} points"
    if verdict == "fine" and far.excludes_zero and abs(far.value) > DIFFERENCE_LOOK:
        more = "sending" if far.value > 0 else "nothing"
        reason += (
            f"; far from the fit more is removed after {more}: artefacts that come with an action look like this, "
            "so read through the removed decision points once"
        )
    remedy = "the treatment effect itself is being cut; raise tau or transform the reward, and compare the effects below"
    numbers = {"near": near._asdict(), "far": far._asdict(), "all": every._asdict()}
    return Check("depends on action", verdict, reason, remedy if verdict != "fine" else "", numbers)


def _check_time(measures: Measures) -> Check:
    first, last = measures.thirds()
    found = measures.rate_difference(measures.removed, last, first)
    verdict = _grade_difference(found, TIME_LOOK, TIME_UNSAFE)
    reason = f"removal in the last third of people's time less that in the first: {_format_points(found)}"
    remedy = "something changed during the study (a device, a season, the people); fit the parts apart and compare"
    return Check("depends on time", verdict, reason, remedy if verdict != "fine" else "", found._asdict())


def _check_participant(measures: Measures) -> Check:
    used, removed = measures.total(measures.used), measures.total(measures.removed)
    there = used > 0
    share = removed[there] / used[there]
    # By its lower limit: a participant with few decision points loses many by chance.
    many = wilson_interval(removed[there], used[there])[0] > PERSON_LOOK
    verdict = "unsafe" if many.mean() > PEOPLE_UNSAFE else "look" if many.any() else "fine"
    worst_hit = measures.fitted.logs_.participants[there][int(share.argmax())].item()
    reason = (
        f"people lose between {format_percent(share.min())} and {format_percent(share.max())} of their decision points "
        f"(median {format_percent(np.median(share))}); the most is participant {worst_hit!r}'s"
    )
    if many.any():
        reason += f"; {int(many.sum())} of {int(there.sum())} surely lose more than {format_percent(PERSON_LOOK, 0)}"
    remedy = "look at their logs: a broken sensor, or a life that one fit for all does not describe (fit per participant)"
    numbers = {"least": float(share.min()), "median": float(np.median(share)), "most": float(share.max())}
    return Check("depends on participant", verdict, reason, remedy if verdict != "fine" else "", numbers)


def _check_sensitivity(measures: Measures, grid: tuple[Sensitivity, ...]) -> Check:
    here = next((found for found in grid if found.tau == measures.fitted.critic_.strictness), grid[-1])
    effect = f"mean effect of sending {format_estimate(here.effect)}"
    if len(grid) == 1:
        return Check("depends on tau", "fine", f"the critic has no cap; {effect}", "", {})
    close = [found for found in grid if NEIGHBOURS[0] <= found.tau / here.tau <= NEIGHBOURS[1]]
    least, most = min(found.effect.value for found in close), max(found.effect.value for found in close)
    moved = least < here.effect.low or most > here.effect.high
    opposed = any(a.effect.low > 0 and b.effect.high < 0 for a in close for b in close)
    sends = [found.send_rate for found in close]
    verdict = "unsafe" if opposed else "look" if moved or max(sends) - min(sends) > SEND_LOOK else "fine"
    reason = (
        f"{effect}; with tau from {close[0].tau:g} to {close[-1].tau:g} it goes from {format_number(least)} to "
        f"{format_number(most)}, and the send rate from {format_percent(min(sends), 0)} to "
        f"{format_percent(max(sends), 0)}; without the cap {format_number(grid[-1].effect.value)} and "
        f"{format_percent(grid[-1].send_rate, 0)}"
    )
    remedy = "the answer hangs on where the cap is: choose tau before looking at effects, or change the reward's transform"
    return Check("depends on tau", verdict, reason, remedy if verdict != "fine" else "", {"least": least, "most": most})
