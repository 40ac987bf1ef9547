"""Signing in with a key, and out again."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from surefoot.service.access import keys
from surefoot.service.access.sessions import Session
from surefoot.service.access.staff_trail import record_visit
from surefoot.service.dashboard.page_access import (
    COOKIE,
    SIGN_IN_COOKIE,
    SignedOutError,
    check_token,
    end_session,
    find_viewer,
    limit_sign_ins,
    may_sign_in,
    render_template,
    router,
    sessions_of,
    set_session,
)
from surefoot.service.dashboard.parameters import Fields, go_to


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    """Ask for a key, unless somebody is signed in."""
    try:
        await find_viewer(request)
    except SignedOutError:
        return _ask_for_key(request, sessions_of(request).new(), "")
    return go_to("/")


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
        message = "This is not a valid key of somebody of the team."
        return _ask_for_key(request, session, message, 401 if caller is None else 403)
    if caller.is_expired:
        return _ask_for_key(request, session, f"This key expired on {caller.expires_at:%Y-%m-%d}. Ask for a new one.", 401)
    await run_in_threadpool(record_visit, trial.database, caller.name, "signed in")
    response = go_to("/")
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
    response = go_to("/sign-in")
    response.delete_cookie(COOKIE, path="/")
    return response
