"""Adverse events, and how many descriptions of them an erasure emptied."""

import sqlalchemy as sa
from alembic import op

from surefoot.service.database.schema import adverse_events

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """The table comes with its triggers."""
    adverse_events.create(op.get_bind())
    op.add_column("erasures", sa.Column("adverse_events", sa.Integer, comment="number whose description was erased"))
