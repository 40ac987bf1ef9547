"""Proposals: from logs to the next policy, with everything that decides whether it may go live."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.fitting.parts import PartFit, count_used, fit_part
from surefoot.inference.intervals import mean_interval
from surefoot.inference.sandwich import Influences, compute_influences
from surefoot.learning.methods import Method
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.log_reader import finish_logs
from surefoot.trial_rules import policy_checks
from surefoot.trial_rules.policy_checks import PolicyFinding, find_influences

ENOUGH = 20
"""Fewer values set no limits."""
OUTCOME_WIDTHS = 100
"""Limits of outcomes are so many times wider than those of states: outliers are left to the critic."""


@dataclass(frozen=True)
class ImplausibleValue:
    """A value that counts as missing."""

    row: int
    """Its row's number in the input."""
    variable: str
    value: float
    limits: tuple[float, float]


def find_limits(values: NDArray[np.float64], widths: float) -> tuple[float, float] | None:
    """The limits of a variable without a range, from its values; None where they say nothing.

    >>> find_limits(np.arange(101.0), 10)
    (-850.0, 950.0)
    """
    known = values[~np.isnan(values)]
    if len(known) < ENOUGH:
        return None
    low, middle, high = np.quantile(known, (0.05, 0.5, 0.95))
    # A variable that hardly ever moves says nothing about what is far.
    return (float(middle - widths * (high - low)), float(middle + widths * (high - low))) if high > low else None


def blank_implausible(study: Study, measured: StudyLogs, widths: float) -> tuple[StudyLogs, list[ImplausibleValue]]:
    """The logs with implausible values made missing, and what was blanked, row by row."""
    state = measured.logs.state
    blanked = []
    next_column = 0
    for name, (_, kind) in study.state_kinds.items():
        column = next_column
        values = state[:, column]
        next_column += len(study.state_columns[name])
        limits = find_limits(values, widths) if "range" in kind.takes and kind.range is None else None
        rows = np.flatnonzero((values < limits[0]) | (values > limits[1])) if limits is not None else ()
        if limits is None or not len(rows):
            continue
        state = state.copy() if state is measured.logs.state else state
        state[rows, column] = np.nan
        blanked += [ImplausibleValue(int(measured.row[row]), name, float(values[row]), limits) for row in rows]
    outcome = measured.logs.outcome
    limits = find_limits(outcome, OUTCOME_WIDTHS * widths) if study.outcome.range is None else None
    if limits is not None:
        far = (outcome < limits[0]) | (outcome > limits[1])
        name = study.outcome.column
        blanked += [
            ImplausibleValue(int(measured.row[row]), name, float(outcome[row]), limits) for row in np.flatnonzero(far)
        ]
        outcome = np.where(far, np.nan, outcome)
    blanked_logs = replace(measured, logs=measured.logs.with_values(state=state, outcome=outcome))
    return blanked_logs, sorted(blanked, key=lambda value: value.row)


def find_shared_influences(method: Method) -> Influences | None:
    """Every participant's and row's influence on one policy for all, in closed form; None where there is none."""
    try:
        return compute_influences(method, analytic=True, with_rows=True) if method.pooled_ else None
    except (InputError, np.linalg.LinAlgError):
        # One participant, or a critic without coefficients: a policy is worth having without them.
        return None


def estimate_errors(method: Method, shared: Influences | None) -> list[dict[str, Any]]:
    """Action, feature, value and standard error of every coefficient of the policy; empty where it has none.

    Of one policy for everybody by the sandwich clustered by participant, however few there are; of a policy for each
    participant the mean over people, with the error of a mean. They are half a 95 % interval over 1.96: with Student's t,
    larger where people are few. An error that cannot be had is None.
    """
    part = next((part for part in method.coefficient_parts_ if part.part == "policy"), None)
    if part is None:
        return []
    logs = method.logs_
    seen = {"intercept", *(name for name, is_seen in zip(logs.state_names, part.sees, strict=True) if is_seen)}
    coefficients = part.values[0]
    half = np.full(len(coefficients), np.nan)
    if not method.pooled_:
        present = np.unique(logs.participant_index[logs.usable])
        means = [mean_interval(column[present]) for column in part.values.T]
        coefficients = np.array([mean.value for mean in means])
        half = np.array([mean.high - mean.value for mean in means])
    elif shared is not None and shared.policy is not None:
        half = shared.half_width("policy")
    estimates = []
    for (action, feature), value, width in zip(part.names, coefficients, half, strict=True):
        if feature in seen:
            error = float(width / 1.96) if np.isfinite(width) else None
            estimates.append({"action": action, "feature": feature, "value": float(value), "standard_error": error})
    return estimates


@dataclass(frozen=True, eq=False)
class Proposal:
    """The result of an update."""

    state: str
    """`waiting` while nobody is ready, `done` when the policies may go live, `refused` when a check failed."""
    message: str | None
    """Why they may not."""
    fit: PartFit | None
    """None where no decision point is usable."""
    logs: StudyLogs
    implausible: list[ImplausibleValue]
    """The values that counted as missing."""
    policies: Policies | None = None
    """Of those who are ready; None while nobody is."""
    findings: tuple[PolicyFinding, ...] = ()
    coefficients: list[dict[str, Any]] = field(default_factory=list)
    """Of the policy, with standard errors, for the next update to compare with."""
    left_out: str | None = None
    """Which newcomers were left out, and why; None when nobody was."""


