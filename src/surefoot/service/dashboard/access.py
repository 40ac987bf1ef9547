"""Access to the dashboard's pages: who is signed in, what a form or an address may say, and how a page or a file is sent."""

import base64
import csv
import hashlib
import hmac
import io
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from surefoot.reports.render import render
from surefoot.service.access import (
    ANONYMOUS,
    SESSION_SECONDS,
    Caller,
    RateLimiter,
    Session,
    Sessions,
    find_caller,
    record_action,
)
from surefoot.service.database import clock
from surefoot.service.database.databases import DATABASE_FAULTS, describe_fault
from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import ended_sessions, keys
from surefoot.service.operations.export import FORMATS, FORMULA
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial

COOKIE = "surefoot_session"
SIGN_IN_COOKIE = "surefoot_sign_in"
FORM_TYPE = "application/x-www-form-urlencoded"
READERS = ("analyst", "admin")
TEAM = (*READERS, "coordinator")
"""Coordinators look after participants and stay blind: they see no action, no probability and no outcome."""
BOARD = (*READERS, "monitor")
PAGES = (
    ("/", "Overview", READERS),
    ("/participants", "Participants", TEAM),
    ("/adherence", "Adherence", TEAM),
    ("/not-worn", "Not worn", TEAM),
    ("/updates", "Updates", READERS),
    ("/policies", "Policies", READERS),
    ("/what-if", "What if", READERS),
    ("/alerts", "Alerts", READERS),
    ("/safety", "Safety", BOARD),
    ("/staff", "Staff", ("admin",)),
)
"""Path, words and who may see it; the first that a role may see is where it arrives."""
LOOPBACK = ("127.0.0.1", "::1")


class ElsewhereError(Exception):
    """The browser is sent to another page, which is the message."""


class SignedOutError(Exception):
    """Nobody is signed in; the browser is sent to the sign-in page."""


