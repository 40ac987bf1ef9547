"""Uvicorn's HTTP protocol that closes connections which never send, or never finish, a request, or whose head has no end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 15.0
"""The head of a request has this long to arrive; its body has the middleware's limit."""


HEAD_BYTES = 64 * 1024
"""So much may arrive before the head of a request is complete."""


class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One connection."""

    _timer: asyncio.TimerHandle | None = None
    _unfinished = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(REQUEST_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.cycle is None or self.cycle.response_complete
        self._unfinished = self._unfinished + len(data) if waiting else 0
        if self._unfinished > HEAD_BYTES:
            self.transport.close()
        if not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif waiting and self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
