"""The checks of a fit. Every limit stands next to its check; docs/audit.md gives the reasons for it.

The sentences are in the template `audit_checks.txt`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.audit.measures import NEAR, Measures, Sensitivity, find_audited
from surefoot.data.trajectories import Trajectories
from surefoot.inference.change import LEAST_PEOPLE, LEAST_POINTS, PER, find_change
from surefoot.inference.intervals import Interval, wilson_interval
from surefoot.learning.horizon.look_ahead import MOST_RADIUS, PooledView
from surefoot.learning.horizon.look_ahead import SURE as SURE_OF_REACTION
from surefoot.log_checks.check import Check
from surefoot.log_checks.columns import UNITS_NAME
from surefoot.log_checks.outcomes_by_action import PILES_NAME
from surefoot.numerics.fences import medcouple, skewness
from surefoot.policies.features import critic_feature_names
from surefoot.reports.numbers import format_number
from surefoot.screening.detectors import count_ties

REMOVAL_CHECKS = (
    "share removed",
    "skewness",
    "outcome removed",
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
    fitted = measures.fitted
    effect = find_audited(sensitivity).effect
    checks = [check_missing(measures), *check_removal(measures)]
    checks += [check_sensitivity(measures, sensitivity), check_drift(measures, effect)]
    if fitted.outlook_ is not None:
        view = fitted.outlook_.pool()
        checks += [check_reactions(fitted.logs_, view), check_stability(view)]
    if fitted.critic_.compared_with is not None:
        checks.append(compare_critics(measures, sensitivity, fitted.critic_.compared_with))
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


def _conclude(name: str, verdict: str, numbers: dict[str, Any], **context: Any) -> Check:
    """A check in words; the remedy is given only where there is something to remedy."""
    from surefoot.reports.render import join_lines, render

    text = render("audit_checks.txt", name=name, verdict=verdict, **{**numbers, **context})
    reason, _, remedy = text.partition("\n→")
    return Check(name, verdict, join_lines(reason), "" if verdict == "fine" else join_lines(remedy), numbers)


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
    columns = {**dict(zip(logs.state_names, logs.state.T, strict=True)), logs.names.outcome: logs.outcome}
    gaps = {name: int((logs.available & np.isnan(values)).sum()) for name, values in columns.items()}
    context = {"available": available, "empty": empty, "people": len(logs.participants)}
    most = max(gaps, key=lambda name: gaps[name])
    return _conclude("missing values", verdict, {"share": share, "by_column": gaps}, most=most, **context)


REMOVED_LOOK = 0.125
REMOVED_UNSAFE = 0.25
"""Share of used decision points beyond the limit: 7.6 % and 5 % of true outliers; a quarter is no longer a tail."""
SKEW_LOOK = 0.10
SKEW_UNSAFE = 0.20
"""Medcouple of the kept residuals, surely above: 0 for symmetric noise, 0.34 for exponential noise without a limit."""
ONE_SIDED = 0.80
"""Share of removed decision points on one side from which the cut is one-sided."""
REWARD_LOOK = 1 / 3
"""Share of the total outcome that removed decision points hold."""
DIFFERENCE_LOOK = 0.02
DIFFERENCE_UNSAFE = 0.05
"""Difference in the rate of near removals, with an interval that excludes zero."""
TIME_LOOK = 0.03
TIME_UNSAFE = 0.10
"""Difference in the rate of removal between the last and the first third of people's time."""
PERSON_LOOK = 0.25
PEOPLE_UNSAFE = 0.20
"""A participant surely loses more than the first share of decision points; more than the second share of people do."""


@dataclass(frozen=True)
class Shape:
    """Is a tail being cut? Artefacts leave the kept residuals symmetric; a skewed outcome is skewed within the limit too."""

    medcouple: float
    error: float
    """Standard error of the medcouple for symmetric noise, √(1.25 / n)."""
    moment: float
    above: float
    """Share of removed decision points above the fit."""

    @classmethod
    def of(cls, measures: Measures) -> "Shape":
        residuals = measures.relative[measures.used & ~measures.removed]
        cut_off = measures.relative[measures.removed]
        above = float((cut_off > 0).mean()) if len(cut_off) else 0.5
        return cls(medcouple(residuals), float(np.sqrt(1.25 / max(len(residuals), 1))), skewness(residuals), above)

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


