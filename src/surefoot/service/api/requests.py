"""What every request passes: limits on size and time, the key, strict JSON; and one shape for every error."""

import asyncio
import json
import logging
import math
import re
import secrets
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import accumulate
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from surefoot.service import access
from surefoot.service.access import Caller, RateLimiter
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.operations.monitoring import Metrics, request_id
from surefoot.service.trial.api_models import ApiError, error_body

log = logging.getLogger("surefoot.service")
access_log = logging.getLogger("surefoot.access")
REQUEST_SECONDS = 10.0
"""A request that takes longer is answered 503: nothing hangs on a database that hangs."""
UNBOUNDED = ("/api/v1/export/", "/download/")  # exports may take as long as they need
JSON = "application/json"
JSON_TYPES = re.compile(r"\s*application/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
"""With parameters, and kinds of JSON by other names."""
REMEMBERED_SECONDS = 1.0
"""How long a worker trusts a good key without asking the database: a revocation takes effect within this time."""
LARGEST_MEMORY = 1000
PUBLIC = "public"
"""The tag of routes that need no key; the tag of any other route is the role that may use it."""
STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
MAXIMUM_DEPTH = 20  # ours need four
MAXIMUM_DIGITS = 309
TIME = "write the time in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00"
PARTICIPANT = "participant_id may hold letters, digits, . _ - (1 to 64 of them, not dots alone)"
FIELDS = {
    ("participant_id", "string_pattern_mismatch"): PARTICIPANT,
    ("participant_id", "string_too_long"): PARTICIPANT,
    ("decision_id", "string_pattern_mismatch"): "decision_id is 32 hexadecimal digits, as POST /decisions answered it",
    ("decision_idx", "greater_than_equal"): "decision_idx counts a participant's decision points from 0",
    ("decision_idx", "less_than"): "decision_idx counts a participant's decision points from 0; it is below 2,147,483,648",
    ("outcomes", "too_long"): "send at most 1,000 outcomes at once; split the batch",
    ("outcomes", "too_short"): "outcomes is empty; send at least one",
    ("reasons", "too_long"): "give at most 20 reasons",
    ("context", "too_long"): "a context has at most 200 variables",
    ("format", "literal_error"): "the format is csv or parquet",
}
"""By the field's name and the kind of error."""
KINDS = {
    "missing": "{field} is missing",
    "bool_type": "{field} is true or false, without quotes",
    "int_type": "{field} is a whole number, without quotes",
    "int_parsing": "{field} is a whole number",
    "float_type": "{field} is a number, without quotes",
    "finite_number": "{field} is a finite number",
    "string_type": "{field} is text, in quotes",
    "list_type": "{field} is a list",
    "dict_type": "{field} is an object of names and values",
    "model_attributes_type": "{field} is a JSON object",
    "json_invalid": "the body is not JSON",
    "timezone_aware": TIME,
    "datetime_parsing": TIME,
    "datetime_from_date_parsing": TIME,
    "datetime_type": TIME,
}
UNIONS = {
    "context": "{field} is a number (a whole one up to 2⁵³), true or false, text of at most 200 characters, or null",
    "outcome": "outcome is a finite number, or null where it is known to be missing",
    "action_prob": "action_prob is a number from 0 to 1",
}
"""Fields that may hold values of several types: the error of one type alone would mislead."""
HIDDEN = ("body", "query", "path", "Outcome", "Outcomes")


class RequestMiddleware:
    """ASGI middleware; written without a framework, because every request pays for it."""

    def __init__(self, app: Any, body_bytes: int, metrics: Metrics, headers: list[tuple[bytes, bytes]]) -> None:
        self._app = app
        self._headers = headers
        self._limit = body_bytes
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limit, self._headers)
        timer = None
        if not scope["path"].startswith(UNBOUNDED):
            timer = asyncio.get_running_loop().call_later(REQUEST_SECONDS, exchange.give_up)
        try:
            declared = dict(scope["headers"]).get(b"content-length", b"")
            exchange.check_size(int(declared) if declared.isdigit() else 0)
            await self._app(scope, exchange.receive, exchange.send)
        except ApiError as error:
            await exchange.send_error(error.status_code, error.code, str(error.detail), error.headers)
        except Exception as error:
            # Where it happened, never the message: that may hold what a participant sent.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s %s failed with %s\n%s", scope["method"], _name_route(scope), type(error).__name__, frames)
            await exchange.send_error(500, "internal", "an error in the service; its log says where")
        finally:
            if timer is not None:
                timer.cancel()
            route = _name_route(scope)
            seconds = time.perf_counter() - exchange.began
            self._metrics.count_request(route, exchange.status, seconds)
            if exchange.status >= 500:
                cause = scope.get("state", {}).get("cause", "see the lines before")
                log.error("%s %s answered %d: %s", scope["method"], route, exchange.status, cause)
            access_log.info("%s %s %d %.1f ms", scope["method"], route, exchange.status, 1000 * seconds)


