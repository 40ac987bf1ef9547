"""The server's clock, and the one hook by which a simulation may set it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

VARIABLE = "SUREFOOT_SIMULATED_CLOCK"
"""Names a file that holds the time, for simulated trials only; the dashboard says so on every page."""


def now() -> datetime:
    """This moment, with its zone."""
    return simulated() or datetime.now(UTC)


def simulated() -> datetime | None:
    """The time of a simulation; None on a real clock."""
    path = os.environ.get(VARIABLE)
    return datetime.fromisoformat(Path(path).read_text(encoding="utf-8").strip()).astimezone(UTC) if path else None
