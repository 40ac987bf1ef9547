"""The checks of a fit. Every limit stands next to its check; docs/audit.md gives the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.audit.measures import NEAR, Measures, Sensitivity, find_audited
from surefoot.data.trajectories import Trajectories
from surefoot.inference.change import LEAST_PEOPLE, LEAST_POINTS, PER, Change, find_change
from surefoot.inference.intervals import Interval, wilson_interval
from surefoot.learning.critics import Removal
from surefoot.learning.horizon.look_ahead import MOST_RADIUS, PooledView
from surefoot.learning.horizon.look_ahead import SURE as SURE_OF_REACTION
from surefoot.log_checks.check import Check
from surefoot.log_checks.columns import UNITS_NAME
from surefoot.log_checks.outcomes_by_action import PILES_NAME
from surefoot.numerics.fences import medcouple, skewness
from surefoot.policies.features import critic_feature_names
from surefoot.reports.numbers import format_estimate, format_number, format_percent, format_signed
from surefoot.screening.detectors import count_ties

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
    """All checks of the fit, in the order of the report."""
    critic = measures.fitted.critic_
    outlook = measures.fitted.outlook_
    checks = [
        check_missing(measures),
        *check_removal(measures),
        check_sensitivity(measures, sensitivity),
        check_drift(measures, find_audited(sensitivity).effect),
    ]
    if outlook is not None:
        view = outlook.pool()
        checks += [check_reactions(measures.fitted.logs_, view), check_stability(view)]
    if critic.compared_with is not None:
        checks.append(compare_critics(measures, sensitivity, critic.compared_with))
    return tuple(checks)


def order_advice(log_checks: tuple[Check, ...], fit_checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """All checks, with the advice of those on removal after that of an unsafe check of outcomes.

    Where outcomes are in two units, or their zeros depend on the action, another limit of the critic does not help.
    """
    causes = [check.name for check in log_checks if check.name in OUTCOME_CHECKS and check.verdict == "unsafe"]
    if not causes:
        return (*log_checks, *fit_checks)
    advised = [
        replace(check, remedy=f"{check.remedy}. {NO_HELP}") if check.name == PILES_NAME and check.remedy else check
        for check in log_checks
    ]
    names = " and ".join(f"'{name}'" for name in causes)
    first = (
        f"settle {names} first, then audit again: a wrong outcome is not an outlier, and no limit of the critic corrects it"
    )
    following = [
        replace(check, remedy=first) if check.remedy and check.name in REMOVAL_CHECKS else check for check in fit_checks
    ]
    return (*advised, *following)


def _grade(value: float, look: float, unsafe: float) -> str:
    return "unsafe" if value > unsafe else "look" if value > look else "fine"


def _conclude(name: str, verdict: str, reason: str, remedy: str, numbers: dict[str, Any]) -> Check:
    """A check whose remedy is given only where there is something to remedy."""
    return Check(name, verdict, reason, "" if verdict == "fine" else remedy, numbers)


MISSING_LOOK = 0.10
MISSING_UNSAFE = 0.40
"""Share of available decision points that no fit can use."""


def check_missing(measures: Measures) -> Check:
    """Whether so much is missing that the reason for it matters."""
    logs = measures.fitted.logs_
    available = int(logs.available.sum())
    share = float((logs.available & ~measures.used).sum() / max(available, 1))
    empty = int((measures.total(measures.used) == 0).sum())
    verdict = _grade(share, MISSING_LOOK, MISSING_UNSAFE)
    if empty and verdict == "fine":
        verdict = "look"
    gaps = {name: int((logs.available & np.isnan(logs.state[:, j])).sum()) for j, name in enumerate(logs.state_names)}
    gaps[logs.names.reward] = int((logs.available & np.isnan(logs.reward)).sum())
    most = max(gaps, key=lambda name: gaps[name])
    reason = f"{format_percent(share)} of {available} available decision points have a missing value"
    if share > 0:
        reason += f", most often '{most}' ({gaps[most]})"
    if empty:
        reason += f"; {empty} of {len(logs.participants)} people have no usable decision point"
    remedy = f"find out why '{most}' is missing; a variable that is often missing is better left out of the state"
    return _conclude("missing values", verdict, reason, remedy, {"share": share, "by_column": gaps})


REMOVED_LOOK = 0.125
REMOVED_UNSAFE = 0.25
"""Share of used decision points beyond the limit: 7.6 % and 5 % of true outliers; a quarter is no longer a tail."""
SKEW_LOOK = 0.10
SKEW_UNSAFE = 0.20
"""Medcouple of the kept residuals, surely above: 0 for symmetric noise, 0.34 for exponential noise without a limit."""
ONE_SIDED = 0.80
"""Share of removed decision points on one side from which the cut is one-sided."""
REWARD_LOOK = 1 / 3
"""Share of the total reward that removed decision points hold."""
DIFFERENCE_LOOK = 0.02
DIFFERENCE_UNSAFE = 0.05
"""Difference in the rate of near removals, with an interval that excludes zero."""
TIME_LOOK = 0.03
TIME_UNSAFE = 0.10
"""Difference in the rate of removal between the last and the first third of people's time."""
PERSON_LOOK = 0.25
PEOPLE_UNSAFE = 0.20
"""A participant surely loses more than the first share of decision points; more than the second share of people do."""


