"""The server's clock, and the one hook by which a simulation may set it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from surefoot.errors import InputError

VARIABLE = "SUREFOOT_SIMULATED_CLOCK"
"""Names a file that holds the time, for simulated trials only; the dashboard says so on every page."""


def now() -> datetime:
    """This moment, with its zone."""
    return read_simulated_time() or datetime.now(UTC)


def read_simulated_time() -> datetime | None:
    """The time of a simulation; None on a real clock."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        moment = datetime.fromisoformat(Path(path).read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{VARIABLE} is set, but {path} does not hold a time; unset it, unless this is a simulation"
        ) from error
    if moment.tzinfo is None:
        raise InputError(f"{path}: the time needs a zone, like 2026-03-01T09:30:00+00:00")
    return moment.astimezone(UTC)
