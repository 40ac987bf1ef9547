"""How many threads: all cores that the process may use, unless SUREFOOT_THREADS says otherwise."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from surefoot.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def threads() -> int:
    """The number of threads that fits share their blocks among; it never changes a number."""
    asked = os.environ.get("SUREFOOT_THREADS", "")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise InputError(f"SUREFOOT_THREADS is '{asked}'; it must be a whole number of at least 1")
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The function's results in the order of the items. NumPy lets other threads work while it computes.

    Items are asked for when a thread is free for them: they need not all fit into memory.
    """
    workers = threads()
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        running: deque[Future[Result]] = deque()
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
