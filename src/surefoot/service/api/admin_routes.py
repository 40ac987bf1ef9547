"""The routes of analysts and admins: export, updates, policies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from surefoot.service.api.authentication import AuthenticatedRoute, for_role
from surefoot.service.api.file_replies import export_file, export_study
from surefoot.service.api.routes import ERRORS, trial_of
from surefoot.service.database.clock import now
from surefoot.service.operations.export import FORMATS
from surefoot.service.trial.alerts import count_safety
from surefoot.service.trial.api_models import (
    Activation,
    ApiError,
    ParticipantId,
    Pause,
    PolicyList,
    ReasonedRequest,
    SafetyCounts,
    UpdateStatus,
    Withdrawal,
)
from surefoot.service.trial.participants import set_pause, withdraw
from surefoot.service.updates import queries, update_process
from surefoot.service.updates.updates import UpdateRunningError

router = APIRouter(prefix="/api/v1", route_class=AuthenticatedRoute, responses=ERRORS)
Id = Annotated[int, Path(ge=1, lt=2**31)]
WholeId = Annotated[ParticipantId, Path()]
Change = Literal["pause", "resume"]
Form = Annotated[Literal["csv", "parquet"], Query(alias="format")]
FILES: Any = {200: {"content": {"text/csv": {}, FORMATS["parquet"]: {}}, "description": "The file"}}


@router.post("/updates", response_model=UpdateStatus, status_code=202, tags=["admin"])
@for_role("admin")
def start_update(request: Request) -> Any:
    """Start a fit; it runs in a process of its own. One at a time: 409 while another is under way."""
    trial = trial_of(request)
    try:
        update_id = update_process.start_update(trial, request.state.caller.name, by_staff=True)
    except UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return queries.update_status(trial, update_id)


@router.get("/updates/{update_id}", response_model=UpdateStatus, tags=["admin"])
@for_role("admin")
def update_status(update_id: Id, request: Request) -> Any:
    """How far an update is, its result, what the policy checks found."""
    return queries.update_status(trial_of(request), update_id)


@router.get("/policies", response_model=PolicyList, tags=["admin"])
@for_role("admin")
def policies(request: Request) -> Any:
    """All policy versions, newest first, with coefficients."""
    return {"policies": queries.list_policies(trial_of(request))}


@router.post("/policies/{policy_id}/activate", response_model=Activation, tags=["admin"])
@for_role("admin")
def activate(policy_id: Id, request: Request) -> Any:
    """Make a policy live; an older one to roll back."""
    return queries.activate_policy(trial_of(request), policy_id, request.state.caller.name)


@router.post("/participants/{participant_id}/withdraw", response_model=Withdrawal, tags=["admin"])
@for_role("admin")
def withdraw_participant(participant_id: WholeId, body: ReasonedRequest, request: Request) -> Any:
    """A participant leaves, for good: no more decisions, outcomes or learning; the reason is kept."""
    return withdraw(trial_of(request), participant_id, reason=body.reason, by=request.state.caller.name)


@router.post("/participants/{participant_id}/{change}", response_model=Pause, tags=["admin"])
@for_role("admin")
def pause_participant(participant_id: WholeId, change: Change, body: ReasonedRequest, request: Request) -> Any:
    """Pause a participant, or go on: while paused every decision point is unavailable, with the reason recorded."""
    by = request.state.caller.name
    return set_pause(trial_of(request), participant_id, paused=change == "pause", reason=body.reason, by=by)


@router.post("/study/{change}", response_model=Pause, tags=["admin"])
@for_role("admin")
def pause_study(change: Change, body: ReasonedRequest, request: Request) -> Any:
    """Pause the whole study, or go on."""
    by = request.state.caller.name
    return set_pause(trial_of(request), None, paused=change == "pause", reason=body.reason, by=by)


@router.get("/export/decisions", response_class=Response, responses=FILES, tags=["analyst"])
@for_role("analyst")
def decisions(request: Request, form: Form = "csv") -> Response:
    """One row per decision point, for the analysis of micro-randomised trials; the headers count the rows."""
    return export_file(trial_of(request), "decisions", form, request.state.caller.name)


@router.get(
    "/export/study",
    response_class=Response,
    responses={200: {"content": {"application/toml": {}}, "description": "The file"}},
    tags=["analyst"],
)
@for_role("analyst")
def study(request: Request) -> Response:
    """The study file that goes with the decisions; its `[collection]` says how the trial chose its actions."""
    return export_study(trial_of(request), request.state.caller.name)


@router.get("/export/outcomes", response_class=Response, responses=FILES, tags=["analyst"])
@for_role("analyst")
def outcomes(request: Request, form: Form = "csv") -> Response:
    """Every outcome that was ever sent, with corrections and late ones."""
    return export_file(trial_of(request), "outcomes", form, request.state.caller.name)


@router.get("/export/staff-actions", response_class=Response, responses=FILES, tags=["admin"])
@for_role("admin")
def staff_actions(request: Request, form: Form = "csv") -> Response:
    """Who did what, when and to whom."""
    return export_file(trial_of(request), "staff-actions", form, request.state.caller.name)


@router.get("/safety", response_model=SafetyCounts, tags=["monitor"])
@for_role("monitor")
def safety(request: Request) -> Any:
    """Counts for a safety board; nothing by arm, nothing about one participant."""
    return count_safety(trial_of(request), now())