class _Exchange:
    """One request and its reply."""

    def __init__(self, scope: Any, receive: Any, send: Any, limit: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers = headers
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self.began = time.perf_counter()
        self.status = 500
        self._started = False
        self._abandoned = False
        self._taken = 0
        self._body_is_complete = scope["method"] == "GET"
        self._waits_for_client = False
        self._id = secrets.token_hex(8)
        request_id.set(self._id)

    def check_size(self, size: int) -> None:
        if size > self._limit:
            # The rest of the body is not read: the connection cannot be used again.
            message = f"a request is at most {self._limit // 1024} kilobytes"
            raise ApiError(413, "too_large", message, headers={"Connection": "close"})

    async def receive(self) -> Any:
        self._waits_for_client = not self._body_is_complete
        message = await self._receive()
        self._waits_for_client = False
        self._taken += len(message.get("body", b""))
        self._body_is_complete = not message.get("more_body", False)
        self.check_size(self._taken)
        return message

    async def send(self, message: Any) -> None:
        if self._abandoned:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            identity = (b"x-request-id", self._id.encode())
            message = {**message, "headers": [*message["headers"], *self._headers, identity]}
        await self._send(message)

    async def send_error(self, status: int, code: str, message: str, headers: Any = None) -> None:
        """An error in our shape, unless a reply has begun."""
        if not self._started:
            await JSONResponse(error_body(code, message), status, headers)(self._scope, self.receive, self.send)

    def give_up(self) -> None:
        """Answer in place of what takes too long; whatever it sends later is dropped."""
        if self._started:
            return
        if not self._waits_for_client:
            self._scope.setdefault("state", {})["cause"] = f"no answer in {REQUEST_SECONDS:g} seconds"
            error = (503, "too_slow", "the service or its database is too slow; send it again", {"Retry-After": "5"})
        else:
            error = (408, "timeout", "the request did not arrive in time", {"Connection": "close"})

        async def answer() -> None:
            await self.send_error(*error)
            self._abandoned = True

        self._task = asyncio.ensure_future(answer())


def _name_route(scope: Any) -> str:
    return getattr(scope.get("route"), "path", "other")


class StrictRequest(Request):
    """JSON without NaN, Infinity, zero bytes, lone surrogates or deep nesting."""

    async def json(self) -> Any:
        return parse_strict_json(await self.body())


class AuthenticatedRoute(APIRoute):
    """A route for one role, its tag: first the key, then strict JSON; only then does its function see the request.

    An async function with a body takes it and the request, and gives a whole response: it is called without FastAPI's
    search for dependencies and its check of the response, which cost as much as the rest.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        (self.role,) = options["tags"]
        if self.role != PUBLIC:
            options["openapi_extra"] = {"security": [{"key": []}]}
        super().__init__(path, endpoint, **options)
        if asyncio.iscoroutinefunction(endpoint) and self.body_field is not None:
            self._model: type[BaseModel] = get_type_hints(endpoint)["body"]
            self.app = self._answer

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_authenticated(request: Request) -> Response:
            return await handle(await self._admit(request.scope, request.receive))

        return handle_authenticated

    async def _admit(self, scope: Any, receive: Any) -> "StrictRequest":
        """The request, if its key may use the route and its body can be JSON."""
        request = StrictRequest(scope, receive)
        if self.role != PUBLIC:
            request.state.caller = await authenticate(request, self.role)
        kind = request.headers.get("content-type")
        if kind is None:
            # Nothing else is ever sent here.
            scope["headers"] = [*scope["headers"], (b"content-type", JSON.encode())]
            return StrictRequest(scope, receive)
        if kind != JSON and not JSON_TYPES.match(kind) and await request.body():
            raise ApiError(415, "unsupported_media_type", f"the body is JSON; send Content-Type: {JSON}")
        return request

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        request = await self._admit(scope, receive)
        try:
            # As FastAPI, for the same words.
            content = await request.json() if await request.body() else None
            body = self._model.model_validate(content, from_attributes=True)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            located = [{**problem, "loc": ("body", *problem["loc"])} for problem in problems]
            raise RequestValidationError(located) from error
        response: Response = await self.endpoint(body, request)
        await response(scope, receive, send)


class KeyLookups:
    """Who holds a key: looked up once for requests that arrive together, and remembered for a second if the key is good."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running: dict[str, asyncio.Task[Caller | None]] = {}
        self._good: dict[bytes, tuple[Caller, float]] = {}

    async def find(self, key: str) -> Caller | None:
        """The holder of the key; None when nobody has it."""
        digest = access.digest_key(key)
        caller, until = self._good.get(digest, (None, 0.0))
        if time.monotonic() < until:
            return caller
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(run_in_threadpool(access.find_caller, self._database, key))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        caller = await asyncio.shield(task)
        if caller is not None:
            if len(self._good) > LARGEST_MEMORY:
                self._good.clear()
            self._good[digest] = (caller, time.monotonic() + REMEMBERED_SECONDS)
        return caller


async def authenticate(request: Request, role: str) -> Caller:
    """The caller; 401, 403 or 429 for those who may not."""
    state = request.app.state
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    caller: Caller | None = await state.key_lookups.find(key.strip() if scheme.lower() == "bearer" else "")
    headers = {"WWW-Authenticate": "Bearer"}
    if caller is None:
        raise ApiError(401, "unauthorised", "send a valid key: Authorization: Bearer sf_…", headers=headers)
    # A clock that is ahead for a moment locks nobody out.
    if caller.is_expired(state.trial.watch.believe(now())):
        message = f"this key expired on {caller.expires_at:%Y-%m-%d}; ask an admin for a new one (surefoot keys create)"
        raise ApiError(401, "expired_key", message, headers=headers)
    limit_rate(state.rate_limiter, caller.prefix, "this key asks too often; wait and send it again")
    if not caller.may(role):
        raise ApiError(403, "forbidden", f"this needs a key with the role {role}")
    return caller


def limit_rate(limiter: RateLimiter, name: str, message: str) -> None:
    """429 for who must wait."""
    refuse_hasty(limiter.seconds_to_wait(name), message)


def refuse_hasty(wait: float, message: str) -> None:
    """429, unless there are no seconds to wait."""
    if wait > 0:
        # Whole seconds, as the standard wants them; and the time itself, so that not all come back at the same moment.
        headers = {"Retry-After": str(math.ceil(wait)), "Retry-After-Ms": str(math.ceil(1000 * wait))}
        raise ApiError(429, "too_many_requests", message, headers=headers)


def describe_validation_error(error: dict[str, Any]) -> tuple[str, str | None]:
    """A message, and the field that it is about (None for the whole body)."""
    location = [str(part) for part in error["loc"] if part not in HIDDEN]
    if error["type"] == "unknown_field":
        location.append(error["ctx"]["field"])
        return str(error["msg"]), ".".join(location)
    if location[-1:] == ["[key]"]:
        return f"names in {location[0]} have 1 to 100 characters", location[0]
    for name, words in UNIONS.items():
        if name in location and error["type"] not in ("missing", "dict_type", "too_long"):
            inside = location[: location.index(name) + (2 if name == "context" else 1)]
            return words.format(field=".".join(inside)), ".".join(inside)
    field = ".".join(location) or None
    named = next((part for part in reversed(location) if not part.isdigit()), "the body")
    known = FIELDS.get((named, error["type"])) or KINDS.get(error["type"])
    message = str(error["msg"]).removeprefix("Value error, ") if known is None else known.format(field=field or "the body")
    return message, field


def parse_strict_json(body: bytes) -> Any:
    """The value of a JSON text."""
    try:
        text = body.decode("utf-8")
        if text.count("[") + text.count("{") > MAXIMUM_DEPTH:
            # Before the parser sees it; brackets inside strings do not count.
            brackets = re.findall(r"[][{}]", STRINGS.sub("", text))
            if max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0) > MAXIMUM_DEPTH:
                raise ApiError(400, "too_deep", f"the body is nested more than {MAXIMUM_DEPTH} deep")
        value = _DECODER.decode(text)
        if "\\u" in text:
            plain = json.dumps(value, ensure_ascii=False)
            plain.encode("utf-8")
            if "\\u0000" in plain:
                raise ValueError("a zero byte")
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "not_json", "the body is not plain JSON in UTF-8 (no NaN, no Infinity)") from error
    return value


def _parse_finite(text: str) -> float:
    """A number; also called with NaN and Infinity, which are no JSON."""
    number = float(text)
    if not math.isfinite(number):
        if not text[-1].isdigit():
            raise ValueError(text)
        raise ApiError(400, "number_too_large", f"{text[:20]} is too large for a number; numbers are below 1.8e308")
    return number


def _parse_whole(text: str) -> int:
    """A whole number; Python refuses those of several thousand digits by a ValueError."""
    if len(text) > MAXIMUM_DIGITS:
        raise ApiError(400, "number_too_large", f"{text[:20]}… has {len(text):,} digits; numbers are below 1.8e308")
    return int(text)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python would keep the last value of a name, other readers the first."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0][:100]
        raise ApiError(400, "duplicate_field", f"the field '{twice}' occurs twice; send it once", twice)
    return fields


_DECODER = json.JSONDecoder(
    parse_constant=_parse_finite,
    parse_float=_parse_finite,
    parse_int=_parse_whole,
    object_pairs_hook=_refuse_duplicates,
)
