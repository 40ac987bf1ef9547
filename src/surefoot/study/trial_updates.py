"""The updates of a trial, as `surefoot export` and simulated trials write them next to `decisions.csv`.

`decisions.updates.csv` has a row for every update, also for refused ones. `decisions.learned.csv` has the outcomes that
updates learned from, after screening, each with the first and the last update that knew it. In the decisions themselves
`policy_id` is the policy version that decided, and `updates_before` the newest update that had read the logs before.
`decisions.policies.json` has every policy version as a file of policies has it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from surefoot.data.locations import Location
from surefoot.data.log_columns import Problems
from surefoot.data.log_table import list_files
from surefoot.errors import InputError
from surefoot.policies.policies import Policies
from surefoot.study.log_description import LogDescription
from surefoot.study.log_reader import StudyLogs, log_layout, read_further_columns, transform_outcome

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Marks = NDArray[np.bool_]
POINT = "decision_idx"
POLICY = "policy_id"
BEFORE = "updates_before"
UPDATE_COLUMNS = {
    "update_id": pa.int64(),
    "state": pa.string(),
    "read_at": pa.timestamp("us", "UTC"),
    "finished_at": pa.timestamp("us", "UTC"),
    POLICY: pa.int64(),
    "learned_from": pa.int64(),
    "refused_by": pa.string(),
    "message": pa.string(),
}
"""Of `decisions.updates.csv`; times are empty in simulated trials. `learned_from` counts outcomes."""
LEARNED_COLUMNS = {
    "participant": pa.string(),
    POINT: pa.int64(),
    "outcome": pa.float64(),
    "first_update": pa.int64(),
    "last_update": pa.int64(),
}
"""Of `decisions.learned.csv`; an outcome is empty where it was erased since."""


def name_beside(decisions: Any, name: str, suffix: str) -> Any:
    """The file next to the decisions: `decisions.updates.csv` for `decisions.csv`."""
    return decisions.parent / f"{decisions.name.removesuffix(decisions.suffix)}.{name}{suffix}"


def write_ranges(numbers: Iterable[int]) -> str:
    """Ascending whole numbers as ranges.

    >>> write_ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    ranges = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        ranges.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return ",".join(ranges)


def parse_ranges(text: str) -> list[int]:
    """The inverse of `write_ranges`.

    >>> parse_ranges("0-2,5")
    [0, 1, 2, 5]
    """
    ends = [tuple(map(int, part.split("-"))) for part in text.split(",") if part]
    return [number for end in ends for number in range(end[0], end[-1] + 1)]


class LearnedSpans:
    """Outcomes, each with the first and the last of the updates that learned from it; updates are added in their order."""

    def __init__(self, rows: int) -> None:
        self._known = np.zeros(rows, dtype=bool)
        self._outcome = np.full(rows, np.nan)
        self._first = np.zeros(rows, dtype=np.int64)
        self._last = 0
        self._spans: list[tuple[Codes, Floats, Codes, Codes]] = []

    def add(self, update: int, known: Marks, outcome: Floats) -> None:
        """An update, the rows that it learned from, and their outcomes as it knew them."""
        both_missing = np.isnan(outcome) & np.isnan(self._outcome)
        lasting = self._known & known & ((outcome == self._outcome) | both_missing)
        self._close(self._known & ~lasting)
        begun = known & ~lasting
        self._first[begun] = update
        self._outcome[begun] = outcome[begun]
        self._known = known.copy()
        self._last = update

    def _close(self, ended: Marks) -> None:
        rows = np.flatnonzero(ended)
        self._spans.append((rows, self._outcome[rows], self._first[rows], np.full(len(rows), self._last)))

    def finish(self) -> dict[str, NDArray[Any]]:
        """Columns `row`, `outcome`, `first_update` and `last_update`, by row."""
        self._close(self._known)
        self._known[:] = False
        rows, outcome, first, last = (np.concatenate(values) for values in zip(*self._spans, strict=True))
        order = np.lexsort((first, rows))
        return {"row": rows[order], "outcome": outcome[order], "first_update": first[order], "last_update": last[order]}


@dataclass(frozen=True, eq=False)
class TrialUpdates:
    """Which policy decided every row of a trial's logs, and what its updates knew."""

    policy: Codes
    """The policy version that decided a row; 0 where none did."""
    before: Codes
    """The newest update that had read the logs before a row was decided; 0 where none had."""
    made_by: dict[int, int]
    """The update that made a policy version, for versions that were learned in the trial, in the order of the updates."""
    spans: dict[str, NDArray[Any]]
    """As `LearnedSpans` gives them, outcomes after their transform."""

    def learn_outcomes(self, update: int) -> Floats:
        """Outcomes as an update knew them, (rows,), NaN where it learned nothing."""
        chosen = (self.spans["first_update"] <= update) & (update <= self.spans["last_update"])
        outcomes = np.full(len(self.policy), np.nan)
        outcomes[self.spans["row"][chosen]] = self.spans["outcome"][chosen]
        return outcomes

    def count_erased(self, update: int) -> int:
        """How many of the outcomes that an update learned from were erased since."""
        chosen = (self.spans["first_update"] <= update) & (update <= self.spans["last_update"])
        return int(np.isnan(self.spans["outcome"][chosen]).sum())


