"""Choices: who decides a decision point, and with which probabilities, before anything is drawn.

Limits on prompts come first: beyond them nothing may be sent, whatever a policy says. They hold by the client's clock and by
the server's, so that a client's clock that jumps opens none; no policy decides at such a decision point.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.policies.policies import Policies, Policy
from surefoot.study import Study, TrialSection
from surefoot.study.trial_section import Dose


@dataclass(frozen=True, eq=False)
class PolicyVersion:
    """One version, ready to decide."""

    id: int
    study_id: str
    """The study that it was fitted under."""
    policies: Policies

    @cached_property
    def _people(self) -> frozenset[str] | None:
        participants = self.policies.participants
        return None if participants is None or self.policies.anybody is not None else frozenset(participants.tolist())

    def covers(self, participant_id: str) -> bool:
        """Whether it has a rule for that participant."""
        return self._people is None or participant_id in self._people

    @cached_property
    def _policies_by_person(self) -> dict[str, Policy]:
        return {}

    def probabilities(self, participant_id: str, state: list[float | None]) -> list[float]:
        """Of every action, before the study's limits."""
        policy = self._policies_by_person.get(participant_id)
        if policy is None:
            policy = self._policies_by_person[participant_id] = self.policies[participant_id]
        return policy.decide([nan if value is None else value for value in state])


WEEK = timedelta(days=7)
DAY = timedelta(days=1)
DOSE = "dose: "
"""How the reason begins when a limit on prompts made a decision point unavailable."""
WITHIN = 0
NEVER = np.iinfo(np.int64).max
"""No limit is reached; the age of a prompt that was not sent."""
CLOCK = "clock: "
"""How the reason begins when a participant's clock jumped; after `server's` when the server's did."""


class Clocks(NamedTuple):
    """One moment, by two clocks."""

    client: datetime
    server: datetime


def find_clock_jump(latest: Clocks | None, moment: Clocks) -> str | None:
    """Whose clock jumped, and how, since a participant's latest decision point by their clock; None when neither did.

    Theirs went back; or it moved over a day further than the server's, whose clock is to blame where it went back. Decision
    points of one day that a client sends together later, because it was off line, are no jump.
    """
    if latest is None:
        return None
    elapsed = moment.client - latest.client
    passed = moment.server - latest.server
    ahead = elapsed - passed
    if elapsed < timedelta(0):
        return f"{CLOCK}{-elapsed / DAY:.3g} days before an earlier decision point"
    if ahead <= DAY:
        return None
    if passed < timedelta(0):
        return f"server's {CLOCK}{-passed / DAY:.3g} days before an earlier decision point"
    return f"{CLOCK}moved {ahead / DAY:.3g} days further than the server's"


def find_dose_stop(dose: Dose, prompts: Iterable[Clocks], moment: Clocks) -> str | None:
    """Why nothing may be sent to a participant now, who was sent something at `prompts`; None when something may."""
    spans = [(moment.client - sent.client, moment.server - sent.server) for sent in prompts]
    ages = np.array([[count_microseconds(span) for span in pair] for pair in spans], dtype=np.int64).reshape(-1, 2)
    reasons = (
        None,
        f"{DOSE}{dose.prompts_per_day} prompts in 24 hours",
        f"{DOSE}{dose.prompts_per_week} prompts in 7 days",
        f"{DOSE}a prompt less than {dose.minimum_gap_minutes:g} minutes ago",
    )
    client, server = (reasons[code] for code in find_reached_limits(dose, ages))
    return client or (server and f"{server} by the server's clock")


def find_reached_limits(dose: Dose, ages: NDArray[np.int64]) -> NDArray[np.int64]:
    """(people,): 0, or which limit is reached: 1 in a day, 2 in a week, 3 the gap; the first that is.

    `ages` (prompts, people) are the microseconds since each prompt, `NEVER` where there was none.
    """
    reached = np.zeros(ages.shape[1], dtype=np.int64)
    past = ages >= 0
    if dose.minimum_gap_minutes:
        gap = count_microseconds(timedelta(minutes=dose.minimum_gap_minutes))
        reached[(past & (ages < gap)).any(axis=0)] = 3
    for code, limit, span in ((2, dose.prompts_per_week, WEEK), (1, dose.prompts_per_day, DAY)):
        if limit is not None:
            reached[(past & (ages < count_microseconds(span))).sum(axis=0) >= limit] = code
    return reached


def count_microseconds(span: timedelta) -> int:
    """A span of time as a whole number, so that comparing two is exact."""
    return span // timedelta(microseconds=1)


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


def find_sources(*, available: Any, complete: Any, covered: Any, usable: Any) -> NDArray[np.int64]:
    """`find_source` of arrays: places in `SOURCES`."""
    conditions = [np.logical_not(available), np.logical_not(complete), np.logical_not(covered), np.asarray(usable)]
    sources = [SOURCES.index(name) for name in ("unavailable", "fallback", "warm-up", "policy")]
    return np.select(np.broadcast_arrays(*conditions), sources, default=SOURCES.index("fallback"))


def _policy_problem(settings: TrialSection, live: LivePolicy, at: datetime) -> str | None:
    """Why the live policy cannot decide."""
    if live.version is None:
        return f"unreadable policy: {live.id}"
    if not live.fits:
        return f"policy for other variables or actions: {live.id}"
    return f"stale policy: {live.id}" if is_stale(settings, at - live.since) else None


def is_stale(settings: TrialSection, age: timedelta) -> bool:
    """Whether a policy that went live so long ago may no longer decide.

    One that a clock ahead of time activated in the future would otherwise stay fresh until then.
    """
    return not -DAY <= age <= timedelta(days=settings.policy_days)


def policy_probabilities(
    study: Study, version: PolicyVersion, participant_id: str, state: list[float | None]
) -> list[float]:
    """What the policy says, within the study's limits."""
    limited = study.clip_row(version.probabilities(participant_id, state))
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
