"""Uvicorn's HTTP protocol that closes half-open connections: those that never send, or never finish, a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 15.0
"""The head of a request has this long to arrive; its body has the middleware's limit."""


class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One connection."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(REQUEST_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.cycle is None or self.cycle.response_complete
        if not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif waiting and self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
