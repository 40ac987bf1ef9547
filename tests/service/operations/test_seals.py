"""The service seals its ledger after every update and every hour."""

from datetime import timedelta
from pathlib import Path

import pytest

from surefoot.service.database.clock import now
from surefoot.service.database.schema import alerts, staff_actions
from surefoot.service.operations.seals import VARIABLE, find_destination, run_due_seals
from surefoot.service.operations.verification import read_seals, verify
from tests.service.support.trials import column, fill, update


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_seal_follows_every_update_and_every_hour(trial, monkeypatch):
    moment = now()
    path = find_destination(trial.database)
    assert path.endswith("trial.db.seals.jsonl")
    assert run_due_seals(trial, path, moment) is not None and run_due_seals(trial, path, moment) is None
    fill(trial, people=1, points=2)
    update(trial)
    assert run_due_seals(trial, path, moment) is not None and run_due_seals(trial, path, moment) is None
    assert run_due_seals(trial, path, moment + timedelta(hours=1)) is not None
    seals = read_seals(Path(path))
    assert len(seals) == 3 == column(trial, staff_actions.c.action).count("sealed")
    assert verify(trial.database, seals).discrepancies == []
    (missing,) = verify(trial.database, seals[:2]).discrepancies
    assert missing.problem.endswith("and is not among the seals")
    monkeypatch.setenv(VARIABLE, "/nowhere/seals.jsonl")
    assert run_due_seals(trial, find_destination(trial.database), moment + timedelta(hours=2)) is None
    assert column(trial, alerts.c.kind) == ["seal"]