def check_removal(measures: Measures) -> tuple[Check, ...]:
    """Which decision points the critic left out; of a critic without a limit, only how skewed the residuals are."""
    shape = Shape.of(measures)
    critic = measures.fitted.critic_
    if critic.removal is None:
        reason = f"{critic.title} has no limit: all {int(measures.used.sum())} decision points count"
        reduced = float((measures.fitted.weights_[measures.used] < 1).mean())
        if reduced > 0:
            reason += f", {100 * reduced:.0f} % of them with less than full weight"
        nothing = Check("share removed", "fine", reason, numbers={"share": 0.0, "far_share": 0.0})
        return nothing, _check_skewness(measures, shape)
    return (
        _check_share(measures, critic.removal),
        _check_skewness(measures, shape),
        _check_reward(measures, shape, critic.removal),
        _check_action(measures),
        _check_time(measures),
        _check_participant(measures),
    )


@dataclass(frozen=True)
class Shape:
    """Is a tail being cut? Artefacts leave the kept residuals symmetric; a skewed reward is skewed within the limit too."""

    medcouple: float
    error: float
    """Standard error of the medcouple for symmetric noise, √(1.25 / n)."""
    moment: float
    above: float
    """Share of removed decision points above the fit."""

    @classmethod
    def of(cls, measures: Measures) -> Shape:
        residuals = measures.relative[measures.used & ~measures.removed]
        cut_off = measures.relative[measures.removed]
        above = float((cut_off > 0).mean()) if len(cut_off) else 0.5
        error = float(np.sqrt(1.25 / max(len(residuals), 1)))
        return cls(medcouple(residuals), error, skewness(residuals), above)

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


def _check_share(measures: Measures, removal: Removal) -> Check:
    used = int(measures.used.sum())
    removed = int(measures.removed.sum())
    share = removed / used
    far_share = (removed - int(measures.near.sum())) / used
    reason = f"{removal.removes} {format_percent(share)} of {used} decision points"
    if removal.because:
        reason += f", {removal.because}"
    if removal.normal_share is not None:
        reason += f" ({format_percent(removal.normal_share)} would go from normal noise alone)"
    reason += f"; {format_percent(far_share)} stand apart, beyond {NEAR:g} times {removal.name}"
    remedy = "raise tau, or give the reward a transform under which its noise has one hump and short tails"
    numbers = {"share": share, "far_share": far_share}
    return _conclude("share removed", _grade(share, REMOVED_LOOK, REMOVED_UNSAFE), reason, remedy, numbers)


