"""Attempts to sign in, counted at all workers together."""

from alembic import op

from surefoot.service.database.schema import sign_ins

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing was counted before."""
    sign_ins.create(op.get_bind())
