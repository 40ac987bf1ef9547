"""Everybody's moments, which a fit keeps beside its results where it follows from them: no decision point is kept.

`weights.parquet`, which every fit writes, tells which decision points were counted; of those that still wait for their
outcome the times are kept here, so that a late outcome counts once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.joined_logs import find_again, find_waiting, refuse_repeated
from surefoot.data.locations import Location
from surefoot.data.parquet_files import read_parquet
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.fitting.kept_logs import hash_study, refuse_changing_past
from surefoot.fitting.manifest import add_summaries
from surefoot.fitting.part_fit import PartFit, collect_fit, describe_critic, describe_policies, describe_weights, summarise
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.methods import Method, fit_moments
from surefoot.learning.moment_roots import MomentRoots
from surefoot.policies.training import KnownTraining
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "surefoot-moments-1"
FILE = "moments.parquet"
ARRAYS = ("root", "taken", "low", "high")


@dataclass(frozen=True, eq=False)
class KeptMoments:
    """What a later fit goes on from."""

    roots: MomentRoots
    waiting: KnownTraining
    """Available decision points that lack their outcome."""
    rows: int
    """How many rows were read."""
    inputs: list[dict[str, Any]]
    summary: dict[str, Any]
    """Counts, and warnings about the data."""

    @classmethod
    def of_logs(cls, study: Study, logs: StudyLogs) -> KeptMoments:
        """Of logs that were read for the first time."""
        data = logs.logs
        waiting = KnownTraining.of_logs(data[find_waiting(data)])
        return cls(study.method().find_roots(data), waiting, len(data), list(logs.inputs), summarise(study, logs, []))

    def add_logs(self, study: Study, later: StudyLogs) -> KeptMoments:
        """With later logs, in which decision points that waited may come again with their outcome."""
        data = later.logs
        late = find_again(self.waiting, data) >= 0
        roots = self.roots + study.method().find_roots(data)
        inputs, summary = [*self.inputs, *later.inputs], add_summaries([self.summary, self._count_new(study, later, late)])
        return KeptMoments(roots, self._wait_on(data), self.rows + len(data), inputs, summary)

    def _count_new(self, study: Study, later: StudyLogs, late: NDArray[np.bool_]) -> dict[str, Any]:
        """What later logs add to the counts; a late outcome is one that is not missing any more."""
        data, reward = later.logs, later.logs.names.reward
        summary = summarise(study, replace(later, logs=data[~late], raw_reward=later.raw_reward[~late]), [])
        missing = {**summary["missing"], reward: summary["missing"][reward] - int((late & ~np.isnan(data.reward)).sum())}
        return summary | {
            "people": len(np.setdiff1d(data.participants, self.roots.participants)),
            "used": int(data.usable.sum()),
            "missing": missing,
            "reward_range": Learnable.of_logs(data).reward_range,
        }

    def _wait_on(self, data: Trajectories) -> KnownTraining:
        """Those that still wait, and those of the later logs that do."""
        own, waiting = data[find_waiting(data)], self.waiting
        still = np.ones(len(waiting.time), dtype=bool)
        again = find_again(waiting, data)
        still[again[again >= 0]] = False
        ids = np.concatenate([waiting.participants[waiting.participant_index[still]], own.participant])
        return list_points(ids, np.concatenate([waiting.time[still], own.time]))

    def fit(self, study: Study, rows: StudyLogs) -> tuple[Method, list[str]]:
        """The study's method, with the weights and residuals of some of the rows, and what it warned of."""
        method, names = study.method(), (rows.logs.state_names, rows.logs.action_names)

        def fit() -> None:
            method.fitted_ = fit_moments(method, self.roots, names).describe_rows(rows.logs)

        return method, collect_fit(fit)

    def summarise_fit(self, told: list[str]) -> dict[str, Any]:
        """The counts of everything, and what a fit warned of."""
        return self.summary | {"warnings": [*told, *self.summary["warnings"]]}

    def to_table(self, study: Study) -> pa.Table:
        """One row per participant."""
        import pyarrow as pa

        roots, people = self.roots, len(self.roots.participants)
        lists = {name: getattr(roots, name).reshape(people, -1) for name in ARRAYS}
        columns = {name: pa.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1]) for name, part in lists.items()}
        place = np.searchsorted(roots.participants, self.waiting.participants)[self.waiting.participant_index]
        order = np.argsort(place, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=people))])
        columns["waiting"] = pa.ListArray.from_arrays(ends.astype(np.int32), pa.array(self.waiting.time[order]))
        header = {"format": FORMAT, "study": hash_study(study), "rows": self.rows}
        header |= {"inputs": self.inputs, "summary": self.summary}
        table = pa.table({"participant": roots.participants, **columns})
        return table.replace_schema_metadata({"surefoot": json.dumps(header)})

    @classmethod
    def of_table(cls, table: pa.Table, study: Study, where: object) -> KeptMoments:
        """What `to_table` made; refused when the study has changed since."""
        header = json.loads((table.schema.metadata or {}).get(b"surefoot", b'{"format": null}'))
        if header["format"] != FORMAT:
            raise InputError(f"{where}: its format is {header['format']!r}, not {FORMAT!r}; fit all logs anew")
        if header["study"] != hash_study(study):
            raise InputError(f"{where}: was fitted with another study file, or an earlier version of it; fit all logs anew")
        people = len(table)
        participants = np.asarray(table["participant"].to_pylist())
        parts = {name: _flatten(table[name]).reshape(people, -1) for name in ARRAYS}
        size = round(parts["root"].shape[1] ** 0.5)
        roots = MomentRoots(participants, **{**parts, "root": parts["root"].reshape(people, size, size)})
        index = np.repeat(np.arange(people), table["waiting"].combine_chunks().value_lengths().to_numpy())
        waiting = list_points(participants[index], _flatten(table["waiting"]))
        return cls(roots, waiting, header["rows"], header["inputs"], header["summary"])


