"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
APPEND_ONLY = ("studies", "policies", "activations", "decisions", "outcomes")


def upgrade() -> None:
    """Apply it."""
    _create_key_tables()
    _create_study_tables()
    _create_update_tables()
    _create_decision_tables()
    for table in APPEND_ONLY:
        _refuse_changes(table)


def _refuse_changes(table: str) -> None:
    """Rows of these tables are evidence: the database itself refuses to change or delete them."""
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        return
    op.execute(
        "CREATE OR REPLACE FUNCTION surefoot_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION surefoot_append_only()"
    )


def _create_key_tables() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("occasion", sa.String(length=128), nullable=False, comment="one alert for each"),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("occasion", name=op.f("uq_alerts_occasion")),
    )
    op.create_table(
        "keys",
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the whole key"),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("prefix", name=op.f("pk_keys")),
    )


def _create_study_tables() -> None:
    op.create_table(
        "participants",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_participants")),
    )
    op.create_table(
        "scheduled",
        sa.Column(
            "job", sa.String(length=64), nullable=False, comment="what, and for which moment; whoever inserts it does it"
        ),
        sa.Column("taken_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_scheduled")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "studies",
        sa.Column("id", sa.String(length=64), nullable=False, comment="SHA-256 of the text"),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("first_used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )


def _create_update_tables() -> None:
    op.create_table(
        "updates",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=True, comment="1 while the update is under way, else null: one at a time"),
        sa.Column("started_by", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("beat_at", sa.BigInteger(), nullable=False, comment="the last sign of life"),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("process", sa.Integer(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("findings", sa.Text(), nullable=False, comment="JSON: what the guard rails found"),
        sa.Column("result", sa.Text(), nullable=False, comment="JSON: counts, rows removed and why"),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_updates")),
        sa.UniqueConstraint("slot", name=op.f("uq_updates_slot")),
    )
    op.create_table(
        "policies",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("update_id", SERIAL, nullable=True),
        sa.Column("study_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("accepted", sa.Boolean(), nullable=False, comment="whether the guard rails let it pass"),
        sa.Column("content", sa.Text(), nullable=False, comment="JSON as surefoot.policies writes it"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_policies_study_id")),
        sa.ForeignKeyConstraint(["update_id"], ["updates.id"], name=op.f("fk_policies_update_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policies")),
        sa.UniqueConstraint("update_id", name=op.f("uq_policies_update_id")),
    )
    op.create_table(
        "activations",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("policy_id", SERIAL, nullable=False),
        sa.Column("activated_at", sa.BigInteger(), nullable=False),
        sa.Column("activated_by", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name=op.f("fk_activations_policy_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activations")),
    )


def _create_decision_tables() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("participant_id", sa.String(length=64), nullable=False),
        sa.Column("decision_idx", sa.Integer(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=False, comment="the client's timestamp"),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("study_id", sa.String(length=64), nullable=False),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("availability_reasons", sa.Text(), nullable=False, comment="JSON list"),
        sa.Column("context", sa.Text(), nullable=False, comment="JSON as it was sent"),
        sa.Column("state", sa.Text(), nullable=False, comment="JSON: what the policy saw, null where missing"),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("fallback_reasons", sa.Text(), nullable=False, comment="JSON list"),
        sa.Column("policy_id", SERIAL, nullable=True),
        sa.Column("probabilities", sa.Text(), nullable=False, comment="JSON: of every action"),
        sa.Column("random_key", sa.String(length=128), nullable=False, comment="what the uniform number was drawn for"),
        sa.Column("uniform", sa.Double(), nullable=False),
        sa.Column("action", sa.Integer(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False, comment="of the action taken"),
        sa.Column("reply", sa.Text(), nullable=False, comment="the answer, byte for byte"),
        sa.ForeignKeyConstraint(["participant_id"], ["participants.id"], name=op.f("fk_decisions_participant_id")),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name=op.f("fk_decisions_policy_id")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_decisions_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.UniqueConstraint("participant_id", "decision_idx", name="uq_decisions_point"),
    )
    op.create_index("ix_decisions_received_at", "decisions", ["received_at"], unique=False)
    op.create_table(
        "outcomes",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("decision_id", sa.String(length=32), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False, comment="of decision, time and value: no doubles"),
        sa.Column("proximal_outcome", sa.Double(), nullable=True, comment="null: known to be missing"),
        sa.Column("observed_at", sa.BigInteger(), nullable=False, comment="the client's timestamp"),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("echoed_probability", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["decision_id"], ["decisions.id"], name=op.f("fk_outcomes_decision_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcomes")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_outcomes_fingerprint")),
    )
    op.create_index(op.f("ix_outcomes_decision_id"), "outcomes", ["decision_id"], unique=False)
