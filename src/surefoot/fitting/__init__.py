"""Fitting a study: from files to policies, the critic, the weights of all decision points, and a manifest.

A file that fits in memory is read, fitted and written at once. Other logs are read by groups of participants, an executor
(this process, several processes, or the workers of a Dask cluster) fits and writes each group, and the folder appears when
all are done.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from surefoot.atomic_files import check_output, new_folder
from surefoot.data.file_formats import read_parquet
from surefoot.data.locations import Location, Url, find_size, locate
from surefoot.errors import FitWarning, InputError, did_you_mean
from surefoot.fitting import parts
from surefoot.fitting.folder import UNFINISHED, PartWriter, list_names, open_folder, publish
from surefoot.fitting.parts import LogGroups, PartFit, complete_manifest, describe_source, fit_part, hash_arrays, is_fit
from surefoot.numerics.arrays import ENGINES, find_engine
from surefoot.numerics.parallel import Progress, Run, count_cores, open_cluster, open_processes, prefetch
from surefoot.policies import policies
from surefoot.policies.policies import KnownTraining, Policies
from surefoot.reports.summaries import Overview, Shown
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FittedStudy", "fit_study"]

OTHER_NAMES = {"cuda": "gpu", "cpu": "numpy", "pytorch": "torch", "cluster": "dask", "distributed": "dask"}
"""Other names of the engines."""
ENOUGH_PARTS = 4
"""With fewer parts, starting processes takes longer than they save."""
GROUPED_PARTS = 4
"""At most this many parts of one file are one task, so that its worker reads the file once."""
LEAST_ROW_BYTES = 8
"""A row of a text file takes at least these: participant, time, action and outcome with their separators."""


@dataclass(frozen=True, eq=False, repr=False)
class FittedStudy(Shown):
    """The result of a fit: the same as the files in `folder`, which are read when they are needed."""

    manifest: dict[str, Any]
    """The content of `manifest.json`: versions, study, inputs, method, counts and warnings."""
    folder: Location | None
    """Of the files; None when nothing was written."""
    _part: PartFit | None = None
    """The fit itself, where it is in memory."""

    def _overview(self) -> Overview:
        counts = self.manifest
        facts = {
            "used": f"{counts['used']:,} of {counts['decision_points']:,} decision points",
            "removed": f"{counts['removed']:,} decision points, as outliers",
            "warnings": str(len(counts["warnings"])),
            "folder": "none: nothing was written" if self.folder is None else str(self.folder),
        }
        return Overview(f"Fitted study: {counts['method']['name']} for {counts['people']:,} people", facts)

    @cached_property
    def policies(self) -> Policies:
        if self._part:
            return self._part.policies
        # The participants and times of the training data, which a policies file alone does not hold.
        table = read_parquet(self._file("weights"), columns=["participant", "time"])
        participants, index = np.unique(table["participant"].to_numpy(), return_inverse=True)
        time = table["time"].to_numpy()
        training = KnownTraining(np.asarray(participants.tolist()), index, time, np.lexsort((time, index)))
        return replace(policies.load(self._file("policies")), training=training)

    @property
    def critic(self) -> "pa.Table":
        """One row per participant (or one for everyone): threshold, scale, iterations, counts and coefficients."""
        return self._part.critic if self._part else read_parquet(self._file("critic")).sort_by("participant")

    @property
    def weights(self) -> "pa.Table":
        """One row per decision point: row in the input, participant, time, weight (missing where not used), residual."""
        return self._part.weights if self._part else read_parquet(self._file("weights"))

    def _file(self, name: str) -> Location:
        return cast(Path, self.folder) / f"{name}.parquet"  # What is not in memory is in files.

    @classmethod
    def load(cls, folder: str | Location) -> "FittedStudy":
        """A folder that `fit_study` wrote, by its path or URL."""
        location = locate(folder)
        try:
            manifest = json.loads((location / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: not a folder of a fit (its manifest.json cannot be read); make one with fit"
            ) from error
        return cls(manifest, location)


def fit_study(
    logs: str | Path | StudyLogs,
    study: Study | str | Path,
    out: str | Path | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    engine: str = "auto",
    scheduler: str | None = None,
) -> FittedStudy:
    """Fit the study's method to logs, and write a folder when `out` names one.

    Files are read by groups of people. Finished groups are kept in a hidden folder next to `out` until all are done, so
    that an interrupted run continues; `out` itself appears complete or not at all. At a URL that fsspec knows (`s3://…`,
    `gs://…`, `file://…`) parts go straight into `out`, which is a fit when its manifest appears, the last of all files.

    Parameters
    ----------
    logs
        A file, a folder of Parquet files (by path or URL), or the result of `study.read`.
    study
        A study or its file.
    out
        The folder to write, by path or URL.
    force
        Whether to replace an earlier fit.
    progress
        Called with the number of people that are done, and of all people.
    engine
        `auto` (processes for files of several parts, else threads), `numpy`, `torch`, `gpu`, or `dask` for files fitted
        on a cluster. Results agree to rounding.
    scheduler
        The address of the cluster; this machine unless given.

    Returns
    -------
    FittedStudy
        Policies, coefficients, removed decision points and manifest.

    Examples
    --------
    >>> import tempfile, pathlib, pyarrow.csv, surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> study = sf.Study.parse('[columns]\\nparticipant = "participant"\\ntime = "time"\\n[state.weather]\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "logs.csv"
    ...     pyarrow.csv.write_csv(logs.to_frame("pyarrow"), path)
    ...     fitted = sf.fit_study(path, study)
    >>> fitted.manifest["people"], len(fitted.policies)
    (3, 3)
    """
    in_memory = isinstance(logs, StudyLogs) or out is None
    _check_engine(engine, scheduler, from_files=not in_memory)
    if not isinstance(logs, str | Path | StudyLogs):
        raise InputError(
            f"fit_study takes the path of logs, or what study.read gave, not {type(logs).__name__}; "
            "trajectories are fitted by a method: surefoot.method('ro-accb').fit(logs)"
        )
    study = study if isinstance(study, Study) else Study.load(study)
    folder = None if out is None else locate(out)
    if folder is not None:
        _check_folder(folder, force)
        # A link stays a link: the result appears where it points to.
        folder = folder.resolve() if isinstance(folder, Path) and folder.is_symlink() else folder
    path = None if isinstance(logs, StudyLogs) else locate(logs)
    if path is not None and engine != "dask":
        in_memory = in_memory or (path.is_file() and find_size(path) <= LEAST_ROW_BYTES * parts.PART_ROWS)
    if in_memory:
        read = logs if isinstance(logs, StudyLogs) else study.read(logs)
        source = describe_source(study, list(read.inputs) or hash_arrays(read.logs))
        return _fit_at_once(read, study, source, folder, force, engine)
    return _fit_by_groups(cast(Path, path), study, cast(Path, folder), force, progress, engine, scheduler)


def _check_engine(engine: str, scheduler: str | None, *, from_files: bool) -> None:
    known = ["auto", *ENGINES, "dask"]
    if engine not in known:
        near = f" (did you mean '{OTHER_NAMES[engine.lower()]}'?)" if engine.lower() in OTHER_NAMES else ""
        raise InputError(f"there is no engine '{engine}'{near or did_you_mean(engine, known)}; choose from {known}")
    if scheduler is not None and engine != "dask":
        raise InputError("scheduler is for engine 'dask'; choose that engine or leave the scheduler out")
    if engine in ENGINES:
        find_engine(engine)
    elif engine == "dask" and not from_files:
        raise InputError("engine 'dask' fits files into a folder; give a path of logs and a folder, or another engine")


def _check_folder(out: Location, force: bool) -> None:
    """Refuse to replace what is there, unless it is a fit and `force` is set."""
    taken = f"{out}: is already there; choose another folder or replace it with --force"
    no_fit = f"{out}: is already there and is not a fit (no manifest of one)"
    if isinstance(out, Url):
        out.check_top()
        names = list_names(out)
        if is_fit(out):
            if not force:
                raise InputError(taken)
        elif names and not any(name.startswith(UNFINISHED) for name in names):
            raise InputError(f"{no_fit}; choose another folder")
    elif not out.exists():
        check_output(out)
    elif not force:
        raise InputError(taken)
    elif not is_fit(out) and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{no_fit}, so --force leaves it alone")


def _fit_at_once(
    read: StudyLogs, study: Study, source: dict[str, Any], out: Location | None, force: bool, engine: str
) -> FittedStudy:
    """Fit everybody together, without files in between."""
    part = fit_part(study, read, engine if engine in ENGINES else "numpy")
    manifest = complete_manifest(study, source, [part.summary])
    if isinstance(out, Url):
        with open_folder(out, manifest["key"], force) as writer:
            writer.write(0, part)
            publish(writer, out, manifest, study.text)
    elif out is not None:
        with new_folder(out, replace=force) as folder:
            part.save(folder)
            part.policies.save(folder / "policies.json")
            parts.write_description(folder, manifest, study.text)
    return _warn(FittedStudy(manifest, out, part))


def _warn(fitted: FittedStudy) -> FittedStudy:
    for message in fitted.manifest["warnings"]:
        warnings.warn(message, FitWarning, stacklevel=4)
    return fitted


def _fit_by_groups(
    path: Location,
    study: Study,
    out: Location,
    force: bool,
    progress: Progress | None,
    engine: str,
    scheduler: str | None,
) -> FittedStudy:
    """Fit and write each group of participants, then let the folder appear."""
    workers: AbstractContextManager[Run | None] = nullcontext()
    if engine == "dask":
        workers = open_cluster(scheduler)
    elif engine == "auto" and count_cores() > 1:
        workers = open_processes(count_cores())
    with workers as run:
        plan = LogGroups.scan(study, path, run)
        source = describe_source(study, plan.inputs)
        if len(plan.groups) == 1 and engine != "dask":
            return _fit_at_once(plan.read(0), study, source, out, force, engine)
        # Groups of another size hold other participants: their size belongs to the key.
        with open_folder(out, f"{source['key']}-{parts.PART_ROWS}", force) as writer:
            done = writer.read_summaries()
            missing = [number for number in range(len(plan.groups)) if number not in done]
            people = sum(len(plan.groups[number].participants) for number in done)
            for number in _fit_groups(plan, missing, writer, engine, run):
                people += len(plan.groups[number].participants)
                if progress is not None:
                    progress(people, plan.people)
            summaries = writer.read_summaries()
            if len(summaries) < len(plan.groups):
                raise InputError(f"{out}: parts that were written are not there; name a store that all workers see")
            manifest = complete_manifest(study, source, [summaries[number] for number in range(len(plan.groups))])
            publish(writer, out, manifest, study.text)
    return _warn(FittedStudy(manifest, out))


def _fit_groups(plan: LogGroups, numbers: list[int], writer: PartWriter, engine: str, run: Run | None) -> Iterator[int]:
    """Fit and write the groups of these numbers; yields each number when its group is done."""
    # The rows of a single file are in memory: workers would read all of it again for each group.
    is_single_file = len({file for group in plan.groups for file, _ in group.files}) == 1
    if run is None or (engine != "dask" and (is_single_file or len(numbers) < ENOUGH_PARTS)):
        for number, logs in prefetch((number, plan.read(number)) for number in numbers):
            writer.write(number, fit_part(plan.study, logs, engine if engine in ENGINES else "numpy"))
            yield number
        return
    tasks = []
    for files, same_files in groupby(numbers, key=lambda number: plan.groups[number].files):
        members = list(same_files)
        size = GROUPED_PARTS if len(files) == 1 else 1
        batches = [members[begin : begin + size] for begin in range(0, len(members), size)]
        tasks += [(batch, plan.select(batch), writer) for batch in batches]
    for task, _ in run(tasks, _fit_task):
        yield from task[0]


def _fit_task(task: tuple[list[int], LogGroups, PartWriter]) -> None:
    """Read, fit and write groups of one file, on a worker."""
    numbers, groups, writer = task
    for position, number in enumerate(numbers):
        writer.write(number, fit_part(groups.study, groups.read(position)))
