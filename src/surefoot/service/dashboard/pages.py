"""Access to the dashboard's pages: who is signed in, what a form or an address may say, and how a page or a file is sent."""

import base64
import csv
import hashlib
import hmac
import io
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from surefoot.reports.render import render
from surefoot.service import access
from surefoot.service.access import ANONYMOUS, Caller, Sessions
from surefoot.service.api.requests import limit_rate
from surefoot.service.database import clock
from surefoot.service.database.databases import DATABASE_FAULTS
from surefoot.service.database.faults import describe_fault
from surefoot.service.database.schema import ended_sessions, keys
from surefoot.service.operations.export import FORMATS, FORMULA
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial, is_sandbox

COOKIE = "surefoot_session"
FORM_TYPE = "application/x-www-form-urlencoded"
READERS = ("analyst", "admin")
TEAM = (*READERS, "coordinator")
"""Coordinators look after participants and stay blind: they see no action, no probability and no outcome."""
BOARD = (*READERS, "monitor")
CARERS = ("coordinator", "admin")
"""Who registers, pauses and withdraws participants."""
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
    ("/boundaries", "Boundaries", BOARD),
    ("/events", "Adverse events", (*TEAM, "monitor")),
    ("/staff", "Staff", ("admin",)),
)
"""Path, words and who may see it; the first that a role may see is where it arrives."""
STAFF = {role for _, _, roles in PAGES for role in roles}
ROWS = 20
"""Of a table on one page: a phone shows it in less than ten screens."""
LOOPBACK = ("127.0.0.1", "::1")
TOO_OFTEN = "too many requests; wait a moment and try again"


class RedirectError(Exception):
    """The browser is sent to another page, which is the message."""


def render_page(template: str, status: int = 200, **content: Any) -> HTMLResponse:
    """One of the dashboard's templates, filled; nobody needs to be signed in."""
    frame = {"study": "", "root": "", "who": None, "token": "", "clock": None, "status": status, "sandbox": is_sandbox()}
    return HTMLResponse(render(f"{template}.html", package="surefoot.service.dashboard", **{**frame, **content}), status)


@dataclass(frozen=True)
class Viewer:
    """Who is signed in, and the trial that they see."""

    trial: Trial
    caller: Caller
    session: str
    token: str
    query: str
    """What the address says after its question mark."""
    root: str = ""
    """The beginning of every address, where the server has several studies."""

    @property
    def acts(self) -> bool:
        return self.caller.may("admin")

    @property
    def looks_after(self) -> bool:
        return self.caller.role in CARERS

    @property
    def is_blind(self) -> bool:
        return self.caller.role not in READERS

    @property
    def pages(self) -> list[tuple[str, str]]:
        return [(self.root + path, words) for path, words, roles in PAGES if self.caller.role in roles]

    def link(self, **changes: str) -> str:
        """The address of the same page with something changed: a switch, an order, a download."""
        return "?" + urlencode({**dict(parse_qsl(self.query)), **changes})

    def page(self, template: str, **content: Any) -> HTMLResponse:
        settings = self.trial.settings
        frame: dict[str, Any] = {"study": settings.title, "clock": clock.read_simulated_time(), "who": self}
        frame["treatment"] = self.trial.study.a_treatment
        frame |= {"token": self.token, "link": self.link, "at": clock.now(), "root": self.root}
        frame |= {"zone": settings.time_zone, "outcome_hours": settings.outcome_hours}
        frame["local"] = lambda moment: moment.astimezone(settings.zone)
        frame["person"] = partial(access.replace_prefixes, access.name_keys(self.trial.database))
        return render_page(template, **frame, **content)


@dataclass(frozen=True)
class Listing:
    """One page of a long list."""

    rows: Sequence[Any]
    number: int
    total: int
    """Rows of all pages."""
    length: int = ROWS

    @property
    def last(self) -> int:
        return max(1, math.ceil(self.total / self.length))


def cut_page(rows: Sequence[Any], number: int, length: int = ROWS) -> Listing:
    """A page of rows; after the last one, the last one.

    >>> cut_page("abcde", 9, length=2).rows
    'e'
    """
    number = min(number, max(1, math.ceil(len(rows) / length)))
    return Listing(rows[(number - 1) * length : number * length], number, len(rows), length)


