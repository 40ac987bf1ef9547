"""One engine for all experiments: replicates are kept as they finish, then become tables, a figure and limits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from surefoot.atomic_files import atomic_write, json_text
from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.experiments.progress import UnitProgress
from surefoot.learning.methods import Method, method
from surefoot.numerics.processes import run_in_processes
from surefoot.reports.numbers import format_number
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PENALTIES = {"penalty_units": "absolute", "critic_penalty": 1e-3, "actor_penalty": 1e-3}
"""Absolute penalties of 1e-3, so that the experiments do not depend on the package's defaults; the paper gives none."""

Parameters = Mapping[str, int]
"""What decides the numbers of an experiment: `replicates`, `seed`, and its sizes."""


def make_method(name: str, **parameters: Any) -> Method:
    """A method with the penalties of the experiments.

    >>> make_method("ro-accb", tau=2.0).actor_penalty
    0.001
    """
    known = method(name).get_params(deep=False)
    penalties = {key: value for key, value in PENALTIES.items() if key in known}
    return method(name, **{**penalties, **parameters})


class WorkUnit(Protocol):
    """A unit of work: anything whose name can be a file name."""

    @property
    def name(self) -> str: ...


class Replicate(NamedTuple):
    """One replicate of an experiment."""

    experiment: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.experiment}-{self.number:04d}"


@dataclass(frozen=True)
class Limit:
    """A number that an experiment is held to, and the number that came out."""

    what: str
    data: str
    value: float
    limit: float | None
    at_most: bool = True

    @property
    def held(self) -> bool | None:
        """Whether it holds; None where there is no limit."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.held}


@dataclass(frozen=True)
class Report:
    """What an experiment writes: a tidy table, a figure, a page in Markdown, and its limits."""

    columns: Mapping[str, Any]
    figure: Figure
    description: str
    """Of the figure, for those who cannot see it."""
    page: str
    limits: Sequence[Limit]
    results: Mapping[str, Any] = field(default_factory=dict)
    """What else the summary holds."""


@dataclass(frozen=True)
class Experiment:
    """An experiment beyond the paper's: what one replicate does, and what all of them say."""

    name: str
    title: str
    parameters: Parameters
    quick: Parameters
    run: Callable[[int, Parameters], Any]
    """(replicate, parameters) → plain lists and numbers."""
    report: Callable[[list[Any], Parameters], Report]


def run_experiment(
    experiment: Experiment, seed: int, out: Path, *, quick: bool, jobs: int, progress: UnitProgress
) -> dict[str, Any]:
    """Run every replicate, write `NAME.*` into the folder, and return the summary.

    Parameters
    ----------
    experiment
        What to run.
    seed
        Root of all random numbers.
    out
        Where results go; finished replicates wait there in a hidden folder.
    quick
        Whether the smaller sizes are taken.
    jobs
        Processes.
    progress
        Told of every finished replicate.

    Returns
    -------
    dict
        Limits, parameters and results, as in `NAME.json`.
    """
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be at least 0")
    parameters = {**experiment.parameters, **(experiment.quick if quick else {}), "seed": seed}
    with keep_units(out, {"experiment": experiment.name, **parameters}) as folder:
        replicates = [Replicate(experiment.name, number) for number in range(parameters["replicates"])]
        work = partial(_run_replicate, run=experiment.run, parameters=parameters)
        report = experiment.report(run_units(replicates, work, folder, jobs=jobs, progress=progress), parameters)
        summary = {
            "limits": [limit.to_dict() for limit in report.limits],
            **report.results,
            "parameters": parameters,
            "surefoot": __version__,
        }
        _write_report(experiment.name, report, summary, out)
    return summary


def _run_replicate(replicate: Replicate, run: Callable[[int, Parameters], Any], parameters: Parameters) -> Any:
    return run(replicate.number, parameters)


def _write_report(name: str, report: Report, summary: dict[str, Any], out: Path) -> None:
    from pyarrow import csv, parquet

    from surefoot.reports.render import save_svg

    frame = make_frame(dict(report.columns), "pyarrow")
    with atomic_write(out / f"{name}.parquet") as temporary:
        parquet.write_table(frame, temporary)
    with atomic_write(out / f"{name}.csv") as temporary:
        csv.write_csv(frame, temporary)
    save_svg(report.figure, out / f"{name}.svg", report.description)
    write_text(out / f"{name}.md", report.page)
    write_text(out / f"{name}.json", json_text(summary) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def keep_units(out: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """A folder beside the results for finished units, one for each settings and version; it goes when all is written."""
    text = json.dumps({**settings, "surefoot": __version__}, sort_keys=True)
    folder = out / f".units-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(out / ".probe"):
            pass
        (out / ".probe").unlink()
    except OSError as error:
        raise InputError(
            f"cannot write to the folder {out}: {error.strerror or error}; choose another with --out"
        ) from error
    yield folder
    shutil.rmtree(folder)


def run_units(
    units: Sequence[WorkUnit],
    work: Callable[[Any], Any],
    folder: Path,
    *,
    jobs: int,
    progress: UnitProgress,
    elsewhere: Callable[[list[Any], Callable[[Any], Any]], Iterator[tuple[Any, Any]]] | None = None,
) -> list[Any]:
    """The results of `work` for every unit, in their order; finished units are kept in the folder as JSON.

    `elsewhere` does the units on other machines, in any order, instead of `jobs` processes on this one.
    """
    missing = [unit for unit in units if not _unit_file(folder, unit).exists()]
    progress.begin(len(units) - len(missing), len(units))
    try:
        here = ((unit, work(unit)) for unit in missing) if jobs == 1 else run_in_processes(missing, work, jobs)
        for unit, result in here if elsewhere is None else elsewhere(missing, work):
            # Python writes a float so that it reads back as the same float; NaN is written as NaN.
            write_text(_unit_file(folder, unit), json.dumps(result))
            progress.advance()
    finally:
        progress.end()
    return [json.loads(_unit_file(folder, unit).read_text(encoding="utf-8")) for unit in units]


def _unit_file(folder: Path, unit: WorkUnit) -> Path:
    return folder / f"{unit.name}.json"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> list[str]:
    """Lines of a table; numbers stand to the right of the first `text_columns`.

    >>> markdown_table(["method", "error"], [["accb", "1.2"]])
    ['| method | error |', '|---|---:|', '| accb | 1.2 |']
    """
    rule = "|" + "---|" * text_columns + "---:|" * (len(header) - text_columns)
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def limits_table(limits: Sequence[Limit]) -> list[str]:
    """Lines of the table of limits that ends a page."""
    rows = [
        [
            limit.what,
            limit.data,
            format_number(limit.value) + ("" if limit.held is not False else " (missed)"),
            f"{'at most' if limit.at_most else 'at least'} {limit.limit:g}",
        ]
        for limit in limits
        if limit.limit is not None
    ]
    return ["", "**Limits**", "", *markdown_table(["", "data", "result", "limit"], rows, text_columns=2)]
