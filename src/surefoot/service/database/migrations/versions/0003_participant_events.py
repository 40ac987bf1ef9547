"""Pauses of participants and of the study."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from surefoot.service.database.migrations.append_only import refuse_changes

revision = "0003"
down_revision = "0002"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply it."""
    op.create_table(
        "participant_events",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("participant_id", sa.String(length=64), nullable=True, comment="null: the whole study"),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("happened_at", sa.BigInteger(), nullable=False),
        sa.Column("done_by", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["participant_id"], ["participants.id"], name=op.f("fk_participant_events_participant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_participant_events")),
    )
    op.create_index(op.f("ix_participant_events_participant_id"), "participant_events", ["participant_id"], unique=False)
    refuse_changes("participant_events")
