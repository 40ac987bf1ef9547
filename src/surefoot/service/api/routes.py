"""The routes of the API: thin, one call each. Apps decide and record; analysts export; admins run the trial."""

import tempfile
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from starlette.background import BackgroundTask

from surefoot.service.access import record_action
from surefoot.service.api.description import Description
from surefoot.service.api.requests import PUBLIC, AuthenticatedRoute, describe_validation_error, limit_rate
from surefoot.service.database.clock import now
from surefoot.service.database.schema import DecisionReply
from surefoot.service.operations.export import EXPORTS, FORMATS, write_policies_text, write_study_text
from surefoot.service.trial import api_models, decisions, participants
from surefoot.service.trial.alerts import count_safety
from surefoot.service.trial.api_models import ApiError, InvalidOutcome, Outcome, ReasonedRequest
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import updates

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": api_models.ErrorReply} for code in (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503)
}
OUTCOME_ERRORS = {
    "unknown_decision": (404, "there is no such decision", "decision_id"),
    "withdrawn": (409, "the participant has withdrawn; nothing about them is recorded any more", "decision_id"),
    "erased": (409, "the decision's content was erased; nothing is added to it", "decision_id"),
    "implausible": (
        422,
        "the outcome is beyond 1e9, which no measurement is; send null if it is missing",
        "outcome",
    ),
    "before_decision": (422, "the outcome is dated before its decision point; set the clock", "timestamp"),
    "timestamp_in_future": (422, "the timestamp is too far ahead; set the clock", "timestamp"),
    "timestamp_too_old": (422, "the timestamp is too old; set the clock", "timestamp"),
}
"""The reply to a single outcome that is refused; in a batch the status says it."""
Id = Annotated[int, Path(ge=1, lt=2**31)]
WholeId = Annotated[api_models.ParticipantId, Path()]
Change = Literal["pause", "resume"]
Form = Annotated[Literal["csv", "parquet"], Query(alias="format")]
FILES: Any = {200: {"content": {"text/csv": {}, FORMATS["parquet"]: {}}, "description": "The file"}}
STUDY_FILE: Any = {200: {"content": {"application/toml": {}}, "description": "The file"}}
router = APIRouter(prefix="/api/v1", route_class=AuthenticatedRoute, responses=ERRORS)
public = APIRouter(route_class=AuthenticatedRoute, tags=[PUBLIC], responses={code: ERRORS[code] for code in (500, 503)})


# The first, because routes are tried in order.
@router.post("/decisions", response_model=DecisionReply, tags=["app"])
async def decide(body: api_models.DecisionRequest, request: Request) -> Response:
    """Decide one decision point. A retry gets the same answer, byte for byte; a different request for it gets 409."""
    state = request.app.state
    limit_rate(state.participant_limiter, body.participant_id, "this participant asks too often; wait and send it again")
    return Response(await state.recorder.decide(body), media_type="application/json")


@router.post("/participants", response_model=api_models.Participant, tags=["app"])
def register(body: api_models.Registration, request: Request) -> Any:
    """Register a participant by a pseudonym; repeating it is harmless."""
    return participants.register_participant(request.app.state.trial.database, body.participant_id)


@router.post("/outcomes", response_model=api_models.OutcomeReceipts, tags=["app"])
def record_outcomes(body: api_models.OutcomeOrBatch, request: Request) -> Any:
    """Record one outcome, or several; null means known to be missing. Sending one again is harmless."""
    if isinstance(body, api_models.Outcomes):
        return {"results": _record_batch(request.app.state.trial, body.outcomes)}
    (result,) = decisions.record_outcomes(request.app.state.trial, [body])
    if result["status"] in OUTCOME_ERRORS:
        status, message, field = OUTCOME_ERRORS[result["status"]]
        raise ApiError(status, result["status"], result["message"] or message, field)
    return {"results": [result]}


