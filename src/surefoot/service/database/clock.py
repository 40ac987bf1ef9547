"""The server's clock, the one hook by which a simulation may set it, moments in the database, and repeated jobs."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError

VARIABLE = "SUREFOOT_SIMULATED_CLOCK"
"""Names a file that holds the time, for simulated trials only; the dashboard says so on every page."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
        words = f"{VARIABLE} is set, but {path} does not hold a time; unset it, unless this is a simulation"
        raise InputError(words) from error
    if moment.tzinfo is None:
        raise InputError(f"{path}: the time needs a zone, like 2026-03-01T09:30:00+00:00")
    return moment.astimezone(UTC)


def to_microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


class Instant(sa.TypeDecorator[datetime]):
    """A moment with a zone, kept as microseconds since 1970 in UTC: the same on every database, to the last digit."""

    impl = sa.BigInteger
    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        return datetime

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


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
