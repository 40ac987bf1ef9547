"""The pages: each says who may see it, admins may act. Every form is a POST with a token; every POST ends in a page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from surefoot.service.access import keys
from surefoot.service.access.sessions import Session
from surefoot.service.access.staff_trail import list_actions, record_visit
from surefoot.service.api.file_replies import export_file
from surefoot.service.dashboard import charts, overview, participant_view, policy_views, wearing
from surefoot.service.dashboard.page_access import (
    BOARD,
    COOKIE,
    READERS,
    SIGN_IN_COOKIE,
    TEAM,
    Page,
    SignedOutError,
    Viewer,
    check_token,
    end_session,
    find_acting_admin,
    find_viewer,
    limit_sign_ins,
    may_sign_in,
    read_form,
    render_template,
    require_role,
    sessions_of,
    set_session,
)
from surefoot.service.dashboard.timeline import draw_timeline
from surefoot.service.database import clock
from surefoot.service.messages import outbox
from surefoot.service.messages.channels import make_channels
from surefoot.service.trial.alerts import close_alert
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.pauses import find_status, set_pause, withdraw
from surefoot.service.trial.point_query import PAUSED, WITHDRAWN
from surefoot.service.trial.safety import count_safety
from surefoot.service.updates import queries, update_process
from surefoot.service.updates.updates import UpdateRunningError

router = APIRouter(route_class=Page, include_in_schema=False)
Reader = Annotated[Viewer, Depends(require_role(READERS))]
TeamMember = Annotated[Viewer, Depends(require_role(TEAM))]
BoardMember = Annotated[Viewer, Depends(require_role(BOARD))]
Admin = Annotated[Viewer, Depends(require_role(("admin",)))]
Actor = Annotated[Viewer, Depends(find_acting_admin)]
Fields = Annotated[dict[str, str], Depends(read_form)]
Id = Annotated[int, Path(ge=1, lt=2**31)]
Change = Literal["pause", "resume"]
Before = Annotated[int | None, Query(ge=0, lt=2**31)]
Search = Annotated[str, Query(max_length=64)]


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    """Ask for a key, unless somebody is signed in."""
    try:
        await find_viewer(request)
    except SignedOutError:
        return _ask_for_key(request, sessions_of(request).new(), "")
    return _to("/")


def _ask_for_key(request: Request, session: Session, message: str, status: int = 200) -> Response:
    token = sessions_of(request).form_token(session)
    study = request.app.state.trial.settings.title
    page = render_template("sign_in", study=study, who=None, clock=None, token=token, message=message)
    response = HTMLResponse(page, status)
    set_session(request, response, SIGN_IN_COOKIE, session)
    return response


@router.post("/sign-in")
async def sign_in(request: Request, fields: Fields) -> Response:
    """Exchange a key for a session."""
    limit_sign_ins(request)
    sessions = sessions_of(request)
    session = sessions.read(request.cookies.get(SIGN_IN_COOKIE, ""))
    if session is None:
        return _ask_for_key(request, sessions.new(), "The page was open for too long. Please try again.", 403)
    check_token(sessions.form_token(session), fields)
    trial = request.app.state.trial
    caller = await run_in_threadpool(keys.find_caller, trial.database, fields.get("key", "").strip())
    if caller is None or not may_sign_in(caller):
        told = "This is not a valid key of somebody of the team."
        return _ask_for_key(request, session, told, 401 if caller is None else 403)
    if caller.is_expired:
        return _ask_for_key(request, session, f"This key expired on {caller.expires_at:%Y-%m-%d}. Ask for a new one.", 401)
    await run_in_threadpool(record_visit, trial.database, caller.name, "signed in")
    response = _to("/")
    response.delete_cookie(SIGN_IN_COOKIE, path="/")
    set_session(request, response, COOKIE, sessions.new(caller.prefix))
    return response


@router.post("/sign-out")
async def sign_out(request: Request, fields: Fields) -> Response:
    """End the session, in this browser and on the server."""
    viewer = await find_viewer(request)
    check_token(viewer.token, fields)
    sessions = sessions_of(request)
    session = sessions.read(request.cookies[COOKIE])
    if session is not None:
        await run_in_threadpool(end_session, viewer.trial, sessions.digest(session))
        await run_in_threadpool(record_visit, viewer.trial.database, viewer.caller.name, "signed out")
    response = _to("/sign-in")
    response.delete_cookie(COOKIE, path="/")
    return response


@router.get("/")
def overview_page(viewer: Reader, by: str = "") -> Response:
    """Counts, charts, alerts: the state of the trial."""
    trial, at = viewer.trial, clock.now()
    days = overview.count_days(trial, at, by="decided_at" if by == "decided" else "received_at")
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    people = overview.list_participants(trial, at)
    return viewer.page(
        "overview",
        at=at.astimezone(trial.settings.zone),
        today=days[-1],
        sources=overview.SOURCES,
        decisions_chart=charts.decisions_by_day(days),
        send_chart=charts.send_rate_by_day(days, limits),
        limits=limits,
        by=by,
        outcomes=overview.count_outcomes(trial, at),
        outcome_hours=trial.settings.outcome_hours,
        people=people,
        silent=[one for one in people if one.status != WITHDRAWN][:8],
        alerts=overview.list_alerts(trial, only_open=True),
        live=trial.policies.live(),
        paused=find_status(trial, None) == PAUSED,
        updates=queries.list_updates(trial, 1),
        states=policy_views.STATES,
    )


@router.get("/participants")
def participants_page(viewer: TeamMember, search: Search = "") -> Response:
    """Everybody, or whose pseudonym holds the text searched for; the longest silent first."""
    at = clock.now()
    everybody = overview.list_participants(viewer.trial, at)
    wanted = search.strip().lower()
    return viewer.page(
        "participants",
        at=at.astimezone(viewer.trial.settings.zone),
        people=[one for one in everybody if wanted in one.id.lower()],
        search=search,
        everybody=len(everybody),
        outcome_hours=viewer.trial.settings.outcome_hours,
    )


@router.get("/participants/{participant_id}")
def participant_page(participant_id: str, viewer: TeamMember, before: Before = None) -> Response:
    """One participant: timeline and decision points."""
    trial = viewer.trial
    one = participant_view.describe_participant(trial, participant_id, clock.now(), before, blind=viewer.is_blind)
    zone = trial.settings.zone
    drawn, status = draw_timeline(one.points, zone), find_status(trial, participant_id)
    states = {"paused": status == PAUSED, "withdrawn": status == WITHDRAWN}
    return viewer.page("participant", one=one, timeline=drawn, zone=trial.settings.time_zone, **states)


@router.post("/participants/{participant_id}/withdraw")
def withdraw_participant(participant_id: str, viewer: Actor, fields: Fields) -> Response:
    """A participant leaves, for good; the form asks for the id again, so that no slip of the hand does it."""
    if fields.get("repeated", "").strip() != participant_id:
        raise ApiError(422, "invalid", f"write the participant's id, {participant_id}, to confirm; nothing was changed")
    withdraw(viewer.trial, participant_id, reason=_read_reason(fields), by=viewer.caller.name)
    return _to(f"/participants/{participant_id}")


@router.post("/participants/{participant_id}/{change}")
def pause_participant(participant_id: str, change: Change, viewer: Actor, fields: Fields) -> Response:
    """Pause a participant, or go on."""
    _set_pause(viewer, participant_id, change, fields)
    return _to(f"/participants/{participant_id}")


@router.post("/study/{change}")
def pause_study(change: Change, viewer: Actor, fields: Fields) -> Response:
    """Pause the study, or go on."""
    _set_pause(viewer, None, change, fields)
    return _to("/")


def _set_pause(viewer: Viewer, participant_id: str | None, change: Change, fields: dict[str, str]) -> None:
    by = viewer.caller.name
    set_pause(viewer.trial, participant_id, paused=change == "pause", reason=_read_reason(fields), by=by)


def _read_reason(fields: dict[str, str]) -> str:
    reason = fields.get("reason", "").strip()[:200]
    if not reason:
        raise ApiError(422, "invalid", "say why; the reason stays on record")
    return reason


@router.get("/download/{name}.{form}")
def download(name: Literal["decisions", "outcomes"], form: Literal["csv", "parquet"], viewer: Reader) -> Response:
    """The export, for those who have no command line."""
    return export_file(viewer.trial, name, form, viewer.caller.name)


@router.get("/not-worn")
def not_worn_page(viewer: TeamMember) -> Response:
    """Who has not worn the device for two days."""
    at = clock.now()
    return viewer.page(
        "wearing",
        at=at.astimezone(viewer.trial.settings.zone),
        device=wearing.names_a_device(viewer.trial),
        people=wearing.list_unworn(viewer.trial, at),
        days=wearing.LOOK_BACK.days,
    )


@router.get("/updates")
def updates_page(viewer: Reader) -> Response:
    """The newest update in full, the others as a list."""
    newest = queries.list_updates(viewer.trial, 1)
    return _update_page(viewer, newest[0] if newest else None)


@router.get("/updates/{update_id}")
def update_page(update_id: Id, viewer: Reader) -> Response:
    """One update."""
    return _update_page(viewer, queries.update_status(viewer.trial, update_id))


def _update_page(viewer: Viewer, update: dict[str, Any] | None) -> Response:
    removed = None if update is None else policy_views.list_removed_rows(viewer.trial, update)
    listed = queries.list_updates(viewer.trial, 60)
    when = viewer.trial.settings.update_time
    return viewer.page("updates", update=update, removed=removed, listed=listed, states=policy_views.STATES, when=when)


@router.post("/updates")
def start_update(viewer: Actor) -> Response:
    """Fit now, in a process of its own."""
    try:
        update_id = update_process.start_update(viewer.trial, viewer.caller.name, by_staff=True)
    except UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return _to(f"/updates/{update_id}")


@router.get("/policies")
def policies_page(viewer: Reader) -> Response:
    """The live policy's coefficients, and the history."""
    entries = policy_views.list_policies(viewer.trial)
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    shown = None if live is None else policy_views.describe_policy(viewer.trial, live)
    return _policy_page(viewer, shown, entries)


