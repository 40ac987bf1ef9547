"""Requests and replies without any network: what is sent, what the answer means, and what can go wrong.

What is wrong before anything is sent (a time without a zone, a value that is not a number) is a `surefoot.InputError`.
"""

import json
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Self, TypeVar

from surefoot.errors import InputError

try:
    import httpx2
except ImportError as error:
    raise ImportError("surefoot.client needs httpx2; install it with: pip install 'surefoot[client]'") from error

log = logging.getLogger("surefoot.client")
T = TypeVar("T")
FROM_ANYBODY = (401, 403, 408, 413, 429, 500, 502, 503, 504)
"""Errors that a proxy in between may give in words of its own, and that mean the same."""
OUTCOMES_PER_BATCH = 1000
"""The most that the service takes at once."""
Value = bool | int | float | str | None
"""Of a context variable; None where it is missing."""
Source = Literal["warm-up", "policy", "fallback", "unavailable"]
Status = Literal[
    "recorded",
    "repeated",
    "late",
    "unknown_decision",
    "before_decision",
    "implausible",
    "timestamp_in_future",
    "timestamp_too_old",
    "withdrawn",
    "erased",
    "refused",
]


class ClientError(Exception):
    """Anything that went wrong between this client and the service."""


class NetworkError(ClientError):
    """No answer came. The request may have been recorded: the same call again is safe, and gets the same answer."""


class UnexpectedAnswerError(ClientError):
    """The answer is not one of Surefoot's: another server, a proxy or a captive portal gave it."""


class ApiError(ClientError):
    """The service refused.

    Attributes
    ----------
    status : int
        Of HTTP.
    code : str
        For programs: `decided_otherwise`, `out_of_order`, `unknown_participant`, …
    message : str
        For people.
    field : str or None
        The field of the request that it is about.
    request_id : str or None
        The name of this request in the service's log.
    """

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, request_id: str | None = None
    ) -> None:
        suffix = "" if field is None else f" [{field}]"
        super().__init__(f"{status} {code}: {message}{suffix}")
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.request_id = request_id


class AccessError(ApiError):
    """401, 403: the key is not valid, was revoked, or has a role that may not do this."""


class NotFoundError(ApiError):
    """404: there is no such participant, decision or route."""


class ConflictError(ApiError):
    """409: already decided with other values, out of order or too soon. Sending it again does not help."""


class InvalidRequestError(ApiError):
    """400, 413, 415, 422: the request is invalid; `field` names the place."""


class UnavailableError(ApiError):
    """408, 429, 502, 503, 504: the service cannot answer now, after all attempts that `Retries` allows."""

    retry_after: float | None = None
    """After how many seconds to try again, if the service said so."""


class QueueError(ClientError):
    """The queue on disk cannot be used."""


class QueueFullError(QueueError):
    """The queue holds as many outcomes as it may; nothing of this call was added."""


class QueueInUseError(QueueError):
    """Another process, or another client, has this queue open."""


class QueueWarning(UserWarning):
    """Something in the queue on disk could not be read, or was refused; it was set aside and nothing else was lost."""


KINDS: dict[int, type[ApiError]] = {
    **dict.fromkeys((401, 403), AccessError),
    404: NotFoundError,
    409: ConflictError,
    **dict.fromkeys((400, 413, 415, 422), InvalidRequestError),
    **dict.fromkeys((408, 429, 502, 503, 504), UnavailableError),
}


@dataclass(frozen=True)
class Participant:
    """A participant that the study knows."""

    participant_id: str
    """The pseudonym."""
    registered_at: datetime
    """By the service's clock."""


@dataclass(frozen=True)
class NextDecision:
    """The state of a participant in the service."""

    participant_id: str
    """The pseudonym."""
    last_decision_idx: int | None
    """None before the first decision point."""
    last_timestamp: datetime | None
    """Of that decision point."""
    next_decision_idx: int
    """What to ask for next."""
    not_before: datetime | None
    """The earliest timestamp that the next decision point may have; None: any."""
    paused: bool
    """Whether decision points are recorded as unavailable."""
    withdrawn: bool
    """Whether nothing more is asked for."""

    @classmethod
    def read(cls, given: Any) -> Self:
        moments = {name: given[name] and datetime.fromisoformat(given[name]) for name in ("last_timestamp", "not_before")}
        return cls(**{**{name: given[name] for name in cls.__dataclass_fields__}, **moments})


