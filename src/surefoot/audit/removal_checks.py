"""Checks of what the critic left out: how much, from which side, and whether that depends on action, time or participant.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.audit.measures import NEAR, Measures
from surefoot.inference.intervals import Interval, wilson_interval
from surefoot.learning.critics import Removal
from surefoot.log_checks.check import Check
from surefoot.numerics.skewness import medcouple, skewness
from surefoot.reports.numbers import format_percent, format_signed

REMOVED_LOOK, REMOVED_UNSAFE = 0.125, 0.25
"""Share of used decision points beyond the limit: 7.6 % and 5 % of true outliers; a quarter is no longer a tail."""
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


def check_removal(measures: Measures) -> tuple[Check, ...]:
    """All of them; where nothing can be removed, only that this is so and how skewed the residuals are."""
    shape, removal = Shape.of(measures), measures.fitted.critic_.removal
    if removal is None:
        return _check_nothing_removed(measures), _check_skewness(measures, shape)
    return (
        _check_share(measures, removal),
        _check_skewness(measures, shape),
        _check_reward(measures, shape, removal),
        _check_action(measures),
        _check_time(measures),
        _check_participant(measures),
    )


@dataclass(frozen=True)
class Shape:
    """Is a tail being cut? Artefacts leave the rest symmetric; a skewed reward is skewed within the limit too."""

    medcouple: float
    error: float
    """Standard error of the medcouple for symmetric noise, √(1.25 / n)."""
    moment: float
    above: float
    """Share of removed decision points above the fit."""

    @classmethod
    def of(cls, measures: Measures) -> Shape:
        kept = measures.relative[measures.used & ~measures.removed]
        gone = measures.relative[measures.removed]
        above = float((gone > 0).mean()) if len(gone) else 0.5
        return cls(medcouple(kept), float(np.sqrt(1.25 / max(len(kept), 1))), skewness(kept), above)

    def surely_exceeds(self, limit: float) -> bool:
        """Two standard errors beyond the limit, on either side."""
        return abs(self.medcouple) - 2 * self.error > limit

    @property
    def most(self) -> float:
        """Share of removed decision points on the side that has more of them."""
        return max(self.above, 1 - self.above)

    @property
    def side(self) -> str:
        """The side that has more of them."""
        return "above" if self.above >= 0.5 else "below"

    @property
    def one_sided(self) -> bool:
        """Nearly all on one side, and that is the side of the longer tail."""
        return self.most >= ONE_SIDED and (self.medcouple > 0) == (self.above >= 0.5)


def _check_nothing_removed(measures: Measures) -> Check:
    reason = f"{measures.fitted.critic_.title} has no limit: all {int(measures.used.sum())} decision points count"
    return Check("share removed", "fine", reason, numbers={"share": 0.0, "far_share": 0.0})


def _check_share(measures: Measures, removal: Removal) -> Check:
    used, removed = int(measures.used.sum()), int(measures.removed.sum())
    share = removed / used
    far = removed - int(measures.near.sum())
    verdict = "unsafe" if share > REMOVED_UNSAFE else "look" if share > REMOVED_LOOK else "fine"
    reason = f"{removal.removes} {format_percent(share)} of {used} decision points"
    if removal.because:
        reason += f", {removal.because}"
    if removal.normal_share is not None:
        reason += f" ({format_percent(removal.normal_share)} would go from normal noise alone)"
    reason += f"; {format_percent(far / used)} stand apart, beyond {NEAR:g} times {removal.name}"
    remedy = "raise tau, or give the reward a transform under which its noise has one hump and short tails"
    return Check(
        "share removed", verdict, reason, remedy if verdict != "fine" else "", {"share": share, "far_share": far / used}
    )


def _suggest_transform(measures: Measures) -> str:
    reward, removal = measures.fitted.logs_.reward[measures.used], measures.fitted.critic_.removal
    otherwise = "" if removal is None else ", raise tau, or use a method that removes nothing"
    if reward.min() >= 0 and skewness(reward) > 1:
        smallest = reward[reward > 0].min()
        return f"the reward is skewed; try log(x + {0.5 if smallest >= 1 else smallest / 2:.3g}){otherwise}"
    return f"plot the reward's residuals; try another transform of the reward{otherwise}"


def _check_skewness(measures: Measures, shape: Shape) -> Check:
    verdict = "fine"
    if shape.surely_exceeds(SKEW_LOOK):
        cut = measures.removed.any() and shape.one_sided
        verdict = "unsafe" if shape.surely_exceeds(SKEW_UNSAFE) and cut else "look"
    tail = "upper" if shape.medcouple > 0 else "lower"
    shown = "close to symmetric" if verdict == "fine" else f"skewed, with the longer tail on the {tail} side"
    measured = f"medcouple {format_signed(shape.medcouple, 2)}, moment skewness {format_signed(shape.moment, 2)}"
    reason = f"the residuals that were kept are {shown} ({measured})"
    if verdict == "unsafe":
        reason += (
            f", and {format_percent(shape.most, 0)} of removed decision points lie {shape.side} the fit: "
            "that tail is being cut off"
        )
    numbers = {"medcouple": shape.medcouple, "moment": shape.moment, "removed_above": shape.above}
    return Check("skewness", verdict, reason, _suggest_transform(measures) if verdict != "fine" else "", numbers)


def _check_reward(measures: Measures, shape: Shape, removal: Removal) -> Check:
    share, points = measures.reward_share()[0], measures.removed.sum() / measures.used.sum()
    tail = shape.surely_exceeds(SKEW_LOOK) and shape.one_sided
    verdict = "fine" if share <= REWARD_LOOK else "unsafe" if tail else "look"
    reason = (
        f"{removal.removes} {format_percent(points)} of decision points holding {format_percent(share, 0)} of the total "
        "reward"
    )
    if shape.most >= ONE_SIDED:
        reason += f", {'nearly all' if shape.most > 0.95 else format_percent(shape.most, 0)} {shape.side} the fit"
    remedy = ""
    if verdict == "unsafe":
        remedy = _suggest_transform(measures)
    elif verdict == "look":
        remedy = "look at the removed decision points one by one: if they are real, what the policy is for was thrown away"
    return Check("reward removed", verdict, reason, remedy, {"share": share, "decision_point_share": float(points)})


def _format_points(difference: Interval) -> str:
    value = format_signed(100 * difference.value, 1)
    if np.isnan(difference.low):
        return f"{value} points (no interval: too few people)"
    low, high = (format_signed(100 * end, 1) for end in (difference.low, difference.high))
    return f"{value} points (95 % interval {low} to {high})"


def _check_without_comparison(name: str, measures: Measures, lacking: str) -> Check:
    """Where one of two groups has no decision point: harmless only if nothing was removed."""
    if not measures.removed.any():
        return Check(name, "fine", "nothing was removed")
    reason = f"{lacking}, so the rates of removal cannot be compared"
    return Check(name, "look", reason, "look at the removed decision points one by one, and wait for more decision points")


def _grade_difference(found: Interval, look: float, unsafe: float) -> str:
    if not found.excludes_zero or abs(found.value) <= look:
        return "fine"
    return "unsafe" if abs(found.value) > unsafe else "look"


def _check_action(measures: Measures) -> Check:
    treated = measures.treated
    for group, action in ((treated, "sending"), (~treated, "nothing")):
        if not (measures.used & group).any():
            lacking = f"no decision point after {action} counts"
            return _check_without_comparison("depends on action", measures, lacking)
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
    first = measures.elapsed < 1 / 3
    last = measures.elapsed >= 2 / 3
    for third, name in ((first, "first"), (last, "last")):
        if not (measures.used & third).any():
            lacking = f"no decision point in the {name} third of people's time counts"
            return _check_without_comparison("depends on time", measures, lacking)
    difference = measures.rate_difference(measures.removed, last, first)
    verdict = _grade_difference(difference, TIME_LOOK, TIME_UNSAFE)
    reason = f"removal in the last third of people's time less that in the first: {_format_points(difference)}"
    remedy = "something changed during the study (a device, a season, the people); fit the parts apart and compare"
    return Check("depends on time", verdict, reason, remedy if verdict != "fine" else "", difference._asdict())


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
