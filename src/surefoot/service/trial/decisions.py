"""Decisions: one draw per decision point, recorded before it is answered."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot.data.column_kinds import Cell
from surefoot.errors import InputError
from surefoot.service.database.clock import now
from surefoot.service.database.schema import decisions, participants
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.context import check_types, context_to_state
from surefoot.service.trial.derived import derive_now
from surefoot.service.trial.policy_versions import PolicyVersion
from surefoot.service.trial.randomisation import draw_action, draw_uniform, random_key
from surefoot.service.trial.trial import Trial
from surefoot.study import Study

INSERT = sa.insert(decisions)
STORED = sa.select(
    decisions.c.decided_at, decisions.c.available, decisions.c.availability_reasons, decisions.c.context, decisions.c.reply
).where(decisions.c.participant_id == sa.bindparam("participant"), decisions.c.decision_idx == sa.bindparam("decision_idx"))


@dataclass(frozen=True)
class Choice:
    """How a decision point is decided, before the draw."""

    source: str
    probabilities: list[float]
    policy_id: int | None = None
    reasons: tuple[str, ...] = ()


def decide(trial: Trial, request: DecisionRequest) -> str:
    """The reply to a request, as text: a new draw, or what was answered before."""
    received = now()
    try:
        check_timestamp(request.timestamp, received, trial.settings.limits.future_minutes)
        check_types(trial.study, request.context)
    except ApiError:
        # A retry of what was answered before, by another clock or another study, gets its answer.
        if _was_decided(trial, request):
            return _find_earlier_reply(trial, request)
        raise
    row = _make_row(trial, request, received)
    try:
        trial.database.insert(INSERT, row)
    except sa.exc.IntegrityError:
        return _find_earlier_reply(trial, request)
    return str(row["reply"])


def check_timestamp(moment: datetime, at: datetime, future_minutes: float) -> None:
    """Refuse a timestamp that only a wrong clock can give."""
    if moment.year < 2000:
        raise ApiError(422, "timestamp_too_old", "the timestamp is before the year 2000; set the clock", "timestamp")
    if moment > at + timedelta(minutes=future_minutes):
        raise ApiError(
            422, "timestamp_in_future", f"the timestamp is over {future_minutes:g} minutes ahead; set the clock", "timestamp"
        )


def _make_row(trial: Trial, request: DecisionRequest, received: datetime) -> dict[str, Any]:
    observation = context_to_state(trial.study, request.context, _derive(trial, request, received))
    choice = _choose(trial, request, observation.state, observation.reasons, received)
    key = random_key(request.participant_id, request.decision_idx)
    number = draw_uniform(trial.secret, key)
    action = draw_action(number, choice.probabilities)
    decision_id = uuid.uuid4().hex
    return {
        "id": decision_id,
        "participant_id": request.participant_id,
        "decision_idx": request.decision_idx,
        "decided_at": request.timestamp,
        "received_at": received,
        "study_id": trial.study_id,
        "available": request.availability,
        "availability_reasons": json.dumps(request.reasons),
        "context": context_text(request.context),
        "state": json.dumps(observation.state),
        "source": choice.source,
        "fallback_reasons": json.dumps(choice.reasons),
        "policy_id": choice.policy_id,
        "probabilities": json.dumps(choice.probabilities),
        "random_key": key,
        "uniform": number,
        "action": action,
        "probability": choice.probabilities[action],
        "reply": make_reply(decision_id, action, choice, trial.study.actions.names),
    }


def _derive(trial: Trial, request: DecisionRequest, received: datetime) -> dict[str, float]:
    if not trial.study.derived_states:
        return {}
    with trial.database.autocommit() as connection:
        return derive_now(trial.study, connection, request.participant_id, request.decision_idx, received)


def make_reply(decision_id: str, action: int, choice: Choice, action_names: tuple[str, ...]) -> str:
    """The answer to a decision point, as text."""
    return json.dumps(
        {
            "decision_id": decision_id,
            "action": action,
            "action_name": action_names[action],
            "action_prob": choice.probabilities,
            "policy_id": choice.policy_id,
            "source": choice.source,
            "reasons": choice.reasons,
        }
    )


def context_text(context: dict[str, Cell]) -> str:
    """A context as text that is equal for equal contexts."""
    return json.dumps(context, sort_keys=True, allow_nan=False)


def _choose(trial: Trial, request: DecisionRequest, state: list[float | None], reasons: list[str], at: datetime) -> Choice:
    """Unavailable; else the fallback for an incomplete context; else the live policy, or warm-up before there is one."""
    study, settings = trial.study, trial.settings
    if not request.availability:
        return Choice("unavailable", unavailable_probabilities(study))
    if reasons:
        return Choice("fallback", fixed_probabilities(study, settings.fallback_probability), None, tuple(reasons))
    live = trial.policies.live()
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


def _was_decided(trial: Trial, request: DecisionRequest) -> bool:
    point = {"participant": request.participant_id, "decision_idx": request.decision_idx}
    with trial.database.autocommit() as connection:
        return connection.execute(STORED, point).first() is not None


def _find_earlier_reply(trial: Trial, request: DecisionRequest) -> str:
    """The database refused a second row: this is a retry, a conflict, or an unknown participant."""
    with trial.database.autocommit() as connection:
        point = {"participant": request.participant_id, "decision_idx": request.decision_idx}
        stored = connection.execute(STORED, point).first()
        known = connection.scalar(sa.select(participants.c.id).where(participants.c.id == request.participant_id))
    if stored is None and known is None:
        raise ApiError(404, "unknown_participant", "register the participant first: POST /participants", "participant_id")
    if stored is None:
        raise ApiError(503, "try_again", "the decision could not be recorded; send it again")
    now_sent = (request.timestamp, request.availability, json.dumps(request.reasons), context_text(request.context))
    if now_sent != (stored.decided_at, stored.available, stored.availability_reasons, stored.context):
        raise ApiError(
            409,
            "decided_otherwise",
            "it was decided for another timestamp, availability or context; a retry repeats the request as it was",
            "decision_idx",
        )
    return str(stored.reply)