@router.get("/policies/{policy_id}")
def policy_page(policy_id: Id, viewer: Reader) -> Response:
    """One policy, live or not."""
    shown = policy_views.describe_policy(viewer.trial, policy_id)
    return _policy_page(viewer, shown, policy_views.list_policies(viewer.trial))


def _policy_page(viewer: Viewer, shown: dict[str, Any] | None, entries: list[dict[str, Any]]) -> Response:
    chart = charts.coefficients(shown["estimates"]) if shown and shown["estimates"] else None
    before = policy_views.find_previous(entries)
    return viewer.page("policies", shown=shown, chart=chart, entries=entries, before=before)


@router.get("/policies/{policy_id}/activate")
def ask_to_activate(policy_id: Id, viewer: Reader) -> Response:
    """Say what would change before it does."""
    entries = policy_views.list_policies(viewer.trial)
    entry = next((one for one in entries if one["id"] == policy_id), None)
    if entry is None:
        raise ApiError(404, "unknown_policy", "there is no such policy")
    live = next((one for one in entries if one["live"]), None)
    return viewer.page("activate", entry=entry, live=live)


@router.post("/policies/{policy_id}/activate")
def activate(policy_id: Id, viewer: Actor, fields: Fields) -> Response:
    """Put a policy live, if the live policy is still the one that the admin saw."""
    live = viewer.trial.policies.live()
    if fields.get("live", "") != ("" if live is None else str(live[0])):
        raise ApiError(409, "changed", "another policy went live meanwhile; look at the history and decide again")
    queries.activate_policy(viewer.trial, policy_id, viewer.caller.name)
    return _to("/policies")