@dataclass(frozen=True)
class Viewer:
    """Who is signed in, and the trial that they see."""

    trial: Trial
    caller: Caller
    token: str
    query: str
    """What the address says after its question mark."""

    @property
    def acts(self) -> bool:
        return self.caller.may("admin")

    @property
    def is_blind(self) -> bool:
        return self.caller.role not in READERS

    @property
    def pages(self) -> list[tuple[str, str]]:
        return [(path, words) for path, words, roles in PAGES if self.caller.role in roles]

    def link(self, **changes: str) -> str:
        """The address of the same page with something changed: a switch, an order, a download."""
        return "?" + urlencode({**dict(parse_qsl(self.query)), **changes})

    def page(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        viewer = {"role": self.caller.role, "prefix": self.caller.prefix, "acts": self.acts, "is_blind": self.is_blind}
        viewer["pages"] = self.pages
        settings = self.trial.settings
        frame = {"study": settings.title, "zone": settings.time_zone, "clock": clock.read_simulated_time()}
        return HTMLResponse(
            render_template(template, link=self.link, who=viewer, token=self.token, **frame, **content), status
        )


def render_template(name: str, **content: Any) -> str:
    """One of the dashboard's templates, filled."""
    return render(f"{name}.html", package="surefoot.service.dashboard", **content)


class Page(APIRoute):
    """A route whose errors are pages and whose answers carry the security headers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            try:
                response = await handle(request)
            except SignedOutError:
                response = RedirectResponse("/sign-in", 303)
            except ElsewhereError as elsewhere:
                response = RedirectResponse(str(elsewhere), 303)
            except ApiError as error:
                response = _error_page(request, error.status_code, str(error.detail), error.headers)
            except DATABASE_FAULTS as fault:
                request.state.cause = describe_fault(fault)
                words = "the database cannot be reached; try again in a moment"
                response = _error_page(request, 503, words, {"Retry-After": "5"})
            except RequestValidationError:
                response = _error_page(request, 404, "there is no such page", None)
            response.headers.update(security_headers())
            return response

        return handle_page


router = APIRouter(route_class=Page, include_in_schema=False)
"""All pages; the files `*_pages` add theirs to it."""


def _error_page(request: Request, status: int, message: str, headers: Any) -> HTMLResponse:
    study = request.app.state.trial.settings.title
    page = render_template("error", study=study, who=None, token="", clock=None, message=message, status=status)
    return HTMLResponse(page, status, dict(headers or {}))


@cache
def security_headers() -> dict[str, str]:
    """No script at all, one known stylesheet, no frame, no form to elsewhere."""
    page = render_template("error", study="", who=None, token="", clock=None, message="", status=404)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = hashlib.sha256((style[1] if style else "").encode()).digest()
    policy = (
        *("default-src 'none'", f"style-src 'sha256-{base64.b64encode(digest).decode()}'", "img-src data:"),
        *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }


def sessions_of(request: Request) -> Sessions:
    """The sessions of this trial."""
    return Sessions(request.app.state.trial.secret)


def set_session(request: Request, response: Response, name: str, session: Session) -> None:
    """Only for this host, never for scripts, never sent along from another site, over TLS only where there is TLS."""
    # Anyone can send this header, but it only ever makes their own cookie stricter.
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(
        name, session.text, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=secure, path="/"
    )


async def find_viewer(request: Request) -> Viewer:
    """Who is signed in: everybody but apps, for as long as their key is good."""
    session = sessions_of(request).read(request.cookies.get(COOKIE, ""))
    if session is None or session.prefix == ANONYMOUS:
        raise SignedOutError
    trial: Trial = request.app.state.trial
    digest = session.digest
    caller = await run_in_threadpool(_find_key_holder, trial, session.prefix, digest)
    if caller is None:
        raise SignedOutError
    limit_rate(request.app.state.rate_limiter, caller.prefix)
    return Viewer(trial, caller, sessions_of(request).form_token(session), request.url.query)


def record_visit(trial: Trial, by: str, action: str) -> None:
    """Put an action on the trail that writes nothing else."""
    with trial.database.transaction() as connection:
        record_action(connection, by, action)


def end_session(trial: Trial, digest: bytes) -> None:
    """Sign a session out for good: its cookie is worth nothing from now on, wherever it is."""
    row = {"digest": digest, "ended_at": clock.now()}
    with trial.database.transaction() as connection:
        connection.execute(insert_new(connection, ended_sessions), row)


def _find_key_holder(trial: Trial, prefix: str, digest: bytes) -> Caller | None:
    ended = sa.exists().where(ended_sessions.c.digest == digest)
    good = sa.select(keys.c.role, keys.c.expires_at).where(keys.c.prefix == prefix, keys.c.revoked_at.is_(None), ~ended)
    with trial.database.autocommit() as connection:
        row = connection.execute(good).first()
    caller = None if row is None else Caller(prefix, row.role, row.expires_at)
    return caller if caller is not None and may_sign_in(caller) and not caller.is_expired else None


def may_sign_in(caller: Caller) -> bool:
    """Whether there is a page for this role."""
    return any(caller.role in roles for _, _, roles in PAGES)


def require_role(roles: tuple[str, ...]) -> Callable[[Request], Coroutine[Any, Any, Viewer]]:
    """A dependency that lets these roles in; others are sent to where they belong, or told."""

    async def find(request: Request) -> Viewer:
        viewer = await find_viewer(request)
        if viewer.caller.role in roles:
            return viewer
        if request.url.path == "/":
            raise ElsewhereError(viewer.pages[0][0])
        raise ApiError(403, "forbidden", f"this page is not for the role {viewer.caller.role}; ask an admin what you need")

    return find


async def find_acting_admin(request: Request) -> Viewer:
    """An admin who sent one of our forms."""
    viewer = await find_viewer(request)
    check_token(viewer.token, await read_form(request))
    if not viewer.caller.may("admin"):
        raise ApiError(
            403, "forbidden", "this needs a key with the role admin; you are signed in with one that may only read"
        )
    return viewer


def limit_rate(limiter: RateLimiter, name: str) -> None:
    """429 for who must wait."""
    wait = limiter.seconds_to_wait(name)
    if wait > 0:
        headers = {"Retry-After": str(math.ceil(wait))}
        raise ApiError(429, "too_many_requests", "too many requests; wait a moment and try again", headers=headers)


def find_address(request: Request) -> str:
    """Where a request comes from: what a proxy on this machine says, and nobody else."""
    peer = request.client.host if request.client else "-"
    return request.headers.get("x-real-ip", peer)[:64] if peer in LOOPBACK else peer


def check_token(expected: str, fields: dict[str, str]) -> None:
    """Refuse a form that this server did not make for this session."""
    if not hmac.compare_digest(expected.encode(), fields.get("token", "").encode("utf-8", "surrogateescape")):
        raise ApiError(403, "stale_form", "this form is too old or not ours; go back, load the page again and repeat it")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; the body's size is limited for all requests."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise ApiError(415, "unsupported_media_type", "send the form as a browser does")
    try:
        body = (await request.body()).decode("utf-8")
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise ApiError(400, "bad_request", "the form cannot be read") from error


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
ParticipantId = Annotated[str, Query(max_length=64)]
By = Literal["arrived", "decided"]
"""Whether a day counts what arrived in it, or the decision points of that day, whenever they arrived."""
MOMENTS = {"arrived": "received_at", "decided": "decided_at"}
"""The column of a decision that `By` names."""
Download = Literal["", "csv"]
"""Every page with a table can be had as a file: the same address with `download=csv`."""


def go_to(path: str) -> RedirectResponse:
    """Send the browser to a page after a form."""
    return RedirectResponse(path, 303)


def read_reason(fields: dict[str, str]) -> str:
    """Why somebody does what a form does."""
    reason = fields.get("reason", "").strip()[:200]
    if not reason:
        raise ApiError(422, "invalid", "say why; the reason stays on record")
    return reason


def send_csv(viewer: Viewer, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """A table as a file; nothing where a cell is None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    listed = [[format_cell(cell) for cell in row] for row in rows]
    writer.writerows(listed)
    content = text.getvalue().encode()
    digest = hashlib.sha256(content).hexdigest()
    with viewer.trial.database.transaction() as connection:
        detail = f"{len(listed)} rows, SHA-256 {digest}"
        record_action(connection, viewer.caller.name, "exported", f"{name}.csv (page)", detail)
    headers = {"X-Row-Count": str(len(listed)), "X-Content-SHA256": digest}
    headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return Response(content, media_type=FORMATS["csv"], headers=headers)


def format_cell(cell: Any) -> Any:
    """A cell as it is written: times in UTC, and no text that a spreadsheet would run as a formula.

    >>> format_cell("=cmd()"), format_cell(-1.5), format_cell(None)
    ("'=cmd()", -1.5, None)
    """
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="seconds")
    return re.sub(FORMULA, r"'\1", cell) if isinstance(cell, str) else cell


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
    limit_rate(request.app.state.sign_in_limiter, find_address(request))
    sessions = sessions_of(request)
    session = sessions.read(request.cookies.get(SIGN_IN_COOKIE, ""))
    if session is None:
        return _ask_for_key(request, sessions.new(), "The page was open for too long. Please try again.", 403)
    check_token(sessions.form_token(session), fields)
    trial = request.app.state.trial
    caller = await run_in_threadpool(find_caller, trial.database, fields.get("key", "").strip())
    if caller is None or not may_sign_in(caller):
        message = "This is not a valid key of somebody of the team."
        return _ask_for_key(request, session, message, 401 if caller is None else 403)
    if caller.is_expired:
        return _ask_for_key(request, session, f"This key expired on {caller.expires_at:%Y-%m-%d}. Ask for a new one.", 401)
    await run_in_threadpool(record_visit, trial, caller.name, "signed in")
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
        await run_in_threadpool(end_session, viewer.trial, session.digest)
        await run_in_threadpool(record_visit, viewer.trial, viewer.caller.name, "signed out")
    response = go_to("/sign-in")
    response.delete_cookie(COOKIE, path="/")
    return response
