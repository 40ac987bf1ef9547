"""Sessions end on the server; findings of updates are called checks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Apply it."""
    op.create_table(
        "ended_sessions",
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the cookie"),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_ended_sessions")),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("COMMENT ON COLUMN updates.findings IS 'JSON: what the policy checks found'")
        op.execute("COMMENT ON COLUMN policies.accepted IS 'whether the policy checks let it pass'")
    op.execute("""UPDATE updates SET findings = replace(findings, '{"rail": ', '{"check": ')""")
