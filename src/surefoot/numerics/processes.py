"""Work in several processes of this machine. They end with their parent and stop at once on an interruption."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


Run = Callable[[Sequence[Any], Callable[[Any], Any]], Iterator[tuple[Any, Any]]]
"""Yields every item with the result of the work on it, in the order in which the work ends."""


@contextmanager
def open_processes(processes: int) -> Iterator[Run]:
    """Processes for work until the block ends; they start with the first work. On an interruption all stop at once."""
    with _single_threaded_libraries():
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker)

        def run(items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
            running: dict[Future[Any], Any] = {pool.submit(work, item): item for item in items}
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()

        try:
            yield run
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def run_in_processes(items: Sequence[Item], work: Callable[[Item], Result], processes: int) -> Iterator[tuple[Item, Result]]:
    """Yield every item with the result of `work`, in the order in which the work ends."""
    with open_processes(min(processes, max(1, len(items)))) as run:
        yield from run(items, work)


def _begin_worker() -> None:
    # Ctrl-C reaches the whole process group; the parent alone decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave_with_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


@contextmanager
def _single_threaded_libraries() -> Iterator[None]:
    """Workers inherit the environment: one thread each, or they would fight for the cores."""
    names = ("SUREFOOT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
