"""What is asked and what is answered: every request is built here, every answer read here, without any network."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from surefoot.errors import InputError

log = logging.getLogger("surefoot.client")
Value = bool | int | float | str | None
"""Of a context variable; None where it is missing."""
Source = Literal["warm-up", "policy", "fallback", "unavailable"]
Status = Literal["recorded", "repeated", "late", "unknown_decision", "before_decision", "withdrawn", "erased", "refused"]
KEPT = ("recorded", "repeated", "late")
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

    @classmethod
    def read(cls, given: Any) -> Participant:
        return cls(given["participant_id"], datetime.fromisoformat(given["registered_at"]))


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
            # Answers of earlier releases have none.
            warnings=tuple(given.get("warnings", ())),
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
        return self.status in KEPT

    @classmethod
    def read(cls, given: Any) -> Receipt:
        return cls(str(given["decision_id"]), given["status"], given["action_prob_agrees"])


@dataclass(frozen=True)
class Pause:
    """Whether a participant, or the whole study, is paused now."""

    participant_id: str | None
    """None: the whole study."""
    paused: bool
    """Whether every decision point is unavailable."""

    @classmethod
    def read(cls, given: Any) -> Pause:
        return cls(given["participant_id"], bool(given["paused"]))


@dataclass(frozen=True)
class Withdrawal:
    """A participant who has left."""

    participant_id: str
    """The pseudonym."""
    withdrawn: bool
    """True from now on."""

    @classmethod
    def read(cls, given: Any) -> Withdrawal:
        return cls(given["participant_id"], bool(given["withdrawn"]))


def ask_registration(participant_id: str) -> Call[Participant]:
    """Register a participant."""
    return Call("/participants", _encode({"participant_id": participant_id}), Participant.read)


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
        receipts = [Receipt.read(result) for result in given["results"]]
        if len(receipts) != len(texts):
            raise ValueError("there is not one receipt for each outcome")
        return receipts

    return Call("/outcomes", f'{{"outcomes": [{", ".join(texts)}]}}'.encode(), read)


def ask_pause(participant_id: str | None, change: Change, reason: str) -> Call[Pause]:
    """Pause or resume a participant, or the study (None)."""
    whom = "/study" if participant_id is None else _participant_path(participant_id)
    return Call(f"{whom}/{change}", _encode({"reason": reason}), Pause.read)


def ask_withdrawal(participant_id: str, reason: str) -> Call[Withdrawal]:
    """A participant leaves."""
    return Call(f"{_participant_path(participant_id)}/withdraw", _encode({"reason": reason}), Withdrawal.read)


def _participant_path(participant_id: str) -> str:
    return f"/participants/{quote(participant_id, safe='')}"


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
