"""Signing in, with a key or at the study's OpenID provider, and signing out."""

import hmac

from fastapi import Depends, Request, Response

from surefoot.service import access
from surefoot.service.access import Sessions
from surefoot.service.api.requests import refuse_hasty
from surefoot.service.dashboard.pages import (
    COOKIE,
    STAFF,
    TOO_OFTEN,
    Fields,
    RedirectError,
    Sender,
    check_token,
    find_address,
    find_cookie_path,
    find_viewer,
    go_to,
    render_page,
    router,
    set_session,
)
from surefoot.service.database import clock
from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import SIGNED_OUT, ended_sessions
from surefoot.service.single_sign_on import Attempt, Provider
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial

SIGN_IN_COOKIE = "surefoot_sign_in"
ATTEMPT_COOKIE = "surefoot_oidc"


def limit_sign_ins(request: Request) -> None:
    """429 for an address that tries too often, with right or wrong keys, at all workers together."""
    trial: Trial = request.app.state.trial
    refuse_hasty(access.count_sign_in(trial.database, trial.secret, find_address(request)), TOO_OFTEN)


@router.get("/sign-in")
def show_sign_in(request: Request) -> Response:
    """Ask for a key, unless somebody is signed in."""
    try:
        find_viewer(request)
    except RedirectError:
        return _ask_for_key(request, Sessions(request.app.state.trial.secret).new(), "")
    return go_to("/")


def _ask_for_key(request: Request, session: str, message: str, status: int = 200) -> Response:
    trial: Trial = request.app.state.trial
    content = {"study": trial.settings.title, "root": request.scope.get("root_path", ""), "message": message}
    content["has_single_sign_on"] = trial.settings.oidc is not None
    response = render_page("sign_in", status, token=Sessions(trial.secret).form_token(session), **content)
    set_session(request, response, SIGN_IN_COOKIE, session)
    return response


@router.post("/sign-in", dependencies=[Depends(limit_sign_ins)])
def sign_in(request: Request, fields: Fields) -> Response:
    """Exchange a key for a session."""
    trial: Trial = request.app.state.trial
    sessions = Sessions(trial.secret)
    session = request.cookies.get(SIGN_IN_COOKIE, "")
    if sessions.read(session) is None:
        return _ask_for_key(request, sessions.new(), "The page was open for too long. Please try again.", 403)
    check_token(sessions.form_token(session), fields)
    caller = access.find_caller(trial.database, fields.get("key", "").strip())
    if caller is None or caller.role not in STAFF:
        message = "This is not a valid key of somebody of the team."
        return _ask_for_key(request, session, message, 401 if caller is None else 403)
    if caller.is_expired(trial.watch.believe(clock.now())):
        return _ask_for_key(request, session, f"This key expired on {caller.expires_at:%Y-%m-%d}. Ask for a new one.", 401)
    with trial.database.transaction() as connection:
        access.record_action(connection, caller.name, "signed in")
    response = go_to("/")
    response.delete_cookie(SIGN_IN_COOKIE, path=find_cookie_path(request))
    set_session(request, response, COOKIE, sessions.new(caller.prefix))
    return response


@router.post("/sign-out")
def sign_out(request: Request, viewer: Sender) -> Response:
    """End the session, in this browser and on the server: its cookie is worth nothing from now on, wherever it is."""
    digest = access.digest_key(viewer.session)
    with viewer.trial.database.transaction() as connection:
        connection.execute(insert_new(connection, ended_sessions), {"digest": digest, "ended_at": clock.now()})
        access.record_action(connection, viewer.caller.name, SIGNED_OUT, digest.hex())
    response = go_to("/sign-in")
    response.delete_cookie(COOKIE, path=find_cookie_path(request))
    return response


@router.get("/sign-in/oidc", dependencies=[Depends(limit_sign_ins)])
def start_single_sign_on(request: Request) -> Response:
    """Send the browser to the study's provider."""
    attempt = Attempt.new()
    trial: Trial = request.app.state.trial
    response = go_to(_find_provider(request).make_address(attempt))
    text = ":".join((attempt.state, attempt.nonce, attempt.verifier))
    # The provider's page leads back here, and a strict cookie would not come along.
    set_session(request, response, ATTEMPT_COOKIE, Sessions(trial.secret).sign_text(text), samesite="lax")
    return response


@router.get("/sign-in/oidc/callback", dependencies=[Depends(limit_sign_ins)])
def finish_single_sign_on(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
    """Take the browser back from the provider: a good ID token makes a key for eight hours, and a session with it."""
    trial: Trial = request.app.state.trial
    sessions = Sessions(trial.secret)
    text = sessions.read_text(request.cookies.get(ATTEMPT_COOKIE, ""))
    attempt = None if text is None else Attempt(*text.split(":"))
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise ApiError(403, "stale_form", "this did not begin on our page, or too long ago; sign in again")
    if error or not code:
        raise ApiError(401, "sign_in_failed", "the provider did not let you in; try again, or ask who manages accounts")
    person = _find_provider(request).identify(code, attempt)
    key = access.create_key(
        trial.database,
        person.role,
        f"{person.name}{access.BY_PROVIDER}",
        days=access.SESSION_SECONDS / 86_400,
        by="single sign-on",
    )
    caller = access.find_caller(trial.database, key)
    if caller is None:
        raise ApiError(503, "sign_in_failed", "signing in did not work; try again")
    with trial.database.transaction() as connection:
        access.record_action(connection, caller.name, "signed in", "", "single sign-on")
    # A page of our own, not a redirect: from another site's redirect the browser would not send a strict cookie along.
    response = render_page("signed_in", study=trial.settings.title, root=request.scope.get("root_path", ""))
    response.delete_cookie(ATTEMPT_COOKIE, path=find_cookie_path(request))
    set_session(request, response, COOKIE, sessions.new(caller.prefix))
    return response


def _find_provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise ApiError(404, "not_found", "there is no such page")
    return provider
