"""Count how often an alert came on its day."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Alerts before it were not counted."""
    op.add_column("alerts", sa.Column("times", sa.Integer, comment="how often it came on its day; null: not counted"))
