"""Decision points that a fit keeps beside its results, so that a later fit goes on from them without the old files.

They are kept as the study read them. Sums alone would not do: the quartiles that penalties are counted in, an actor's
search and a robust critic's judgement need the values.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.data.joined_logs import find_lasting, join_logs
from surefoot.data.locations import Location, locate
from surefoot.data.parquet_files import read_parquet
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "surefoot-decision-points-1"
FILE = "decision_points.parquet"
STATE = "state: "


def make_table(study: Study, logs: StudyLogs) -> pa.Table:
    """One row per decision point, in the order in which it was read."""
    import pyarrow as pa

    data = logs.logs
    columns = {
        "row": logs.row,
        "participant": data.participant,
        "time": data.time,
        "available": data.available,
        "action": data.action,
        "probability": data.probability,
        "reward": data.reward,
        "raw_reward": logs.raw_reward,
        **{STATE + name: np.ascontiguousarray(data.state[:, j]) for j, name in enumerate(data.state_names)},
    }
    header = {
        "format": FORMAT,
        "study": hash_study(study),
        "inputs": list(logs.inputs),
        "implausible": {name: counts.tolist() for name, counts in logs.implausible.items()},
    }
    return pa.table(columns).replace_schema_metadata({"surefoot": json.dumps(header)})


def hash_study(study: Study) -> str:
    """SHA-256 of the study file."""
    return hashlib.sha256(study.text.encode()).hexdigest()


def refuse_changing_past(study: Study) -> None:
    """A screen judges whole series, and a derived state remembers: what comes later changes how earlier points are read."""
    if study.screen is not None and study.screen.on:
        raise InputError("a screen judges everybody's whole series: a fit cannot go on from an earlier one; fit all logs")
    if study.derived_states:
        names = ", ".join(study.derived_states)
        raise InputError(
            f"{names}: a derived state remembers the past, so a fit cannot go on from an earlier one; fit all logs"
        )


def continue_logs(folder: str | Path, study: Study, later: StudyLogs) -> StudyLogs:
    """What an earlier fit kept, with later logs behind it."""
    refuse_changing_past(study)
    table, header = _read_table(locate(folder))
    if header["study"] != hash_study(study):
        raise InputError(f"{folder}: was fitted with another study file, or an earlier version of it; fit all logs anew")
    first = _restore_logs(table, later.logs)
    joined = join_logs(first, later.logs)
    lasting, earlier = find_lasting(first, later.logs), int(table["row"].to_numpy().max()) + 1
    counts = {}
    for name, own in later.implausible.items():
        counts[name] = np.zeros(len(joined.participants), dtype=np.int64)
        for people, values in ((first.participants, header["implausible"].get(name, [])), (later.logs.participants, own)):
            counts[name][np.searchsorted(joined.participants, people)[: len(values)]] += np.asarray(values, dtype=np.int64)
    return replace(
        later,
        logs=joined,
        raw_reward=np.concatenate([table["raw_reward"].to_numpy()[lasting], later.raw_reward]),
        implausible=counts,
        row=np.concatenate([table["row"].to_numpy()[lasting], earlier + later.row]),
        inputs=(*header["inputs"], *later.inputs),
    )


def _read_table(folder: Location) -> tuple[pa.Table, dict[str, Any]]:
    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: keeps nothing to go on from; fit the first logs with --keep")
    try:
        table = read_parquet(folder / FILE)
        header = json.loads((table.schema.metadata or {})[b"surefoot"])
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder / FILE}: cannot be read ({error}); fit all logs anew") from error
    return table, header


def _restore_logs(table: pa.Table, like: Trajectories) -> Trajectories:
    """The kept decision points, with the names of the later ones."""
    column = {name: table[name].to_numpy() for name in table.column_names}
    participants, index = np.unique(np.asarray(table["participant"].to_pylist()), return_inverse=True)
    states = [name for name in table.column_names if name.startswith(STATE)]
    return replace(
        like,
        participants=participants,
        participant_index=index,
        time=column["time"],
        state=np.column_stack([column[name] for name in states]),
        state_names=tuple(name.removeprefix(STATE) for name in states),
        **{name: column[name] for name in ("available", "action", "probability", "reward")},
    )
