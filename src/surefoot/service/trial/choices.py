"""Choices: who decides a decision point, and with which probabilities, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from surefoot.errors import InputError
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.policy_versions import PolicyVersion
from surefoot.service.trial.trial import Trial
from surefoot.study import Study


@dataclass(frozen=True)
class Choice:
    """How a decision point is decided, before the draw."""

    source: str
    probabilities: list[float]
    policy_id: int | None = None
    reasons: tuple[str, ...] = ()


def choose(
    trial: Trial,
    request: DecisionRequest,
    state: list[float | None],
    reasons: list[str],
    live: tuple[int, datetime] | None,
    at: datetime,
) -> Choice:
    """Unavailable; else the fallback for an incomplete context; else the live policy, or warm-up before there is one."""
    study, settings = trial.study, trial.settings
    if not request.availability:
        return Choice("unavailable", unavailable_probabilities(study))
    if reasons:
        return Choice("fallback", fixed_probabilities(study, settings.fallback_probability), None, tuple(reasons))
    version = None if live is None else trial.policies.get(live[0])
    if live is None or (version is not None and not version.covers(request.participant_id)):
        return Choice("warm-up", fixed_probabilities(study, settings.warm_up_probability))
    problem = _policy_problem(trial, version, *live, at)
    if problem is None and version is not None:
        try:
            return Choice("policy", policy_probabilities(study, version, request.participant_id, state), version.id)
        except InputError:
            problem = f"no probability from policy: {version.id}"
    return Choice("fallback", fixed_probabilities(study, settings.fallback_probability), None, (str(problem),))


def _policy_problem(
    trial: Trial, version: PolicyVersion | None, policy_id: int, since: datetime, at: datetime
) -> str | None:
    """Why the live policy cannot decide."""
    if version is None:
        return f"unreadable policy: {policy_id}"
    if not trial.can_use(version):
        return f"policy for other variables or actions: {policy_id}"
    if at - since > timedelta(days=trial.settings.policy_days):
        return f"stale policy: {policy_id}"
    return None


def policy_probabilities(
    study: Study, version: PolicyVersion, participant_id: str, state: list[float | None]
) -> list[float]:
    """What the policy says, within the study's limits."""
    limited = study.clip_probabilities(version.probabilities(participant_id, state))[0]
    if not np.isfinite(limited).all():
        raise InputError("the policy gave no finite probabilities")
    return [float(probability) for probability in limited]


def fixed_probabilities(study: Study, send: float) -> list[float]:
    """The same whatever the state: `send` shared equally by all actions but the first, within the study's limits."""
    others = len(study.actions.names) - 1
    row = np.array([[1 - send, *[send / others] * others]])
    return [float(probability) for probability in study.clip_probabilities(row)[0]]


def unavailable_probabilities(study: Study) -> list[float]:
    """Action 0 with probability 1."""
    return [1.0] + [0.0] * (len(study.actions.names) - 1)
