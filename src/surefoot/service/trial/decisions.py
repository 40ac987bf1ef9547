"""Decisions: one draw per decision point, recorded before it is answered.

Those that arrive together share one transaction: `decide_batch` decides them all, or none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Any

from surefoot.data.column_kinds import Cell
from surefoot.service.database.clock import now
from surefoot.service.database.evidence import SALT_BYTES
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.context import Observation, check_types, contexts_to_states, find_warnings
from surefoot.service.trial.derived import derive_now
from surefoot.service.trial.point_query import Point
from surefoot.service.trial.point_records import DecidedPoints
from surefoot.service.trial.standing import Standing, check_consent, check_order, find_standings, find_stop
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.choices import Choice, LivePolicy, choose
from surefoot.trial_rules.randomisation import draw_action, draw_uniform, random_key


def decide(trial: Trial, request: DecisionRequest) -> str:
    """The reply to a request, as text: a new draw, or what was answered before."""
    (reply,) = decide_batch(trial, [request])
    if isinstance(reply, Exception):
        raise reply
    return reply


def decide_batch(trial: Trial, requests: Sequence[DecisionRequest]) -> list[str | Exception]:
    """Replies in the order of the requests, committed together; what is wrong with one of them is its reply alone.

    At most one new decision point of each participant: the order of two could not be told.
    """
    received = now()
    points = [_point(request) for request in requests]
    decided = trial.points.record(points, lambda found: _decide_points(trial, requests, found, received))
    return [_reply(request, decided) for request in requests]


def _decide_points(
    trial: Trial, requests: Sequence[DecisionRequest], found: Mapping[Point, Any], received: datetime
) -> DecidedPoints:
    standings = find_standings(trial, found)
    asked: dict[Point, DecisionRequest] = {}
    wrong: dict[Point, Exception] = {}
    for request in requests:
        point = _point(request)
        if found[point]["reply"] is None and point not in asked:
            try:
                _check_request(trial, request, standings.get(request.participant_id), received)
            except ApiError as error:
                wrong[point] = error
            else:
                asked[point] = request
    derived = _derive(trial, asked, received)
    contexts = [request.context for request in asked.values()]
    first = next(iter(found.values()))
    live = trial.read_live(None if first["live_id"] is None else (first["live_id"], first["live_since"]))
    new = {}
    for (point, request), seen in zip(asked.items(), contexts_to_states(trial.study, contexts, derived), strict=True):
        new[point] = _make_row(trial, request, standings[request.participant_id], seen, live, received)
    return DecidedPoints(found, new, wrong)


def _derive(trial: Trial, asked: Mapping[Point, DecisionRequest], received: datetime) -> list[dict[str, float]]:
    """The derived states of each decision point."""
    if not trial.study.derived_states:
        return [{}] * len(asked)
    with trial.database.autocommit() as connection:
        return [
            derive_now(trial.study, connection, *point, decided_at=request.timestamp, known_at=received)
            for point, request in asked.items()
        ]


def _point(request: DecisionRequest) -> Point:
    return request.participant_id, request.decision_idx


def _reply(request: DecisionRequest, decided: DecidedPoints) -> str | Exception:
    point = _point(request)
    if point in decided.wrong:
        return decided.wrong[point]
    try:
        return _repeat(request, decided.new[point] if point in decided.new else decided.found[point])
    except ApiError as error:
        return error


def _repeat(request: DecisionRequest, stored: Any) -> str:
    """The answer that was given, if this is the same request; of what was erased only the time can tell."""
    if stored["salt"] is None and request.timestamp == stored["decided_at"]:
        return str(stored["reply"])
    # Whom the service itself stopped had said to be available.
    asked = stored["available"] or (stored["source"] == "unavailable" and stored["fallback_reasons"] != "[]")
    now_sent = (request.timestamp, request.availability, json.dumps(request.reasons), context_text(request.context))
    if now_sent != (stored["decided_at"], asked, stored["availability_reasons"], stored["context"]):
        raise ApiError(
            409,
            "decided_otherwise",
            "it was decided for another timestamp, availability or context; a retry repeats the request as it was",
            "decision_idx",
        )
    return str(stored["reply"])


def check_timestamp(moment: datetime, at: datetime, future_minutes: float) -> None:
    """Refuse a timestamp that only a wrong clock can give."""
    if moment.year < 2000:
        raise ApiError(422, "timestamp_too_old", "the timestamp is before the year 2000; set the clock", "timestamp")
    if moment > at + timedelta(minutes=future_minutes):
        raise ApiError(
            422, "timestamp_in_future", f"the timestamp is over {future_minutes:g} minutes ahead; set the clock", "timestamp"
        )


def _check_request(trial: Trial, request: DecisionRequest, standing: Standing | None, received: datetime) -> None:
    if standing is None:
        raise ApiError(404, "unknown_participant", "register the participant first: POST /participants", "participant_id")
    check_consent(standing)
    check_timestamp(request.timestamp, received, trial.settings.limits.future_minutes)
    check_types(trial.study, request.context)
    check_order(trial.settings, standing, request.decision_idx, request.timestamp)


def _make_row(
    trial: Trial,
    request: DecisionRequest,
    standing: Standing,
    observation: Observation,
    live: LivePolicy | None,
    received: datetime,
) -> dict[str, Any]:
    stop = find_stop(trial.settings, standing, request.timestamp) if request.availability else None
    asked = (request.participant_id, observation.state, request.availability, observation.reasons, stop)
    choice = choose(trial.study, *asked, live=live, at=received)
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
        "available": request.availability and stop is None,
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
        "reply": make_reply(
            decision_id, action, choice, trial.study.actions.names, find_warnings(trial.study, request.context)
        ),
        "salt": token_bytes(SALT_BYTES),
    }


def make_reply(
    decision_id: str, action: int, choice: Choice, action_names: tuple[str, ...], warnings: list[str] | None
) -> str:
    """The answer to a decision point, as text; `warnings` is None for one of before there were any."""
    reply = {
        "decision_id": decision_id,
        "action": action,
        "action_name": action_names[action],
        "action_prob": choice.probabilities,
        "policy_id": choice.policy_id,
        "source": choice.source,
        "reasons": choice.reasons,
    }
    return json.dumps(reply if warnings is None else {**reply, "warnings": warnings})


def context_text(context: dict[str, Cell]) -> str:
    """A context as text that is equal for equal contexts."""
    return json.dumps(context, sort_keys=True, allow_nan=False)
