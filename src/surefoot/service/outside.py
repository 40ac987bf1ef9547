"""Requests to other hosts: webhooks, seals, the OpenID provider.

A redirect could lead a message to any host, and would turn a POST into a GET without its body: it counts as a failure.
"""

import http.client
import urllib.error
import urllib.request
from typing import Any


class OutsideError(Exception):
    """A request that another host did not answer with success; the words continue its name and hold nothing secret."""

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status
        """What the host answered; None where it gave no answer in HTTP."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return


def send_request(request: urllib.request.Request, seconds: float, largest: int = 0) -> bytes:
    """The first bytes of the answer, at most `largest`; OutsideError for anything but success (2xx)."""
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds) as reply:
            return bytes(reply.read(largest))
    except urllib.error.HTTPError as error:
        error.close()
        raise OutsideError(f"answered {error.code}", error.code) from error
    except http.client.HTTPException as error:
        raise OutsideError(f"gave an answer that is not HTTP ({type(error).__name__})") from error
    except (OSError, ValueError) as error:
        raise OutsideError(f"cannot be reached ({type(error).__name__})") from error
