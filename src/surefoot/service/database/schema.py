"""The tables. Decisions, outcomes and activations are only ever added to; what counts now follows from them."""

import sqlalchemy as sa

from surefoot.service.database import decision_record
from surefoot.service.database.column_types import Instant, Serial

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

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
    *decision_record.make_columns(),
    sa.UniqueConstraint("participant_id", "decision_idx", name="uq_decisions_point"),
    sa.Index("ix_decisions_received_at", "received_at"),
)

outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("id", Serial, primary_key=True),
    sa.Column("decision_id", sa.String(32), sa.ForeignKey("decisions.id"), nullable=False, index=True),
    sa.Column(
        "fingerprint",
        sa.String(64),
        nullable=False,
        unique=True,
        comment="of decision, time and value",
        info={"erased": "erased {id}"},
    ),
    sa.Column("proximal_outcome", sa.Double, comment="null: known to be missing", info={"erased": None}),
    sa.Column("observed_at", Instant, nullable=False, comment="the client's timestamp"),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("late", sa.Boolean, nullable=False),
    sa.Column("echoed_probability", sa.Double, info={"erased": None}),
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

APPEND_ONLY = (studies, policies, activations, participant_events, ledger, staff_actions, erasures)
"""Tables whose rows the database itself refuses to change or delete."""
ERASABLE = (decisions, outcomes)
"""Tables in which content can be erased, and nothing else changed."""


def list_erasable(table: sa.Table) -> dict[str, str | None]:
    """The columns that an erasure empties, each with the value that it leaves; `{id}` stands for the row's."""
    return {column.name: column.info["erased"] for column in table.c if "erased" in column.info}


def _protect(table: sa.Table) -> None:
    """Let the database itself refuse changes to evidence, except the erasure of all content of a row."""
    name = table.name
    erasable = list_erasable(table)
    blanks = " AND ".join(_compare_blank(column, blank) for column, blank in {**erasable, "salt": None}.items())
    fixed = [column.name for column in table.c if column.name not in erasable and column.name != "salt"]
    for dialect, same in (("sqlite", "IS"), ("postgresql", "IS NOT DISTINCT FROM")):
        unchanged = " AND ".join(f"NEW.{column} {same} OLD.{column}" for column in fixed)
        when = f"WHEN (NOT ({blanks} AND {unchanged}))" if erasable else ""
        for event, condition in (("UPDATE", when), ("DELETE", "")):
            if dialect == "sqlite":
                action = f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END"
            else:
                action = "EXECUTE FUNCTION surefoot_append_only()"
            trigger = f"CREATE TRIGGER {name}_no_{event.lower()} BEFORE {event} ON {name} FOR EACH ROW {condition} {action}"
            _execute_after(table, dialect, trigger)
    truncate = f"CREATE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {name} EXECUTE FUNCTION surefoot_append_only()"
    _execute_after(table, "postgresql", truncate)


def _compare_blank(column: str, blank: str | None) -> str:
    if blank is None:
        return f"NEW.{column} IS NULL"
    text = f"'{blank}'".replace("{id}'", "' || OLD.id")
    return f"NEW.{column} = {text}"


def _execute_after(table: sa.Table, dialect: str, statement: str) -> None:
    ddl = sa.DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", ddl.execute_if(dialect=dialect))


_append_only = sa.DDL(  # type: ignore[no-untyped-call]
    "CREATE FUNCTION surefoot_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION '%% is append-only', TG_TABLE_NAME; END $$"
)
sa.event.listen(metadata, "before_create", _append_only.execute_if(dialect="postgresql"))
for _table in (*APPEND_ONLY, *ERASABLE):
    _protect(_table)
