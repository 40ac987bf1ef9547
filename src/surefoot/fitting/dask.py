"""Parts of a fit on a Dask cluster: the same parts, the same numbers, on other machines."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from surefoot.errors import InputError
from surefoot.fitting.part_fit import PartFit, fit_part
from surefoot.fitting.partition import Partition
from surefoot.numerics.parallel import count_cores

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
AHEAD = 2
"""Parts per worker that are on their way at once: results wait on the cluster until they are fetched, so not all are."""
RETRIES = 5
"""How often a part is begun again when its worker dies; after that the part itself must be what kills it."""


def fit_on_cluster(partition: Partition, numbers: list[int], scheduler: str | None) -> Iterator[tuple[int, PartFit]]:
    """Fit the parts of these numbers, in whatever order they end.

    The workers read the input by its path, so they must see the same files. Without a scheduler's address a cluster is
    started on this machine, one process per core.
    """
    return run_on_cluster(numbers, lambda number: (_fit_one_part, partition.only(number)), scheduler)


def run_on_cluster(
    items: Sequence[Item], task: Callable[[Item], tuple[Callable[[Any], Any], Any]], scheduler: str | None
) -> Iterator[tuple[Item, Any]]:
    """Every item with what its task, a function and its argument, gives on a worker; in whatever order they end."""
    try:
        from distributed import LocalCluster, as_completed
    except ImportError:
        raise InputError("engine 'dask' needs Dask; install it with: pip install 'surefoot[cluster]'") from None
    with ExitStack() as stack:
        if scheduler is None:
            workers = min(count_cores(), max(1, len(items)))
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            scheduler = stack.enter_context(cluster).scheduler_address
        client = stack.enter_context(_connect(scheduler))
        waiting = list(reversed(items))
        ahead = max(1, AHEAD * len(client.scheduler_info(n_workers=-1)["workers"]))
        running = {}
        for _ in range(min(ahead, len(waiting))):
            item = waiting.pop()
            running[client.submit(*task(item), pure=False, retries=RETRIES)] = item
        for future in (ended := as_completed(list(running), loop=client.loop)):
            yield running.pop(future), future.result()
            if waiting:
                item = waiting.pop()
                following = client.submit(*task(item), pure=False, retries=RETRIES)
                running[following] = item
                ended.add(following)


def _connect(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one or leave --scheduler out"
        ) from error


def _fit_one_part(partition: Partition) -> PartFit:
    """On a worker: read and fit the one part of the partition. The cluster decides how many run beside each other."""
    os.environ["SUREFOOT_THREADS"] = "1"
    _keep_freed_memory()
    return fit_part(partition.study, partition.read(0))


def _keep_freed_memory() -> None:
    """Dask has its workers give every freed page back to the system at once, and then a fit spends its time asking for them.

    What `arrays.keep_freed_memory` teaches the C library elsewhere must be told to it here.
    """
    trim_threshold, mmap_threshold = -1, -3  # as glibc's malloc.h numbers them
    try:
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**26)
        library.mallopt(mmap_threshold, 2**25)
    except (OSError, TypeError, AttributeError):
        return  # Another C library has other habits.
