"""The server's clock."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """This moment, with its zone."""
    return datetime.now(UTC)
