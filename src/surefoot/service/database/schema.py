"""The tables. Decisions, outcomes and activations are only ever added to; what counts now follows from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


class Instant(sa.TypeDecorator[datetime]):
    """A moment with a zone, kept as microseconds since 1970 in UTC: the same on every database, to the last digit."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is INTEGER."""

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

studies = sa.Table(
    "studies",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True, comment="SHA-256 of the text"),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("first_used", Instant, nullable=False),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("prefix", sa.String(16), primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the whole key"),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("label", sa.String(200), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, comment="null: the key does not expire"),
    sa.Column("revoked_at", Instant),
)

participants = sa.Table(
    "participants",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("registered_at", Instant, nullable=False),
)

updates = sa.Table(
    "updates",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("slot", sa.Integer, unique=True, comment="1 while the update runs, else null: one update at a time"),
    sa.Column("started_by", sa.String(64), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("beat_at", Instant, nullable=False, comment="the last sign of life"),
    sa.Column("host", sa.String(255)),
    sa.Column("process", sa.Integer),
    sa.Column("finished_at", Instant),
    sa.Column("findings", sa.Text, nullable=False, comment="JSON: findings of the policy checks"),
    sa.Column("result", sa.Text, nullable=False, comment="JSON: counts, rows removed and why"),
    sa.Column("message", sa.Text),
)

policies = sa.Table(
    "policies",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("update_id", Serial, sa.ForeignKey("updates.id"), unique=True),
    sa.Column("study_id", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("accepted", sa.Boolean, nullable=False, comment="whether it passed the policy checks"),
    sa.Column("content", sa.Text, nullable=False, comment="JSON as surefoot.policies writes it"),
)

activations = sa.Table(
    "activations",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("policy_id", Serial, sa.ForeignKey("policies.id"), nullable=False),
    sa.Column("activated_at", Instant, nullable=False),
    sa.Column("activated_by", sa.String(64), nullable=False),
)
"""The newest row is the live policy."""

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), nullable=False),
    sa.Column("decision_idx", sa.Integer, nullable=False),
    sa.Column("decided_at", Instant, nullable=False, comment="the client's timestamp"),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("study_id", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
    sa.Column("available", sa.Boolean, nullable=False),
    sa.Column("availability_reasons", sa.Text, nullable=False, comment="JSON list"),
    sa.Column("context", sa.Text, nullable=False, comment="JSON as it was sent"),
    sa.Column("state", sa.Text, nullable=False, comment="JSON: the policy's input, null where missing"),
    sa.Column("source", sa.String(16), nullable=False),
    sa.Column("fallback_reasons", sa.Text, nullable=False, comment="JSON list"),
    sa.Column("policy_id", Serial, sa.ForeignKey("policies.id")),
    sa.Column("probabilities", sa.Text, nullable=False, comment="JSON: of every action"),
    sa.Column("random_key", sa.String(128), nullable=False, comment="from which the uniform number was drawn"),
    sa.Column("uniform", sa.Double, nullable=False),
    sa.Column("action", sa.Integer, nullable=False),
    sa.Column("probability", sa.Double, nullable=False, comment="of the action taken"),
    sa.Column("reply", sa.Text, nullable=False, comment="the reply, byte for byte"),
    sa.Column("salt", sa.LargeBinary, comment="of the digest of reasons, context and state; null: they were erased"),
    sa.UniqueConstraint("participant_id", "decision_idx", name="uq_decisions_point"),
    sa.Index("ix_decisions_received_at", "received_at"),
)

outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("decision_id", sa.String(32), sa.ForeignKey("decisions.id"), nullable=False, index=True),
    sa.Column("fingerprint", sa.String(64), nullable=False, unique=True, comment="of decision, time and value"),
    sa.Column("proximal_outcome", sa.Double, comment="null: known to be missing"),
    sa.Column("observed_at", Instant, nullable=False, comment="the client's timestamp"),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("late", sa.Boolean, nullable=False),
    sa.Column("echoed_probability", sa.Double),
    sa.Column("salt", sa.LargeBinary, comment="of the digest of the value; null: it was erased"),
)

scheduled = sa.Table(
    "scheduled",
    metadata,
    sa.Column("job", sa.String(64), primary_key=True, comment="job and moment; the process that inserts it runs it"),
    sa.Column("taken_at", Instant, nullable=False),
)

alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("occasion", sa.String(128), nullable=False, unique=True, comment="one alert for each"),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("raised_at", Instant, nullable=False),
    sa.Column("closed_at", Instant),
)

participant_events = sa.Table(
    "participant_events",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column(
        "participant_id", sa.String(64), sa.ForeignKey("participants.id"), index=True, comment="null: the whole study"
    ),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("happened_at", Instant, nullable=False),
    sa.Column("done_by", sa.String(64), nullable=False),
)

ended_sessions = sa.Table(
    "ended_sessions",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
    sa.Column("ended_at", Instant, nullable=False),
)
"""Sessions that were signed out before their time."""

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("position", Serial, primary_key=True, autoincrement=False),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("entries", sa.Text, nullable=False, comment="JSON list of [kind, key, digest, digest of erasable content]"),
    sa.Column("hash", sa.LargeBinary, nullable=False, comment="SHA-256 of the previous hash and of this block"),
)

staff_actions = sa.Table(
    "staff_actions",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("done_at", Instant, nullable=False, index=True),
    sa.Column("done_by", sa.String(64), nullable=False),
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("subject", sa.String(128), nullable=False, comment="participant, key or file that the action concerns"),
    sa.Column("detail", sa.Text, nullable=False),
)

erasures = sa.Table(
    "erasures",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), comment="null: everybody"),
    sa.Column("received_before", Instant, comment="erases content received before; null: all content"),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("erased_at", Instant, nullable=False),
    sa.Column("done_by", sa.String(64), nullable=False),
    sa.Column("decisions", sa.Integer, nullable=False, comment="number erased"),
    sa.Column("outcomes", sa.Integer, nullable=False, comment="number erased"),
)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("channel", sa.String(16), nullable=False),
    sa.Column("occasion", sa.String(128), nullable=False, comment="one message by each channel"),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("content", sa.Text, nullable=False, comment="JSON: title and text, without ids and values"),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("due_at", Instant, nullable=False, comment="moment of the next attempt"),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("sent_at", Instant),
    sa.Column("delivery", Serial, comment="the first of the messages that left together"),
    sa.Column("error", sa.Text, comment="why the last attempt failed"),
    sa.UniqueConstraint("channel", "occasion", name="uq_messages_occasion"),
)

APPEND_ONLY = (
    *("studies", "policies", "activations", "decisions", "outcomes", "participant_events"),
    *("ledger", "staff_actions", "erasures"),
)
"""Tables whose rows the database itself refuses to change or delete. In decisions and outcomes content can be erased, and
nothing else changed."""
