"""Proposals: from logs to the next policy, with everything that decides whether it may go live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surefoot.fitting.part_fit import StudyFit, count_used, fit_study
from surefoot.learning.methods import Method
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.log_reader import finish_logs
from surefoot.study.measured_logs import MeasuredLogs
from surefoot.trial_rules import policy_checks
from surefoot.trial_rules.influence import find_influences
from surefoot.trial_rules.plausibility import ImplausibleValue, blank_implausible
from surefoot.trial_rules.policy_checks import PolicyFinding
from surefoot.trial_rules.policy_version import select_participants
from surefoot.trial_rules.standard_errors import estimate_errors, find_shared_influences


@dataclass(frozen=True, eq=False)
class Proposal:
    """What an update found.

    Attributes
    ----------
    state
        `waiting` while nobody is ready, `done` when the policies may go live, `refused` when a check failed.
    message
        Why they may not.
    policies
        Of those who are ready; None while nobody is.
    findings
        Of every check.
    coefficients
        Of the policy, with standard errors, for the next update to compare with.
    fit, logs, implausible
        What it was found from, and the values that counted as missing; without a fit where no decision point is usable.
    """

    state: str
    message: str | None
    fit: StudyFit | None
    logs: StudyLogs
    implausible: list[ImplausibleValue]
    policies: Policies | None = None
    findings: tuple[PolicyFinding, ...] = ()
    coefficients: list[dict[str, Any]] = field(default_factory=list)


def propose_policy(
    study: Study,
    measured: MeasuredLogs,
    live: Policies | None,
    live_coefficients: list[dict[str, Any]],
    *,
    label: Callable[[int], str],
    report: Callable[[str], None] = lambda state: None,
) -> Proposal:
    """Fit to logs as measured, and check the policy against the one that is live.

    Parameters
    ----------
    study
        With its `[trial]`: warm-up and guard rails.
    measured
        Everything that is known by now.
    live
        What decides until now; None in warm-up.
    live_coefficients
        `Proposal.coefficients` of the update that made it; empty where there are none.
    label
        What a row of the input is called in messages.
    report
        Told `checking` when the fit is done.
    """
    settings = study.trial or TrialSection()
    measured, implausible = blank_implausible(study, measured, settings.guard_rails.plausible_widths)
    logs = finish_logs(choose_screen(study), measured)
    waiting = f"nobody has {settings.warm_up_decision_points} complete decision points yet"
    if not logs.logs.usable.any():
        return Proposal("waiting", waiting, None, logs, implausible)
    fit = fit_study(study, logs)
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
        findings.append(policy_checks.check_coefficients(coefficients, live_coefficients, rails.max_coefficient_change))
        influences = find_influences(study, logs, fit.method, new, shared, rails.max_influence, label)
        findings.append(policy_checks.check_influence(influences, rails.max_influence))
    failed = "; ".join(f"{finding.check}: {finding.message}" for finding in findings if not finding.passed)
    state = "refused" if failed else "done"
    return Proposal(state, failed or None, fit, logs, implausible, new, tuple(findings), coefficients)


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
    return [
        participant for participant, count in zip(people, used, strict=True) if count >= settings.warm_up_decision_points
    ]
