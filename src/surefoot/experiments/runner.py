"""Running the units: in several processes, with progress, and so that an interrupted run can go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.experiments.progress import UnitProgress
from surefoot.experiments.replicate import COLUMNS, run_unit
from surefoot.experiments.settings import Settings
from surefoot.numerics.processes import run_in_processes

ResultRows = list[dict[str, Any]]
"""One row per experiment, method and setting of a replicate."""


class WorkUnit(Protocol):
    """A unit of work: anything whose name can be a file name."""

    @property
    def name(self) -> str: ...


def find_working_folder(out: Path, settings: Settings) -> Path:
    """Where finished units wait for the others: beside the results, one folder per settings."""
    return out / f".units-{settings.fingerprint()}"


def prepare_folder(out: Path, folder: Path) -> None:
    """Make the working folder, and see that results can be written, before any work starts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(out / ".probe"):
            pass
        (out / ".probe").unlink()
    except OSError as error:
        raise InputError(
            f"cannot write to the folder {out}: {error.strerror or error}; choose another with --out"
        ) from error


def run_all(settings: Settings, out: Path, *, jobs: int, progress: UnitProgress) -> ResultRows:
    """The rows of all units, in the order of the plan whatever the number of jobs or interruptions."""
    work = partial(run_unit, settings=settings)
    found = run_units(settings.units(), work, find_working_folder(out, settings), jobs=jobs, progress=progress)
    return [{column: row[column] for column in COLUMNS} for rows in found for row in rows]


def run_units(
    units: Sequence[WorkUnit],
    work: Callable[[Any], Any],
    folder: Path,
    *,
    jobs: int,
    progress: UnitProgress,
    elsewhere: Callable[[list[Any], Callable[[Any], Any]], Iterator[tuple[Any, Any]]] | None = None,
) -> list[Any]:
    """What `work` makes of every unit, in their order; finished units are kept in the folder as JSON and not done again.

    `elsewhere` does the units on other machines, in any order, instead of `jobs` processes on this one.
    """
    missing = [unit for unit in units if not _unit_file(folder, unit).exists()]
    progress.begin(len(units) - len(missing), len(units))
    try:
        here = ((unit, work(unit)) for unit in missing) if jobs == 1 else run_in_processes(missing, work, jobs)
        for unit, result in here if elsewhere is None else elsewhere(missing, work):
            # Python writes a float so that it reads back as the same float; NaN is written as NaN.
            with atomic_write(_unit_file(folder, unit)) as temporary:
                temporary.write_text(json.dumps(result), encoding="utf-8")
            progress.advance()
    finally:
        progress.end()
    return [json.loads(_unit_file(folder, unit).read_text(encoding="utf-8")) for unit in units]


def _unit_file(folder: Path, unit: WorkUnit) -> Path:
    return folder / f"{unit.name}.json"


def remove_folder(folder: Path) -> None:
    """Remove the finished units once the results that they went into are written."""
    shutil.rmtree(folder)
