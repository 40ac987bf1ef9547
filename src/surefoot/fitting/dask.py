"""Work on a Dask cluster: the same work, the same numbers, on other machines."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from surefoot.errors import InputError
from surefoot.numerics.parallel import Run, count_cores

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
AHEAD = 2
"""Items per worker that are on their way at once: results wait on the cluster until they are fetched, so not all are."""
RETRIES = 5
"""How often an item is begun again when its worker dies; after that the item itself must be what kills it."""

ANSWER_SECONDS = 10
"""How long a scheduler may take to answer."""


@contextmanager
def open_cluster(scheduler: str | None) -> Iterator[Run]:
    """The workers of a cluster, until the block ends.

    They read and write files by their paths, so they must see the same ones. Without a scheduler's address a cluster is
    started on this machine, one process per core.
    """
    try:
        from distributed import LocalCluster
    except ImportError:
        raise InputError("engine 'dask' needs Dask; install it with: pip install 'surefoot[cluster]'") from None
    with ExitStack() as stack:
        if scheduler is None:
            cluster = LocalCluster(n_workers=count_cores(), threads_per_worker=1, dashboard_address=None)
            scheduler = stack.enter_context(cluster).scheduler_address
        yield partial(_run_on_workers, stack.enter_context(_connect(scheduler)))


def run_on_cluster(items: Sequence[Item], work: Callable[[Item], Any], scheduler: str | None) -> Iterator[tuple[Item, Any]]:
    """Every item with what `work` makes of it on a worker, in whatever order they end."""
    with open_cluster(scheduler) as run:
        yield from run(items, work)


def _run_on_workers(client: Client, items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    from distributed import as_completed

    waiting = list(reversed(items))
    ahead = max(1, AHEAD * len(client.scheduler_info(n_workers=-1)["workers"]))
    running = {}

    def submit() -> Any:
        item = waiting.pop()
        future = client.submit(_work_alone, work, item, pure=False, retries=RETRIES)
        running[future] = item
        return future

    for future in (ended := as_completed([submit() for _ in range(min(ahead, len(waiting)))], loop=client.loop)):
        yield running.pop(future), future.result()
        if waiting:
            ended.add(submit())


def _connect(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one or leave --scheduler out"
        ) from error


def _work_alone(work: Callable[[Item], Any], item: Item) -> Any:
    """On a worker: the cluster decides how many run beside each other."""
    os.environ["SUREFOOT_THREADS"] = "1"
    _keep_freed_memory()
    return work(item)


def _keep_freed_memory() -> None:
    """Dask has its workers give every freed page back to the system at once, and then a fit spends its time asking for them.

    What `arrays.keep_freed_memory` teaches the C library elsewhere must be told to it here.
    """
    # The numbers are those of glibc's malloc.h.
    trim_threshold = -1
    mmap_threshold = -3
    try:
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**26)
        library.mallopt(mmap_threshold, 2**25)
    except (OSError, TypeError, AttributeError):
        return  # Another C library has other habits.
