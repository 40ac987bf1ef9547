"""The tables, and a decision, defined once. Decisions, outcomes and activations are only ever added to.

The fields of `DecisionRecord` are the columns of the table `decisions`, the fields of its digest in the ledger, its columns
in the export, and the reply of the API. A new field here is new in all four; it is nullable, because earlier rows lack it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pydantic_core
import sqlalchemy as sa
from pydantic import BaseModel, Field, create_model

from surefoot.service.database.clock import Instant

Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is INTEGER."""
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
        return values | {name: to_json(values[name]) for name in WRITTEN}


_hints = get_type_hints(DecisionRecord, include_extras=True)
KINDS = {field.name: get_args(_hints[field.name])[0] for field in fields(DecisionRecord)}
"""The Python type of every field."""
STORED: dict[str, Stored] = {name: get_args(_hints[name])[1] for name in KINDS}
LISTS = tuple(name for name, kind in KINDS.items() if get_origin(kind) is list)
"""Fields that the database holds as JSON lists."""
WRITTEN = tuple(name for name, kind in KINDS.items() if get_origin(kind) in (list, dict))
"""Fields that the database holds as JSON."""
MOMENTS = tuple(name for name, stored in STORED.items() if stored.type is Instant)
"""Fields that the database holds as microseconds."""
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
    return to_json({**reply, "action_name": action_name, "warnings": warnings})


def to_json(value: Any) -> str:
    """A value as text; a decision has six, and Python's own writer needs several times as long."""
    return pydantic_core.to_json(value).decode()


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    },
)


def _table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *items)


def _column(name: str, kind: Any, *items: Any, **options: Any) -> sa.Column[Any]:
    """A column that is never null."""
    return sa.Column(name, kind, *items, nullable=False, **options)


def _key(name: str, kind: Any = Serial, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, **options)


secrets = _table("secrets", _key("name", sa.String(32)), _column("value", sa.LargeBinary))

studies = _table(
    "studies",
    _key("id", sa.String(64), comment="SHA-256 of the text"),
    _column("text", sa.Text),
    _column("first_used", Instant),
)

keys = _table(
    "keys",
    _key("prefix", sa.String(16)),
    _column("digest", sa.LargeBinary, comment="SHA-256 of the whole key"),
    _column("role", sa.String(16)),
    _column("label", sa.String(200)),
    _column("created_at", Instant),
    sa.Column("expires_at", Instant, comment="null: the key does not expire"),
    sa.Column("revoked_at", Instant),
)

participants = _table("participants", _key("id", sa.String(64)), _column("registered_at", Instant))

updates = _table(
    "updates",
    _key("id"),
    _column("state", sa.String(16)),
    sa.Column("slot", sa.Integer, unique=True, comment="1 while the update runs, else null: one update at a time"),
    _column("started_by", sa.String(64)),
    _column("created_at", Instant),
    _column("beat_at", Instant, comment="the last sign of life"),
    sa.Column("host", sa.String(255)),
    sa.Column("process", sa.Integer),
    sa.Column("finished_at", Instant),
    _column("findings", sa.Text, comment="JSON: findings of the policy checks"),
    _column("result", sa.Text, comment="JSON: counts, rows removed and why"),
    sa.Column("message", sa.Text),
    sa.Column("read_at", Instant, comment="moment at which the fit read the logs"),
    sa.Column("learned_from", sa.Text, comment="JSON: ranges of decision_idx by participant"),
)

policies = _table(
    "policies",
    _key("id"),
    sa.Column("update_id", Serial, sa.ForeignKey("updates.id"), unique=True),
    _column("study_id", sa.String(64), sa.ForeignKey("studies.id")),
    _column("created_at", Instant),
    _column("accepted", sa.Boolean, comment="whether it passed the policy checks"),
    _column("content", sa.Text, comment="JSON as surefoot.policies writes it"),
)

activations = _table(
    "activations",
    _key("id"),
    _column("policy_id", Serial, sa.ForeignKey("policies.id")),
    _column("activated_at", Instant),
    _column("activated_by", sa.String(64)),
)
"""The newest row is the live policy."""

decisions = _table(
    "decisions",
    *make_columns(),
    sa.UniqueConstraint("participant_id", "decision_idx", name="uq_decisions_point"),
    sa.Index("ix_decisions_received_at", "received_at"),
    sa.Index("ix_decisions_participant_decided_at", "participant_id", "decided_at"),
)

outcomes = _table(
    "outcomes",
    _key("id"),
    _column("decision_id", sa.String(32), sa.ForeignKey("decisions.id"), index=True),
    _column("fingerprint", sa.String(64), unique=True, comment="of the content", info={"erased": "erased {id}"}),
    sa.Column("outcome", sa.Double, comment="null: known to be missing", info={"erased": None}),
    _column("observed_at", Instant, comment="the client's timestamp"),
    _column("received_at", Instant),
    _column("late", sa.Boolean),
    sa.Column("echoed_probability", sa.Double, info={"erased": None}),
    sa.Column("salt", sa.LargeBinary, comment="of the digest of the value; null: it was erased"),
)

LOOKED = "schedule: looked"
SIGNS_OF_LIFE = ("readiness", LOOKED)
"""Jobs that are written again and again to show that the service lives, and decide nothing."""
STEADY = "schedule: steady since"
"""The job that is written whenever the service notices that its clock was set."""
scheduled = _table(
    "scheduled",
    _key("job", sa.String(64), comment="job and moment; the process that inserts it runs it"),
    _column("taken_at", Instant),
)

alerts = _table(
    "alerts",
    _key("id"),
    _column("occasion", sa.String(128), unique=True, comment="one alert for each"),
    _column("kind", sa.String(32)),
    _column("message", sa.Text),
    _column("raised_at", Instant),
    sa.Column("closed_at", Instant),
    sa.Column("times", sa.Integer, comment="how often it came on its day; null: not counted"),
)

