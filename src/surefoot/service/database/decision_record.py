"""A decision, defined once.

The fields of `DecisionRecord` are the columns of the table `decisions`, the fields of its digest in the ledger, its columns
in the export, and the reply of the API. A new field here is new in all four; it is nullable, because earlier rows lack it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from pydantic import BaseModel, Field, create_model

from surefoot.service.database.clock import Instant

Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is INTEGER."""
to_json = json.JSONEncoder(sort_keys=True, allow_nan=False).encode
"""Text that is equal for equal values."""
Source = Literal["warm-up", "policy", "fallback", "unavailable"]


@dataclass(frozen=True)
class Stored:
    """How a field is stored, erased, exported and sent in the reply."""

    type: Any
    foreign_key: str | None = None
    comment: str | None = None
    nullable: bool = False
    erased: str | None = None
    """The value that an erasure leaves; None: the field is never erased."""
    export: str | None = None
    """Its name in the export."""
    reply: str | None = None
    """Its name in the reply to the app."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision point with its draw."""

    id: Annotated[str, Stored(sa.String(32), export="decision_id", reply="decision_id")]
    participant_id: Annotated[str, Stored(sa.String(64), "participants.id")]
    decision_idx: Annotated[int, Stored(sa.Integer, export="decision_idx")]
    decided_at: Annotated[datetime, Stored(Instant, comment="the client's timestamp", export="timestamp")]
    received_at: Annotated[datetime, Stored(Instant, export="received_at")]
    study_id: Annotated[str, Stored(sa.String(64), "studies.id")]
    available: Annotated[bool, Stored(sa.Boolean)]
    availability_reasons: Annotated[
        list[str], Stored(sa.Text, comment="JSON list", erased="[]", export="availability_reasons")
    ]
    context: Annotated[dict[str, Any], Stored(sa.Text, comment="JSON as it was sent", erased="{}")]
    state: Annotated[
        list[float | None], Stored(sa.Text, comment="JSON: the policy's input, null where missing", erased="[]")
    ]
    action: Annotated[int, Stored(sa.Integer, reply="action")]
    probabilities: Annotated[list[float], Stored(sa.Text, comment="JSON: of every action", reply="action_prob")]
    source: Annotated[Source, Stored(sa.String(16), export="source", reply="source")]
    fallback_reasons: Annotated[list[str], Stored(sa.Text, comment="JSON list", export="fallback_reasons", reply="reasons")]
    policy_id: Annotated[int | None, Stored(Serial, "policies.id", nullable=True, export="policy_id", reply="policy_id")]
    random_key: Annotated[str, Stored(sa.String(128), comment="from which the uniform number was drawn")]
    uniform: Annotated[float, Stored(sa.Double)]
    probability: Annotated[float, Stored(sa.Double, comment="of the action taken")]
    reply: Annotated[str, Stored(sa.Text, comment="the reply, byte for byte")]
    salt: Annotated[
        bytes | None,
        Stored(sa.LargeBinary, comment="of the digest of reasons, context and state; null: they were erased", nullable=True),
    ]

    def to_row(self) -> dict[str, Any]:
        """As the database holds it."""
        values = {name: getattr(self, name) for name in STORED}
        return {name: to_json(value) if isinstance(value, list | dict) else value for name, value in values.items()}


_hints = get_type_hints(DecisionRecord, include_extras=True)
KINDS = {field.name: get_args(_hints[field.name])[0] for field in fields(DecisionRecord)}
"""The Python type of every field."""
STORED: dict[str, Stored] = {name: get_args(_hints[name])[1] for name in KINDS}
LISTS = tuple(name for name, kind in KINDS.items() if get_origin(kind) is list)
"""Fields that the database holds as JSON lists."""
EXPORTED = {name: stored.export for name, stored in STORED.items() if stored.export is not None}
REPLIED = {name: stored.reply for name, stored in STORED.items() if stored.reply is not None}
DecisionReply: type[BaseModel] = create_model(
    "DecisionReply",
    __doc__="The draw, recorded before it was sent.",
    **{alias: (KINDS[name], ...) for name, alias in REPLIED.items()},
    action_name=(str, ...),
    warnings=(list[str], Field(default_factory=list)),
)  # type: ignore[call-overload]
"""`action_prob` has the probability of every action, `reasons` why the fallback decided, `warnings` what the client should
mend."""


def make_columns() -> list[sa.Column[Any]]:
    """The columns of the table `decisions`."""
    columns = []
    for name, stored in STORED.items():
        foreign = [] if stored.foreign_key is None else [sa.ForeignKey(stored.foreign_key)]
        info = {} if stored.erased is None else {"erased": stored.erased}
        options: dict[str, Any] = {"nullable": stored.nullable, "comment": stored.comment, "info": info}
        columns.append(sa.Column(name, stored.type, *foreign, primary_key=name == "id", **options))
    return columns


def make_reply(decision: Mapping[str, Any], action_name: str, warnings: list[str]) -> str:
    """The reply to a decision point, as text."""
    reply = {alias: decision[name] for name, alias in REPLIED.items()}
    return json.dumps({**reply, "action_name": action_name, "warnings": warnings})
