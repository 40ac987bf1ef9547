"""The server: uvicorn with one worker or several on one socket, and limits on connections that never send a request."""

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from surefoot.errors import InputError
from surefoot.service.operations.monitoring import make_log_settings

REQUEST_SECONDS = 15.0
"""How long the head of a request may take to arrive; its body has the middleware's limit."""
HEAD_BYTES = 64 * 1024
"""How much may arrive before the head of a request is complete."""


class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes connections which never send, or never finish, a request, or whose head has no end."""

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


def listen(factory: str, host: str, port: int, workers: int, *, log_format: str = "text", log_level: str = "info") -> None:
    """Serve the application that a factory makes, until a signal ends it."""
    with bind_socket(host, port) as listening:
        address = listening.getsockname()
        print(f"Surefoot listens at http://{address[0]}:{address[1]}", flush=True)
        uvicorn.run(
            factory,
            factory=True,
            fd=listening.fileno(),
            workers=workers,
            access_log=False,
            log_config=make_log_settings(log_format, log_level),
            http=BoundedProtocol,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
            timeout_worker_healthcheck=60,  # a worker on a busy machine may need more than five seconds to start
        )


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket at that address; several workers may share it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without, every answer of a worker would wait 40 ms for the client's acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --port or --host") from error
    listening.set_inheritable(True)
    return listening