class Page(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            about = {"study": request.app.state.trial.settings.title, "root": request.scope.get("root_path", "")}
            response: Response
            try:
                response = await handle(request)
            except RedirectError as elsewhere:
                response = go_to(str(elsewhere))
            except ApiError as error:
                response = render_page("error", error.status_code, **about, message=str(error.detail))
                response.headers.update(error.headers or {})
            except DATABASE_FAULTS as fault:
                request.state.cause = describe_fault(fault)
                words = "the database cannot be reached; try again in a moment"
                response = render_page("error", 503, **about, message=words)
                response.headers["Retry-After"] = "5"
            except RequestValidationError:
                response = render_page("error", 404, **about, message="there is no such page")
            if isinstance(response, RedirectResponse) and response.headers["location"].startswith("/"):
                response.headers["location"] = about["root"] + response.headers["location"]
            return response

        return handle_page


@cache
def list_security_headers() -> list[tuple[bytes, bytes]]:
    """Of every reply, whoever writes it: no script at all, known stylesheets, no frame, no form to elsewhere, no copy."""
    digests = []
    for page in (bytes(render_page("error", message="").body).decode(), render("base.html", title="")):
        style = page.partition("<style>")[2].partition("</style>")[0]
        digests.append(base64.b64encode(hashlib.sha256(style.encode()).digest()).decode())
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    nowhere_else = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    headers = {
        "content-security-policy": f"default-src 'none'; style-src {sources}; img-src data:; {nowhere_else}",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }
    return [(name.encode(), value.encode()) for name, value in headers.items()]


router = APIRouter(route_class=Page, include_in_schema=False)
"""All pages; the files `*_pages` add theirs to it."""


def go_to(path: str) -> RedirectResponse:
    """Send the browser to a page after a form."""
    return RedirectResponse(path, 303)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; the body's size is limited for all requests."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise ApiError(415, "unsupported_media_type", "send the form as a browser does")
    try:
        body = (await request.body()).decode("utf-8")
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise ApiError(400, "bad_request", "the form cannot be read") from error


Fields = Annotated[dict[str, str], Depends(read_form)]


def read_reason(fields: dict[str, str]) -> str:
    """Why somebody does what a form does."""
    reason = fields.get("reason", "").strip()[:200]
    if not reason:
        raise ApiError(422, "invalid", "say why; the reason stays on record")
    return reason


def check_token(expected: str, fields: dict[str, str]) -> None:
    """Refuse a form that this server did not make for this session."""
    if not hmac.compare_digest(expected.encode(), fields.get("token", "").encode("utf-8", "surrogateescape")):
        raise ApiError(403, "stale_form", "this form is too old or not ours; go back, load the page again and repeat it")


def find_viewer(request: Request) -> Viewer:
    """Who is signed in: everybody but apps, for as long as their key is good."""
    trial: Trial = request.app.state.trial
    sessions = Sessions(trial.secret)
    session = request.cookies.get(COOKIE, "")
    prefix = sessions.read(session)
    if prefix is None or prefix == ANONYMOUS:
        raise RedirectError("/sign-in")
    is_over = sa.exists().where(ended_sessions.c.digest == access.digest_key(session))
    good = sa.select(keys.c.role, keys.c.expires_at).where(keys.c.prefix == prefix, keys.c.revoked_at.is_(None))
    with trial.database.autocommit() as connection:
        row = connection.execute(good.where(~is_over)).first()
    caller = None if row is None else Caller(prefix, row.role, row.expires_at)
    if caller is None or caller.role not in STAFF or caller.is_expired(trial.watch.believe(clock.now())):
        raise RedirectError("/sign-in")
    limit_rate(request.app.state.rate_limiter, caller.prefix, TOO_OFTEN)
    root = request.scope.get("root_path", "")
    return Viewer(trial, caller, session, sessions.form_token(session), request.url.query, root)


SignedIn = Annotated[Viewer, Depends(find_viewer)]


def require_role(*roles: str) -> Any:
    """A dependency that lets these roles in; others are sent to where they belong, or told."""

    async def check_role(request: Request, viewer: SignedIn) -> Viewer:
        role = viewer.caller.role
        if role in roles:
            if viewer.is_blind:
                await run_in_threadpool(record_view, viewer, request)
            return viewer
        if request.url.path == "/":
            raise RedirectError(viewer.pages[0][0].removeprefix(viewer.root))
        raise ApiError(403, "forbidden", f"this page is not for the role {role}; ask an admin what you need")

    return Depends(check_role)


def record_view(viewer: Viewer, request: Request) -> None:
    """What somebody who is blinded looks at is on the trail, so that the trial can show what they did not see."""
    path = request.url.path + (f"?{viewer.query}" if viewer.query else "")
    with viewer.trial.database.transaction() as connection:
        access.record_action(connection, viewer.caller.name, "viewed", path)


async def find_sender(viewer: SignedIn, fields: Fields) -> Viewer:
    """Who sent one of our forms."""
    check_token(viewer.token, fields)
    return viewer


Sender = Annotated[Viewer, Depends(find_sender)]


async def find_acting_admin(viewer: Sender) -> Viewer:
    """An admin who sent one of our forms."""
    if not viewer.acts:
        words = "this needs a key with the role admin; you are signed in with one that may only read"
        raise ApiError(403, "forbidden", words)
    return viewer


async def find_carer(viewer: Sender) -> Viewer:
    """A coordinator or admin who sent one of our forms."""
    if not viewer.looks_after:
        raise ApiError(403, "forbidden", "this needs a key with the role coordinator or admin")
    return viewer


async def find_board_sender(viewer: Sender) -> Viewer:
    """A member of the board, an analyst or an admin who sent one of our forms."""
    if viewer.caller.role not in BOARD:
        raise ApiError(403, "forbidden", "the closed part is for the board; this needs the role monitor, analyst or admin")
    return viewer


Reader = Annotated[Viewer, require_role(*READERS)]
TeamMember = Annotated[Viewer, require_role(*TEAM)]
BoardMember = Annotated[Viewer, require_role(*BOARD)]
BoardSender = Annotated[Viewer, Depends(find_board_sender)]
StaffMember = Annotated[Viewer, require_role(*STAFF)]
Admin = Annotated[Viewer, require_role("admin")]
Actor = Annotated[Viewer, Depends(find_acting_admin)]
Carer = Annotated[Viewer, Depends(find_carer)]
PageNumber = Annotated[int, Query(ge=1, lt=2**31)]
ShortText = Annotated[str, Query(max_length=64)]
By = Literal["arrived", "decided"]
"""Whether a day counts what arrived in it, or the decision points of that day, whenever they arrived."""
MOMENTS = {"arrived": "received_at", "decided": "decided_at"}
"""The column of a decision that `By` names."""
Download = Literal["", "csv"]
"""Every page with a table can be had as a file: the same address with `download=csv`."""


def send_csv(viewer: Viewer, name: str, columns: Sequence[str], rows: Iterable[Any]) -> Response:
    """A table as a file, of rows or of mappings that hold the columns; nothing where a cell is None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        cells = [row[column] for column in columns] if isinstance(row, Mapping) else row
        writer.writerow([format_cell(cell) for cell in cells])
        count += 1
    content = text.getvalue().encode()
    digest = hashlib.sha256(content).hexdigest()
    with viewer.trial.database.transaction() as connection:
        detail = f"{count} rows, SHA-256 {digest}"
        access.record_action(connection, viewer.caller.name, "exported", f"{name}.csv (page)", detail)
    headers = {"X-Row-Count": str(count), "X-Content-SHA256": digest}
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


def set_session(
    request: Request, response: Response, name: str, session: str, samesite: Literal["strict", "lax"] = "strict"
) -> None:
    """Only for this host, never for scripts, never sent along from another site, over TLS only where there is TLS."""
    # Anyone can send this header, but it only ever makes their own cookie stricter.
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    age = access.SESSION_SECONDS
    path = find_cookie_path(request)
    response.set_cookie(name, session, max_age=age, httponly=True, samesite=samesite, secure=secure, path=path)


def find_cookie_path(request: Request) -> str:
    """Of several studies on one server, each has its own sessions."""
    return request.scope.get("root_path", "") or "/"


def find_address(request: Request) -> str:
    """Where a request comes from: what a proxy on this machine says, and nobody else."""
    peer = request.client.host if request.client else "-"
    return request.headers.get("x-real-ip", peer)[:64] if peer in LOOPBACK else peer
