"""Authentication of API requests: first the key, then strict JSON; only then does a route see the request."""

import asyncio
import math
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from surefoot.service import access
from surefoot.service.access import Caller, Role
from surefoot.service.api.request_bodies import parse_strict_json
from surefoot.service.database.databases import Database
from surefoot.service.trial.api_models import ApiError

JSON = "application/json"
JSON_TYPES = re.compile(r"\s*application/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
"""With parameters, and kinds of JSON by other names."""
REMEMBERED_SECONDS = 1.0
"""How long a worker trusts a good key without asking the database: a revocation takes effect within this time."""
LARGEST_MEMORY = 1000
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
            try:
                body = model.model_validate(await strict.json(), from_attributes=True)  # as FastAPI, for the same words
            except ValidationError as error:
                problems = error.errors(include_url=False)
                located = [{**problem, "loc": ("body", *problem["loc"])} for problem in problems]
                raise RequestValidationError(located) from error
            response: Response = await self.endpoint(body, strict)
            return response

        return handle_authenticated


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


async def authenticate(request: Request, role: Role) -> Caller:
    """The caller; 401, 403 or 429 for those who may not."""
    state = request.app.state
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    caller: Caller | None = await state.key_lookups.find(key)
    if caller is None:
        raise ApiError(
            401, "unauthorised", "send a valid key: Authorization: Bearer sf_…", headers={"WWW-Authenticate": "Bearer"}
        )
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
