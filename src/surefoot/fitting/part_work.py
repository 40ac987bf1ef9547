"""Parts of a fit as work for processes and clusters: each is read, fitted and written by whoever does it.

The process that asked learns no more than that a part is done: what was fitted lies beside the other parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from surefoot.fitting.checkpoint import PartFolder
from surefoot.fitting.dask import open_cluster
from surefoot.fitting.part_fit import fit_part
from surefoot.fitting.partition import Partition
from surefoot.fitting.stored_fit import StoredParts
from surefoot.numerics.arrays import ENGINES
from surefoot.numerics.parallel import Run, count_cores, open_processes, prefetch

ENOUGH_PARTS = 4
"""With fewer parts, starting processes takes longer than they save."""


@contextmanager
def open_workers(engine: str, scheduler: str | None) -> Iterator[Run | None]:
    """Open the workers that fit the parts; None stands for this process, which reads the next part during a fit."""
    with ExitStack() as stack:
        if engine == "dask":
            yield stack.enter_context(open_cluster(scheduler))
        elif engine == "auto" and count_cores() > 1:
            yield stack.enter_context(open_processes(count_cores()))
        else:
            yield None


@dataclass(frozen=True)
class PartWork:
    """Parts of one file: their numbers, who is in them, and where they are written."""

    numbers: list[int]
    partition: Partition
    destination: PartFolder | StoredParts

    def run(self) -> None:
        for position, number in enumerate(self.numbers):
            self.destination.write(number, fit_part(self.partition.study, self.partition.read(position)))


def fit_parts(
    partition: Partition, numbers: Sequence[int], destination: PartFolder | StoredParts, engine: str, run: Run | None
) -> Iterator[int]:
    """Fit the parts of these numbers, write them to the destination, and yield each number when its part is done."""
    # The rows of a single file are here already: others would read all of it again for each part.
    few = engine != "dask" and (len(partition.files) == 1 or len(numbers) < ENOUGH_PARTS)
    if run is None or few:
        used = engine if engine in ENGINES else "numpy"
        for number, logs in prefetch((number, partition.read(number)) for number in numbers):
            destination.write(number, fit_part(partition.study, logs, used))
            yield number
        return
    works = [PartWork(group, partition.only(group), destination) for group in partition.group(numbers)]
    for work, _ in run(works, PartWork.run):
        yield from work.numbers
