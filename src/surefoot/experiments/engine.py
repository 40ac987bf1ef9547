"""The engine of all experiments: replicates are stored as they finish, then become tables, a figure and limits."""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from surefoot.atomic_files import atomic_write, json_text, write_texts
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.methods import Method, method
from surefoot.numerics.parallel import Progress, Run, open_processes, run_in_turn
from surefoot.reports.numbers import format_number, format_signed
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PENALTIES = {"penalty_units": "absolute", "critic_penalty": 1e-3, "actor_penalty": 1e-3}
"""Absolute penalties of 1e-3, so that the experiments do not depend on the package's defaults; the paper gives none."""

Parameters = Mapping[str, int]
"""What decides the numbers of an experiment: `replicates`, `seed`, and its sizes."""
Row = dict[str, Any]


def make_method(name: str, **parameters: Any) -> Method:
    """A method with the penalties of the experiments, and with those of the parameters that it has.

    >>> make_method("ro-accb", tau=2.0).rule.actor_penalty
    0.001
    """
    known = method(name).list_parameters()
    return method(name, **{key: value for key, value in {**PENALTIES, **parameters}.items() if key in known})


def fit_quietly(unfitted: Method, logs: Trajectories) -> Method:
    """Fit without warnings: a participant may lose all treated decision points, and the measures show the cost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return unfitted.fit(logs)


@dataclass(frozen=True)
class Limit:
    """A number that an experiment must not exceed, or must reach, and its result."""

    measure: str
    data: str
    value: float
    limit: float | None
    at_most: bool = True

    @property
    def held(self) -> bool | None:
        """Whether the result respects the limit; None without a limit."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.held}


@dataclass(frozen=True)
class Report:
    """The files of an experiment: a tidy table, a figure, a page in Markdown, and its limits."""

    rows: Sequence[Row]
    figure: "Figure"
    description: str
    """Of the figure, for readers who cannot see it."""
    page: str
    """In Markdown; the table of limits is added at the end."""
    limits: Sequence[Limit]
    results: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the summary."""


@dataclass(frozen=True)
class Experiment:
    """An experiment beyond the paper's: what one replicate measures, and how all replicates are reported."""

    name: str
    title: str
    parameters: Parameters
    quick: Parameters
    run: Callable[[int, Parameters], list[Row]]
    """(replicate, parameters) → rows of plain lists and numbers."""
    report: Callable[[list[Row], Parameters], Report]
    """(rows of all replicates, each with its `replicate`, parameters) → report."""


class Replicate(NamedTuple):
    """One replicate of an experiment, a unit of work."""

    name: str
    number: int


def _run_replicate(replicate: Replicate, run: Callable[[int, Parameters], list[Row]], parameters: Parameters) -> list[Row]:
    return run(replicate.number, parameters)


def run_experiment(
    experiment: Experiment, seed: int, out: Path, *, quick: bool, jobs: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Run every replicate, write `NAME.*` into the folder, and return the summary, which is also `NAME.json`.

    Finished replicates wait in a hidden folder of `out`, so that an interrupted run continues.
    """
    from surefoot.reports.render import save_svg

    if seed < 0:
        raise InputError(f"seed is {seed}; it must be at least 0")
    name = experiment.name
    parameters = {**experiment.parameters, **(experiment.quick if quick else {}), "seed": seed}
    with keep_units(out, {"experiment": name, **parameters}) as folder:
        units = [Replicate(f"{name}-{number:04d}", number) for number in range(parameters["replicates"])]
        work = partial(_run_replicate, run=experiment.run, parameters=parameters)
        replicates = run_units(units, work, folder, jobs=jobs, progress=progress)
        rows = [{"replicate": unit.number, **row} for unit, rows in zip(units, replicates, strict=True) for row in rows]
        report = experiment.report(rows, parameters)
        limits = [limit.to_dict() for limit in report.limits]
        summary = {"limits": limits, **report.results, "parameters": parameters, "surefoot": __version__}
        page = f"{report.page}\n\n{render_page('limits.md', limits=report.limits)}\n"
        with atomic_write(out / f"{name}.parquet") as temporary:
            parquet.write_table(pa.Table.from_pylist(list(report.rows)), temporary)
        save_svg(report.figure, out / f"{name}.svg", report.description)
        write_texts({out / f"{name}.md": page, out / f"{name}.json": json_text(summary) + "\n"})
    return summary


def render_page(template: str, **context: Any) -> str:
    """Fill one of the templates of pages in Markdown."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("surefoot.experiments"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - not HTML
    )
    environment.filters |= {"fmt": format, "number": format_number, "signed": format_signed}
    return environment.get_template(template).render(**context).rstrip("\n")


def group_rows(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], dict[str, NDArray[Any]]]:
    """The values of every column over replicates, for each combination of keys, in the order of the rows.

    >>> groups = group_rows([{"method": "accb", "reward": 1.0}, {"method": "accb", "reward": 3.0}], "method")
    >>> groups["accb",]["reward"].mean()
    np.float64(2.0)
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return {
        key: {column: np.array([row[column] for row in members]) for column in members[0] if column not in keys}
        for key, members in groups.items()
    }


def standard_error(values: NDArray[Any]) -> float:
    """Of the mean; infinite for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


# Units of work


@contextmanager
def keep_units(out: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """A folder next to the results for finished units of these settings and this version; removed when all is written."""
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
    units: Sequence[Any],
    work: Callable[[Any], Any],
    folder: Path,
    *,
    jobs: int,
    progress: Progress | None = None,
    workers: AbstractContextManager[Run] | None = None,
) -> list[Any]:
    """The results of `work` for every unit, in their order; finished units stay in the folder as JSON, by their `name`.

    `workers`, such as those of a cluster, replace the `jobs` processes of this machine. `progress` is also called at the
    beginning, with the number of units that were finished before.
    """
    report = progress or (lambda done, total: None)
    files = {unit.name: folder / f"{unit.name}.json" for unit in units}
    missing = [unit for unit in units if not files[unit.name].exists()]
    finished = len(units) - len(missing)
    report(finished, len(units))
    if workers is None:
        workers = nullcontext(run_in_turn) if jobs == 1 else open_processes(min(jobs, max(1, len(missing))))
    with workers as run:
        for number, (unit, result) in enumerate(run(missing, work), start=finished + 1):
            # Python writes a float so that it reads back as the same float; NaN is written as NaN.
            write_texts({files[unit.name]: json.dumps(result)})
            report(number, len(units))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files.values()]
