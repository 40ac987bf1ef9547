"""Requests, replies and errors of the API, as the OpenAPI description gives them."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import HTTPException
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from surefoot.errors import did_you_mean

LARGEST = 2**53
"""Whole numbers beyond it lose digits as floats."""


class ApiError(HTTPException):
    """An honest 4xx or 5xx; the body is `{"error": {"code", "message", "field"}}`."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.field = field


def error_body(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"code": code, "message": message, "field": field}}


def _text(value: Any) -> Any:
    # Digits alone would be read as seconds since 1970.
    if not isinstance(value, str | datetime) or (isinstance(value, str) and value.replace(".", "").isdigit()):
        raise ValueError("write the time as text in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00")
    return value


ParticipantId = Annotated[
    str, Field(pattern=r"^\.*[A-Za-z0-9_\-][A-Za-z0-9_.\-]*$", max_length=64, examples=["p-017"], strict=True)
]
"""Not of dots alone: `.` and `..` have a meaning in the paths of URLs and files."""
DECISION_ID = re.compile(r"[0-9a-f]{32}")
DecisionId = Annotated[str, Field(pattern=f"^{DECISION_ID.pattern}$", strict=True)]
Timestamp = Annotated[AwareDatetime, BeforeValidator(_text), Field(examples=["2026-03-01T09:30:00+01:00"])]
Reason = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=-LARGEST, le=LARGEST)]
Flag = Annotated[bool, Field(strict=True)]
Value = Flag | Whole | Finite | Annotated[str, Field(strict=True, max_length=200)] | None
Name = Annotated[str, Field(min_length=1, max_length=100)]


class RequestModel(BaseModel):
    """Unknown fields are refused: a misspelt one would be lost in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_every_field(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                context = {"field": str(name)[:100], "near": did_you_mean(str(name), cls.model_fields)}
                context["known"] = ", ".join(cls.model_fields)
                raise PydanticCustomError("unknown_field", "there is no field '{field}'{near}; there are {known}", context)
        return given


class Registration(RequestModel):
    """A participant, by a pseudonym."""

    participant_id: ParticipantId


class Participant(BaseModel):
    """A participant that the study knows."""

    participant_id: str
    registered_at: datetime


class NextDecision(BaseModel):
    """Where a participant stands, for an app that has forgotten it."""

    participant_id: str
    last_decision_idx: int | None
    """Null before the first decision point."""
    last_timestamp: datetime | None
    next_decision_idx: int
    not_before: datetime | None
    """The earliest timestamp that the next decision point may have; null: any."""
    paused: bool
    """The participant, or the study: decision points are recorded as unavailable."""
    withdrawn: bool
    """Nothing more is asked for."""


class DecisionRequest(RequestModel):
    """One decision point."""

    participant_id: ParticipantId
    decision_idx: Annotated[int, Field(ge=0, lt=2**31, strict=True)]
    timestamp: Timestamp
    availability: Flag
    reasons: Annotated[list[Reason], Field(default_factory=list, max_length=20)]
    """Why the participant is not available; at least one then."""
    context: Annotated[dict[Name, Value], Field(default_factory=dict, max_length=200)]
    """By the names of the study's state variables."""

    @model_validator(mode="after")
    def _reasons_are_given(self) -> Self:
        if not self.availability and not self.reasons:
            raise ValueError("say in reasons why the participant is not available, for example ['driving']")
        return self


class Outcome(RequestModel):
    """What came after a decision point; null means that it is known to be missing."""

    decision_id: DecisionId
    outcome: Finite | Whole | None
    timestamp: Timestamp
    action_prob: Annotated[Finite | Whole | None, Field(ge=0, le=1)] = None
    """The probability of the action taken as the client believes it; compared, never used."""


@dataclass(frozen=True)
class InvalidOutcome:
    """An item of a batch that is wrong in form."""

    decision_id: str | None
    """As it was sent, where it is an id."""
    problem: Any
    """The first that pydantic found."""


def _keep_invalid(given: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(given)
    except ValidationError as error:
        sent = given.get("decision_id") if isinstance(given, dict) else None
        is_id = isinstance(sent, str) and DECISION_ID.fullmatch(sent)
        return InvalidOutcome(sent if is_id else None, error.errors(include_url=False)[0])


class Outcomes(RequestModel):
    """Several outcomes at once."""

    outcomes: Annotated[list[Annotated[Outcome, WrapValidator(_keep_invalid)]], Field(min_length=1, max_length=1000)]
    """One that is wrong in form is refused alone."""


def _batch_or_one(given: Any) -> str:
    batch = "outcomes" in given if isinstance(given, dict) else isinstance(given, Outcomes)
    return "Outcomes" if batch else "Outcome"


OutcomeOrBatch = Annotated[
    Annotated[Outcome, Tag("Outcome")] | Annotated[Outcomes, Tag("Outcomes")], Discriminator(_batch_or_one)
]
"""The field `outcomes` tells which of the two is meant, so that errors are about that one."""


class OutcomeReceipt(BaseModel):
    """What became of one outcome."""

    decision_id: str | None
    """Null where none could be read."""
    status: Literal[
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
    """`refused`: it is wrong in form, as `message` says."""
    action_prob_agrees: bool | None
    """Whether the echoed probability is the recorded one; null when none was sent."""
    message: str | None = None
    """What is wrong with it."""
    field: str | None = None
    """Where, with its position in the batch."""


class OutcomeReceipts(BaseModel):
    """In the order of the request."""

    results: list[OutcomeReceipt]


class ReasonedRequest(RequestModel):
    """Why; kept on record."""

    reason: Reason


class Pause(BaseModel):
    """What holds now."""

    participant_id: str | None
    """None: the whole study."""
    paused: bool


class Withdrawal(BaseModel):
    """Who has left."""

    participant_id: str
    withdrawn: bool


class SafetyCounts(BaseModel):
    """What a safety board looks at: counts over the whole study."""

    at: datetime
    participants: int
    withdrawn: int
    paused: int
    erased: int
    """Participants whose content was erased."""
    study_paused: bool
    decisions: int
    available: int
    decisions_last_day: int
    fallbacks_last_day: int
    most_prompts_in_a_day: int
    """To any one participant, in the last seven days of 24 hours each."""
    open_alerts: int
    refused_updates: int
    reasons: list[str]
    """For withdrawals and pauses, the newest first, without whom they were about."""


class ErrorDetail(BaseModel):
    """What went wrong, where, and what to do."""

    code: str
    message: str
    field: str | None


class ErrorReply(BaseModel):
    """Every error has this shape."""

    error: ErrorDetail


class UpdateStatus(BaseModel):
    """An update and how far it is."""

    id: int
    state: Literal["queued", "fitting", "checking", "done", "waiting", "refused", "failed", "interrupted"]
    started_by: str
    created_at: datetime
    finished_at: datetime | None
    policy_id: int | None
    findings: list[dict[str, Any]]
    result: dict[str, Any]
    message: str | None


class PolicySummary(BaseModel):
    """One version."""

    id: int
    created_at: datetime
    update_id: int | None
    accepted: bool
    live: bool
    activations: list[dict[str, Any]]
    method: str
    states: list[str]
    actions: list[str]
    people: int | None
    """None: one policy for everyone."""
    coefficients: list[dict[str, Any]]


class PolicyList(BaseModel):
    """Newest first."""

    policies: list[PolicySummary]


class Activation(BaseModel):
    """The policy that is live now."""

    policy_id: int
    previous_policy_id: int | None
