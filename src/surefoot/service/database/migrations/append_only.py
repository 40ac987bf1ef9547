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


def allow_only_erasure(table: str, blanks: dict[str, str], kept: tuple[str, ...]) -> None:
    """Rows are evidence, but content that a participant may have erased can be replaced by these blanks, whole."""
    erased = " AND ".join(f"NEW.{name} {_is(value)}" for name, value in blanks.items())
    if op.get_bind().dialect.name == "sqlite":
        same = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in kept)
        op.execute(
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} WHEN NOT ({erased} AND {same}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
        return
    same = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in kept)
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION surefoot_append_only()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} FOR EACH ROW WHEN (NOT ({erased} AND {same})) "
        "EXECUTE FUNCTION surefoot_append_only()"
    )


def _is(value: str) -> str:
    return "IS NULL" if value == "NULL" else f"= {value}"
