"""Requests to other hosts: webhooks, seals, the OpenID provider.

A redirect could lead a message to any host, and would turn a POST into a GET without its body: it counts as a failure.
"""

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
STEPS = 3
"""How many times the limit of one step a whole exchange may take."""


class OutsideError(Exception):
    """A request that another host did not answer with success; the words continue its name and hold nothing secret."""

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status
        """What the host answered; None where it gave no answer in HTTP."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """The result of a call, or TimeoutError: a host that sends a byte now and then never reaches the limit of one step."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True, name="outside").start()
    return result.result(seconds)


def send_request(request: urllib.request.Request, seconds: float, largest: int = 0) -> bytes:
    """The first bytes of the answer, at most `largest`; OutsideError for anything but success (2xx).

    Each step may take so many seconds, everything together `STEPS` times as long.
    """

    def exchange() -> bytes:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds) as reply:
            return bytes(reply.read(largest))

    try:
        return call_within(STEPS * seconds, exchange)
    except urllib.error.HTTPError as error:
        error.close()
        raise OutsideError(f"answered {error.code}", error.code) from error
    except http.client.HTTPException as error:
        raise OutsideError(f"gave an answer that is not HTTP ({type(error).__name__})") from error
    except (OSError, ValueError) as error:
        raise OutsideError(f"cannot be reached ({type(error).__name__})") from error
