"""The staff trail: who did what, when and to whom, in the ledger like everything else."""

import getpass
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import staff_actions

SHOWN = 100


def record_action(connection: sa.Connection, by: str, action: str, subject: str = "", detail: str = "") -> None:
    """Put an action on the trail, in the transaction that does it."""
    row = {"done_at": now(), "done_by": by[:64], "action": action, "subject": subject[:128], "detail": detail}
    insert_recorded(connection, "staff action", row)


def record_visit(database: Database, by: str, action: str) -> None:
    """Put an action on the trail that writes nothing else."""
    with database.transaction() as connection:
        record_action(connection, by, action)


def list_actions(database: Database, before: int | None = None) -> list[dict[str, Any]]:
    """The newest first, or those below a number."""
    ordered = sa.select(staff_actions).order_by(staff_actions.c.id.desc()).limit(SHOWN)
    chosen = ordered if before is None else ordered.where(staff_actions.c.id < before)
    with database.autocommit() as connection:
        return [dict(row) for row in connection.execute(chosen).mappings()]


def name_operator() -> str:
    """Who uses the command line: the system's user."""
    try:
        return f"command line ({getpass.getuser()[:40]})"
    except (KeyError, OSError):
        return "command line"
