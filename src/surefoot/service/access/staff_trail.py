"""The staff trail: who did what, when and to whom, in the ledger like everything else."""

from __future__ import annotations

import getpass

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_recorded


def record_action(connection: sa.Connection, by: str, action: str, subject: str = "", detail: str = "") -> None:
    """Put an action on the trail, in the transaction that does it."""
    row = {"done_at": now(), "done_by": by[:64], "action": action, "subject": subject[:128], "detail": detail}
    insert_recorded(connection, "staff action", row)


def name_operator() -> str:
    """Who uses the command line: the system's user."""
    try:
        return f"command line ({getpass.getuser()[:40]})"
    except (KeyError, OSError):
        return "command line"
