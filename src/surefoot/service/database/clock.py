"""The server's clock, the one hook by which a simulation may set it, and jobs that run again and again."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from surefoot.errors import InputError

VARIABLE = "SUREFOOT_SIMULATED_CLOCK"
"""Names a file that holds the time, for simulated trials only; the dashboard says so on every page."""

log = logging.getLogger("surefoot.service")


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


@contextmanager
def repeat_job(name: str, job: Callable[[], object], seconds: float) -> Iterator[None]:
    """Run a job in a thread of its own, at once and then every few seconds, for as long as the block runs."""
    stop = threading.Event()

    def run() -> None:
        wait = 0.0
        while not stop.wait(wait):
            wait = seconds
            try:
                job()
            except Exception as error:
                # The next turn tries again; only the kind is logged, the message may hold data.
                log.error("%s failed with %s", name, type(error).__name__)

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)
