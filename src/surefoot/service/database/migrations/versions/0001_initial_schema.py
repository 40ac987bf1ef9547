"""Initial schema.

It repeats the tables of `schema.py` on purpose: a migration stays as it is when the tables change later.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# Each statement of the function sees everything committed before it: first the lock, then whether anything changed. The lock
# is the ledger's, which every decision waits for anyway.
RECORD_DECISIONS = """
CREATE FUNCTION surefoot_record_decisions(assumed json, added json, moment bigint, content text, digest bytea)
RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_advisory_xact_lock(7355204);
  IF EXISTS (
    SELECT FROM json_to_recordset(assumed)
      AS point (participant_id text, last_idx integer, own_event_id bigint, study_event_id bigint, activation_id bigint)
    WHERE (last_idx, own_event_id, study_event_id, activation_id) IS DISTINCT FROM (
      (SELECT max(decision_idx) FROM decisions WHERE decisions.participant_id = point.participant_id),
      (SELECT max(id) FROM participant_events WHERE participant_events.participant_id = point.participant_id),
      (SELECT max(id) FROM participant_events WHERE participant_events.participant_id IS NULL),
      (SELECT max(id) FROM activations)
    )
  ) THEN RETURN false; END IF;
  INSERT INTO decisions SELECT * FROM json_populate_recordset(NULL::decisions, added);
  PERFORM surefoot_extend_ledger(moment, content, digest);
  RETURN true;
