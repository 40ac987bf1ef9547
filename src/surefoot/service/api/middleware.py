"""Middleware around every request: a limit on the body's size, one shape for every error, private headers."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

from surefoot.service.trial.api_errors import ApiError, error_body

log = logging.getLogger("surefoot.service")
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
PRIVATE = (b"cache-control", b"no-store")


class RequestMiddleware:
    """ASGI middleware; written without a framework, because every request pays for it."""

    def __init__(self, app: Any, body_bytes: int) -> None:
        self._app, self._limit = app, body_bytes

    @property
    def _too_large(self) -> ApiError:
        # The rest of the body is not read: the connection cannot be used again.
        message = f"a request is at most {self._limit // 1024} kilobytes"
        return ApiError(413, "too_large", message, headers={"Connection": "close"})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        taken = 0

        async def receive_counted() -> Any:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise self._too_large
            return message

        async def send_with_headers(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name for name, _ in message["headers"]}
                extra = HEADERS if b"cache-control" in names else [*HEADERS, PRIVATE]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            if _declared_length(scope) > self._limit:
                raise self._too_large
            await self._app(scope, receive_counted, send_with_headers)
        except ApiError as error:
            await _send_error(send_with_headers, error.status_code, error.code, str(error.detail))
        except Exception as error:
            _log_error(scope, error)
            if not started:
                await _send_error(send_with_headers, 500, "internal", "an error in the service; its log says where")


def _declared_length(scope: Any) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _log_error(scope: Any, error: Exception) -> None:
    """Where it happened, never the message: that may hold what a participant sent."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s %s failed with %s\n%s", scope["method"], scope["path"], type(error).__name__, frames)


async def _send_error(send: Any, status: int, code: str, message: str) -> None:
    body = json.dumps(error_body(code, message)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
