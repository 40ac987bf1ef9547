"""The number of cores to use, and work in threads, in processes of this machine, and on the workers of a Dask cluster.

Processes end with their parent and stop at once on an interruption.
"""

import ctypes
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from surefoot.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the number of finished items and the number of all items."""

MOST_THREADS = 8
"""More threads than this wait for each other in Python longer than they compute (docs/scaling.md). Processes do not."""
RETRIES = 5
"""How often a cluster begins an item again when its worker dies; after that the item itself must be what kills it."""
ANSWER_SECONDS = 10
"""How long a scheduler may take to answer."""


def count_cores() -> int:
    """The cores that the process may use, or SUREFOOT_THREADS if it is set. Results do not depend on this number."""
    setting = os.environ.get("SUREFOOT_THREADS", "")
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise InputError(f"SUREFOOT_THREADS is '{setting}'; it must be a whole number of at least 1")
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_processes(jobs: int) -> int:
    """The number of processes that was asked for; 0 means one for every core."""
    if jobs < 0:
        raise InputError(f"jobs is {jobs}; give a number of processes, or 0 for one per core")
    return jobs or count_cores()


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


Run = Callable[[Sequence[Any], Callable[[Any], Any]], Iterator[tuple[Any, Any]]]
"""Yields every item with the result of the work on it, in the order in which the work ends."""


@contextmanager
def open_processes(processes: int) -> Iterator[Run]:
    """Processes for work until the block ends; they start with the first work. On an interruption all stop at once."""
    with _single_threaded_libraries():
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker)
        try:
            yield partial(_run_on, pool)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _run_on(executor: Executor, items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    running = {executor.submit(work, item): item for item in items}
    for future in as_completed(list(running)):
        yield running.pop(future), future.result()


def run_in_turn(items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """A `Run` in this process."""
    return ((item, work(item)) for item in items)


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
    before = dict(os.environ)
    for name in ("SUREFOOT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def open_cluster(scheduler: str | None) -> Iterator[Run]:
    """The workers of a Dask cluster until the block ends.

    They read and write files by their paths, so they must see the same ones. Without a scheduler's address a cluster is
    started on this machine, one process per core.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("engine 'dask' needs Dask; install it with: pip install 'surefoot[cluster]'") from None
    with ExitStack() as stack:
        if scheduler is None:
            cluster = LocalCluster(n_workers=count_cores(), threads_per_worker=1, dashboard_address=None)
            scheduler = stack.enter_context(cluster).scheduler_address
        try:
            client = stack.enter_context(Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False))
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one or leave --scheduler out"
            ) from error
        executor = client.get_executor(pure=False, retries=RETRIES)
        yield lambda items, work: _run_on(executor, items, partial(_work_alone, work))


def _work_alone(work: Callable[[Item], Any], item: Item) -> Any:
    """On a worker of a cluster, which decides how many run at the same time."""
    os.environ["SUREFOOT_THREADS"] = "1"
    # Dask has its workers give every freed page back to the system at once; a fit would spend its time asking for them
    # again. The numbers are those of glibc's malloc.h.
    trim_threshold = -1
    mmap_threshold = -3
    try:
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**26)
        library.mallopt(mmap_threshold, 2**25)
    except (OSError, TypeError, AttributeError):
        pass  # Another C library has other habits.
    return work(item)
