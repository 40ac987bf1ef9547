"""The server's clock, a watch on whether it was set, the one hook by which a simulation may set it, moments in the database,
and repeated jobs."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database.faults import describe_fault

VARIABLE = "SUREFOOT_SIMULATED_CLOCK"
"""Names a file that holds the time, for simulated trials only; the dashboard says so on every page."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JUMP = timedelta(minutes=2)
"""A clock that differs by more from the time that has passed was set."""
SIMULATED_STEP = timedelta(days=2)
"""The same for a simulated clock, which moves in steps."""
SLEPT = timedelta(hours=1)
"""A process that looks every few seconds and sees this much time pass was asleep, or both its clocks were set."""
SETTLE_SECONDS = 300.0
"""How long a clock must run steadily after a jump before the schedule follows it again."""
LEAVING_SECONDS = 5.0
"""How long jobs that are under way are waited for when the process ends."""
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


class ClockWatch:
    """Compares the clock with one that counts from the machine's start, which nobody can set. Each process has its own."""

    def __init__(self, read_steady_seconds: Callable[[], float] | None = None) -> None:
        self._read = read_steady_seconds or _read_steady_seconds
        self._before: tuple[datetime, float] | None = None
        self._jumped_at = 0.0
        self._ahead = timedelta()
        """How far the clock is from where it would be without its jumps, until it has settled."""

    def find_jump(self, at: datetime) -> timedelta:
        """How far the clock was set since the last look; zero for a clock that ran on."""
        steady = self._read()
        if self.is_settled:
            self._ahead = timedelta()
        moment, seconds = self._before or (at, steady)
        self._before = (at, steady)
        passed = timedelta(seconds=steady - seconds)
        jump = at - moment - passed
        if abs(jump) <= _find_tolerance():
            jump = passed if passed > SLEPT else timedelta()
        if jump:
            self._jumped_at = steady
            self._ahead += jump
        return jump

    def believe(self, at: datetime) -> datetime:
        """This moment, without a jump that may be a mistake: before the next look notices it, and until it has settled.

        The clock of a simulation jumps on purpose.
        """
        if read_simulated_time() is not None:
            return at
        steady = self._read()
        moment, seconds = self._before or (at, steady)
        jump = at - moment - timedelta(seconds=steady - seconds)
        ahead = timedelta() if self.is_settled else self._ahead
        return at - ahead - (jump if abs(jump) > JUMP else timedelta())

    @property
    def is_settled(self) -> bool:
        """Whether the clock is where it was before its jumps, or has run steadily for a while since."""
        return abs(self._ahead) <= _find_tolerance() or self._read() - self._jumped_at >= SETTLE_SECONDS


def _find_tolerance() -> timedelta:
    """A simulation moves its clock in steps."""
    return JUMP if read_simulated_time() is None else SIMULATED_STEP


def _read_steady_seconds() -> float:
    """Since the machine's start, also while it slept where the system counts that."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)


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
        if value is None:
            return None
        try:
            return EPOCH + timedelta(microseconds=value)
        except (TypeError, OverflowError):
            return EPOCH  # somebody wrote something else there by hand: replay names the row


class Job(NamedTuple):
    """Something that a process does again and again."""

    name: str
    run: Callable[[], object]
    seconds: float
    """The pause after each run."""


@contextmanager
def repeat_jobs(*jobs: Job) -> Iterator[None]:
    """Run each job in a thread of its own, at once and then every few seconds, for as long as the block runs.

    At the end they are all told to stop before any is waited for: jobs that hang wait together, not one after the other.
    """
    stop = threading.Event()

    def repeat(job: Job) -> None:
        wait = 0.0
        while not stop.wait(wait):
            wait = job.seconds
            try:
                job.run()
            except Exception as error:
                # The next turn tries again.
                log.error("%s failed with %s", job.name, describe_fault(error))

    threads = [threading.Thread(target=repeat, args=(job,), daemon=True, name=job.name) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        deadline = time.monotonic() + LEAVING_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
