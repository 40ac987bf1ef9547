"""The outbox of messages to the trial team."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Apply it."""
    op.create_table(
        "messages",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("occasion", sa.String(length=128), nullable=False, comment="one message by each channel"),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("content", sa.Text(), nullable=False, comment="JSON: title and text, without ids and values"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False, comment="when it is tried next"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("delivery", SERIAL, nullable=True, comment="the first of the messages that left together"),
        sa.Column("error", sa.Text(), nullable=True, comment="why it could not be handed over"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("channel", "occasion", name="uq_messages_occasion"),
    )