def _suggest_transform(measures: Measures) -> str:
    reward = measures.fitted.logs_.reward[measures.used]
    otherwise = "" if measures.fitted.critic_.removal is None else ", raise tau, or use a method that removes nothing"
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
    symmetry = "close to symmetric" if verdict == "fine" else f"skewed, with the longer tail on the {tail} side"
    measured = f"medcouple {format_signed(shape.medcouple, 2)}, moment skewness {format_signed(shape.moment, 2)}"
    reason = f"the kept residuals are {symmetry} ({measured})"
    if verdict == "unsafe":
        reason += (
            f", and {format_percent(shape.most, 0)} of removed decision points lie {shape.side} the fit: "
            "that tail is being cut off"
        )
    numbers = {"medcouple": shape.medcouple, "moment": shape.moment, "removed_above": shape.above}
    return _conclude("skewness", verdict, reason, _suggest_transform(measures), numbers)


def _check_reward(measures: Measures, shape: Shape, removal: Removal) -> Check:
    share = measures.reward_share()[0]
    points = float(measures.removed.sum() / measures.used.sum())
    cuts_tail = shape.surely_exceeds(SKEW_LOOK) and shape.one_sided
    verdict = "fine" if share <= REWARD_LOOK else "unsafe" if cuts_tail else "look"
    reason = (
        f"{removal.removes} {format_percent(points)} of decision points holding {format_percent(share, 0)} of the total "
        "reward"
    )
    if shape.most >= ONE_SIDED:
        reason += f", {'nearly all' if shape.most > 0.95 else format_percent(shape.most, 0)} {shape.side} the fit"
    remedy = "look at the removed decision points one by one: if they are real, the fit discards the outcome itself"
    if verdict == "unsafe":
        remedy = _suggest_transform(measures)
    return _conclude("reward removed", verdict, reason, remedy, {"share": share, "decision_point_share": points})


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


def _grade_difference(difference: Interval, look: float, unsafe: float) -> str:
    return _grade(abs(difference.value), look, unsafe) if difference.excludes_zero else "fine"


def _check_action(measures: Measures) -> Check:
    name = "depends on action"
    treated = measures.treated
    for group, action in ((treated, "sending"), (~treated, "nothing")):
        if not (measures.used & group).any():
            return _check_without_comparison(name, measures, f"no decision point after {action} counts")
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
        action = "sending" if far.value > 0 else "nothing"
        reason += (
            f"; far from the fit more is removed after {action}: artefacts that come with an action look like this, "
            "so read through the removed decision points once"
        )
    remedy = "the treatment effect itself is being cut; raise tau or transform the reward, and compare the effects below"
    numbers = {"near": near._asdict(), "far": far._asdict(), "all": every._asdict()}
    return _conclude(name, verdict, reason, remedy, numbers)


def _check_time(measures: Measures) -> Check:
    name = "depends on time"
    first = measures.elapsed < 1 / 3
    last = measures.elapsed >= 2 / 3
    for third, position in ((first, "first"), (last, "last")):
        if not (measures.used & third).any():
            lacking = f"no decision point in the {position} third of people's time counts"
            return _check_without_comparison(name, measures, lacking)
    difference = measures.rate_difference(measures.removed, last, first)
    verdict = _grade_difference(difference, TIME_LOOK, TIME_UNSAFE)
    reason = f"removal in the last third of people's time less that in the first: {_format_points(difference)}"
    remedy = "something changed during the study (a device, a season, the people); fit the parts separately and compare"
    return _conclude(name, verdict, reason, remedy, difference._asdict())


def _check_participant(measures: Measures) -> Check:
    used = measures.total(measures.used)
    present = used > 0
    removed = measures.total(measures.removed)[present]
    share = removed / used[present]
    # By its lower limit: a participant with few decision points loses many by chance.
    loses_much = wilson_interval(removed, used[present])[0] > PERSON_LOOK
    verdict = "unsafe" if loses_much.mean() > PEOPLE_UNSAFE else "look" if loses_much.any() else "fine"
    worst_hit = measures.fitted.logs_.participants[present][int(share.argmax())].item()
    reason = (
        f"people lose between {format_percent(share.min())} and {format_percent(share.max())} of their decision points "
        f"(median {format_percent(np.median(share))}); the most is participant {worst_hit!r}'s"
    )
    if loses_much.any():
        reason += f"; {int(loses_much.sum())} of {len(share)} surely lose more than {format_percent(PERSON_LOOK, 0)}"
    remedy = "look at their logs: a broken sensor, or a life that one fit for all does not describe (fit per participant)"
    numbers = {"least": float(share.min()), "median": float(np.median(share)), "most": float(share.max())}
    return _conclude("depends on participant", verdict, reason, remedy, numbers)