def check_removal(measures: Measures) -> tuple[Check, ...]:
    """Which decision points the critic left out; of a critic without a limit, only how skewed the residuals are."""
    fitted = measures.fitted
    critic = fitted.critic_
    removal = critic.removal
    used = int(measures.used.sum())
    removed = int(measures.removed.sum())
    shape = Shape.of(measures)
    context: dict[str, Any] = {"removal": removal, "critic": critic, "used": used, "shape": shape, "near": NEAR}
    context |= {"one_sided": ONE_SIDED, "transform": _suggest_transform(measures)}
    context["reduced"] = 0.0 if removal is not None else float((fitted.weights_[measures.used] < 1).mean())
    share = 0.0 if removal is None else removed / used
    far_share = 0.0 if removal is None else (removed - int(measures.near.sum())) / used
    verdict = _grade(share, REMOVED_LOOK, REMOVED_UNSAFE)
    checks = [_conclude("share removed", verdict, {"share": share, "far_share": far_share}, **context)]
    verdict = "look" if shape.surely_exceeds(SKEW_LOOK) else "fine"
    if shape.surely_exceeds(SKEW_UNSAFE) and removed and shape.one_sided:
        verdict = "unsafe"
    numbers = {"medcouple": shape.medcouple, "moment": shape.moment, "removed_above": shape.above}
    checks.append(_conclude("skewness", verdict, numbers, **context))
    if removal is None:
        return tuple(checks)
    outcome_share = measures.outcome_share()[0]
    cuts_tail = shape.surely_exceeds(SKEW_LOOK) and shape.one_sided
    verdict = "fine" if outcome_share <= REWARD_LOOK else "unsafe" if cuts_tail else "look"
    numbers = {"share": outcome_share, "decision_point_share": removed / used}
    checks.append(_conclude("outcome removed", verdict, numbers, **context))
    return (*checks, _check_action(measures), _check_time(measures), _check_participant(measures))


def _suggest_transform(measures: Measures) -> str:
    outcome = measures.fitted.logs_.outcome[measures.used]
    otherwise = "" if measures.fitted.critic_.removal is None else ", raise tau, or use a method that removes nothing"
    if outcome.min() >= 0 and skewness(outcome) > 1:
        smallest = outcome[outcome > 0].min()
        return f"the outcome is skewed; try log(x + {0.5 if smallest >= 1 else smallest / 2:.3g}){otherwise}"
    return f"plot the residuals; try another transform of the outcome{otherwise}"


def _find_lacking(name: str, measures: Measures, groups: dict[str, NDArray[np.bool_]]) -> Check | None:
    """The check where one of two groups has no decision point: harmless only if nothing was removed."""
    for group, rows in groups.items():
        if not (measures.used & rows).any():
            verdict = "look" if measures.removed.any() else "fine"
            return _conclude(name, verdict, {}, lacking=f"no decision point {group} counts")
    return None


def _grade_difference(difference: Interval, look: float, unsafe: float) -> str:
    return _grade(abs(difference.value), look, unsafe) if difference.excludes_zero else "fine"


def _check_action(measures: Measures) -> Check:
    name = "depends on action"
    treated = measures.treated
    lacking = _find_lacking(name, measures, {"after sending": treated, "after nothing": ~treated})
    if lacking is not None:
        return lacking
    events = {"near": measures.near, "far": measures.removed & ~measures.near, "all": measures.removed}
    rates = {kind: measures.rate_difference(rows, treated, ~treated) for kind, rows in events.items()}
    verdict = _grade_difference(rates["near"], DIFFERENCE_LOOK, DIFFERENCE_UNSAFE)
    numbers = {kind: rate._asdict() for kind, rate in rates.items()}
    return _conclude(name, verdict, numbers, **rates, near_limit=NEAR, look=DIFFERENCE_LOOK)


def _check_time(measures: Measures) -> Check:
    name = "depends on time"
    first = measures.elapsed < 1 / 3
    last = measures.elapsed >= 2 / 3
    thirds = {"in the first third of people's time": first, "in the last third of people's time": last}
    lacking = _find_lacking(name, measures, thirds)
    if lacking is not None:
        return lacking
    difference = measures.rate_difference(measures.removed, last, first)
    verdict = _grade_difference(difference, TIME_LOOK, TIME_UNSAFE)
    return _conclude(name, verdict, difference._asdict(), difference=difference)


