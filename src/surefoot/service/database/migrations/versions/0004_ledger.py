"""The ledger, which begins with what was there; salts, so that content can be erased; staff actions; keys that expire."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from surefoot.service.database.evidence import EVIDENCE
from surefoot.service.database.ledger import extend, make_entry
from surefoot.service.database.migrations.append_only import allow_only_erasure, refuse_changes

revision = "0004"
down_revision = "0003"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KINDS = (
    *("study", "secret", "key", "key revoked", "participant", "participant event", "update", "update ended", "policy"),
    *("activation", "decision", "outcome"),
)
"""What a database of the version before may hold."""
BLOCK = 500


def upgrade() -> None:
    """Apply it."""
    _make_ledger()
    _make_staff_actions()
    _make_erasures()
    op.add_column("keys", sa.Column("expires_at", sa.BigInteger(), comment="null: a key made before keys expired"))
    _add_salts()
    _record_what_was_there()


def _make_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("position", SERIAL, nullable=False, autoincrement=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "entries",
            sa.Text(),
            nullable=False,
            comment="JSON list of [kind, key, digest, digest of what may be erased]",
        ),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the hash before and of this block"),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_ledger")),
    )
    refuse_changes("ledger")
    if op.get_bind().dialect.name == "postgresql":
        # Each statement of the function sees what was committed before it began: the lock first, then the last block.
        op.execute(
            "CREATE FUNCTION surefoot_extend_ledger(moment bigint, content text, digest bytea) RETURNS void "
            "LANGUAGE plpgsql AS $$ DECLARE last ledger%ROWTYPE; BEGIN "
            "PERFORM pg_advisory_xact_lock(7355204); "  # any number, the same for all
            "SELECT * INTO last FROM ledger ORDER BY position DESC LIMIT 1; "
            "INSERT INTO ledger (position, recorded_at, entries, hash) "
            "VALUES (coalesce(last.position, 0) + 1, moment, content, "
            "sha256(coalesce(last.hash, decode(repeat('00', 32), 'hex')) || digest)); END $$"
        )


def _make_staff_actions() -> None:
    op.create_table(
        "staff_actions",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=False),
        sa.Column("done_by", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False, comment="whom or what it was done to"),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staff_actions")),
    )
    op.create_index(op.f("ix_staff_actions_done_at"), "staff_actions", ["done_at"], unique=False)
    refuse_changes("staff_actions")


def _make_erasures() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("participant_id", sa.String(length=64), nullable=True, comment="null: everybody"),
        sa.Column("received_before", sa.BigInteger(), nullable=True, comment="only what came before; null: everything"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("erased_at", sa.BigInteger(), nullable=False),
        sa.Column("done_by", sa.String(length=64), nullable=False),
        sa.Column("decisions", sa.Integer(), nullable=False, comment="how many were erased"),
        sa.Column("outcomes", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["participant_id"], ["participants.id"], name=op.f("fk_erasures_participant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )
    refuse_changes("erasures")


def _add_salts() -> None:
    """A random salt for every row that there is; from now on only its erasure can change a row."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    random = "randomblob(16)" if sqlite else "decode(replace(gen_random_uuid()::text, '-', ''), 'hex')"
    words = {
        "decisions": "of the digest of reasons, context and state; null: they were erased",
        "outcomes": "of the digest of the value; null: it was erased",
    }
    for table, comment in words.items():
        op.execute(f"DROP TRIGGER {table}_no_update" if sqlite else f"DROP TRIGGER {table}_append_only ON {table}")
        op.add_column(table, sa.Column("salt", sa.LargeBinary(), comment=comment))
        op.execute(f"UPDATE {table} SET salt = {random}")  # noqa: S608 - our own names
    allow_only_erasure(
        "decisions",
        {"context": "'{}'", "state": "'[]'", "availability_reasons": "'[]'", "salt": "NULL"},
        (
            *("id", "participant_id", "decision_idx", "decided_at", "received_at", "study_id", "available", "source"),
            *("fallback_reasons", "policy_id", "probabilities", "random_key", "uniform", "action", "probability", "reply"),
        ),
    )
    allow_only_erasure(
        "outcomes",
        {"proximal_outcome": "NULL", "echoed_probability": "NULL", "fingerprint": "'erased ' || OLD.id", "salt": "NULL"},
        ("id", "decision_id", "observed_at", "received_at", "late"),
    )


def _record_what_was_there() -> None:
    """The first blocks: how many rows of each kind there are, then each. An empty database begins with its first row."""
    connection = op.get_bind()
    counts = {}
    for kind in KINDS:
        counts[kind] = connection.scalar(sa.select(sa.func.count()).select_from(_rows(kind).subquery()))
    if not counts["study"]:
        return
    pending = [["genesis", [revision, counts]]]
    for kind in KINDS:
        for row in connection.execute(_rows(kind), execution_options={"yield_per": BLOCK}).mappings():
            pending.append(make_entry(kind, row))
            if len(pending) == BLOCK:
                extend(connection, pending)
                pending = []
    if pending:
        extend(connection, pending)


def _rows(kind: str) -> sa.Select[tuple[object, ...]]:
    one = EVIDENCE[kind]
    return one.select().order_by(one.table.c[one.key[0]])