def has_trial_updates(path: str | Location) -> bool:
    """Whether the files of a trial lie next to its decisions."""
    files = list_files(path)
    names = [name_beside(files[0], name, suffix) for name in ("updates", "learned") for suffix in (".parquet", ".csv")]
    return len(files) == 1 and sum(name.is_file() for name in names) >= 2


def read_trial_updates(study: LogDescription, path: str | Location, read: StudyLogs) -> TrialUpdates:
    """What lies next to the decisions of a trial; `read` are these decisions, whose rows the result has."""
    (decisions, *others) = list_files(path)
    if others:
        raise InputError(f"{path}: holds several files of logs; give the export of one trial")
    names = [name_column(study, name) for name in (POINT, POLICY, BEFORE)]
    further = read_further_columns(study, path, names)
    problems = Problems(further.name_row)
    point, policy, before = (further.column(name, problems).numbers()[read.row] for name in names)
    problems.raise_any()
    updates = read_beside(decisions, "updates")
    made_by = {
        version: update
        for update, version in sorted(zip(updates["update_id"].to_pylist(), updates[POLICY].to_pylist(), strict=True))
        if version is not None
    }
    versions = np.nan_to_num(policy).astype(np.int64)
    spans = _read_spans(study, read_beside(decisions, "learned"), read, point)
    return TrialUpdates(versions, np.nan_to_num(before).astype(np.int64), made_by, spans)


def read_policy_versions(path: str | Location) -> dict[int, Policies]:
    """Every policy version of a trial, from the file next to its decisions."""
    file = name_beside(list_files(path)[0], "policies", ".json")
    if not file.is_file():
        raise InputError(
            f"{file} is not there: the logs do not say which policies decided; surefoot export writes it next to the "
            "decisions"
        )
    try:
        versions = json.loads(file.read_text(encoding="utf-8"))
        return {int(version[POLICY]): Policies.from_dict(version["parameters"]) for version in versions}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not the policies of a trial ({error}); export the trial again") from error


def count_update_states(path: str | Location) -> Counter[str]:
    """State → number of updates of a trial, from the file next to its decisions."""
    return Counter(read_beside(list_files(path)[0], "updates")["state"].to_pylist())


def name_column(study: LogDescription, name: str) -> str:
    """A column of the service in the decisions; the study's own names come first."""
    return f"surefoot {name}" if name in log_layout(study).columns and study.columns.time != name else name


def read_beside(decisions: Location, name: str) -> pa.Table:
    """The table `updates` or `learned` next to the decisions of a trial."""
    for suffix in (".parquet", ".csv"):
        file = name_beside(decisions, name, suffix)
        if file.is_file():
            types = UPDATE_COLUMNS if name == "updates" else LEARNED_COLUMNS
            with file.open("rb") as stream:
                options = csv.ConvertOptions(column_types=types)
                table = parquet.read_table(stream) if suffix == ".parquet" else csv.read_csv(stream, convert_options=options)
            absent = [column for column in types if column not in table.column_names]
            if absent:
                raise InputError(f"{file}: has no column '{absent[0]}'; export the trial again", column=absent[0])
            return table
    raise InputError(
        f"{name_beside(decisions, name, '.csv')} is not there: the logs do not say what each update learned from; "
        "surefoot export writes it next to the decisions"
    )


def _read_spans(study: LogDescription, learned: pa.Table, read: StudyLogs, point: Floats) -> dict[str, NDArray[Any]]:
    """Spans by the rows of the logs."""
    logs = read.logs
    positions = {str(participant): position for position, participant in enumerate(logs.participants.tolist())}
    width = np.nanmax(point, initial=0) + 1
    keys = logs.participant_index * width + point
    order = np.argsort(keys)
    people = np.array([positions.get(participant, -1) for participant in learned["participant"].to_pylist()], dtype=np.int64)
    points = learned[POINT].to_numpy()
    wanted = people * width + points
    rows = order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)]
    strange = np.flatnonzero((keys[rows] != wanted) | (people < 0) | (points >= width))
    if strange.size:
        participant = learned["participant"][int(strange[0])].as_py()
        raise InputError(
            f"an update learned from decision point {points[strange[0]]} of participant {participant!r}, which is not among "
            "the decisions; keep all files of one export together",
            participant=participant,
        )
    outcome = learned["outcome"].to_numpy(zero_copy_only=False)
    spans = {name: learned[name].to_numpy() for name in ("first_update", "last_update")}
    return {"row": rows, "outcome": transform_outcome(outcome, study.outcome, Problems()), **spans}