def _check_participant(measures: Measures) -> Check:
    used = measures.total(measures.used)
    present = used > 0
    removed = measures.total(measures.removed)[present]
    share = removed / used[present]
    # By its lower limit: a participant with few decision points loses many by chance.
    loses_much = wilson_interval(removed, used[present])[0] > PERSON_LOOK
    verdict = "unsafe" if loses_much.mean() > PEOPLE_UNSAFE else "look" if loses_much.any() else "fine"
    numbers = {"least": float(share.min()), "median": float(np.median(share)), "most": float(share.max())}
    worst_hit = measures.fitted.logs_.participants[present][int(share.argmax())].item()
    counts = {"losers": int(loses_much.sum()), "people": len(share), "limit": PERSON_LOOK}
    return _conclude("depends on participant", verdict, numbers, worst_hit=repr(worst_hit), **counts)


NEIGHBOURS = (0.7, 1.6)
"""Between τ times these the effect should stay within its interval."""
SEND_LOOK = 0.20
"""Between them the send rate should move by less than this."""


def check_sensitivity(measures: Measures, grid: tuple[Sensitivity, ...]) -> Check:
    """Whether effect and send rate depend on the height of the limit."""
    audited = find_audited(grid)
    critic = measures.fitted.critic_
    effect = measures.describe_effect(audited.effect)
    if critic.removal is None:
        return _conclude("depends on tau", "fine", {}, critic=critic, effect=effect)
    close = [row for row in grid if NEIGHBOURS[0] <= row.tau / audited.tau <= NEIGHBOURS[1]]
    values = [row.effect.value for row in close]
    rates = [row.send_rate for row in close]
    verdict = "fine"
    leaves = min(values) < audited.effect.low or max(values) > audited.effect.high
    if leaves or max(rates) - min(rates) > SEND_LOOK:
        verdict = "look"
    if any(row.effect.low > 0 for row in close) and any(row.effect.high < 0 for row in close):
        verdict = "unsafe"
    context = {"critic": critic, "effect": effect, "close": close, "rates": rates, "unlimited": grid[-1]}
    return _conclude("depends on tau", verdict, {"least": min(values), "most": max(values)}, **context)


def compare_critics(measures: Measures, sensitivity: tuple[Sensitivity, ...], critic: str) -> Check:
    """The difference that this critic makes compared with another: for information only, so always fine."""
    other_measures, other = measures.with_critic(critic)
    title = other_measures.fitted.critic_.title
    audited = find_audited(sensitivity)
    numbers = {
        "share": audited.removed,
        "share_of_the_cap": other.removed,
        "outcome": measures.outcome_share()[0],
        "outcome_of_the_cap": other_measures.outcome_share()[0],
        "effect": audited.effect.value,
        "effect_of_the_cap": other.effect.value,
    }
    return _conclude(f"against {title}", "fine", numbers, title=title)


SURE = 0.01
"""The three tests together find a change in fewer than this share of audits in which nothing changes."""
ALIKE = 0.4 * SURE
"""The share of it for each of the two tests of a change that people have in common."""
WANDERING = 0.2 * SURE
"""The share of it for the test of individual changes."""


