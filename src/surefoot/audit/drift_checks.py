"""Whether people change during the study, so that a fit that counts all decision points alike is of nobody as they are now.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

from surefoot.audit.measures import Measures
from surefoot.inference.drift import LEAST_PEOPLE, PER, Drift, find_drift
from surefoot.inference.intervals import Interval
from surefoot.inference.wandering import LEAST_POINTS, Wandering, find_wandering
from surefoot.log_checks.check import Check
from surefoot.policies.features import critic_feature_names
from surefoot.reports.numbers import format_estimate

SURE = 0.01
"""The three tests together find something in fewer than this share of audits in which nothing moves."""
ALIKE, WANDERING = 0.4 * SURE, 0.2 * SURE
"""What each of the two tests of a change that people share gets of it, and the one of changes of their own."""
NAME = "people change"


def check_drift(measures: Measures, effect: Interval) -> Check:
    """Whether effects, or any coefficients, move in a line over a participant's time in the study, or walk by themselves;
    `effect` is the mean effect of sending in the fit as it is."""
    fitted = measures.fitted
    rows = measures.used & ~measures.removed
    found = find_drift(fitted.logs_, rows, fitted.critic_sees_)
    wandering = find_wandering(fitted.logs_, rows, fitted.critic_sees_)
    numbers = {
        "people": found.people,
        "effect_change": found.effect_change._asdict(),
        "effect_p_value": found.effect_p_value,
        "p_value": found.p_value,
        "wandering_people": wandering.people,
        "wandering_p_value": wandering.p_value,
    }
    if not found.can_tell:
        reason = (
            f"{found.people} people have decision points enough to tell of a change; whether coefficients move cannot be "
            f"told from fewer than {LEAST_PEOPLE}"
        )
        return Check(NAME, "fine", reason, "", numbers)
    alike, wander = min(found.effect_p_value, found.p_value) < ALIKE, wandering.p_value < WANDERING
    reason = f"the mean effect of sending changes by {format_estimate(found.effect_change)} in {PER} decision points"
    reason = f"{reason} (p = {found.effect_p_value:.2g})"
    if not alike and not wander:
        reason = (
            f"no coefficient is seen to move over the study, in all people alike (p = {found.p_value:.2g}) or in each by "
            f"themselves ({_tell(wandering)}); {reason}"
        )
        return Check(NAME, "fine", reason + _describe_doubt(found, effect), "", numbers)
    if found.p_value < ALIKE:
        reason += f"; coefficients move (p = {found.p_value:.2g}), most of all {_name(measures, found.largest)}"
    if wander:
        reason += (
            f"; people's own coefficients wander ({_tell(wandering)}), most of all {_name(measures, wandering.largest)}"
        )
    if fitted.forgetting < 1 or (fitted.posterior_ is not None and fitted.posterior_.walk):
        return Check(NAME, "fine", f"{reason}; the fit allows for it, as it follows people", "", numbers)
    return Check(NAME, "look", reason, _recommend(found, alike), numbers)


def _recommend(found: Drift, alike: bool) -> str:
    """Forgetting for what all people do alike; a random walk where each goes their own way."""
    walk = "pooling = 'partial' and random_walk = 'estimate'"
    rate = f"forgetting = {_suggest_rate(found):g}"
    remedy = f"{rate} or, where they change each in their own way, {walk}"
    if not alike:
        remedy = f"{walk}: they change each in their own way, which forgetting would not help"
    return f"the fit is of the average over the study; so that it follows people as they change, write [method] {remedy}"


def _tell(wandering: Wandering) -> str:
    if not wandering.people:
        return f"which nobody's decision points can tell: it takes {LEAST_POINTS}"
    return f"p = {wandering.p_value:.2g}"


def _name(measures: Measures, place: int) -> str:
    """A coefficient in words."""
    logs = measures.fitted.logs_
    action, feature = critic_feature_names(logs.state_names, logs.action_names)[place]
    return f"that of '{feature}' under '{action}'"


def _describe_doubt(found: Drift, effect: Interval) -> str:
    """Where an effect that fades to nothing, which is then twice its mean at first, would not have been noticed."""
    study = found.points / PER
    low, high = found.effect_change.low * study, found.effect_change.high * study
    hidden = low <= -2 * effect.value <= high
    return "; that cannot tell an effect that lasts from one that fades to nothing" if hidden else ""


def _suggest_rate(found: Drift) -> float:
    """One that remembers half of a typical participant's decision points."""
    return round(1 - 2 / max(found.points, 4.0), 3)