participant_events = _table(
    "participant_events",
    _key("id"),
    sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), index=True, comment="null: the study"),
    _column("kind", sa.String(16)),
    _column("reason", sa.Text),
    _column("happened_at", Instant),
    _column("done_by", sa.String(64)),
)

ended_sessions = _table(
    "ended_sessions", _key("digest", sa.LargeBinary, comment="SHA-256 of the cookie"), _column("ended_at", Instant)
)
"""Sessions that were signed out before their time; the staff trail has each of them as `SIGNED_OUT`."""
SIGNED_OUT = "signed out"
"""The action on the staff trail that ends a session, whose digest is its subject."""

sign_ins = _table(
    "sign_ins",
    _key("id"),
    _column("address", sa.LargeBinary, comment="keyed hash of the address", index=True),
    _column("tried_at", Instant),
)
"""Attempts of the last minute, right or wrong, at all workers."""

ledger = _table(
    "ledger",
    _key("position", Serial, autoincrement=False),
    _column("recorded_at", Instant),
    _column("entries", sa.Text, comment="JSON list of [kind, key, digest, digest of erasable content]"),
    _column("hash", sa.LargeBinary, comment="SHA-256 of the previous hash and of this block"),
)

staff_actions = _table(
    "staff_actions",
    _key("id"),
    _column("done_at", Instant, index=True),
    _column("done_by", sa.String(64)),
    _column("action", sa.String(32)),
    _column("subject", sa.String(128), comment="participant, key or file that the action concerns"),
    _column("detail", sa.Text),
)

erasures = _table(
    "erasures",
    _key("id"),
    sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), comment="null: everybody"),
    sa.Column("received_before", Instant, comment="erases content received before; null: all content"),
    _column("reason", sa.Text),
    _column("erased_at", Instant),
    _column("done_by", sa.String(64)),
    _column("decisions", sa.Integer, comment="number erased"),
    _column("outcomes", sa.Integer, comment="number erased"),
    sa.Column("adverse_events", sa.Integer, comment="number whose description was erased"),
)

adverse_events = _table(
    "adverse_events",
    _key("id"),
    _column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), index=True),
    sa.Column("corrects", Serial, sa.ForeignKey("adverse_events.id"), comment="the first record of the event; null: this"),
    _column("happened_at", Instant, comment="as staff say"),
    _column("serious", sa.Boolean),
    _column("related", sa.String(16), comment="to the prompts, as staff judge it"),
    _column("description", sa.Text, info={"erased": ""}),
    _column("recorded_at", Instant),
    _column("recorded_by", sa.String(64)),
    sa.Column("salt", sa.LargeBinary, comment="of the digest of the description; null: it was erased"),
)

messages = _table(
    "messages",
    _key("id"),
    _column("channel", sa.String(16)),
    _column("occasion", sa.String(128), comment="one message by each channel"),
    _column("kind", sa.String(32)),
    _column("content", sa.Text, comment="JSON: title and text, without ids and values"),
    _column("created_at", Instant),
    _column("due_at", Instant, comment="moment of the next attempt"),
    _column("attempts", sa.Integer),
    sa.Column("sent_at", Instant),
    sa.Column("delivery", Serial, comment="the first of the messages that left together"),
    sa.Column("error", sa.Text, comment="why the last attempt failed"),
    sa.UniqueConstraint("channel", "occasion", name="uq_messages_occasion"),
)

APPEND_ONLY = (studies, policies, activations, participant_events, ledger, staff_actions, erasures)
"""Tables whose rows the database itself refuses to change or delete."""
ERASABLE = (decisions, outcomes, adverse_events)
"""Tables in which content can be erased, and nothing else changed."""


def list_erasable(table: sa.Table) -> dict[str, str | None]:
    """The columns that an erasure empties, each with the value that it leaves; `{id}` stands for the row's."""
    return {column.name: column.info["erased"] for column in table.c if "erased" in column.info}


def _execute(target: Any, event: str, dialect: str, statement: str) -> None:
    ddl = sa.DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    sa.event.listen(target, event, ddl.execute_if(dialect=dialect))


def _protect(table: sa.Table) -> None:
    """Let the database itself refuse changes to evidence, except the erasure of all content of a row."""
    erasable = {**list_erasable(table), "salt": None}
    blanks = []
    for column, blank in erasable.items():
        text = f"'{blank}'".replace("{id}'", "' || OLD.id")
        blanks.append(f"NEW.{column} IS NULL" if blank is None else f"NEW.{column} = {text}")
    for dialect, same, action in (
        ("sqlite", "IS", f"BEGIN SELECT RAISE(ABORT, '{table.name} is append-only'); END"),
        ("postgresql", "IS NOT DISTINCT FROM", "EXECUTE FUNCTION surefoot_append_only()"),
    ):
        unchanged = [f"NEW.{column.name} {same} OLD.{column.name}" for column in table.c if column.name not in erasable]
        erases = f"WHEN (NOT ({' AND '.join([*blanks, *unchanged])}))" if "salt" in table.c else ""
        for event, how in (("UPDATE", f"FOR EACH ROW {erases}"), ("DELETE", "FOR EACH ROW"), ("TRUNCATE", "")):
            trigger = f"CREATE TRIGGER {table.name}_no_{event.lower()} BEFORE {event} ON {table.name} {how} {action}"
            if event != "TRUNCATE" or dialect == "postgresql":
                _execute(table, "after_create", dialect, trigger)


_execute(
    metadata,
    "before_create",
    "postgresql",
    "CREATE FUNCTION surefoot_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$",
)
for _evidence in (*APPEND_ONLY, *ERASABLE):
    _protect(_evidence)
