"""How a long run reports its progress."""

from __future__ import annotations

import sys
import time
from typing import Protocol


class UnitProgress(Protocol):
    """Told once how many units are already done and how many there are, then of each one that ends, and of the end."""

    def begin(self, done: int, total: int) -> None: ...

    def advance(self) -> None: ...

    def end(self) -> None: ...


class PlainProgress:
    """Lines on standard error at most every ten seconds, for logs and pipes."""

    def __init__(self, command: str) -> None:
        self._command = command

    def begin(self, done: int, total: int) -> None:
        self._done, self._total, self._begun = done, total, done
        self._start = self._last = time.monotonic()
        again = f", {done} of them done before" if done else ""
        print(f"{self._command}: {total} units of work{again}", file=sys.stderr, flush=True)

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._last >= 10 and self._done < self._total:
            left = (now - self._start) / (self._done - self._begun) * (self._total - self._done)
            print(f"{self._command}: {self._done} of {self._total}, about {left:.0f} s left", file=sys.stderr, flush=True)
            self._last = now

    def end(self) -> None:
        print(f"{self._command}: {self._done} of {self._total} units done", file=sys.stderr, flush=True)


class BarProgress:
    """A bar with the time left, on a terminal."""

    def __init__(self, command: str) -> None:
        self._command = command

    def begin(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._command, total=total, completed=done)
        self._bar.start()

    def advance(self) -> None:
        self._bar.advance(self._task)

    def end(self) -> None:
        self._bar.stop()


class NoProgress:
    """Says nothing."""

    def begin(self, done: int, total: int) -> None: ...

    def advance(self) -> None: ...

    def end(self) -> None: ...


def choose_progress(command: str = "reproduce") -> UnitProgress:
    """A bar where somebody watches, lines elsewhere."""
    return BarProgress(command) if sys.stderr.isatty() else PlainProgress(command)