def check_drift(measures: Measures, effect: Interval) -> Check:
    """Whether effects, or any coefficients, move in a line over a participant's time in the study, or as random walks;
    `effect` is the mean effect of sending in the fit under audit."""
    fitted = measures.fitted
    logs = fitted.logs_
    counted = measures.used & ~measures.removed
    change = find_change(logs, counted, fitted.critic_sees_)
    shared = None if fitted.joint_ is None else fitted.joint_.shared
    together = fitted.pooling_.changes_together
    if together and shared is not None:
        # A change that all have in common looks like a walk in each person.
        unshared = find_change(logs.with_values(outcome=logs.outcome - shared.offset), counted, fitted.critic_sees_)
        change = replace(
            change,
            wandering_people=unshared.wandering_people,
            wandering_p_value=unshared.wandering_p_value,
            wandering_largest=unshared.wandering_largest,
        )
    names = ("people", "effect_p_value", "p_value", "wandering_people", "wandering_p_value")
    numbers = {name: getattr(change, name) for name in names} | {"effect_change": change.effect_change._asdict()}
    line = change.p_value < ALIKE
    alike = line or change.effect_p_value < ALIKE
    wander = change.wandering_p_value < WANDERING
    walks = fitted.posterior_ is not None and bool(fitted.posterior_.walk)
    follows = fitted.forgetting < 1 or walks or (together and not wander)
    verdict = "look" if change.can_tell and (alike or wander) and not follows else "fine"
    # An effect that fades to nothing is twice its mean at first; where the interval holds that, it would not be noticed.
    study = change.points / PER
    hidden = change.effect_change.low * study <= -2 * effect.value <= change.effect_change.high * study
    coefficients = [
        f"that of '{feature}' under '{action}'"
        for action, feature in critic_feature_names(logs.state_names, logs.action_names)
    ]
    context = {"change": change, "line": line, "alike": alike, "wander": wander, "hidden": hidden, "together": together}
    return _conclude(
        "people change",
        verdict,
        numbers,
        **context,
        largest=coefficients[change.largest],
        wandering_largest=coefficients[change.wandering_largest],
        least_people=LEAST_PEOPLE,
        least_points=LEAST_POINTS,
        per=PER,
        # A rate that remembers half of a typical participant's decision points.
        rate=round(1 - 2 / max(change.points, 4.0), 3),
    )


RADIUS_LOOK = 0.95
"""A state of which so much carries over to the next decision point is felt for sixty of them."""


def check_reactions(logs: Trajectories, view: PooledView) -> Check:
    """Whether any state variable reacts to the actions, of a method that looks ahead."""
    numbers = {}
    sure = []
    for reaction in view.reactions:
        variable = logs.state_names[reaction.variable]
        action = logs.action_names[reaction.action]
        shift = {"shift": reaction.shift.value, "standard_error": reaction.shift.standard_error}
        numbers[f"{variable}, {action}"] = {**shift, "p_value": reaction.p_value}
        if reaction.p_value < SURE_OF_REACTION / len(view.reactions):
            sure.append(f"{variable} to {action} ({format_number(reaction.shift.value)} at the next decision point)")
    least = min(view.reactions, key=lambda reaction: reaction.p_value)
    context = {"sure": sure, "least": least, "variable": logs.state_names[least.variable]}
    return replace(_conclude("states react", "fine" if sure else "unsafe", {}, **context), numbers=numbers)


def check_stability(view: PooledView) -> Check:
    """Whether the consequences of an action die away."""
    radius = float(view.model.radius[0])
    return _conclude("long run is stable", _grade(radius, RADIUS_LOOK, MOST_RADIUS), {"radius": radius})


RUN = 5
"""The number of equal values in a row that make a run."""
STILL_LOOK = 0.02
STILL_UNSAFE = 0.10
"""Share of decision points that repeat their neighbour although values hardly ever recur."""
ZEROS_LOOK = 0.05
"""Share of decision points with a zero in a run that chance does not explain: people also sit still, so never unsafe."""


def check_standing_still(logs: Trajectories, raw_outcome: NDArray[np.float64]) -> Check:
    """Whether values stand still: unworn devices and dead sensors that nothing has screened."""
    values = np.column_stack([logs.state, raw_outcome])
    names = (*logs.state_names, logs.names.outcome)
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
    zeros, runs, expected = _zeros_in_runs(logs, raw_outcome)
    excess = zeros * max(runs - expected, 0.0)
    worst = max(identical if any(continuous) else 0.0, *stuck.values(), 0.0)
    verdict = _grade(worst, STILL_LOOK, STILL_UNSAFE)
    if excess > ZEROS_LOOK and verdict == "fine":
        verdict = "look"
    numbers = {"identical": identical, "repeats": stuck, "zeros": zeros, "zeros_in_runs": runs, "by_chance": expected}
    worst_column = max(stuck, key=lambda name: stuck[name], default="")
    context = {"stuck": worst_column, "outcome": logs.names.outcome, "run": RUN}
    return _conclude("values that stand still", verdict, numbers, **context)


def _zeros_in_runs(logs: Trajectories, outcome: NDArray[np.float64]) -> tuple[float, float, float]:
    """Share of zeros, share of these in runs, and the share expected by chance.

    With a participant's share p of zeros, a zero lies in a run of L or more with probability p^{L−1} (L − (L − 1) p).
    """
    zero = (outcome == 0)[logs.order]
    present = ~np.isnan(outcome)[logs.order]
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
