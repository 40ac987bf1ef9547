"""The routes that an app uses: thin, one call each."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from surefoot.service.api.authentication import AuthenticatedRoute, for_body, for_role
from surefoot.service.api.group_commit import DecisionRecorder
from surefoot.service.database.decision_record import DecisionReply
from surefoot.service.trial import outcomes, participants
from surefoot.service.trial.api_models import (
    ApiError,
    DecisionRequest,
    ErrorReply,
    Outcome,
    OutcomeOrBatch,
    OutcomeReceipts,
    Participant,
    Registration,
)
from surefoot.service.trial.trial import Trial

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorReply} for code in (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503)
}
OUTCOME_ERRORS = {
    "unknown_decision": (404, "there is no such decision", "decision_id"),
    "withdrawn": (409, "the participant has withdrawn; nothing about them is recorded any more", "decision_id"),
    "erased": (409, "the decision's content was erased; nothing is added to it", "decision_id"),
    "before_decision": (422, "the outcome is dated before its decision point; set the clock", "timestamp"),
}
"""What a single outcome is answered; in a batch the status says it."""
router = APIRouter(prefix="/api/v1", route_class=AuthenticatedRoute, responses=ERRORS)


def trial_of(request: Request) -> Trial:
    """The trial that this application serves."""
    trial: Trial = request.app.state.trial
    return trial


@router.post("/participants", response_model=Participant, tags=["app"])
@for_role("app")
def register(body: Registration, request: Request) -> Any:
    """Register a participant by a pseudonym; repeating it is harmless."""
    return participants.register_participant(trial_of(request).database, body.participant_id)


@router.post("/decisions", response_model=DecisionReply, tags=["app"])
@for_role("app")
@for_body(DecisionRequest)
async def decide(body: DecisionRequest, request: Request) -> Response:
    """Decide one decision point. A retry gets the same answer, byte for byte; a different request for it gets 409."""
    recorder: DecisionRecorder = request.app.state.recorder
    return Response(await recorder.decide(body), media_type="application/json")


@router.post("/outcomes", response_model=OutcomeReceipts, tags=["app"])
@for_role("app")
def record_outcomes(body: OutcomeOrBatch, request: Request) -> Any:
    """Record one outcome, or several; null means known to be missing. Sending one again is harmless."""
    single = isinstance(body, Outcome)
    results = outcomes.record_outcomes(trial_of(request), [body] if isinstance(body, Outcome) else body.outcomes)
    if single and results[0]["status"] in OUTCOME_ERRORS:
        status, message, field = OUTCOME_ERRORS[results[0]["status"]]
        raise ApiError(status, results[0]["status"], message, field)
    return {"results": results}
