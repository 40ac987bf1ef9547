"""The server: uvicorn with one worker or several on one socket."""

from __future__ import annotations

import socket

from surefoot.errors import InputError
from surefoot.service.operations.monitoring import make_log_settings


def listen(
    factory: str,
    host: str,
    port: int,
    workers: int,
    *,
    access_log: bool = True,
    log_format: str = "text",
    log_level: str = "info",
) -> None:
    """Serve the application that a factory makes, until a signal ends it."""
    import uvicorn

    from surefoot.service.http_protocol import BoundedProtocol

    with bind_socket(host, port) as listening:
        where = listening.getsockname()
        print(f"Surefoot listens at http://{where[0]}:{where[1]}", flush=True)
        uvicorn.run(
            factory,
            factory=True,
            fd=listening.fileno(),
            workers=workers,
            access_log=False,
            log_config=make_log_settings(log_format, log_level, access=access_log),
            http=BoundedProtocol,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
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
