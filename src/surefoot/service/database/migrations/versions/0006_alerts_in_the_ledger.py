"""Alerts are evidence: those that there are enter the ledger."""

from __future__ import annotations

from alembic import op

from surefoot.service.database.evidence import EVIDENCE
from surefoot.service.database.ledger import extend, make_entry

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Apply it."""
    connection = op.get_bind()
    for kind in ("alert", "alert closed"):
        one = EVIDENCE[kind]
        rows = connection.execute(one.select().order_by(one.table.c.id)).mappings().all()
        if rows:
            extend(connection, [make_entry(kind, row) for row in rows])
