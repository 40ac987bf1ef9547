"""Parts of a fit: groups of participants, read from the files that hold them, fitted and summarised; and the manifest."""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.locations import Location, map_files
from surefoot.data.log_table import LogFile, LogLayout, LogTable, concatenate, name_file
from surefoot.data.mean_weights import MeanWeights
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.batch import Learnable
from surefoot.learning.methods import Method
from surefoot.log_checks import CHECKS, check_logs, list_warnings
from surefoot.log_checks.probabilities import check_balance, check_mean_weights
from surefoot.numerics.parallel import Run
from surefoot.policies.features import critic_feature_names
from surefoot.policies.policies import Policies
from surefoot.screening.screen import LearnedPatterns, sample_people
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import log_layout, parse_logs, study_files
from surefoot.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "surefoot-fit-1"
PART_ROWS = 2**19
"""Decision points in a part: a few hundred megabytes during its fit."""
ENOUGH_FILES = 4
"""Fewer files are scanned faster in this process."""
PART_CHECKS = tuple(check for check in CHECKS if check not in (check_mean_weights, check_balance))
"""Mean weights are summed over all parts and judged once; the audit checks balance, which a fit does not need."""


@dataclass(frozen=True, eq=False)
class PartFit:
    """The study's method fitted to the people of one part."""

    study: Study
    logs: StudyLogs
    method: Method
    policies: Policies
    warnings: list[str]

    @property
    def critic(self) -> pa.Table:
        """One row per fit."""
        import pyarrow as pa

        fitted = self.method.fitted_
        fits = len(fitted.participants)
        columns = {
            "participant": fitted.participants,
            "threshold": fitted.threshold,
            "scale": fitted.scale,
            "n_iter": fitted.n_iter,
            "decision_points": np.bincount(fitted.unit, minlength=fits),
            "used": count_used(self.method),
            "removed": np.bincount(fitted.unit[fitted.removed], minlength=fits),
        }
        names = critic_feature_names(self.logs.logs.state_names, self.logs.logs.action_names)
        for (action, feature), coefficients in zip(names, fitted.critic_coef.T, strict=True):
            columns[f"{action}: {feature}"] = np.ascontiguousarray(coefficients)
        return pa.table(columns)

    @property
    def weights(self) -> pa.Table:
        """One row per decision point."""
        import pyarrow as pa

        logs = self.logs.logs
        fitted = self.method.fitted_
        columns = {"row": self.logs.row, "participant": logs.participant, "time": logs.time}
        columns["weight"] = pa.array(fitted.weights, from_pandas=True)
        columns["residual"] = pa.array(fitted.residuals, from_pandas=True)
        return pa.table(columns)

    @cached_property
    def summary(self) -> dict[str, Any]:
        return summarise_part(self.study, self.logs, self.method, self.warnings)

    def save(self, folder: Path) -> None:
        from pyarrow import parquet

        self.policies.save(folder / "policies.parquet")
        parquet.write_table(self.critic, folder / "critic.parquet")
        parquet.write_table(self.weights, folder / "weights.parquet")


