"""Policy checks: what a new policy must satisfy before it may decide about people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.log_checks.outcomes_by_action import PILE_UNSAFE, PILES_NAME, check_pile_values
from surefoot.policies.policies import Policies
from surefoot.screening import Screen
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.trial_rules.influence import Influence

ROUNDING = 1e-9


@dataclass(frozen=True)
class PolicyFinding:
    """The result of one check: what was found, what is allowed."""

    check: str
    passed: bool
    found: float | None
    allowed: float | None
    message: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_policy(
    study: Study, logs: StudyLogs, weights: NDArray[np.float64], new: Policies, old: Policies | None
) -> list[PolicyFinding]:
    """All checks, whether or not an earlier one failed; `old` decided until now, the warm-up where there is none.

    `weights` (rows) are 0 where the critic removed a row, NaN where it was not used.
    """
    settings = study.trial or TrialSection()
    finite = _check_finite(new)
    removed = _check_removed(weights, settings.guard_rails.max_removed)
    screened = [] if logs.screen is None else [_check_screen(logs.screen)]
    piles = _check_piles(study, logs)
    if not finite.passed:
        return [finite, removed, *screened, piles]
    people, states = _select_covered(logs, new)
    after = study.clip_probabilities(new.probabilities(people, states))
    before = _mean_send_probability(study, people, states, old, settings.warm_up_probability)
    return [
        finite,
        removed,
        *screened,
        piles,
        check_limits(study, after),
        _check_send_rate(before, after, settings.guard_rails.max_send_rate_change),
    ]


def _check_finite(new: Policies) -> PolicyFinding:
    finite = all(bool(np.isfinite(values).all()) for values in new.rule.arrays().values())
    return PolicyFinding("finite", finite, None, None, "every number of the policy is finite")


def _check_screen(screen: Screen) -> PolicyFinding:
    """What was marked missing may not depend on the action: then the policy would learn from who was prompted."""
    message = "; ".join(screen.warnings()) or f"{int(screen.marks.sum())} values marked missing by the screen"
    return PolicyFinding("screen", screen.blind, None, None, message)


def _check_piles(study: Study, logs: StudyLogs) -> PolicyFinding:
    """No value that many outcomes share may depend on the action, unless the study says that it is real: the policy would
    learn when a device was worn."""
    check = check_pile_values(logs, study)
    differences = [abs(pile["difference"]["value"]) for pile in check.numbers["piles"] if not pile["real"]]
    passed = check.verdict != "unsafe"
    message = check.reason if passed else f"{check.reason}; {check.remedy}"
    return PolicyFinding(PILES_NAME, passed, max(differences, default=None), PILE_UNSAFE, message)


def _check_removed(weights: NDArray[np.float64], allowed: float) -> PolicyFinding:
    used = int((~np.isnan(weights)).sum())
    removed = int((weights == 0).sum())
    share = removed / used if used else 0.0
    return PolicyFinding("removed", share <= allowed, share, allowed, f"{removed} of {used} rows removed as outliers")


def _check_send_rate(before: float, after: NDArray[np.float64], allowed: float) -> PolicyFinding:
    rate = float(1 - after[:, 0].mean()) if len(after) else before
    change = abs(rate - before)
    message = f"mean probability of sending {before:.3f} before, {rate:.3f} after"
    return PolicyFinding("send rate", change <= allowed, change, allowed, message)


def check_coefficients(new: list[dict[str, Any]], old: list[dict[str, Any]], allowed: float) -> PolicyFinding:
    """The largest change of a coefficient, in the larger of its two standard errors; rows of `estimate_errors`."""
    before = {(row["action"], row["feature"]): row for row in old}
    changes = []
    for row in new:
        earlier = before.get((row["action"], row["feature"]))
        errors = [estimate["standard_error"] or 0.0 for estimate in (row, earlier) if estimate is not None]
        if earlier is not None and max(errors) > 0:
            moved = f"{row['action']}: {row['feature']} from {earlier['value']:.3g} to {row['value']:.3g}"
            changes.append((abs(row["value"] - earlier["value"]) / max(errors), moved))
    if not changes:
        return PolicyFinding("coefficients", True, None, allowed, "no earlier policy to compare the coefficients with")
    largest, moved = max(changes)
    return PolicyFinding("coefficients", largest <= allowed, largest, allowed, f"moved most, in standard errors: {moved}")


def check_influence(influences: list[Influence], allowed: float) -> PolicyFinding:
    """No decision point and no participant alone may make the policy."""
    if not influences:
        return PolicyFinding("influence", True, None, allowed, "nothing was used")
    largest = max(influences, key=lambda influence: influence.change)
    # Decision points come first: the smallest thing that explains a refusal is named.
    most = next((influence for influence in influences if influence.change > allowed), largest)
    about = "" if most.refitted else "about "
    message = f"without {most.what} the probabilities would move by {about}{most.change:.3f} on average"
    return PolicyFinding("influence", most.change <= allowed, most.change, allowed, message)


def _select_covered(logs: StudyLogs, new: Policies) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """People and states of the complete, available decision points of those whom the new policy has a rule for."""
    data = logs.logs
    chosen = data.available & ~np.isnan(data.state).any(axis=1)
    chosen &= new.covers(data.participant)
    return data.participant[chosen], data.state[chosen]


def check_limits(study: Study, probabilities: NDArray[np.float64]) -> PolicyFinding:
    """After the study's limits nothing may lie outside them."""
    send = 1 - probabilities[:, 0]
    limits = study.probability_limits
    sums = np.abs(probabilities.sum(axis=1) - 1) <= ROUNDING
    inside = (send >= limits.minimum - ROUNDING) & (send <= limits.maximum + ROUNDING)
    good = np.isfinite(probabilities).all(axis=1) & sums & inside & (probabilities >= 0).all(axis=1)
    return PolicyFinding("limits", bool(good.all()), float((~good).sum()), 0.0, "probabilities within the study's limits")


def _mean_send_probability(
    study: Study, people: NDArray[Any], states: NDArray[np.float64], old: Policies | None, warm_up: float
) -> float:
    send = np.full(len(people), warm_up)
    if old is not None:
        known = old.covers(people)
        if known.any():
            send[known] = 1 - study.clip_probabilities(old.probabilities(people[known], states[known]))[:, 0]
    return float(send.mean()) if len(send) else warm_up
