"""Fitting a study: from files to policies, the critic, the weights of all decision points, and a manifest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from surefoot.data.file_formats import read_parquet
from surefoot.data.locations import Location, Url, locate
from surefoot.errors import FitWarning, InputError, did_you_mean
from surefoot.fitting.checkpoint import Checkpoint
from surefoot.fitting.manifest import hash_arrays, make_manifest
from surefoot.fitting.part_fit import PartFit, fit_part
from surefoot.fitting.part_work import fit_parts, open_workers
from surefoot.fitting.partition import Partition
from surefoot.fitting.stored_fit import StoredFit
from surefoot.learning.diagnostics import Learnable
from surefoot.numerics.arrays import ENGINES, find_engine
from surefoot.numerics.parallel import Progress
from surefoot.policies import policies
from surefoot.policies.policies import Policies
from surefoot.policies.training import KnownTraining
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FittedStudy", "fit_study"]

OTHER_NAMES = {"cuda": "gpu", "cpu": "numpy", "pytorch": "torch", "cluster": "dask", "distributed": "dask"}
"""Other names of the engines."""


@dataclass(frozen=True, eq=False)
class FittedStudy:
    """What a fit gives; the same four things as the files in `folder`, which are read when they are asked for.

    Attributes
    ----------
    manifest
        What was fitted, from what and with what: the content of `manifest.json`.
    folder
        Where the files are; None when nothing was written.
    """

    manifest: dict[str, Any]
    folder: Location | None
    _part: PartFit | None = None
    """What was fitted, where it is in memory."""

    @cached_property
    def policies(self) -> Policies:
        if self._part:
            return self._part.policies
        return replace(policies.load(self._file("policies")), training=self._read_training())

    def _read_training(self) -> KnownTraining:
        """The participants and times of the training data, which a policies file alone does not hold."""
        table = read_parquet(self._file("weights"), columns=["participant", "time"])
        participants, index = np.unique(table["participant"].to_numpy(), return_inverse=True)
        time = table["time"].to_numpy()
        return KnownTraining(np.asarray(participants.tolist()), index, time, np.lexsort((time, index)))

    @property
    def critic(self) -> pa.Table:
        """One row per participant (or one for everyone): threshold, scale, iterations, counts, one column per
        coefficient."""
        return self._part.critic if self._part else self._table("critic").sort_by("participant")

    @property
    def weights(self) -> pa.Table:
        """One row per decision point: row in the input, participant, time, weight (missing where it was not used),
        residual."""
        return self._part.weights if self._part else self._table("weights")

    def _file(self, name: str) -> Location:
        return cast(Path, self.folder) / f"{name}.parquet"  # What is not in memory is in files.

    def _table(self, name: str) -> pa.Table:
        return read_parquet(self._file(name))

    @classmethod
    def load(cls, folder: str | Location) -> FittedStudy:
        """A folder that `fit_study` wrote, by its path or URL."""
        import json

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

    Files go through in blocks of people. What is done is kept in a hidden folder beside `out` until all is done, so that
    a run that was interrupted continues; `out` itself appears complete or not at all. At a URL (`s3://…`, `gs://…`,
    `file://…`: what fsspec knows) parts go straight into `out`, which is a fit when its manifest appears, the last of all.

    Parameters
    ----------
    logs
        A file, a folder of Parquet files (by path or URL), or what `study.read` gave.
    study
        A study or its file.
    out
        The folder to write, by path or URL.
    force
        Whether to replace an earlier fit.
    progress
        Told how many people are done, of how many.
    engine
        `auto` (processes for files of several parts, else threads), `numpy`, `torch`, `gpu`, or `dask` for files fitted
        on a cluster. Results agree to rounding.
    scheduler
        Where the cluster is; this machine unless given.

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
    ...     found = sf.fit_study(path, study)
    >>> found.manifest["people"], len(found.policies)
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
    done = progress or (lambda people, total: None)
    if in_memory:
        return _from_memory(logs if isinstance(logs, StudyLogs) else study.read(logs), study, out, force, engine)
    return _through_parts(locate(cast(str, logs)), study, locate(cast(str, out)), force, done, engine, scheduler)


def _check_engine(engine: str, scheduler: str | None, *, from_files: bool) -> None:
    known = ["auto", *ENGINES, "dask"]
    if engine not in known:
        near = f" (did you mean '{OTHER_NAMES[engine.lower()]}'?)" if engine.lower() in OTHER_NAMES else ""
        near = near or did_you_mean(engine, known)
        raise InputError(f"there is no engine '{engine}'{near}; choose from {known}")
    if scheduler is not None and engine != "dask":
        raise InputError("scheduler is for engine 'dask'; choose that engine or leave the scheduler out")
    if engine in ENGINES:
        find_engine(engine)
    elif engine == "dask" and not from_files:
        raise InputError("engine 'dask' fits files into a folder; give a path of logs and a folder, or another engine")


def _from_memory(logs: StudyLogs, study: Study, out: str | Path | None, force: bool, engine: str) -> FittedStudy:
    """Everyone at once, without files in between."""
    part = fit_part(study, logs, engine if engine in ENGINES else "numpy")
    manifest = make_manifest(study, list(logs.inputs) or hash_arrays(logs.logs), [part.summary])
    _require_rewards(study, manifest)
    if out is not None:
        with _begin_fit(locate(out), manifest["key"], force) as checkpoint:
            checkpoint.parts.write(0, part)
            checkpoint.publish(1, manifest, study.text)
    _warn(manifest)
    return FittedStudy(manifest, None if out is None else locate(out), part)


def _begin_fit(out: Location, key: str, force: bool) -> Checkpoint | StoredFit:
    return StoredFit(out, key, force) if isinstance(out, Url) else Checkpoint(out, key, force)


def _through_parts(
    path: Location, study: Study, out: Location, force: bool, progress: Progress, engine: str, scheduler: str | None
) -> FittedStudy:
    if isinstance(out, Url):
        StoredFit.check(out, force)
    else:
        Checkpoint.check(out, force)
    with open_workers(engine, scheduler) as run:
        partition = Partition.of(study, path, run=run)
        parts = partition.parts
        inputs = partition.inputs
        # Parts of another size hold other participants: their size belongs to the name of the folder.
        key = f"{make_manifest(study, inputs, [])['key']}-{partition.part_rows}"
        with _begin_fit(out, key, force) as checkpoint:
            missing = [number for number in range(len(parts)) if not checkpoint.has(number)]
            people = partition.people - sum(len(parts[number]) for number in missing)
            for number in fit_parts(partition, missing, checkpoint.parts, engine, run):
                people += len(parts[number])
                progress(people, partition.people)
            manifest = make_manifest(study, inputs, checkpoint.summaries(len(parts)))
            _require_rewards(study, manifest)
            checkpoint.publish(len(parts), manifest, study.text)
    _warn(manifest)
    return FittedStudy.load(out)


def _require_rewards(study: Study, manifest: dict[str, Any]) -> None:
    """Reject logs without usable rewards."""
    ends = manifest["reward_range"]
    learnable = Learnable(
        manifest["available"], manifest["missing"], manifest["used"], None if ends is None else tuple(ends)
    )
    learnable.require(study.reward.column)


def _warn(manifest: dict[str, Any]) -> None:
    for message in manifest["warnings"]:
        warnings.warn(message, FitWarning, stacklevel=4)