def _flatten(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False))


def list_points(ids: ArrayLike, time: ArrayLike) -> KnownTraining:
    """Decision points by participant and time."""
    participants, index = np.unique(ids, return_inverse=True)
    times = np.asarray(time)
    return KnownTraining(participants, index, times, np.lexsort((times, index)))


def _list_counted(weights: pa.Table) -> KnownTraining:
    return list_points(np.asarray(weights["participant"].to_pylist()), weights["time"].to_numpy())


def continue_fit(folder: Location, study: Study, later: StudyLogs) -> tuple[PartFit, KeptMoments]:
    """The fit to everything that an earlier one counted and to later logs, and what a still later one goes on from."""
    import pyarrow as pa

    refuse_changing_past(study)
    try:
        table, earlier = (read_parquet(folder / name) for name in (FILE, "weights.parquet"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be read ({error}); fit all logs anew") from error
    before, data = KeptMoments.of_table(table, study, folder / FILE), later.logs
    counted = _list_counted(earlier)
    if counted.participants.dtype.kind != data.participants.dtype.kind or counted.time.dtype.kind != data.time.dtype.kind:
        raise InputError("the later logs have ids or times of another kind; fit all logs anew")
    again, late = find_again(counted, data), find_again(before.waiting, data) >= 0
    refuse_repeated(data, again >= 0, allowed=late)

    kept = before.add_logs(study, later)
    method, told = kept.fit(study, later)
    lasting = earlier.filter(pa.array(~np.isin(np.arange(len(earlier)), again[late])))
    # What is left of the earlier ones now is not known any more.
    lasting = lasting.set_column(4, "residual", pa.nulls(len(lasting), pa.float64()))
    weights = pa.concat_tables([lasting, describe_weights(method, later, before.rows).cast(lasting.schema)])
    training = _list_counted(weights)
    place = np.searchsorted(kept.roots.participants, training.participants)[training.participant_index]
    unit = np.zeros_like(place) if method.pooled_ else place
    critic = describe_critic(method, unit, weights["weight"].to_numpy(zero_copy_only=False))
    return PartFit(describe_policies(study, method, training), critic, weights, kept.summarise_fit(told), method), kept
