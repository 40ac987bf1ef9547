"""Requests and replies without any network: what to send, when to send it again, and what the answer means.

`ask` and `deliver` are generators: they yield the next attempt and are sent its reply. `Client` and `AsyncClient` run the
same generators; only how they send and wait differs.
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

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
Value = bool | int | float | str | None
"""Of a context variable; None where it is missing."""
Source = Literal["warm-up", "policy", "fallback", "unavailable"]
Status = Literal["recorded", "repeated", "late", "unknown_decision", "before_decision", "withdrawn", "erased", "refused"]
Change = Literal["pause", "resume"]
OUTCOMES_PER_BATCH = 1000
"""The most that the service takes at once."""
T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, whole before it is sent for the first time: a retry repeats it byte for byte."""

    path: str
    content: bytes
    read: Callable[[Any], T]


@dataclass(frozen=True)
class Participant:
    """A participant that the study knows."""

    participant_id: str
    """The pseudonym."""
    registered_at: datetime
    """By the service's clock."""


@dataclass(frozen=True)
class Decision:
    """What the service drew at a decision point, and recorded before it answered.

    Attributes
    ----------
    decision_id : str
        Outcomes are sent back under it.
    action, action_name : int, str
        What to do; action 0 is to do nothing.
    probabilities : tuple of float
        Of each action, in their order.
    source : str
        Who decided: `warm-up`, `policy`, `fallback` or `unavailable`.
    reasons : tuple of str
        Why the fallback decided, or the service made the decision point unavailable.
    policy_id : int or None
        The policy version that decided.
    warnings : tuple of str
        What to mend in the context, such as a misspelt name; also logged by `surefoot.client`.
    """

    decision_id: str
    action: int
    action_name: str
    probabilities: tuple[float, ...]
    source: Source
    reasons: tuple[str, ...]
    policy_id: int | None
    warnings: tuple[str, ...] = ()

    @property
    def probability(self) -> float:
        """Of the action that was drawn."""
        return self.probabilities[self.action]

    def outcome(self, proximal_outcome: float | None, timestamp: datetime) -> Outcome:
        """What came back, ready to be sent; it echoes the probability, which the service compares with its record."""
        return Outcome(self.decision_id, proximal_outcome, timestamp, self.probability)

    @classmethod
    def read(cls, given: Any) -> Decision:
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
    """What came after a decision point.

    Attributes
    ----------
    decision_id : str
        Of the decision that it belongs to.
    proximal_outcome : float or None
        None where it is known to be missing.
    timestamp : datetime
        When it was measured, with a time zone.
    action_prob : float or None
        The probability of the action as the app knows it; compared by the service, never used.
    """

    decision_id: str
    proximal_outcome: float | None
    timestamp: datetime
    action_prob: float | None = None

    def text(self) -> str:
        """As JSON, on one line."""
        fields: dict[str, Value] = {
            "decision_id": self.decision_id,
            "proximal_outcome": _plain(self.proximal_outcome, "proximal_outcome"),
            "timestamp": _time(self.timestamp),
        }
        if self.action_prob is not None:
            fields["action_prob"] = _plain(self.action_prob, "action_prob")
        return json.dumps(fields)


@dataclass(frozen=True)
class Receipt:
    """What became of one outcome.

    Attributes
    ----------
    decision_id : str
        Of the decision that it belongs to.
    status : str
        `recorded`, `repeated` (it was there already), `late` (recorded, but does not count); or, not kept by the service,
        `unknown_decision`, `before_decision`, `withdrawn`, `erased` and `refused`.
    probability_agrees : bool or None
        Whether the echoed probability is the recorded one; None when none was sent.
    reason : str or None
        Why it was refused.
    """

    decision_id: str
    status: Status
    probability_agrees: bool | None = None
    reason: str | None = None

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


def ask_registration(participant_id: str) -> Call[Participant]:
    """Register a participant."""

    def read(given: Any) -> Participant:
        return Participant(given["participant_id"], datetime.fromisoformat(given["registered_at"]))

    return Call("/participants", _encode({"participant_id": participant_id}), read)


def ask_decision(
    participant_id: str,
    decision_idx: int,
    timestamp: datetime,
    context: Mapping[str, Value],
    availability: bool,
    reasons: Sequence[str],
) -> Call[Decision]:
    """Decide one decision point."""
    if isinstance(reasons, str):
        raise InputError(f"reasons is a list of texts; write [{reasons!r}]")
    fields = {
        "participant_id": participant_id,
        "decision_idx": _plain(decision_idx, "decision_idx"),
        "timestamp": _time(timestamp),
        "availability": availability,
        "reasons": list(reasons),
        "context": {name: _plain(value, f"context['{name}']") for name, value in context.items()},
    }
    return Call("/decisions", _encode(fields), Decision.read)


def ask_outcomes(texts: Sequence[str]) -> Call[list[Receipt]]:
    """Record outcomes, each given as its JSON text."""

    def read(given: Any) -> list[Receipt]:
        results = given["results"]
        receipts = [
            Receipt(str(result["decision_id"]), result["status"], result["action_prob_agrees"]) for result in results
        ]
        if len(receipts) != len(texts):
            raise ValueError("there is not one receipt for each outcome")
        return receipts

    return Call("/outcomes", f'{{"outcomes": [{", ".join(texts)}]}}'.encode(), read)


def ask_pause(participant_id: str | None, change: Change, reason: str) -> Call[Pause]:
    """Pause or resume a participant, or the study (None)."""
    path = "/study" if participant_id is None else f"/participants/{quote(participant_id, safe='')}"
    content = _encode({"reason": reason})
    return Call(f"{path}/{change}", content, lambda given: Pause(given["participant_id"], given["paused"]))


def ask_withdrawal(participant_id: str, reason: str) -> Call[Withdrawal]:
    """A participant leaves."""
    path = f"/participants/{quote(participant_id, safe='')}/withdraw"
    content = _encode({"reason": reason})
    return Call(path, content, lambda given: Withdrawal(given["participant_id"], given["withdrawn"]))


def _encode(fields: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(fields, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"this cannot be sent as JSON ({error}); give numbers, texts, True, False and None") from error


def _plain(value: Any, name: str) -> Value:
    """A value that JSON knows; NumPy's scalars become Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value}, which is not a finite number; give None where it is missing")
    if not isinstance(value, Value):
        raise InputError(f"{name} is of type {type(value).__name__}; give a number, a text, True, False or None")
    return value


def _time(moment: datetime) -> str:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InputError(f"timestamp is {moment!r}; give a datetime with a time zone, like datetime.now(UTC)")
    return moment.isoformat()


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
    refusal = KINDS.get(reply.status, ApiError)(reply.status, code, message, field, reply.headers.get("x-request-id"))
    if isinstance(refusal, UnavailableError):
        refusal.retry_after = _read_seconds(reply.headers.get("retry-after"))
    raise refusal


def _read_seconds(retry_after: str | None) -> float | None:
    """A number of seconds, or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
