"""How far a command is, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


@contextmanager
def show_progress(doing: str, done: str, *, pause: float = 0.0) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere a line for every part, but none within `pause` seconds of the one before."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(people: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= pause:
                typer.echo(f"{done} {people:,} of {total:,} people", err=True)
                last = time.monotonic()

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("people"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda people, total: bar.update(task, completed=people, total=total)
