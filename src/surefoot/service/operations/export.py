"""Export: the trial in long format, one row per decision point, readable by `surefoot fit` with the same study."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from surefoot.service.database.schema import outcomes
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import trial_logs

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True)
class Export:
    """A file, and counts to check it by."""

    content: bytes
    rows: int
    participants: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def export_decisions(trial: Trial, form: str) -> Export:
    """Every decision point with the outcome that counts, as it is known at this moment."""
    with trial.database.snapshot() as connection:
        found = trial_logs.read_rows(connection)
        counts = connection.execute(
            sa.select(
                outcomes.c.decision_id,
                sa.func.count().label("sent"),
                sa.func.sum(sa.cast(outcomes.c.late, sa.Integer)).label("late"),
            ).group_by(outcomes.c.decision_id)
        )
        sent = {row.decision_id: (row.sent, row.late) for row in counts}
    table = _table(trial, found, sent)
    return Export(encode_table(table, form), len(found), len({row["participant_id"] for row in found}))


def _table(trial: Trial, found: list[Any], sent: dict[str, tuple[int, int]]) -> pa.Table:
    import pyarrow as pa

    study = trial.study
    named = trial_logs.make_columns(study, found)
    moment = pa.timestamp("us", "UTC")
    more: dict[str, Any] = {
        "decision_id": [row["id"] for row in found],
        "decision_idx": pa.array([row["decision_idx"] for row in found], pa.int64()),
        "timestamp": pa.array([row["decided_at"] for row in found], moment),
        "received_at": pa.array([row["received_at"] for row in found], moment),
        "availability_reasons": ["; ".join(json.loads(row["availability_reasons"])) for row in found],
        "source": [row["source"] for row in found],
        "fallback_reasons": ["; ".join(json.loads(row["fallback_reasons"])) for row in found],
        "policy_id": pa.array([row["policy_id"] for row in found], pa.int64()),
        "action_name": [study.actions.names[row["action"]] for row in found],
        "outcome_timestamp": pa.array([row["observed_at"] for row in found], moment),
        "outcomes_sent": pa.array([sent.get(row["id"], (0, 0))[0] for row in found], pa.int64()),
        "outcomes_late": pa.array([sent.get(row["id"], (0, 0))[1] for row in found], pa.int64()),
    }
    for code, name in enumerate(study.actions.names):
        more[f"probability of {name}"] = pa.array([json.loads(row["probabilities"])[code] for row in found], pa.float64())
    for name, values in more.items():
        if name == "decision_idx" and study.columns.time == "decision_idx":
            continue
        # The study's own names come first.
        named[f"surefoot {name}" if name in named else name] = (
            values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        )
    return pa.table(named)


def export_outcomes(trial: Trial, form: str) -> Export:
    """Every outcome that was ever sent, in the order of arrival: corrections, late ones, known missing ones."""
    import pyarrow as pa

    with trial.database.snapshot() as connection:
        found = connection.execute(sa.select(outcomes).order_by(outcomes.c.id)).mappings().all()
    moment = pa.timestamp("us", "UTC")
    kinds = {
        "id": pa.int64(),
        "decision_id": pa.string(),
        "proximal_outcome": pa.float64(),
        "observed_at": moment,
        "received_at": moment,
        "late": pa.bool_(),
        "echoed_probability": pa.float64(),
    }
    table = pa.table({name: pa.array([row[name] for row in found], kind) for name, kind in kinds.items()})
    return Export(encode_table(table, form), len(found), 0)


def encode_table(table: pa.Table, form: str) -> bytes:
    """A table as the bytes of a CSV or Parquet file."""
    from pyarrow import csv, parquet

    buffer = io.BytesIO()
    if form == "parquet":
        parquet.write_table(table, buffer)
    else:
        csv.write_csv(table, buffer)
    return buffer.getvalue()
