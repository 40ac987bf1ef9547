"""Choices: who decides a decision point, and with which probabilities, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.study import Study, TrialSection
from surefoot.trial_rules.policy_version import PolicyVersion

SOURCES = ("warm-up", "policy", "fallback", "unavailable")
"""Who may decide."""


@dataclass(frozen=True)
class Choice:
    """How a decision point is decided, before the draw."""

    source: str
    probabilities: list[float]
    policy_id: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LivePolicy:
    """The policy that decides now."""

    id: int
    since: datetime
    version: PolicyVersion | None
    """None when what is stored cannot be read."""
    fits: bool
    """Whether it sees states and actions as the study has them now."""


def choose(
    study: Study,
    participant_id: str,
    state: list[float | None],
    available: bool,
    reasons: list[str],
    stop: str | None,
    *,
    live: LivePolicy | None,
    at: datetime,
) -> Choice:
    """How one decision point is decided; `reasons` keep a policy from deciding, a `stop` everybody from sending."""
    settings = study.trial or TrialSection()
    problem = None if live is None else _policy_problem(settings, live, at)
    covered = live is not None and (live.version is None or live.version.covers(participant_id))
    source = find_source(available=available and stop is None, complete=not reasons, covered=covered, usable=problem is None)
    if source == "unavailable":
        return Choice(source, unavailable_probabilities(study), None, () if stop is None else (stop,))
    if source == "warm-up":
        return Choice(source, fixed_probabilities(study, settings.warm_up_probability))
    if source == "policy" and live is not None and live.version is not None:
        try:
            return Choice(source, policy_probabilities(study, live.version, participant_id, state), live.id)
        except InputError:
            problem = f"no probability from policy: {live.id}"
    why = tuple(reasons) or (str(problem),)
    return Choice("fallback", fixed_probabilities(study, settings.fallback_probability), None, why)


def find_source(*, available: bool, complete: bool, covered: bool, usable: bool) -> str:
    """Unavailable; else the fallback for an incomplete state; else the live policy, or warm-up before there is one.

    >>> find_source(available=True, complete=True, covered=False, usable=True)
    'warm-up'
    """
    if not available:
        return "unavailable"
    if not complete:
        return "fallback"
    if not covered:
        return "warm-up"
    return "policy" if usable else "fallback"


_CASES = [
    dict(zip(("available", "complete", "covered", "usable"), case, strict=True)) for case in product((False, True), repeat=4)
]
_TABLE = np.array([SOURCES.index(find_source(**case)) for case in _CASES])


def find_sources(*, available: Any, complete: Any, covered: Any, usable: Any) -> NDArray[np.int64]:
    """`find_source` of arrays: places in `SOURCES`."""
    return np.asarray(
        _TABLE[8 * np.asarray(available) + 4 * np.asarray(complete) + 2 * np.asarray(covered) + 1 * np.asarray(usable)]
    )


def _policy_problem(settings: TrialSection, live: LivePolicy, at: datetime) -> str | None:
    """Why the live policy cannot decide."""
    if live.version is None:
        return f"unreadable policy: {live.id}"
    if not live.fits:
        return f"policy for other variables or actions: {live.id}"
    return f"stale policy: {live.id}" if is_stale(settings, at - live.since) else None


def is_stale(settings: TrialSection, age: timedelta) -> bool:
    """Whether a policy that went live so long ago may no longer decide."""
    return age > timedelta(days=settings.policy_days)


def policy_probabilities(
    study: Study, version: PolicyVersion, participant_id: str, state: list[float | None]
) -> list[float]:
    """What the policy says, within the study's limits."""
    limited = study.clip_row(version.probabilities(participant_id, state)[0].tolist())
    if not all(map(isfinite, limited)):
        raise InputError("the policy gave no finite probabilities")
    return limited


def fixed_probabilities(study: Study, send: float) -> list[float]:
    """The same whatever the state: `send` shared equally by all actions but the first, within the study's limits."""
    others = len(study.actions.names) - 1
    return study.clip_row([1 - send, *[send / others] * others])


def unavailable_probabilities(study: Study) -> list[float]:
    """Action 0 with probability 1."""
    return [1.0] + [0.0] * (len(study.actions.names) - 1)
