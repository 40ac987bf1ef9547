"""Middleware around every request: limits on size and time, one shape for every error, private headers, log and counters."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import traceback
from typing import Any

from surefoot.service.operations.monitoring import RequestCounters, request_id
from surefoot.service.trial.api_models import ApiError, error_body

log = logging.getLogger("surefoot.service")
access_log = logging.getLogger("surefoot.access")
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
PRIVATE = (b"cache-control", b"no-store")
REQUEST_SECONDS = 10.0
"""A request that takes longer is answered 503: nothing hangs on a database that hangs."""
UNBOUNDED = ("/api/v1/export/", "/download/")
"""Exports may take as long as they need."""


class RequestMiddleware:
    """ASGI middleware; written without a framework, because every request pays for it."""

    def __init__(self, app: Any, body_bytes: int, counters: RequestCounters) -> None:
        self._app = app
        self._limit = body_bytes
        self._counters = counters

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limit)
        timer = None
        if not scope["path"].startswith(UNBOUNDED):
            timer = asyncio.get_running_loop().call_later(REQUEST_SECONDS, exchange.give_up)
        try:
            exchange.check_declared_length()
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
            self._record(scope, exchange)

    def _record(self, scope: Any, exchange: _Exchange) -> None:
        route = _name_route(scope)
        seconds = time.perf_counter() - exchange.began
        self._counters.count(route, exchange.status, seconds)
        if exchange.status >= 500:
            cause = scope.get("state", {}).get("cause", "see the lines before")
            log.error("%s %s answered %d: %s", scope["method"], route, exchange.status, cause)
        if access_log.isEnabledFor(logging.INFO):
            access_log.info("%s %s %d %.1f ms", scope["method"], route, exchange.status, 1000 * seconds)


class _Exchange:
    """One request and its reply."""

    def __init__(self, scope: Any, receive: Any, send: Any, limit: int) -> None:
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
        self._id = secrets.token_hex(8)
        request_id.set(self._id)

    def check_declared_length(self) -> None:
        for name, value in self._scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._limit:
                raise self._too_large

    @property
    def _too_large(self) -> ApiError:
        # The rest of the body is not read: the connection cannot be used again.
        message = f"a request is at most {self._limit // 1024} kilobytes"
        return ApiError(413, "too_large", message, headers={"Connection": "close"})

    async def receive(self) -> Any:
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        self._body_is_complete = not message.get("more_body", False)
        if self._taken > self._limit:
            raise self._too_large
        return message

    async def send(self, message: Any) -> None:
        if self._abandoned:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            names = {name for name, _ in message["headers"]}
            extra = HEADERS if b"cache-control" in names else [*HEADERS, PRIVATE]
            identity = (b"x-request-id", self._id.encode())
            message = {**message, "headers": [*message["headers"], *extra, identity]}
        await self._send(message)

    async def send_error(self, status: int, code: str, message: str, headers: Any = None) -> None:
        """An error in our shape, unless a reply has begun."""
        if self._started:
            return
        body = json.dumps(error_body(code, message)).encode()
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        encoded = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})

    def give_up(self) -> None:
        """Answer in place of what takes too long; whatever it sends later is dropped."""
        if self._started:
            return
        if self._body_is_complete:
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