NEIGHBOURS = (0.7, 1.6)
"""Between τ times these the effect should stay within its interval."""
SEND_LOOK = 0.20
"""Between them the send rate should move by less than this."""


def check_sensitivity(measures: Measures, grid: tuple[Sensitivity, ...]) -> Check:
    """Whether effect and send rate depend on the height of the limit."""
    name = "depends on tau"
    audited = find_audited(grid)
    critic = measures.fitted.critic_
    effect = measures.describe_effect(audited.effect)
    if critic.removal is None:
        return Check(name, "fine", f"{critic.title} has no limit that could move it; {effect}")
    close = [row for row in grid if NEIGHBOURS[0] <= row.tau / audited.tau <= NEIGHBOURS[1]]
    least = min(row.effect.value for row in close)
    most = max(row.effect.value for row in close)
    lowest_rate = min(row.send_rate for row in close)
    highest_rate = max(row.send_rate for row in close)
    verdict = "fine"
    if least < audited.effect.low or most > audited.effect.high or highest_rate - lowest_rate > SEND_LOOK:
        verdict = "look"
    if any(row.effect.low > 0 for row in close) and any(row.effect.high < 0 for row in close):
        verdict = "unsafe"
    unlimited = grid[-1]
    reason = (
        f"{effect}; with tau from {close[0].tau:g} to {close[-1].tau:g} it goes from {format_number(least)} to "
        f"{format_number(most)}, and the send rate from {format_percent(lowest_rate, 0)} to "
        f"{format_percent(highest_rate, 0)}; without {critic.removal.name} {format_number(unlimited.effect.value)} and "
        f"{format_percent(unlimited.send_rate, 0)}"
    )
    remedy = "the result depends on the limit: choose tau before looking at effects, or transform the reward"
    return _conclude(name, verdict, reason, remedy, {"least": least, "most": most})


def compare_critics(measures: Measures, sensitivity: tuple[Sensitivity, ...], critic: str) -> Check:
    """The difference that this critic makes compared with another: for information only, so always fine."""
    other_measures, other = measures.with_critic(critic)
    title = other_measures.fitted.critic_.title
    audited = find_audited(sensitivity)
    reward_share = measures.reward_share()[0]
    other_share = other_measures.reward_share()[0]
    numbers = {
        "share": audited.removed,
        "share_of_the_cap": other.removed,
        "reward": reward_share,
        "reward_of_the_cap": other_share,
        "effect": audited.effect.value,
        "effect_of_the_cap": other.effect.value,
    }
    reason = (
        f"{title} would remove {format_percent(other.removed)} of decision points holding "
        f"{format_percent(other_share, 0)} of the total reward; this critic removes "
        f"{format_percent(audited.removed)} holding {format_percent(reward_share, 0)}. Mean effect of sending "
        f"{format_number(audited.effect.value)} instead of {format_number(other.effect.value)}"
    )
    return Check(f"against {title}", "fine", reason, "", numbers)


SURE = 0.01
"""The three tests together find a change in fewer than this share of audits in which nothing changes."""
ALIKE = 0.4 * SURE
"""The share of it for each of the two tests of a change that people have in common."""
WANDERING = 0.2 * SURE
"""The share of it for the test of individual changes."""


