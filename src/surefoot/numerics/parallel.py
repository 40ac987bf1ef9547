"""The number of cores to use, and work in threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

from surefoot.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the number of finished items and the number of all items."""

MOST_THREADS = 8
"""More threads than this wait for each other in Python longer than they compute (docs/scaling.md). Processes do not."""


def count_cores() -> int:
    """The cores that the process may use, or SUREFOOT_THREADS if it is set. Results do not depend on this number."""
    setting = os.environ.get("SUREFOOT_THREADS", "")
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise InputError(f"SUREFOOT_THREADS is '{setting}'; it must be a whole number of at least 1")
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads() -> int:
    """How many threads share a fit."""
    return min(count_cores(), MOST_THREADS)


def map_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The function's results in the order of the items. NumPy lets other threads work while it computes.

    An item is read when a thread is free for it, so the items need not all fit into memory.
    """
    workers = count_threads()
    waiting = iter(items)
    first = list(islice(waiting, 2))
    if workers == 1 or len(first) < 2:
        yield from map(function, chain(first, waiting))
        return
    with ThreadPoolExecutor(workers) as pool:
        running: deque[Future[Result]] = deque()
        for item in chain(first, waiting):
            running.append(pool.submit(function, item))
            if len(running) > workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each prepared in another thread while the caller works on the one before."""
    waiting = iter(items)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        coming: Future[Any] = pool.submit(next, waiting, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, waiting, end)
            yield item