def _record_batch(trial: Trial, items: Sequence[Outcome | InvalidOutcome]) -> list[dict[str, Any]]:
    """Record what can be read; the others get receipts that say what is wrong with them."""
    recorded = iter(decisions.record_outcomes(trial, [item for item in items if isinstance(item, Outcome)]))
    receipts = []
    for position, item in enumerate(items):
        if isinstance(item, Outcome):
            receipt = next(recorded)
            _, message, field = OUTCOME_ERRORS.get(receipt["status"], (None, None, None))
            located = field and f"outcomes.{position}.{field}"
            receipts.append({**receipt, "message": receipt["message"] or message, "field": located})
            continue
        problem = {**item.problem, "loc": ("outcomes", position, *item.problem["loc"])}
        message, field = describe_validation_error(problem)
        receipt = {"decision_id": item.decision_id, "status": "refused", "action_prob_agrees": None}
        receipts.append({**receipt, "message": message, "field": field})
    return receipts


@router.get("/participants/{participant_id}/next", response_model=api_models.NextDecision, tags=["app"])
def find_next(participant_id: WholeId, request: Request) -> Any:
    """The participant's last decision point, and the next: for an app that was installed again."""
    return decisions.find_next(request.app.state.trial, participant_id)


@router.post("/updates", response_model=api_models.UpdateStatus, status_code=202, tags=["admin"])
def start_update(request: Request) -> Any:
    """Start a fit; it runs in a process of its own. One at a time: 409 while another is under way."""
    trial = request.app.state.trial
    try:
        update_id = updates.start_update(trial, request.state.caller.name, by_staff=True)
    except updates.UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return updates.update_status(trial, update_id)


@router.get("/updates/{update_id}", response_model=api_models.UpdateStatus, tags=["admin"])
def update_status(update_id: Id, request: Request) -> Any:
    """How far an update is, its result, what the policy checks found."""
    return updates.update_status(request.app.state.trial, update_id)


@router.get("/policies", response_model=api_models.PolicyList, tags=["admin"])
def policies(request: Request) -> Any:
    """All policy versions, newest first, with coefficients."""
    return {"policies": updates.list_policies(request.app.state.trial)}


@router.post("/policies/{policy_id}/activate", response_model=api_models.Activation, tags=["admin"])
def activate(policy_id: Id, request: Request) -> Any:
    """Make a policy live; an older one to roll back."""
    return updates.activate_policy(request.app.state.trial, policy_id, request.state.caller.name)


@router.post("/participants/{participant_id}/withdraw", response_model=api_models.Withdrawal, tags=["admin"])
def withdraw_participant(participant_id: WholeId, body: ReasonedRequest, request: Request) -> Any:
    """A participant leaves, for good: no more decisions, outcomes or learning; the reason is kept."""
    return participants.withdraw(request.app.state.trial, participant_id, reason=body.reason, by=request.state.caller.name)


@router.post("/participants/{participant_id}/{change}", response_model=api_models.Pause, tags=["admin"])
def pause_participant(participant_id: WholeId, change: Change, body: ReasonedRequest, request: Request) -> Any:
    """Pause a participant, or go on: while paused every decision point is unavailable, with the reason recorded."""
    return _set_pause(request, participant_id, change, body)


@router.post("/study/{change}", response_model=api_models.Pause, tags=["admin"])
def pause_study(change: Change, body: ReasonedRequest, request: Request) -> Any:
    """Pause the whole study, or go on."""
    return _set_pause(request, None, change, body)


def _set_pause(request: Request, participant_id: str | None, change: Change, body: ReasonedRequest) -> Any:
    paused = change == "pause"
    by = request.state.caller.name
    return participants.set_pause(request.app.state.trial, participant_id, paused=paused, reason=body.reason, by=by)


@router.get("/export/decisions", response_class=Response, responses=FILES, tags=["analyst"])
def export_decisions(request: Request, form: Form = "csv") -> Response:
    """One row per decision point, for the analysis of micro-randomised trials; the headers count the rows."""
    return export_file(request.app.state.trial, "decisions", form, request.state.caller.name)


@router.get("/export/study", response_class=Response, responses=STUDY_FILE, tags=["analyst"])
def export_study_file(request: Request) -> Response:
    """The study file that goes with the decisions; its `[collection]` says how the trial chose its actions."""
    return export_study(request.app.state.trial, request.state.caller.name)


@router.get("/export/updates", response_class=Response, responses=FILES, tags=["analyst"])
def export_updates(request: Request, form: Form = "csv") -> Response:
    """One row per update, also of those that were refused, with the reason."""
    return export_file(request.app.state.trial, "updates", form, request.state.caller.name)


