"""Updates go on from everybody's moments, which are kept between them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Apply it."""
    op.create_table(
        "kept_moments",
        sa.Column("update_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("study_id", sa.String(length=64), nullable=False),
        sa.Column("marks", sa.Text(), nullable=False, comment="JSON: how far the database was read"),
        sa.Column("content", sa.LargeBinary(), nullable=False, comment="Parquet as surefoot.fitting keeps moments"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_kept_moments_study_id")),
        sa.ForeignKeyConstraint(["update_id"], ["updates.id"], name=op.f("fk_kept_moments_update_id")),
        sa.PrimaryKeyConstraint("update_id", name=op.f("pk_kept_moments")),
    )
