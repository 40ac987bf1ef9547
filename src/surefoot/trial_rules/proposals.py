"""Proposals: from logs to the next policy, with everything that decides whether it may go live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surefoot.fitting.kept_moments import KeptMoments
from surefoot.fitting.part_fit import StudyFit, count_used, fit_study
from surefoot.learning.methods import Method
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.log_reader import finish_logs
from surefoot.study.measured_logs import MeasuredLogs
from surefoot.trial_rules import policy_checks
from surefoot.trial_rules.influence import find_influences
from surefoot.trial_rules.onward_fit import EarlierUpdate, fit_onwards
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
        What it was found from, and the values that counted as missing.
    kept
        Of an update that went on from moments: what the next one goes on from.
    """

    state: str
    message: str | None
    fit: StudyFit
    logs: StudyLogs
    implausible: list[ImplausibleValue]
    policies: Policies | None = None
    findings: tuple[PolicyFinding, ...] = ()
    coefficients: list[dict[str, Any]] = field(default_factory=list)
    kept: KeptMoments | None = None


def propose_policy(
    study: Study,
    measured: MeasuredLogs,
    live: Policies | None,
    live_coefficients: list[dict[str, Any]],
    *,
    label: Callable[[int], str],
    report: Callable[[str], None] = lambda state: None,
    earlier: EarlierUpdate | None = None,
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
    earlier
        What the fit goes on from: `measured` is what came since, and is what the checks look at.
    """
    settings = study.trial or TrialSection()
    measured, implausible = blank_implausible(study, measured, settings.guard_rails.plausible_widths)
    logs = finish_logs(choose_screen(study), measured)
    onward = None if earlier is None else fit_onwards(study, earlier, logs)
    fit, kept = (fit_study(study, logs), None) if onward is None else (onward.fit, onward.kept)
    ready = find_ready_participants(settings, fit.method)
    if not ready:
        message = f"nobody has {settings.warm_up_decision_points} complete decision points yet"
        return Proposal("waiting", message, fit, logs, implausible, kept=kept)
    report("checking")
    new = select_participants(fit.policies, ready)
    findings, coefficients = policy_checks.check_policy(study, logs, fit.method.weights_, new, live), []
    if findings[0].passed:  # every number is finite
        rails = settings.guard_rails
        # Of what follows from moments the policy has no coefficients of its own.
        shared = find_shared_influences(fit.method) if onward is None else None
        coefficients = estimate_errors(fit.method, shared) if onward is None else []
        findings.append(policy_checks.check_coefficients(coefficients, live_coefficients, rails.max_coefficient_change))
        if onward is None:
            influences = find_influences(study, logs, fit.method, new, shared, rails.max_influence, label)
        else:
            influences = onward.find_influences(new, label)
        findings.append(policy_checks.check_influence(influences, rails.max_influence))
    failed = "; ".join(f"{one.check}: {one.message}" for one in findings if not one.passed)
    state = "refused" if failed else "done"
    return Proposal(state, failed or None, fit, logs, implausible, new, tuple(findings), coefficients, kept)


def choose_screen(study: Study) -> Study:
    """The study as an update reads its logs: screened as it says, or, where it says nothing, by every detector that needs
    no declaration; `[screen] on = false` switches it off."""
    return study if study.screen is not None else study.model_copy(update={"questionnaire": {}}).with_screen()


def find_need_for_rows(study: Study) -> str | None:
    """Why every update reads everything; None where moments are enough."""
    screen, why = choose_screen(study).screen, study.method().why_rows
    if why is not None:
        return why
    if screen is not None and screen.on:
        return "the screen judges everybody's whole series"
    kinds = {name: kind for name, (_, kind) in study.state_kinds.items()}
    open_ended = [name for name, kind in kinds.items() if "range" in kind.takes and kind.range is None]
    if open_ended:
        return f"limits of what is plausible are found from all values of {', '.join(open_ended)}; give them a range"
    return None


def find_ready_participants(settings: TrialSection, method: Method) -> list[str]:
    """Who has enough complete decision points; where there is a policy for anybody, everyone or nobody."""
    people = method.participants_.tolist()
    used = count_used(method)
    if method.policies_.serves_anybody:
        used[:] = used.sum()
    return [one for one, count in zip(people, used, strict=True) if count >= settings.warm_up_decision_points]
