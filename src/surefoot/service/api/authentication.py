"""Authentication of API requests: first the key, then strict JSON; only then does a route see the request."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from surefoot.service.access import keys
from surefoot.service.access.keys import Caller, Role
from surefoot.service.database.databases import Database
from surefoot.service.trial.api_models import ApiError

JSON = "application/json"
JSON_TYPES = re.compile(r"\s*application/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
"""With parameters, and kinds of JSON by other names."""
MAXIMUM_DEPTH = 20
"""How deeply a request may be nested; ours need four."""
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def for_role(role: Role) -> Callable[[Endpoint], Endpoint]:
    """Mark a route as belonging to a role."""

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.role = role  # type: ignore[attr-defined]
        return endpoint

    return mark


def for_body(model: type[BaseModel]) -> Callable[[Endpoint], Endpoint]:
    """Mark an async route that takes this body and the request, and gives a whole response.

    It is called without FastAPI's search for dependencies and its check of the response, which cost as much as the rest.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.body_model = model  # type: ignore[attr-defined]
        return endpoint

    return mark


class StrictRequest(Request):
    """JSON without NaN, Infinity, zero bytes, lone surrogates or deep nesting."""

    async def json(self) -> Any:
        return parse_strict_json(await self.body())


class AuthenticatedRoute(APIRoute):
    """A route that knows who may use it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.role: Role | None = getattr(endpoint, "role", None)
        if self.role is not None:
            extra = {"security": [{"key": []}], **(options.get("openapi_extra") or {})}
            options["openapi_extra"] = extra
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        model: type[BaseModel] | None = getattr(self.endpoint, "body_model", None)

        async def handle_authenticated(request: Request) -> Response:
            if self.role is not None:
                request.state.caller = await authenticate(request, self.role)
            kind = request.headers.get("content-type")
            if kind is None:
                # Nothing else is ever sent here.
                request.scope["headers"] = [*request.scope["headers"], (b"content-type", JSON.encode())]
            strict = StrictRequest(request.scope, request.receive)
            if kind not in (None, JSON) and not JSON_TYPES.match(kind) and await strict.body():
                raise ApiError(415, "unsupported_media_type", f"the body is JSON; send Content-Type: {JSON}")
            if model is None or kind not in (None, JSON) or not await strict.body():
                return await handle(strict)
            response: Response = await self.endpoint(_read_body(model, await strict.json()), strict)
            return response

        return handle_authenticated


def _read_body(model: type[BaseModel], value: Any) -> BaseModel:
    try:
        return model.model_validate(value, from_attributes=True)  # as FastAPI does it, for the same words
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in errors]) from error


class KeyLookups:
    """Looks keys up in the database, once for all requests that ask for the same key at the same time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running: dict[str, asyncio.Task[Caller | None]] = {}

    async def find(self, key: str) -> Caller | None:
        """Who holds the key; None when nobody does."""
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(run_in_threadpool(keys.find_caller, self._database, key))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)


async def authenticate(request: Request, role: Role) -> Caller:
    """The caller; 401, 403 or 429 for those who may not."""
    state = request.app.state
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    caller: Caller | None = state.key_cache.find(key)
    if caller is None:
        caller = await state.key_lookups.find(key)
        if caller is None:
            raise ApiError(
                401, "unauthorised", "send a valid key: Authorization: Bearer sf_…", headers={"WWW-Authenticate": "Bearer"}
            )
        state.key_cache.remember(key, caller)
    if caller.is_expired:
        message = f"this key expired on {caller.expires_at:%Y-%m-%d}; ask an admin for a new one (surefoot keys create)"
        raise ApiError(401, "expired_key", message, headers={"WWW-Authenticate": "Bearer"})
    wait = state.rate_limiter.seconds_to_wait(caller.prefix)
    if wait > 0:
        headers = {"Retry-After": str(math.ceil(wait))}
        raise ApiError(429, "too_many_requests", "this key asks too often; wait and send it again", headers=headers)
    if not caller.may(role):
        raise ApiError(403, "forbidden", f"this needs a key with the role {role}")
    return caller


def parse_strict_json(body: bytes) -> Any:
    """The value of a JSON text."""
    try:
        text = body.decode("utf-8")
        _check_nesting(text)
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_finite, object_pairs_hook=_refuse_duplicates
        )
        if "\\u" in text:
            plain = json.dumps(value, ensure_ascii=False)
            plain.encode("utf-8")
            if "\\u0000" in plain:
                raise ValueError("a zero byte")
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "not_json", "the body is not plain JSON in UTF-8 (no NaN, no Infinity)") from error
    return value


def _check_nesting(text: str) -> None:
    """Refuse deep nesting before the parser sees it; brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= MAXIMUM_DEPTH:
        return
    depth = deepest = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            deepest = max(depth, deepest)
        elif character in "]}":
            depth -= 1
    if deepest > MAXIMUM_DEPTH:
        raise ApiError(400, "too_deep", f"the body is nested more than {MAXIMUM_DEPTH} deep")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ApiError(400, "number_too_large", f"{text[:20]} is too large for a number; numbers are below 1.8e308")
    return number


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python would keep the last value of a name, other readers the first."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)[:100]
        raise ApiError(400, "duplicate_field", f"the field '{twice}' occurs twice; send it once", twice)
    return fields