END $$
"""
APPEND_ONLY = ("studies", "policies", "activations", "participant_events", "ledger", "staff_actions", "erasures")


def upgrade() -> None:
    """Create tables, functions and triggers."""
    _create_study_tables()
    _create_staff_tables()
    _create_update_tables()
    _create_decision_tables()
    _create_erasures()
    _create_messages()
    _create_ledger()
    _protect_tables()


def _create_study_tables() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "studies",
        sa.Column("id", sa.String(64), primary_key=True, comment="SHA-256 of the text"),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("first_used", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "participants",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "participant_events",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column(
            "participant_id", sa.String(64), sa.ForeignKey("participants.id"), index=True, comment="null: the whole study"
        ),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("happened_at", sa.BigInteger, nullable=False),
        sa.Column("done_by", sa.String(64), nullable=False),
    )


def _create_staff_tables() -> None:
    op.create_table(
        "keys",
        sa.Column("prefix", sa.String(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the whole key"),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, comment="null: the key does not expire"),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "ended_sessions",
        sa.Column("digest", sa.LargeBinary, primary_key=True, comment="SHA-256 of the cookie"),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "staff_actions",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("done_at", sa.BigInteger, nullable=False, index=True),
        sa.Column("done_by", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(128), nullable=False, comment="participant, key or file that the action concerns"),
        sa.Column("detail", sa.Text, nullable=False),
    )


def _create_update_tables() -> None:
    op.create_table(
        "scheduled",
        sa.Column("job", sa.String(64), primary_key=True, comment="job and moment; the process that inserts it runs it"),
        sa.Column("taken_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "updates",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("slot", sa.Integer, unique=True, comment="1 while the update runs, else null: one update at a time"),
        sa.Column("started_by", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("beat_at", sa.BigInteger, nullable=False, comment="the last sign of life"),
        sa.Column("host", sa.String(255)),
        sa.Column("process", sa.Integer),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("findings", sa.Text, nullable=False, comment="JSON: findings of the policy checks"),
        sa.Column("result", sa.Text, nullable=False, comment="JSON: counts, rows removed and why"),
        sa.Column("message", sa.Text),
    )
    op.create_table(
        "policies",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("update_id", SERIAL, sa.ForeignKey("updates.id"), unique=True),
        sa.Column("study_id", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("accepted", sa.Boolean, nullable=False, comment="whether it passed the policy checks"),
        sa.Column("content", sa.Text, nullable=False, comment="JSON as surefoot.policies writes it"),
    )
    op.create_table(
        "activations",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("policy_id", SERIAL, sa.ForeignKey("policies.id"), nullable=False),
        sa.Column("activated_at", sa.BigInteger, nullable=False),
        sa.Column("activated_by", sa.String(64), nullable=False),
    )


def _create_decision_tables() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), nullable=False),
        sa.Column("decision_idx", sa.Integer, nullable=False),
        sa.Column("decided_at", sa.BigInteger, nullable=False, comment="the client's timestamp"),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("study_id", sa.String(64), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("available", sa.Boolean, nullable=False),
        sa.Column("availability_reasons", sa.Text, nullable=False, comment="JSON list"),
        sa.Column("context", sa.Text, nullable=False, comment="JSON as it was sent"),
        sa.Column("state", sa.Text, nullable=False, comment="JSON: the policy's input, null where missing"),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("fallback_reasons", sa.Text, nullable=False, comment="JSON list"),
        sa.Column("policy_id", SERIAL, sa.ForeignKey("policies.id")),
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
    op.create_table(
        "outcomes",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("decision_id", sa.String(32), sa.ForeignKey("decisions.id"), nullable=False, index=True),
        sa.Column("fingerprint", sa.String(64), nullable=False, unique=True, comment="of decision, time and value"),
        sa.Column("proximal_outcome", sa.Double, comment="null: known to be missing"),
        sa.Column("observed_at", sa.BigInteger, nullable=False, comment="the client's timestamp"),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("late", sa.Boolean, nullable=False),
        sa.Column("echoed_probability", sa.Double),
        sa.Column("salt", sa.LargeBinary, comment="of the digest of the value; null: it was erased"),
    )


def _create_erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("participant_id", sa.String(64), sa.ForeignKey("participants.id"), comment="null: everybody"),
        sa.Column("received_before", sa.BigInteger, comment="erases content received before; null: all content"),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("erased_at", sa.BigInteger, nullable=False),
        sa.Column("done_by", sa.String(64), nullable=False),
        sa.Column("decisions", sa.Integer, nullable=False, comment="number erased"),
        sa.Column("outcomes", sa.Integer, nullable=False, comment="number erased"),
    )


def _create_messages() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("occasion", sa.String(128), nullable=False, unique=True, comment="one alert for each"),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("raised_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
    )
    op.create_table(
        "messages",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("occasion", sa.String(128), nullable=False, comment="one message by each channel"),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("content", sa.Text, nullable=False, comment="JSON: title and text, without ids and values"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False, comment="moment of the next attempt"),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("sent_at", sa.BigInteger),
        sa.Column("delivery", SERIAL, comment="the first of the messages that left together"),
        sa.Column("error", sa.Text, comment="why the last attempt failed"),
        sa.UniqueConstraint("channel", "occasion", name="uq_messages_occasion"),
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("position", SERIAL, primary_key=True, autoincrement=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column(
            "entries", sa.Text, nullable=False, comment="JSON list of [kind, key, digest, digest of erasable content]"
        ),
        sa.Column("hash", sa.LargeBinary, nullable=False, comment="SHA-256 of the previous hash and of this block"),
    )
    if _is_sqlite():
        return
    # Each statement of the function sees everything committed before it: first the lock, then the last block.
    op.execute(
        "CREATE FUNCTION surefoot_extend_ledger(moment bigint, content text, digest bytea) RETURNS void "
        "LANGUAGE plpgsql AS $$ DECLARE last ledger%ROWTYPE; BEGIN "
        "PERFORM pg_advisory_xact_lock(7355204); "  # any number, the same for all
        "SELECT * INTO last FROM ledger ORDER BY position DESC LIMIT 1; "
        "INSERT INTO ledger (position, recorded_at, entries, hash) "
        "VALUES (coalesce(last.position, 0) + 1, moment, content, "
        "sha256(coalesce(last.hash, decode(repeat('00', 32), 'hex')) || digest)); END $$"
    )
    op.execute(RECORD_DECISIONS)


def _protect_tables() -> None:
    """Let the database itself refuse changes to evidence, except the erasure of content."""
    if not _is_sqlite():
        op.execute(
            "CREATE FUNCTION surefoot_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        )
    for table in APPEND_ONLY:
        _refuse_changes(table)
    _allow_only_erasure(
        "decisions",
        "NEW.context = '{}' AND NEW.state = '[]' AND NEW.availability_reasons = '[]' AND NEW.salt IS NULL",
        (
            *("id", "participant_id", "decision_idx", "decided_at", "received_at", "study_id", "available", "source"),
            *("fallback_reasons", "policy_id", "probabilities", "random_key", "uniform", "action", "probability", "reply"),
        ),
    )
    _allow_only_erasure(
        "outcomes",
        "NEW.proximal_outcome IS NULL AND NEW.echoed_probability IS NULL AND NEW.fingerprint = 'erased ' || OLD.id "
        "AND NEW.salt IS NULL",
        ("id", "decision_id", "observed_at", "received_at", "late"),
    )


def _refuse_changes(table: str) -> None:
    if _is_sqlite():
        _raise_in_sqlite(table, "UPDATE")
        _raise_in_sqlite(table, "DELETE")
    else:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION surefoot_append_only()"
        )


def _allow_only_erasure(table: str, erased: str, unchanged: tuple[str, ...]) -> None:
    """Refuse every update but one that blanks all erasable content and leaves the other columns as they are."""
    if _is_sqlite():
        same = " AND ".join(f"NEW.{column} IS OLD.{column}" for column in unchanged)
        _raise_in_sqlite(table, "UPDATE", f"WHEN NOT ({erased} AND {same}) ")
        _raise_in_sqlite(table, "DELETE")
        return
    same = " AND ".join(f"NEW.{column} IS NOT DISTINCT FROM OLD.{column}" for column in unchanged)
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION surefoot_append_only()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} FOR EACH ROW WHEN (NOT ({erased} AND {same})) "
        "EXECUTE FUNCTION surefoot_append_only()"
    )


def _raise_in_sqlite(table: str, event: str, condition: str = "") -> None:
    op.execute(
        f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    )


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
