"""Asking until there is an answer, without any network: generators say what to send and when, and are given what came back.

`Client` and `AsyncClient` run the same generators; only how they send and wait differs.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from surefoot.client.exceptions import (
    AccessError,
    ApiError,
    ConflictError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    UnavailableError,
    UnexpectedAnswerError,
)
from surefoot.client.messages import OUTCOMES_PER_BATCH, Call, Receipt, ask_outcomes
from surefoot.errors import InputError

log = logging.getLogger("surefoot.client")
KINDS: dict[int, type[ApiError]] = {
    **dict.fromkeys((401, 403), AccessError),
    404: NotFoundError,
    409: ConflictError,
    **dict.fromkeys((400, 413, 415, 422), InvalidRequestError),
    **dict.fromkeys((408, 429, 502, 503, 504), UnavailableError),
}
FROM_ANYBODY = (401, 403, 408, 413, 429, 500, 502, 503, 504)
"""Errors that a proxy in between may give in words of its own, and that mean the same."""
T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """How often to ask, and how long to wait between: twice as long each time, by chance up to half of it less so that
    clients do not come back together, and never sooner than the service's `Retry-After`.

    Parameters
    ----------
    attempts : int
        How often a request is sent at most.
    first_wait : float
        Seconds until the second attempt.
    longest_wait : float
        No wait is longer; a service that wants to be left alone for longer is not asked again, and the error says so.

    Examples
    --------
    >>> Retries(attempts=3, first_wait=1.0)
    Retries(attempts=3, first_wait=1.0, longest_wait=30.0)
    """

    attempts: int = 5
    first_wait: float = 0.25
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_wait < 0 or self.longest_wait < 0:
            raise InputError("Retries: attempts is at least 1, first_wait and longest_wait are 0 or more seconds")

    def wait_after(self, attempt: int, error: NetworkError | UnavailableError) -> float:
        """Seconds until the next attempt; the error itself when there is none."""
        asked_for = error.retry_after or 0.0 if isinstance(error, UnavailableError) else 0.0
        if attempt + 1 >= self.attempts or asked_for > self.longest_wait:
            raise error
        back_off = min(self.longest_wait, self.first_wait * 2.0**attempt)
        return max(back_off * random.uniform(0.5, 1.0), asked_for)  # noqa: S311 - spreads load, keeps no secret


@dataclass(frozen=True)
class Attempt:
    """Wait so many seconds, then send this."""

    call: Call[Any]
    wait: float


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes


Steps = Generator[Attempt, Reply | NetworkError, T]
"""What to send, one after the other; given what came back, it ends with the answer."""


def ask(call: Call[T], retries: Retries) -> Steps[T]:
    """Send one request, and the same bytes again while there is no answer or the service cannot answer yet."""
    wait = 0.0
    for attempt in range(retries.attempts):
        reply = yield Attempt(call, wait)
        try:
            return read_reply(call, reply)
        except (NetworkError, UnavailableError) as error:
            wait = retries.wait_after(attempt, error)
            log.info("%s: %s; again in %.1f s", call.path, error, wait)
    raise AssertionError("the last attempt returns or raises")


def deliver(texts: Sequence[str], retries: Retries) -> Steps[list[Receipt]]:
    """Send outcomes in batches, in order; a receipt for each.

    A batch that is refused is halved until what is at fault stands alone: it gets the receipt `refused`, the others are
    recorded.
    """
    receipts: list[Receipt] = []
    for start in range(0, len(texts), OUTCOMES_PER_BATCH):
        receipts += yield from _deliver_batch(texts[start : start + OUTCOMES_PER_BATCH], retries)
    return receipts


def _deliver_batch(texts: Sequence[str], retries: Retries) -> Steps[list[Receipt]]:
    try:
        return (yield from ask(ask_outcomes(texts), retries))
    except InvalidRequestError as error:
        if len(texts) == 1:
            return [Receipt(json.loads(texts[0])["decision_id"], "refused", None, str(error))]
    half = len(texts) // 2
    first = yield from _deliver_batch(texts[:half], retries)
    return first + (yield from _deliver_batch(texts[half:], retries))


def read_reply(call: Call[T], reply: Reply | NetworkError) -> T:
    """The answer, or the error that it is."""
    if isinstance(reply, NetworkError):
        raise reply
    try:
        given = json.loads(reply.content)
        if 200 <= reply.status < 300:
            return call.read(given)
        detail = given["error"]
        code = str(detail["code"])
        message = str(detail["message"])
        field = detail["field"]
    except (ValueError, KeyError, TypeError) as error:
        if reply.status not in FROM_ANYBODY:
            raise UnexpectedAnswerError(
                f"{call.path} was answered {reply.status} in words that are not Surefoot's; is the URL right, and is the"
                " client as new as the service?"
            ) from error
        code = "unknown"
        message = "the service, or a proxy before it, gave no reason"
        field = None
    raise _make_error(reply, code, message, field)


def _make_error(reply: Reply, code: str, message: str, field: str | None) -> ApiError:
    kind = KINDS.get(reply.status, ApiError)
    error = kind(reply.status, code, message, field, reply.headers.get("x-request-id"))
    if isinstance(error, UnavailableError):
        error.retry_after = _seconds(reply.headers.get("retry-after"))
    return error


def _seconds(retry_after: str | None) -> float | None:
    """A number of seconds, or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