def write_description(folder: Location, manifest: dict[str, Any], study: str) -> None:
    """The study and, last, the manifest, which makes a folder a fit."""
    (folder / "study.toml").write_bytes(study.encode())
    (folder / "manifest.json").write_bytes(json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n")


def is_fit(folder: Location) -> bool:
    """Whether the folder holds the manifest of a fit."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def fit_part(study: Study, logs: StudyLogs, engine: str = "numpy") -> PartFit:
    """Fit the study's method to these people; its warnings are kept, so that a resumed run has them too."""
    method = study.method()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        method.fit_some(logs.logs, engine=engine)
    messages = []
    for warning in caught:
        if issubclass(warning.category, FitWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return PartFit(study, logs, method, replace(method.policies_, made_for=study.describe_reading()), messages)


def count_used(method: Method) -> NDArray[np.int64]:
    """The number of decision points that each fit used."""
    fitted = method.fitted_
    return np.bincount(fitted.unit[fitted.used], minlength=len(fitted.participants))


def summarise_part(
    study: Study, read: StudyLogs, method: Method | None = None, fit_warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Counts of the decision points, and the warnings about them and the fit; without a method nothing was fitted."""
    logs = read.logs
    available = logs.available
    missing = {name: np.isnan(logs.state[available, j]) for j, name in enumerate(logs.state_names)}
    mean_weights = logs.mean_weights()
    fitted = None if method is None else method.fitted_
    return {
        "people": len(logs.participants),
        "decision_points": len(logs),
        "available": int(available.sum()),
        "used": 0 if fitted is None else int(fitted.used.sum()),
        "removed": 0 if fitted is None else int(fitted.removed.sum()),
        "missing": {
            **{variable: int(missing[columns[0]].sum()) for variable, columns in study.state_columns.items()},
            logs.names.outcome: int(np.isnan(logs.outcome[available]).sum()),
        },
        "outcome_range": Learnable.of_logs(logs).outcome_range,
        "implausible": {name: int(count.sum()) for name, count in read.implausible.items()},
        "flagged": {} if read.screen is None else read.screen.counts(),
        "mean_weights": None if mean_weights is None else mean_weights.to_dict(),
        "chosen": [] if fitted is None or fitted.chosen is None else list(fitted.chosen.reasons),
        "warnings": [*fit_warnings, *list_warnings(check_logs(read, study, checks=PART_CHECKS))],
    }


def hash_arrays(logs: Trajectories) -> list[dict[str, Any]]:
    """The entry for logs from memory that replaces those of input files."""
    digest = hashlib.sha256()
    identity = (logs.participants, logs.participant_index, logs.time)
    for array in (*identity, logs.state, logs.available, logs.action, logs.probability, logs.outcome):
        digest.update(np.ascontiguousarray(array).tobytes())
    return [{"name": "arrays in memory", "sha256": digest.hexdigest()}]


def describe_source(study: Study, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """The beginning of a manifest: versions, study, inputs and method, with their `key`; equal keys give equal fits."""
    import pyarrow as pa

    versions = {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": pa.__version__}
    source = {
        "versions": {"surefoot": __version__, **versions},
        "study": {"sha256": hashlib.sha256(study.text.encode()).hexdigest()},
        "inputs": inputs,
        # As JSON reads it back, so that a manifest in memory equals the one in the file.
        "method": {
            "name": study.method_name,
            "parameters": json.loads(json.dumps(study.method().list_settings())),
        },
    }
    key = hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:16]
    return {"format": FORMAT, "key": key, **source, "seeds": []}


def complete_manifest(study: Study, source: dict[str, Any], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The manifest of all parts; outcomes from which nothing can be learned are refused."""
    total: dict[str, Any] = {
        name: sum(summary[name] for summary in summaries)
        for name in ("people", "decision_points", "available", "used", "removed")
    }
    for name in ("missing", "implausible", "flagged"):
        counter: Counter[str] = Counter()
        for summary in summaries:
            counter.update(summary[name])
        total[name] = dict(counter)
    # A method that chooses its parts fits everybody at once, so at most one part has them.
    total["chosen"] = [reason for summary in summaries for reason in summary["chosen"]]
    ranges = [summary["outcome_range"] for summary in summaries if summary["outcome_range"] is not None]
    total["outcome_range"] = [min(low for low, _ in ranges), max(high for _, high in ranges)] if ranges else None
    weights = [MeanWeights.from_dict(summary["mean_weights"]) for summary in summaries if summary["mean_weights"]]
    problem = sum(weights[1:], start=weights[0]).problem() if weights else None
    if problem is not None and study.method().centre_actions:
        raise InputError(problem)
    # Wrong probabilities are only a warning where the fit does not use them; every part warns of the whole data.
    messages = [text for summary in summaries for text in summary["warnings"]]
    total["warnings"] = list(dict.fromkeys([problem, *messages] if problem else messages))
    outcome_range = None if total["outcome_range"] is None else tuple(total["outcome_range"])
    Learnable(total["available"], total["missing"], total["used"], outcome_range).require(study.outcome.column)
    return {**source, **total}


@dataclass(frozen=True, eq=False)
class Group:
    """Participants who are fitted together, with the files that hold them and the number of each file's first row."""

    participants: NDArray[Any]
    files: tuple[tuple[LogFile, int], ...]


@dataclass(eq=False)
class LogGroups:
    """The logs of a file or a folder by groups of participants of bounded size.

    A participant whose rows are all in one file, or in that and the next, is in a group of that file. Those in several
    files come last; for each group of them the files that hold them are read again.
    """

    study: Study
    path: Location
    groups: list[Group]
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """Name, size and SHA-256 of every file."""
    usual: LearnedPatterns | None = None
    """What the study's screen learned from people of the whole input, so that all groups are screened alike."""
    _last: tuple[LogFile, LogTable] | None = None
    """The last file's rows, because the next group is often in the same file."""

    @property
    def people(self) -> int:
        return sum(len(group.participants) for group in self.groups)

    @classmethod
    def scan(cls, study: Study, path: Location, run: Run | None = None) -> LogGroups:
        """Hash every file and read the ids in it; `run` has workers scan the files of a folder."""
        # A large Parquet file counts as several, by its row groups.
        pieces = map_files(lambda file: LogFile(file).split(PART_ROWS), study_files(study, path))
        files = [file for of_file in pieces for file in of_file]
        layout = log_layout(study)
        plan = cls(study, path, [])
        if len(files) == 1:
            # Hash and rows come from the same bytes, and the rows are kept: the file is read once.
            opened = replace(files[0])
            plan.inputs = [opened.fingerprint(path)]
            rows = opened.read(layout)
            plan._last = (files[0], rows)
            ids = [rows.participants]
            counts = [np.bincount(rows.participant_index, minlength=len(rows.participants))]
        else:
            only_ids = LogLayout(layout.participant, layout.time, (layout.participant,), layout.missing)
            scan = partial(_scan_file, layout=only_ids, path=path)
            if run is not None and len(files) >= ENOUGH_FILES:
                scanned = dict(run(files, scan))
            else:
                scanned = {file: scan(file) for file in files}
            plan.inputs = [scanned[file][0] for file in files if scanned[file][0] is not None]
            ids = [scanned[file][1] for file in files]
            counts = [scanned[file][2] for file in files]
        first_rows = np.cumsum([0, *(int(count.sum()) for count in counts)]).tolist()
        held = list(zip(files, first_rows, strict=False))
        everybody = study.method().pooling.needs_everybody
        plan.groups = [
            Group(participants, tuple(held[number] for number in holders))
            for participants, holders in divide_people(ids, counts, np.inf if everybody else PART_ROWS)
        ]
        if study.screen is not None and study.screen.on and len(plan.groups) > 1:
            everyone = np.unique(np.concatenate(ids))
            sample = everyone[sample_people(len(everyone))]
            holders = [number for number, participants in enumerate(ids) if np.isin(sample, participants).any()]
            screen = plan._read(Group(sample, tuple(held[number] for number in holders))).screen
            plan.usual = None if screen is None else screen.usual
        return plan

    def select(self, numbers: Sequence[int]) -> LogGroups:
        """Some groups without rows: small enough to send to another machine."""
        return LogGroups(self.study, self.path, [self.groups[number] for number in numbers], usual=self.usual)

    def read(self, number: int) -> StudyLogs:
        """The logs of one group."""
        import pyarrow as pa

        logs = self._read(self.groups[number])
        if len(self.groups) == 1:
            # Nothing is read after this, and a pooled fit needs the memory: Arrow keeps 170 bytes per decision point.
            self._last = None
            pa.default_memory_pool().release_unused()
        return logs

    def _read(self, group: Group) -> StudyLogs:
        tables = []
        for file, first_row in group.files:
            if self._last is None or self._last[0] is not file:
                self._last = None
                self._last = (file, replace(file).read(log_layout(self.study), first_row))
            tables.append(self._last[1].select(group.participants))
        with name_file(self.path):
            return parse_logs(self.study, concatenate(tables), usual=self.usual)


def _scan_file(
    file: LogFile, layout: LogLayout, path: Location
) -> tuple[dict[str, Any] | None, NDArray[Any], NDArray[np.int64]]:
    """The fingerprint of a file (only for its first piece), its participants, and their numbers of rows."""
    opened = replace(file)  # Its bytes are not kept.
    rows = opened.read(layout)
    counts = np.bincount(rows.participant_index, minlength=len(rows.participants))
    return opened.fingerprint(path, keep=False) if file.start == 0 else None, rows.participants, counts


def divide_people(
    ids: list[NDArray[Any]], counts: list[NDArray[np.int64]], limit: float
) -> list[tuple[NDArray[Any], list[int]]]:
    """Participants in groups of about `limit` rows, each with the numbers of the files that hold them.

    `ids` and `counts` are the participants of every file and their numbers of rows.
    """
    owner = np.repeat(np.arange(len(ids)), [len(participants) for participants in ids])
    everyone, position = np.unique(np.concatenate(ids), return_inverse=True)
    rows = np.bincount(position, weights=np.concatenate(counts))
    first, last = np.zeros((2, len(everyone)), dtype=np.int64)
    first[position[::-1]] = owner[::-1]
    last[position] = owner
    # A participant at the end of one file and the beginning of the next belongs to the first of them.
    home = np.where(last - first > 1, len(ids), first)
    order = np.argsort(home, kind="stable")
    group = np.empty(len(everyone), dtype=np.int64)
    number = -1
    size = 0.0
    for members in np.split(order, np.searchsorted(home[order], np.arange(1, len(ids) + 1))):
        if len(members):
            total = float(rows[members].sum())
            if number < 0 or size + total > limit:
                number += 1
                size = 0.0
            # A file of more rows is cut evenly, and shares no group with the next.
            pieces = max(1, int(np.ceil(total / limit)))
            before = np.cumsum(rows[members]) - rows[members]
            _, piece = np.unique(before * pieces // max(total, 1.0), return_inverse=True)
            group[members] = number + piece
            number += int(piece[-1])
            size = np.inf if pieces > 1 else size + total
    pairs = np.unique(group[position] * len(ids) + owner)
    holders = np.split(pairs % len(ids), np.searchsorted(pairs, len(ids) * np.arange(1, number + 1)))
    return [(everyone[group == chosen], files.tolist()) for chosen, files in enumerate(holders)]
