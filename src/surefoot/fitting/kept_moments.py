"""Everybody's moments, which a fit keeps beside its results where it follows from them: no decision point is kept.

`weights.parquet`, which every fit writes, tells which decision points were counted; of those that still wait for their
outcome the times are kept here, so that a late outcome counts once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.joined_logs import find_again, find_waiting, refuse_repeated
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.fitting.kept_logs import hash_study, refuse_changing_past
from surefoot.fitting.part_fit import PartFit, collect_fit, describe_critic, describe_policies, describe_weights, summarise
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.methods import fit_moments
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
    """Decision points that only lack their outcome."""
    rows: int
    """How many rows were read."""
    inputs: list[dict[str, Any]]
    summaries: list[dict[str, Any]]

    @classmethod
    def of_fit(cls, study: Study, logs: StudyLogs, summary: dict[str, Any]) -> KeptMoments:
        """Of logs that were read for the first time."""
        data = logs.logs
        waiting = KnownTraining.of_logs(data[find_waiting(data)])
        return cls(study.method().find_roots(data), waiting, len(data), list(logs.inputs), [summary])

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
        header |= {"inputs": self.inputs, "summaries": self.summaries}
        return pa.table({"participant": roots.participants, **columns}).replace_schema_metadata(
            {"surefoot": json.dumps(header)}
        )

    @classmethod
    def read(cls, folder: Path, study: Study) -> KeptMoments:
        """What a fit kept in its folder; refused when the study has changed since."""
        from pyarrow import parquet

        try:
            table = parquet.read_table(folder / FILE)
            header = json.loads((table.schema.metadata or {})[b"surefoot"])
            if header["format"] != FORMAT:
                raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder / FILE}: cannot be read ({error}); fit all logs anew") from error
        if header["study"] != hash_study(study):
            raise InputError(f"{folder}: was fitted with another study file, or an earlier version of it; fit all logs anew")
        people = len(table)
        participants = np.asarray(table["participant"].to_pylist())
        parts = {name: _flatten(table[name]).reshape(people, -1) for name in ARRAYS}
        size = round(parts["root"].shape[1] ** 0.5)
        roots = MomentRoots(participants, **{**parts, "root": parts["root"].reshape(people, size, size)})
        index = np.repeat(np.arange(people), table["waiting"].combine_chunks().value_lengths().to_numpy())
        time = _flatten(table["waiting"])
        waiting = KnownTraining(participants, index, time, np.lexsort((time, index)))
        return cls(roots, waiting, header["rows"], header["inputs"], header["summaries"])


def _flatten(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False))


def continue_fit(folder: Path, study: Study, later: StudyLogs) -> tuple[PartFit, KeptMoments]:
    """The fit to everything that an earlier one counted and to later logs, and what a still later one goes on from."""
    import pyarrow as pa
    from pyarrow import parquet

    refuse_changing_past(study)
    kept, data = KeptMoments.read(folder, study), later.logs
    earlier = parquet.read_table(folder / "weights.parquet")
    counted = _list_counted(earlier)
    if counted.participants.dtype.kind != data.participants.dtype.kind or counted.time.dtype.kind != data.time.dtype.kind:
        raise InputError("the later logs have ids or times of another kind; fit all logs anew")
    again = find_again(counted, data)
    late = find_again(kept.waiting, data) >= 0
    refuse_repeated(data, again >= 0, allowed=late)

    method = study.method()
    roots = kept.roots + method.find_roots(data)
    weights = earlier.filter(pa.array(~np.isin(np.arange(len(earlier)), again[late])))
    # What is left of them now is not known any more.
    weights = weights.set_column(4, "residual", pa.nulls(len(weights), pa.float64()))
    names = (data.state_names, data.action_names)

    def fit() -> None:
        method.fitted_ = fit_moments(method, roots, names).describe_rows(data)

    told = collect_fit(fit)
    weights = pa.concat_tables([weights, describe_weights(method, later, kept.rows).cast(weights.schema)])
    training = _list_counted(weights)
    place = np.searchsorted(roots.participants, training.participants)[training.participant_index]
    unit = np.zeros_like(place) if method.pooled_ else place
    weight = weights["weight"].to_numpy(zero_copy_only=False)
    summary = _summarise_new(study, later, late, told, kept, roots)
    part = PartFit(
        describe_policies(study, method, training), describe_critic(method, unit, weight), weights, summary, method
    )
    waiting = _join_waiting(kept.waiting, data)
    inputs = [*kept.inputs, *later.inputs]
    return part, KeptMoments(roots, waiting, kept.rows + len(data), inputs, [*kept.summaries, summary])


def _list_counted(weights: pa.Table) -> KnownTraining:
    participants, index = np.unique(np.asarray(weights["participant"].to_pylist()), return_inverse=True)
    time = weights["time"].to_numpy()
    return KnownTraining(participants, index, time, np.lexsort((time, index)))


def _summarise_new(
    study: Study, later: StudyLogs, late: NDArray[np.bool_], told: list[str], kept: KeptMoments, roots: MomentRoots
) -> dict[str, Any]:
    """What the later logs add to the counts; a late outcome is one that is not missing any more."""
    data, reward = later.logs, later.logs.names.reward
    new = replace(later, logs=data[~late], raw_reward=later.raw_reward[~late])
    summary = summarise(study, new, told)
    missing = {**summary["missing"], reward: summary["missing"][reward] - int((late & data.usable).sum())}
    return summary | {
        "people": len(roots.participants) - len(kept.roots.participants),
        "used": int(data.usable.sum()),
        "missing": missing,
        "reward_range": Learnable.of_logs(data).reward_range,
    }


def _join_waiting(waiting: KnownTraining, data: Trajectories) -> KnownTraining:
    """Those that still wait, and those of the later logs that do."""
    own = data[find_waiting(data)]
    still = np.ones(len(waiting.time), dtype=bool)
    again = find_again(waiting, data)
    still[again[again >= 0]] = False
    ids = np.concatenate([waiting.participants[waiting.participant_index[still]], own.participant])
    time = np.concatenate([waiting.time[still], own.time])
    participants, index = np.unique(ids, return_inverse=True)
    return KnownTraining(participants, index, time, np.lexsort((time, index)))