@dataclass(frozen=True)
class Decision:
    """The recorded decision of the service at a decision point."""

    decision_id: str
    """Outcomes are sent back under it."""
    action: int
    """What to do; action 0 is to do nothing."""
    action_name: str
    """The same in the study's words."""
    probabilities: tuple[float, ...]
    """Of each action, in their order."""
    source: Source
    """Who decided."""
    reasons: tuple[str, ...]
    """Why the fallback decided, or the service made the decision point unavailable."""
    policy_id: int | None
    """The policy version that decided."""
    warnings: tuple[str, ...] = ()
    """What to mend in the context, such as a misspelt name; also logged by `surefoot.client`."""

    @property
    def probability(self) -> float:
        """Of the action that was drawn."""
        return self.probabilities[self.action]

    def outcome(self, outcome: float | None, timestamp: datetime) -> "Outcome":
        """What came back, ready to be sent; it echoes the probability, which the service compares with its record."""
        return Outcome(self.decision_id, outcome, timestamp, self.probability)

    @classmethod
    def read(cls, given: Any) -> Self:
        decision = cls(
            decision_id=str(given["decision_id"]),
            action=int(given["action"]),
            action_name=str(given["action_name"]),
            probabilities=tuple(map(float, given["action_prob"])),
            source=given["source"],
            reasons=tuple(given["reasons"]),
            policy_id=given["policy_id"],
            warnings=tuple(given["warnings"]),
        )
        if not 0 <= decision.action < len(decision.probabilities):
            raise ValueError("the action has no probability")
        for warning in decision.warnings:
            log.warning("decision %s: %s", decision.decision_id, warning)
        return decision


@dataclass(frozen=True)
class Outcome:
    """The outcome of a decision point."""

    decision_id: str
    """Of the decision that it belongs to."""
    outcome: float | None
    """None where it is known to be missing."""
    timestamp: datetime
    """When it was measured, with a time zone."""
    action_prob: float | None = None
    """The probability of the action as the app knows it; compared by the service, never used."""

    def text(self) -> str:
        """As JSON, on one line."""
        fields: dict[str, Value] = {
            "decision_id": self.decision_id,
            "outcome": make_plain(self.outcome, "outcome"),
            "timestamp": format_time(self.timestamp),
        }
        if self.action_prob is not None:
            fields["action_prob"] = make_plain(self.action_prob, "action_prob")
        return json.dumps(fields)


@dataclass(frozen=True)
class Receipt:
    """The status of one outcome after sending."""

    decision_id: str
    """Of the decision that it belongs to."""
    status: Status
    """`recorded`, `repeated` (it was there already), `late` (recorded, but does not count); or why it was not kept."""
    probability_agrees: bool | None = None
    """Whether the echoed probability is the recorded one; None when none was sent."""
    reason: str | None = None
    """Why it was refused."""

    @property
    def kept(self) -> bool:
        """Whether the service has it on record."""
        return self.status in ("recorded", "repeated", "late")


@dataclass(frozen=True)
class Pause:
    """Whether a participant, or the whole study, is paused now."""

    participant_id: str | None
    """None: the whole study."""
    paused: bool
    """Whether every decision point is unavailable."""


@dataclass(frozen=True)
class Withdrawal:
    """A participant who has left."""

    participant_id: str
    """The pseudonym."""
    withdrawn: bool
    """True from now on."""


@dataclass(frozen=True)
class Retries:
    """The number of attempts and the waits between them.

    Each wait is twice the last, less a random part of up to half, so that clients do not come back together. It is never
    shorter than the service's `Retry-After`.

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


def encode(**fields: Any) -> bytes:
    """A request."""
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"this cannot be sent as JSON ({error}); give numbers, texts, True, False and None") from error


def make_plain(value: Any, name: str) -> Value:
    """A value that JSON knows; NumPy's scalars become Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value}, which is not a finite number; give None where it is missing")
    if not isinstance(value, Value):
        raise InputError(f"{name} is of type {type(value).__name__}; give a number, a text, True, False or None")
    return value


def format_time(moment: datetime) -> str:
    """ISO 8601 with a zone."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InputError(f"timestamp is {moment!r}; give a datetime with a time zone, like datetime.now(UTC)")
    return moment.isoformat()


def read_reply(path: str, reply: httpx2.Response, read: Callable[[Any], T]) -> T:
    """The answer, or the error that it is."""
    status = reply.status_code
    try:
        given = json.loads(reply.content)
        if reply.is_success:
            return read(given)
        code, message, field = (given["error"][name] for name in ("code", "message", "field"))
    except (ValueError, KeyError, TypeError) as error:
        if status not in FROM_ANYBODY:
            words = (
                f"{path} was answered {status} in words that are not Surefoot's; is the URL right, and is the client as new"
            )
            raise UnexpectedAnswerError(f"{words} as the service?") from error
        code = "unknown"
        message = "the service, or a proxy before it, gave no reason"
        field = None
    refusal = KINDS.get(status, ApiError)(status, str(code), str(message), field, reply.headers.get("x-request-id"))
    retry_after = reply.headers.get("retry-after")
    milliseconds = reply.headers.get("retry-after-ms", "")
    if isinstance(refusal, UnavailableError) and retry_after is not None:
        # A number of milliseconds or seconds, or a date.
        if milliseconds.strip().isdecimal():
            refusal.retry_after = float(milliseconds) / 1000
        elif retry_after.strip().isdecimal():
            refusal.retry_after = float(retry_after)
        else:
            with suppress(ValueError, TypeError):
                moment = parsedate_to_datetime(retry_after)
                refusal.retry_after = max(0.0, (moment - datetime.now(UTC)).total_seconds())
    raise refusal
