"""A simulated trial as files, in the form in which `surefoot export` writes a trial of the service."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.atomic_files import atomic_write, refuse_unwritable
from surefoot.data.frames import make_frame
from surefoot.rehearsal.trial_run import DECIDERS, TrialRecord
from surefoot.study import Study
from surefoot.study.trial_updates import BEFORE, LEARNED_COLUMNS, POINT, POLICY, UPDATE_COLUMNS, LearnedSpans, name_beside

if TYPE_CHECKING:
    import pyarrow as pa


def write_trial(record: TrialRecord, study: Study, folder: str | Path) -> Path:
    """Write a simulated trial for `surefoot effects` and other commands.

    Parameters
    ----------
    record
        A trial of `run_trials`.
    study
        The study of the trial, which names the columns.
    folder
        Gets `decisions.csv`, `decisions.updates.csv`, `decisions.learned.csv` and `decisions.policies.json`.

    Returns
    -------
    Path
        The decisions.

    Examples
    --------
    >>> import tempfile, surefoot as sf
    >>> from surefoot.rehearsal import Candidate, TrialDesign, run_trials
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\navailable = "available"\\nprobability = "probability"\\n'
    >>> study = sf.Study.parse(text + "[state.weather]\\n[state.engagement]\\n[state.fatigue]\\n")
    >>> coin = Candidate.fixed(study, 0.5)
    >>> (record,) = run_trials(sf.simulators.HeartSteps(3), coin, TrialDesign(participants=3, days=4), seeds=[1])
    >>> with tempfile.TemporaryDirectory() as name:
    ...     study.read(write_trial(record, study, name)).logs.shape
    (60, 3)
    """
    from pyarrow import csv

    decisions = Path(folder) / "decisions.csv"
    with refuse_unwritable(decisions.parent):
        decisions.parent.mkdir(parents=True, exist_ok=True)
    tables = {
        "learned": _list_learned(record),
        "decisions": _list_decisions(record, study),
        "updates": _list_updates(record),
    }
    for name, table in tables.items():
        with atomic_write(decisions if name == "decisions" else name_beside(decisions, name, ".csv")) as temporary:
            csv.write_csv(table, temporary)
    versions = [
        {
            POLICY: number,
            "update_id": number,
            "accepted": update.state == "done",
            "parameters": update.policies.to_dict(),
        }
        for number, update in enumerate(record.updates, 1)
        if update.policies is not None
    ]
    with atomic_write(name_beside(decisions, "policies", ".json")) as temporary:
        temporary.write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")
    return decisions


def _list_decisions(record: TrialRecord, study: Study) -> "pa.Table":
    logs = record.measured
    named = study.with_trial_columns()
    texts = study.actions.texts
    columns: dict[str, Any] = {
        named.columns.participant: logs.participant,
        named.columns.time: logs.time,
        str(named.columns.available): logs.available,
        str(named.columns.probability): logs.probability,
        study.actions.column: logs.action if texts is None else [texts[action] for action in logs.action],
        study.outcome.column: logs.outcome,
    }
    position = 0
    for name, (column, kind) in study.state_kinds.items():
        size = len(study.state_columns[name])
        columns[column] = kind.write_cells(logs.state[:, position : position + size])
        position += size
    days = [update.day for update in record.updates]
    further = {
        POINT: logs.position,
        "source": [DECIDERS[source] for source in record.source],
        POLICY: [version or None for version in record.version.tolist()],
        BEFORE: np.searchsorted(days, record.day),
    }
    for name, values in further.items():
        if name != named.columns.time:
            columns[f"surefoot {name}" if name in columns else name] = values
    return make_frame(columns, "pyarrow")


def _list_updates(record: TrialRecord) -> "pa.Table":
    import pyarrow as pa

    rows = [
        {
            "update_id": number,
            "state": update.state,
            POLICY: None if update.policies is None else number,
            "learned_from": 0 if update.known is None else int(update.known.sum()),
            "refused_by": "; ".join(update.refused_by),
            "message": update.message,
        }
        for number, update in enumerate(record.updates, 1)
    ]
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in UPDATE_COLUMNS.items()})


def _list_learned(record: TrialRecord) -> "pa.Table":
    import pyarrow as pa

    logs = record.measured
    points = logs.position
    spans = LearnedSpans(len(logs))
    for number, update in enumerate(record.updates, 1):
        if update.known is not None:
            known = np.zeros(len(logs), dtype=bool)
            early = points < update.known.shape[1]
            known[early] = update.known[logs.participant_index[early], points[early]]
            spans.add(number, known, logs.outcome)
    learned = spans.finish()
    rows = learned.pop("row")
    columns = {"participant": logs.participant[rows].astype(str), POINT: points[rows], **learned}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in LEARNED_COLUMNS.items()})