def propose_policy(
    study: Study,
    measured: StudyLogs,
    live: Policies | None,
    live_coefficients: list[dict[str, Any]],
    known: Collection[str] | None,
    *,
    label: Callable[[int], str],
    report: Callable[[str], None] = lambda state: None,
) -> Proposal:
    """Fit to logs as measured, and check the policy against the one that is live.

    `live` is None in warm-up; `live_coefficients` are those of the proposal that made it and `known` the participants
    who are no newcomers (`find_known`; None: it did not learn in this trial). `label` names a row of the input in
    messages, and `report` is called with `checking` when the fit is done.
    """
    settings = study.trial or TrialSection()
    measured, implausible = blank_implausible(study, measured, settings.guard_rails.plausible_widths)
    logs = finish_logs(choose_screen(study), measured)
    waiting = f"nobody has {settings.warm_up_decision_points} complete decision points yet"
    if not logs.logs.usable.any():
        return Proposal("waiting", waiting, None, logs, implausible)
    logs, fit, newcomers = fit_with_newcomers(study, logs, known, settings.guard_rails.max_newcomer_change)
    ready = find_ready_participants(settings, fit.method)
    if not ready:
        return Proposal("waiting", waiting, fit, logs, implausible)
    report("checking")
    new = select_participants(fit.policies, ready)
    findings = policy_checks.check_policy(study, logs, fit.method.weights_, new, live)
    coefficients: list[dict[str, Any]] = []
    if findings[0].passed:  # every number is finite
        rails = settings.guard_rails
        shared = find_shared_influences(fit.method)
        coefficients = estimate_errors(fit.method, shared)
        is_live = live is not None
        compare = policy_checks.check_coefficients
        findings.append(compare(coefficients, live_coefficients, rails.max_coefficient_change, is_live=is_live))
        findings += newcomers.findings
        # No probability can move by more than 1, and refits take most of an update.
        if rails.max_influence < 1:
            influences = find_influences(study, logs, fit.method, new, shared, rails.max_influence, label)
            findings.append(policy_checks.check_influence(influences, rails.max_influence))
    failed = "; ".join(f"{finding.check}: {finding.message}" for finding in findings if not finding.passed)
    state = "refused" if failed else "done"
    return Proposal(state, failed or None, fit, logs, implausible, new, tuple(findings), coefficients, newcomers.left_out)


def find_known(history: Sequence[tuple[timedelta, Collection[str]]], days: float) -> Collection[str] | None:
    """From whom the policy that was live so many days ago had learned; the first policy's participants if none was live yet.

    `history` lists how long ago each policy went live and from whom it learned, the first one first.

    >>> day = timedelta(days=1)
    >>> history = [(3 * day, ["p1"]), (2 * day, ["p1", "p2"]), (1 * day, ["p1", "p2", "p3"])]
    >>> find_known(history, 1.5), find_known(history, 7), find_known([], 7)
    (['p1', 'p2'], ['p1'], None)
    """
    if not history:
        return None
    earlier = [people for age, people in history if age >= timedelta(days=days)]
    return earlier[-1] if earlier else history[0][1]


@dataclass(frozen=True)
class Newcomers:
    """How much newcomers would change the policy of the others."""

    findings: tuple[PolicyFinding, ...] = ()
    left_out: str | None = None
    """Who was left out, and why; None when nobody was."""


def fit_with_newcomers(
    study: Study, logs: StudyLogs, known: Collection[str] | None, allowed: float
) -> tuple[StudyLogs, PartFit, Newcomers]:
    """Fit to everybody's decision points. Where newcomers would change the policy of the others by more than allowed, leave
    half of them out, and again half, those with the fewest decision points first: each night admits more of them."""
    fit = fit_part(study, logs)
    finite = all(bool(np.isfinite(values).all()) for values in fit.policies.rule.arrays().values())
    if allowed >= 1 or not finite:
        return logs, fit, Newcomers()
    finding = policy_checks.check_newcomers(study, logs, fit.policies, known, allowed)
    if finding.passed:
        return logs, fit, Newcomers((finding,))
    newcomers = policy_checks.list_newcomers(logs, known)
    first = finding
    admitted = len(newcomers)
    while not finding.passed:
        admitted //= 2
        excluded = np.isin(logs.logs.participant, newcomers[admitted:])
        limited = replace(logs, logs=logs.logs.with_values(outcome=np.where(excluded, np.nan, logs.logs.outcome)))
        fit = fit_part(study, limited)
        finding = policy_checks.check_newcomers(study, limited, fit.policies, known, allowed)
    words = f"{first.message}, where {allowed:g} is allowed; {len(newcomers) - admitted} of them were left out"
    return limited, fit, Newcomers((replace(finding, message=words),), words)


def choose_screen(study: Study) -> Study:
    """The study as an update reads its logs: screened as it says, or, where it says nothing, by every detector that needs
    no declaration; `[screen] on = false` switches it off."""
    return study if study.screen is not None else study.model_copy(update={"questionnaire": {}}).with_screen()


def find_ready_participants(settings: TrialSection, method: Method) -> list[str]:
    """Who has enough complete decision points; where there is a policy for anybody, everyone or nobody."""
    people = method.participants_.tolist()
    used = count_used(method)
    if method.policies_.serves_anybody:
        used[:] = used.sum()
    enough = used >= settings.warm_up_decision_points
    return [participant for participant, is_ready in zip(people, enough, strict=True) if is_ready]


def select_participants(fitted: Policies, people: list[str]) -> Policies:
    """Only the rules of those people; all of them where anybody has one."""
    if fitted.participants is None or fitted.anybody is not None:
        return fitted
    chosen = np.isin(fitted.participants, np.array(people, dtype=fitted.participants.dtype))
    return replace(fitted, participants=fitted.participants[chosen], rule=fitted.rule[chosen])
