"""Export: the trial in long format, one row per decision point, readable by `surefoot fit`, and the study file for it."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from pyarrow import csv, parquet

from surefoot.errors import InputError
from surefoot.learning.pooling import make_pooling
from surefoot.service.database.clock import now, to_microseconds
from surefoot.service.database.schema import (
    EXPORTED,
    LISTS,
    activations,
    decisions,
    erasures,
    outcomes,
    policies,
    staff_actions,
    updates,
)
from surefoot.service.trial import states
from surefoot.service.trial.states import count_times
from surefoot.service.trial.trial import Trial, load_stored_study
from surefoot.study import CollectionSection, Study
from surefoot.study.trial_updates import (
    BEFORE,
    LEARNED_COLUMNS,
    POINT,
    POLICY,
    UPDATE_COLUMNS,
    LearnedSpans,
    parse_ranges,
)

FORMATS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
MOMENT = pa.timestamp("us", "UTC")
ROWS = 5000
"""Rows in memory at a time."""
FORMULA = r"^([=+\-@\t\r])"
"""What spreadsheets take for the beginning of a formula."""
_before = sa.select(sa.func.coalesce(sa.func.max(updates.c.id), 0)).where(updates.c.read_at <= decisions.c.received_at)
_sent = sa.select(sa.func.count()).where(outcomes.c.decision_id == decisions.c.id)
DECISIONS = states.DECISIONS.add_columns(
    _sent.scalar_subquery().label("outcomes_sent"),
    _sent.where(outcomes.c.late).scalar_subquery().label("outcomes_late"),
    _before.scalar_subquery().label(BEFORE),
)
UPDATES = (
    sa.select(updates, updates.c.id.label("update_id"), policies.c.id.label(POLICY))
    .outerjoin(policies)
    .order_by(updates.c.id)
)


@dataclass(frozen=True)
class Export:
    """A file that was written, and counts to check it by."""

    rows: int
    participants: int
    sha256: str


def export_decisions(trial: Trial, path: Path, form: str) -> Export:
    """Write every decision point with the outcome that counts, as it is known at this moment."""
    texts = ("availability_reasons", "fallback_reasons")
    return _export_query(trial, DECISIONS, lambda rows: _decision_table(trial, rows), path, form, texts)


def _export_columns(
    table: sa.Table, names: Sequence[str], texts: Collection[str], trial: Trial, path: Path, form: str
) -> Export:
    def make_table(rows: list[Any]) -> pa.Table:
        return pa.table({name: _make_column(table, name, rows) for name in names})

    return _export_query(trial, sa.select(table).order_by(table.c.id), make_table, path, form, texts)


def export_updates(trial: Trial, path: Path, form: str) -> Export:
    """Write every update: its state, the policy that it made, and why it was refused."""
    return _export_query(trial, UPDATES, _update_table, path, form, ("refused_by", "message"))


def export_learned(trial: Trial, path: Path, form: str) -> Export:
    """Write the outcomes that updates learned from, each with the first and the last update that knew it."""
    with trial.database.snapshot(unlimited=True) as connection:
        table = _list_learned(connection)
    return _write(table.schema, [table], path, form, ())


OUTCOMES = ("decision_id", "id", "outcome", "observed_at", "received_at", "late", "echoed_probability")
STAFF_ACTIONS = ("done_by", "done_at", "action", "subject", "detail")
EXPORTS: dict[str, Callable[[Trial, Path, str], Export]] = {
    "decisions": export_decisions,
    # Every outcome that was ever sent, in the order of arrival: corrections, late ones, known missing ones.
    "updates": export_updates,
    "learned": export_learned,
    "outcomes": partial(_export_columns, outcomes, OUTCOMES, ()),
    "staff-actions": partial(_export_columns, staff_actions, STAFF_ACTIONS, ("subject", "detail")),
}
"""By the name of the file."""


def _export_query(
    trial: Trial,
    query: sa.Select[Any],
    make_table: Callable[[list[Any]], pa.Table],
    path: Path,
    form: str,
    texts: Collection[str],
) -> Export:
    """Rows go through in pieces: a trial of any size takes the same memory."""
    with (
        trial.database.snapshot(unlimited=True) as connection,
        connection.execution_options(yield_per=ROWS).execute(query) as rows,
    ):
        pieces = rows.mappings().partitions()
        return _write(make_table([]).schema, (make_table(list(piece)) for piece in pieces), path, form, texts)


def _write(schema: pa.Schema, tables: Iterable[pa.Table], path: Path, form: str, texts: Collection[str]) -> Export:
    """Tables one after the other as a file.

    In a CSV file an apostrophe stands before text that somebody wrote and that a spreadsheet would run as a formula. Names
    of actions and levels are the study's own, and stay as they are.
    """
    rows = 0
    people = 0
    last = None
    open_writer = parquet.ParquetWriter if form == "parquet" else csv.CSVWriter
    with closing(open_writer(str(path), schema)) as writer:
        for piece in tables:
            table = piece
            ids = table.column(0).to_pylist()
            rows += len(ids)
            people += sum(person != before for person, before in pairwise([last, *ids]))
            last = ids[-1] if ids else last
            for position, name in enumerate(table.column_names if form == "csv" else ()):
                is_text = pa.types.is_string(table.schema.types[position])
                if (position == 0 and is_text) or name.removeprefix("surefoot ") in texts:
                    text = pc.replace_substring_regex(table.column(position), FORMULA, r"'\1")
                    table = table.set_column(position, name, text)
            writer.write_table(table)
    with path.open("rb") as file:
        return Export(rows, people, hashlib.file_digest(file, "sha256").hexdigest())


def _update_table(rows: list[Any]) -> pa.Table:
    """Columns of `decisions.updates.csv`."""
    cells = []
    for row in rows:
        refused = [finding["check"] for finding in json.loads(row["findings"]) if not finding["passed"]]
        learned = [parse_ranges(text) for text in json.loads(row["learned_from"] or "{}").values()]
        cells.append({**row, "refused_by": "; ".join(refused), "learned_from": sum(map(len, learned))})
    return pa.table({name: pa.array([cell[name] for cell in cells], kind) for name, kind in UPDATE_COLUMNS.items()})


def _list_learned(connection: sa.Connection) -> pa.Table:
    """Columns of `decisions.learned.csv`; corrections count from the update on that knew them."""
    ordered = sa.select(decisions.c.id, decisions.c.participant_id, decisions.c.decision_idx)
    points = connection.execute(ordered.order_by(decisions.c.participant_id, decisions.c.decision_idx)).all()
    row_of = {(point.participant_id, point.decision_idx): row for row, point in enumerate(points)}
    row_of_id = {point.id: row for row, point in enumerate(points)}
    # The newest comes last, and so is the one that counts.
    sent = sa.select(outcomes).where(~outcomes.c.late).order_by(outcomes.c.observed_at, outcomes.c.id)
    reports = connection.execute(sent).all()
    rows = np.array([row_of_id[report.decision_id] for report in reports], dtype=np.int64)
    values = np.array([report.outcome for report in reports], dtype=np.float64)
    received = np.array([to_microseconds(report.received_at) for report in reports], dtype=np.int64)
    spans = LearnedSpans(len(points))
    for update in connection.execute(sa.select(updates).where(updates.c.read_at.is_not(None)).order_by(updates.c.id)):
        known = np.zeros(len(points), dtype=bool)
        for participant, text in json.loads(update.learned_from).items():
            known[[row_of[participant, index] for index in parse_ranges(text)]] = True
        arrived = received <= to_microseconds(update.read_at)
        outcome = np.full(len(points), np.nan)
        outcome[rows[arrived]] = values[arrived]
        spans.add(update.id, known, outcome)
    learned = spans.finish()
    chosen = [points[row] for row in learned.pop("row")]
    columns: dict[str, Any] = {
        "participant": [point.participant_id for point in chosen],
        POINT: [point.decision_idx for point in chosen],
    }
    columns["outcome"] = [None if np.isnan(value) else value for value in learned.pop("outcome")]
    columns |= learned
    return pa.table({name: pa.array(columns[name], kind) for name, kind in LEARNED_COLUMNS.items()})


def write_policies_text(trial: Trial) -> str:
    """Every policy version as JSON: the update that made it, its activations and its parameters.

    The policies of participants whose data were erased are left out.
    """
    erased = erasures.c.participant_id
    with trial.database.snapshot(unlimited=True) as connection:
        without = set(connection.scalars(sa.select(erased).where(erased.is_not(None))))
        rows = connection.execute(sa.select(policies).order_by(policies.c.id)).all()
        events = connection.execute(sa.select(activations).order_by(activations.c.id)).all()
    versions = []
    for row in rows:
        parameters = json.loads(row.content)
        lasting = [position for position, person in enumerate(parameters["participants"]) if person not in without]
        for name in ("participants", *parameters["shapes"]):
            parameters[name] = [parameters[name][position] for position in lasting]
        activated = [event.activated_at.isoformat() for event in events if event.policy_id == row.id]
        version = {POLICY: row.id, "update_id": row.update_id, "accepted": row.accepted, "activated_at": activated}
        versions.append({**version, "parameters": parameters})
    return json.dumps(versions, indent=1) + "\n"


def _make_column(table: sa.Table, name: str, rows: list[Any]) -> pa.Array:
    """A column of a file from a column of a table; lists become text."""
    kinds = {datetime: MOMENT, int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    cells = [row[name] for row in rows]
    if table is decisions and name in LISTS:
        cells = ["; ".join(json.loads(cell)) for cell in cells]
    return pa.array(cells, kinds[table.c[name].type.python_type])


def _decision_table(trial: Trial, rows: list[Any]) -> pa.Table:
    study = trial.study
    columns = states.make_columns(study, rows)
    further = {
        **{alias: _make_column(decisions, name, rows) for name, alias in EXPORTED.items()},
        "action_name": pa.array([study.actions.names[row["action"]] for row in rows], pa.string()),
        "outcome_timestamp": pa.array([row["observed_at"] for row in rows], MOMENT),
        BEFORE: pa.array([row[BEFORE] for row in rows], pa.int64()),
        "outcomes_sent": pa.array([row["outcomes_sent"] for row in rows], pa.int64()),
        "outcomes_late": pa.array([row["outcomes_late"] for row in rows], pa.int64()),
        # Without it, what was erased would look like outcomes that never came.
        "erased": pa.array([row["salt"] is None for row in rows], pa.bool_()),
    }
    if study.columns.time == "decision_idx":
        del further["decision_idx"]
    for code, name in enumerate(study.actions.names):
        further[f"probability of {name}"] = pa.array([json.loads(row["probabilities"])[code] for row in rows], pa.float64())
    for name, values in further.items():
        # The study's own names come first.
        columns[f"surefoot {name}" if name in columns else name] = values
    return pa.table(columns)


SECTION = re.compile(r"^[ \t]*\[collection\][^\n]*\n(?:(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*[^#\[\s][^\n]*\n)*", re.MULTILINE)
"""From its header to its last key: comments after it belong to the next section."""
PASTE = "# Written by surefoot export. Put this table into the study, in place of its own [collection].\n"
COMMENT = "# Written by surefoot export: how the trial chose its actions.\n"


def write_study_text(trial: Trial) -> str:
    """The text of a study for the exported decisions; only the table, for one that was not served from a file."""
    collection = describe_collection(trial)
    table = f"[collection]\npolicy = {json.dumps(collection.policy)}\n"
    if collection.updates:
        table += "updates = [\n" + "".join(f"  {json.dumps(time)},\n" for time in collection.updates) + "]\n"
    text = SECTION.sub("", f"{trial.study.text.rstrip()}\n")
    complete = f"{text.rstrip()}\n\n{COMMENT}{table}"
    try:
        if Study.parse(complete).collection == collection:
            return complete
    except InputError:
        pass  # another spelling of the table, or no TOML
    return PASTE + table


def describe_collection(trial: Trial) -> CollectionSection:
    """How the actions of the trial's decisions were chosen.

    A policy that was live before the first decision, such as a pilot's, changed nothing during the trial.
    """
    versions = sa.select(activations.c.activated_at, policies.c.update_id, policies.c.study_id).join_from(
        activations, policies, activations.c.policy_id == policies.c.id
    )
    with trial.database.snapshot(unlimited=True) as connection:
        first = connection.scalar(sa.select(sa.func.min(decisions.c.received_at)))
        rows = connection.execute(versions.order_by(activations.c.id)).all()
    later = [row for row in rows if first is not None and row.activated_at >= first]
    if not later:
        return CollectionSection(policy="fixed")
    learned = [load_stored_study(trial.database, row.study_id) for row in later if row.update_id is not None]
    pooled = any(make_pooling(study.pooling).needs_everybody for study in learned)
    # Another rule began to decide when a policy went live, or when the live one became stale and the fallback took over.
    activated = [row.activated_at for row in rows]
    valid = timedelta(days=trial.settings.policy_days)
    stale = [begin + valid for begin, end in pairwise([*activated, now()]) if begin + valid < end]
    changes = sorted(moment for moment in (*activated, *stale) if moment >= first)
    times: list[datetime] = []
    if trial.study.has_clock_days:  # decision points that are counted have no common clock
        times = count_times(trial.study, [to_microseconds(moment) for moment in changes], range(len(changes))).tolist()
    return CollectionSection(policy="pooled" if pooled else "own", updates=tuple(moment.isoformat() for moment in times))
