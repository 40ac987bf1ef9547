"""Whether people change during the study, so that a fit that counts all decision points alike is of nobody as they are now.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

from surefoot.audit.measures import Measures
from surefoot.audit.verdicts import Check
from surefoot.inference.drift import LEAST_PEOPLE, PER, Drift, find_drift
from surefoot.inference.intervals import Interval
from surefoot.policies.features import critic_feature_names
from surefoot.reports.numbers import format_estimate

SURE = 0.01
"""Both tests together find something in fewer than this share of audits in which nothing moves."""
NAME = "people change"


def check_drift(measures: Measures, effect: Interval) -> Check:
    """Whether effects, or any coefficients, move in a line over a participant's time in the study; `effect` is the mean
    effect of sending in the fit as it is."""
    fitted = measures.fitted
    found = find_drift(fitted.logs_, measures.used & ~measures.removed, fitted.critic_sees_)
    numbers = {
        "people": found.people,
        "effect_change": found.effect_change._asdict(),
        "effect_p_value": found.effect_p_value,
        "p_value": found.p_value,
    }
    if not found.can_tell:
        reason = (
            f"{found.people} people have decision points enough to tell of a change; whether coefficients move cannot be "
            f"told from fewer than {LEAST_PEOPLE}"
        )
        return Check(NAME, "fine", reason, "", numbers)
    change = f"the mean effect of sending changes by {format_estimate(found.effect_change)} in {PER} decision points"
    change = f"{change} (p = {found.effect_p_value:.2g})"
    habituated, moved = found.effect_p_value < SURE / 2, found.p_value < SURE / 2
    if not habituated and not moved:
        reason = f"no coefficient is seen to move over the study (p = {found.p_value:.2g}); {change}"
        return Check(NAME, "fine", reason + _describe_doubt(found, effect), "", numbers)
    reason = change
    if moved:
        action, feature = critic_feature_names(fitted.logs_.state_names, fitted.logs_.action_names)[found.largest]
        reason += f"; coefficients move (p = {found.p_value:.2g}), most of all that of '{feature}' under '{action}'"
    if fitted.forgetting < 1 or (fitted.posterior_ is not None and fitted.posterior_.walk):
        return Check(NAME, "fine", f"{reason}; the fit allows for it, as it follows people", "", numbers)
    remedy = (
        "the fit is of the average over the study; so that it follows people as they change, write [method] forgetting = "
        f"{_suggest_rate(found):g} or, where they change each in their own way, pooling = 'partial' and random_walk = "
        "'estimate'"
    )
    return Check(NAME, "look", reason, remedy, numbers)


def _describe_doubt(found: Drift, effect: Interval) -> str:
    """Where an effect that fades to nothing, which is then twice its mean at first, would not have been noticed."""
    study = found.points / PER
    low, high = found.effect_change.low * study, found.effect_change.high * study
    hidden = low <= -2 * effect.value <= high
    return "; that cannot tell an effect that lasts from one that fades to nothing" if hidden else ""


def _suggest_rate(found: Drift) -> float:
    """One that remembers half of a typical participant's decision points."""
    return round(1 - 2 / max(found.points, 4.0), 3)
