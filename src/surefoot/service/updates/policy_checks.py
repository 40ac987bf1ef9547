"""Guard rails: what a new policy must satisfy before it may decide about people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.fitting.part_fit import PartFit
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs
from surefoot.study.trial_section import GuardRails

ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """One rail: what was found, what is allowed."""

    rail: str
    passed: bool
    found: float | None
    allowed: float | None
    message: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(study: Study, logs: StudyLogs, fit: PartFit, new: Policies, old: Policies | None) -> list[Finding]:
    """All rails, whether or not an earlier one failed; `old` decided until now, the warm-up where there is none."""
    trial = study.trial
    rails = GuardRails() if trial is None else trial.guard_rails
    finite = all(bool(np.isfinite(values).all()) for values in new.rule.arrays().values())
    findings = [Finding("finite", finite, None, None, "every number of the policy is finite")]
    used, removed = fit.summary["used"], fit.summary["removed"]
    share = removed / used if used else 0.0
    findings.append(
        Finding(
            "removed", share <= rails.max_removed, share, rails.max_removed, f"{removed} of {used} rows removed as outliers"
        )
    )
    if not finite:
        return findings
    people, states = _covered(logs, new)
    after = study.limited(new.probabilities(people, states))
    findings.append(_limits(study, after))
    warm_up = 0.5 if trial is None else trial.warm_up_probability
    before = _send_rate(study, people, states, old, warm_up)
    rate = float(1 - after[:, 0].mean()) if len(after) else before
    change = abs(rate - before)
    findings.append(
        Finding(
            "send rate",
            change <= rails.max_send_rate_change,
            change,
            rails.max_send_rate_change,
            f"mean probability of sending {before:.3f} before, {rate:.3f} after",
        )
    )
    return findings


def _covered(logs: StudyLogs, new: Policies) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """People and states of the complete, available decision points of those whom the new policy has a rule for."""
    data = logs.logs
    chosen = data.available & ~np.isnan(data.state).any(axis=1)
    if new.participants is not None:
        chosen &= np.isin(data.participant, new.participants)
    return data.participant[chosen], data.state[chosen]


def _limits(study: Study, probabilities: NDArray[np.float64]) -> Finding:
    """After the study's limits nothing may lie outside them."""
    send, limits = 1 - probabilities[:, 0], study.probability_limits
    sums = np.abs(probabilities.sum(axis=1) - 1) <= ROUNDING
    inside = (send >= limits.minimum - ROUNDING) & (send <= limits.maximum + ROUNDING)
    good = np.isfinite(probabilities).all(axis=1) & sums & inside & (probabilities >= 0).all(axis=1)
    return Finding("limits", bool(good.all()), float((~good).sum()), 0.0, "probabilities within the study's limits")


def _send_rate(
    study: Study, people: NDArray[Any], states: NDArray[np.float64], old: Policies | None, warm_up: float
) -> float:
    send = np.full(len(people), warm_up)
    if old is not None:
        known = np.ones(len(people), dtype=bool) if old.participants is None else np.isin(people, old.participants)
        if known.any():
            send[known] = 1 - study.limited(old.probabilities(people[known], states[known]))[:, 0]
    return float(send.mean()) if len(send) else warm_up
