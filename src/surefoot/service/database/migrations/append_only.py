"""Triggers that make a table append-only, for migrations after the first."""

from __future__ import annotations

from alembic import op


def refuse_changes(table: str) -> None:
    """Rows of the table are evidence: the database itself refuses to change or delete them."""
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION surefoot_append_only()"
    )