@router.get("/alerts")
def alerts_page(viewer: Reader) -> Response:
    """Open alerts, then those dealt with, then what was sent about them."""
    settings = viewer.trial.settings.alerts
    ways = {"email": ", ".join(settings.email), "webhook": settings.webhook}
    return viewer.page(
        "alerts",
        alerts=overview.list_alerts(viewer.trial),
        ways={name: where for name, where in ways.items() if where},
        messages=outbox.list_messages(viewer.trial),
    )


@router.post("/alerts/test")
def send_test_messages(viewer: Actor) -> Response:
    """Send a message by every channel; it leaves within seconds, and the page says whether it did."""
    outbox.add_test_messages(viewer.trial, make_channels(viewer.trial.settings.alerts), clock.now())
    return _to("/alerts")


@router.post("/alerts/{alert_id}/close")
def close(alert_id: Id, viewer: Actor) -> Response:
    """Mark an alert as dealt with; closing a closed one changes nothing."""
    close_alert(viewer.trial.database, alert_id, viewer.caller.name)
    return _to("/alerts")


@router.get("/safety")
def safety_page(viewer: BoardMember) -> Response:
    """Counts for a safety board."""
    return viewer.page("safety", counts=count_safety(viewer.trial, clock.now()))


@router.get("/staff")
def staff_page(viewer: Admin, before: Before = None) -> Response:
    """Who did what, the newest first."""
    return viewer.page(
        "staff", actions=list_actions(viewer.trial.database, before), keys=keys.list_keys(viewer.trial.database)
    )


@router.get("/staff/staff-actions.csv")
def download_staff_actions(viewer: Admin) -> Response:
    """The staff trail as a file."""
    return export_file(viewer.trial, "staff-actions", "csv", viewer.caller.name)
