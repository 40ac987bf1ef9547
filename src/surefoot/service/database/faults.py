"""Faults of the database, told from faults of ours: it is away, full, read-only, too slow, or was moved."""

from __future__ import annotations

import sqlalchemy as sa


class DatabaseMovedError(Exception):
    """The SQLite file that was opened is no longer at its path: what is written to it would be lost."""


DATABASE_FAULTS = (
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    sa.exc.InternalError,
    sa.exc.TimeoutError,
    DatabaseMovedError,
)
"""Answered 503 with Retry-After; anything else is a 500."""


def describe_fault(error: Exception) -> str:
    """The kind and the database's own code, never the message: that may hold values."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    kind = type(error if cause is None else cause).__name__
    return f"{kind} {code}" if code else kind