def check_drift(measures: Measures, effect: Interval) -> Check:
    """Whether effects, or any coefficients, move in a line over a participant's time in the study, or as random walks;
    `effect` is the mean effect of sending in the fit under audit."""
    name = "people change"
    fitted = measures.fitted
    logs = fitted.logs_
    rows = measures.used & ~measures.removed
    change = find_change(logs, rows, fitted.critic_sees_)
    numbers = {
        "people": change.people,
        "effect_change": change.effect_change._asdict(),
        "effect_p_value": change.effect_p_value,
        "p_value": change.p_value,
        "wandering_people": change.wandering_people,
        "wandering_p_value": change.wandering_p_value,
    }
    if not change.can_tell:
        reason = (
            f"{change.people} people have enough decision points to show a change; at least {LEAST_PEOPLE} are needed to "
            "tell whether coefficients move"
        )
        return Check(name, "fine", reason, "", numbers)

    def name_coefficient(number: int) -> str:
        action, feature = critic_feature_names(logs.state_names, logs.action_names)[number]
        return f"that of '{feature}' under '{action}'"

    alike = min(change.effect_p_value, change.p_value) < ALIKE
    wander = change.wandering_p_value < WANDERING
    walk = f"p = {change.wandering_p_value:.2g}"
    if not change.wandering_people:
        walk = f"nobody has the {LEAST_POINTS} decision points that this takes"
    reason = (
        f"the mean effect of sending changes by {format_estimate(change.effect_change)} in {PER} decision points "
        f"(p = {change.effect_p_value:.2g})"
    )
    if not alike and not wander:
        reason = (
            f"no coefficient moves significantly over the study, in all people alike (p = {change.p_value:.2g}) or in each "
            f"individually ({walk}); {reason}"
        )
        return Check(name, "fine", reason + _describe_doubt(change, effect), "", numbers)
    if change.p_value < ALIKE:
        reason += f"; coefficients move (p = {change.p_value:.2g}), most of all {name_coefficient(change.largest)}"
    if wander:
        reason += (
            f"; people's coefficients move individually ({walk}), most of all {name_coefficient(change.wandering_largest)}"
        )
    if fitted.forgetting < 1 or (fitted.posterior_ is not None and fitted.posterior_.walk):
        return Check(name, "fine", f"{reason}; the fit allows for it, as it follows people", "", numbers)
    random_walk = "pooling = 'partial' and random_walk = 'estimate'"
    remedy = f"{random_walk}: people change individually, and forgetting would not help"
    if alike:
        # A rate that remembers half of a typical participant's decision points.
        rate = round(1 - 2 / max(change.points, 4.0), 3)
        remedy = f"forgetting = {rate:g} or, where people change individually, {random_walk}"
    advice = f"the fit is an average over the study; to follow people as they change, write [method] {remedy}"
    return Check(name, "look", reason, advice, numbers)


def _describe_doubt(change: Change, effect: Interval) -> str:
    """Where an effect that fades to nothing, which is then twice its mean at first, would not have been noticed."""
    study = change.points / PER
    hidden = change.effect_change.low * study <= -2 * effect.value <= change.effect_change.high * study
    return "; this does not distinguish an effect that lasts from one that fades to nothing" if hidden else ""


RADIUS_LOOK = 0.95
"""A state of which so much carries over to the next decision point is felt for sixty of them."""


def check_reactions(logs: Trajectories, view: PooledView) -> Check:
    """Whether any state variable reacts to the actions, of a method that looks ahead."""
    reactions = view.reactions
    numbers = {
        f"{logs.state_names[reaction.variable]}, {logs.action_names[reaction.action]}": {
            "shift": reaction.shift.value,
            "standard_error": reaction.shift.standard_error,
            "p_value": reaction.p_value,
        }
        for reaction in reactions
    }
    sure = [
        f"{logs.state_names[reaction.variable]} to {logs.action_names[reaction.action]} "
        f"({format_number(reaction.shift.value)} at the next decision point)"
        for reaction in reactions
        if reaction.p_value < SURE_OF_REACTION / len(reactions)
    ]
    if sure:
        return Check("states react", "fine", f"reactions: {', '.join(sure)}", "", numbers)
    least = min(reactions, key=lambda reaction: reaction.p_value)
    reason = (
        "no state variable reacts to the actions (least p-value "
        f"{least.p_value:.2g}, {logs.state_names[least.variable]}), so looking ahead only adds noise"
    )
    remedy = "add a state that remembers, such as a dose of prompts, or use horizon = 'immediate'"
    return Check("states react", "unsafe", reason, remedy, numbers)