@router.get("/export/learned", response_class=Response, responses=FILES, tags=["analyst"])
def export_learned(request: Request, form: Form = "csv") -> Response:
    """The outcomes that updates learned from, each with the first and the last update that knew it."""
    return export_file(request.app.state.trial, "learned", form, request.state.caller.name)


@router.get("/export/policies", response_class=Response, tags=["analyst"])
def export_policies(request: Request) -> Response:
    """The parameters of every policy version, with the times at which it went live."""
    trial = request.app.state.trial
    text = write_policies_text(trial)
    with trial.database.transaction() as connection:
        record_action(connection, request.state.caller.name, "exported", "policies.json")
    return Response(text, media_type="application/json")


@router.get("/export/outcomes", response_class=Response, responses=FILES, tags=["analyst"])
def export_outcomes(request: Request, form: Form = "csv") -> Response:
    """Every outcome that was ever sent, with corrections and late ones."""
    return export_file(request.app.state.trial, "outcomes", form, request.state.caller.name)


@router.get("/export/staff-actions", response_class=Response, responses=FILES, tags=["admin"])
def export_staff_actions(request: Request, form: Form = "csv") -> Response:
    """Who did what, when and to whom."""
    return export_file(request.app.state.trial, "staff-actions", form, request.state.caller.name)


@router.get("/safety", response_model=api_models.SafetyCounts, tags=["monitor"])
def safety(request: Request) -> Any:
    """Counts for a safety board; nothing by arm, nothing about one participant."""
    return count_safety(request.app.state.trial, now())


def export_file(trial: Trial, name: str, form: str, by: str) -> Response:
    """An export as a CSV or Parquet file, sent from the disk and then deleted; on the staff trail."""
    with tempfile.NamedTemporaryFile(prefix="surefoot-export-", delete=False) as file:
        path = FilePath(file.name)
    try:
        export = EXPORTS[name](trial, path, form)
        with trial.database.transaction() as connection:
            record_action(connection, by, "exported", f"{name}.{form}", f"{export.rows} rows, SHA-256 {export.sha256}")
    except BaseException:
        path.unlink()
        raise
    headers = {"X-Row-Count": str(export.rows), "X-Content-SHA256": export.sha256}
    if name == "decisions":
        headers["X-Participant-Count"] = str(export.participants)
    return FileResponse(
        path, media_type=FORMATS[form], headers=headers, filename=f"{name}.{form}", background=BackgroundTask(path.unlink)
    )


def export_study(trial: Trial, by: str) -> Response:
    """The study file that goes with the decisions; on the staff trail."""
    text = write_study_text(trial)
    with trial.database.transaction() as connection:
        record_action(connection, by, "exported", "study.toml")
    headers = {"Content-Disposition": 'attachment; filename="decisions.study.toml"'}
    return Response(text, media_type="application/toml", headers=headers)


@public.get("/api/v1/healthz")
@public.get("/healthz", include_in_schema=False)
async def check_health() -> dict[str, str]:
    """The process is alive; needs neither a thread nor the database."""
    return {"status": "alive"}


@public.get("/api/v1/readyz")
@public.get("/readyz", include_in_schema=False)
async def check_readiness(request: Request) -> dict[str, str]:
    """The service can decide: within the last second it has written to its database as decisions do."""
    await request.app.state.recorder.check_readiness()
    return {"status": "ready"}


@public.get("/api/v1/metrics", response_class=PlainTextResponse)
@public.get("/metrics", include_in_schema=False)
def show_metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@public.get("/docs", include_in_schema=False)
async def show_documentation(request: Request) -> Response:
    """The API on one page."""
    return Response(_find_description(request).page, media_type="text/html")


@public.get("/openapi.json", include_in_schema=False)
async def send_description(request: Request) -> Response:
    """The same for programs."""
    return Response(_find_description(request).file, media_type="application/json")


def _find_description(request: Request) -> Description:
    if not request.app.state.trial.settings.limits.public_documentation:
        raise ApiError(404, "not_found", "the study does not publish the description of its API")
    description: Description = request.app.state.description
    return description