def check_stability(view: PooledView) -> Check:
    """Whether the consequences of an action die away."""
    radius = float(view.model.radius[0])
    reason = f"{100 * radius:.0f} % of the state carries over from one decision point to the next (spectral radius)"
    remedy = "take out a state that only grows, such as a count or the day in the study: its long-run worth is a guess"
    verdict = _grade(radius, RADIUS_LOOK, MOST_RADIUS)
    return _conclude("long run is stable", verdict, reason, remedy, {"radius": radius})


RUN = 5
"""The number of equal values in a row that make a run."""
STILL_LOOK = 0.02
STILL_UNSAFE = 0.10
"""Share of decision points that repeat their neighbour although values hardly ever recur."""
ZEROS_LOOK = 0.05
"""Share of decision points with a zero in a run that chance does not explain: people also sit still, so never unsafe."""


def check_standing_still(logs: Trajectories, raw_reward: NDArray[np.float64]) -> Check:
    """Whether values stand still: unworn devices and dead sensors that nothing has screened."""
    values = np.column_stack([logs.state, raw_reward])
    names = (*logs.state_names, logs.names.reward)
    earlier = np.zeros(len(logs), dtype=np.int64)
    earlier[logs.order[1:]] = logs.order[:-1]
    first = np.zeros(len(logs), dtype=bool)
    first[logs.order[logs.starts[:-1]]] = True
    same = (values == values[earlier]) & ~first[:, None]
    identical = float(same.all(axis=1).mean())
    continuous = [count_ties(column[logs.order][None, :]).continuous for column in values.T]
    # A continuous column that repeats at a few decision points, but not by nature at most of them.
    stuck = {
        name: float(repeats.mean())
        for name, repeats, varies in zip(names, same.T, continuous, strict=True)
        if varies and STILL_LOOK < repeats.mean() < 0.5
    }
    zeros, runs, expected = _zeros_in_runs(logs, raw_reward)
    excess = zeros * max(runs - expected, 0.0)
    worst = max(identical if any(continuous) else 0.0, *stuck.values(), 0.0)
    verdict = _grade(worst, STILL_LOOK, STILL_UNSAFE)
    if excess > ZEROS_LOOK and verdict == "fine":
        verdict = "look"
    reason = f"{format_percent(identical)} of the decision points have exactly the values of the one before"
    if stuck:
        column = max(stuck, key=lambda name: stuck[name])
        reason += f"; '{column}', whose values hardly ever recur otherwise, repeats at {format_percent(stuck[column])}"
    if zeros:
        reason += (
            f"; {format_percent(zeros)} of '{logs.names.reward}' are 0, {format_percent(runs, 0)} of these in runs of "
            f"{RUN} or more (by chance {format_percent(expected, 0)})"
        )
    remedy = (
        "a device that is not worn records 0, a dead one repeats its last value: add [screen] and device = … to the study"
    )
    numbers = {"identical": identical, "repeats": stuck, "zeros": zeros, "zeros_in_runs": runs, "by_chance": expected}
    return _conclude("values that stand still", verdict, reason, remedy, numbers)


def _zeros_in_runs(logs: Trajectories, reward: NDArray[np.float64]) -> tuple[float, float, float]:
    """Share of zeros, share of these in runs, and the share expected by chance.

    With a participant's share p of zeros, a zero lies in a run of L or more with probability p^{L−1} (L − (L − 1) p).
    """
    zero = (reward == 0)[logs.order]
    present = ~np.isnan(reward)[logs.order]
    if not zero.any():
        return 0.0, 0.0, 0.0
    people = len(logs.participants)
    owner = np.repeat(np.arange(people), np.diff(logs.starts))
    begins = np.ones(len(zero), dtype=bool)
    begins[1:] = (zero[1:] != zero[:-1]) | (owner[1:] != owner[:-1])
    run = np.cumsum(begins) - 1
    in_long_run = np.bincount(run)[run] >= RUN
    counts = np.bincount(owner[zero], minlength=people)
    p = counts / np.maximum(np.bincount(owner[present], minlength=people), 1)
    chance = p ** (RUN - 1) * (RUN - (RUN - 1) * p)
    share = float(zero.sum() / present.sum())
    return share, float(in_long_run[zero].mean()), float((counts * chance).sum() / counts.sum())
