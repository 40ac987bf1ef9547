"""The service seals its ledger after every update and every hour."""

from datetime import timedelta
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from surefoot.service.database.clock import now
from surefoot.service.database.schema import alerts, staff_actions
from surefoot.service.operations.seals import VARIABLE, find_destination, run_due_seals
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import read_seals, verify
from surefoot.service.updates import schedule
from tests.service.support.seeded_trial import BEGIN, Clock
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


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("days", [400, 1, -1, -400])
@pytest.mark.parametrize("sealed", [("before",), ("while",), ("before", "while", "after")])
def test_a_clock_that_was_wrong_for_a_while_accuses_nobody(study, url, monkeypatch, tmp_path, days, sealed):
    clock = Clock(monkeypatch, tmp_path)
    trial = open_trial(study, url)
    path = tmp_path / "seals.jsonl"
    for hour, (name, ahead) in enumerate({"before": 0, "while": days, "after": 0}.items()):
        clock.set(BEGIN + timedelta(days=ahead, hours=hour))
        schedule.tick(trial, clock.moment)
        if name in sealed:
            run_due_seals(trial, str(path), clock.moment)
    schedule.tick(trial, clock.moment + timedelta(minutes=5))
    assert verify(trial.database, read_seals(path)).discrepancies == []
    trial.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_full_disk_leaves_no_half_seal(trial, tmp_path):
    path = tmp_path / "seals.jsonl"
    moment = now()
    assert run_due_seals(trial, str(path), moment) is not None
    limits = getrlimit(RLIMIT_FSIZE)
    full = tmp_path / "full.jsonl"
    full.write_bytes(path.read_bytes() * (Path(str(trial.database.engine.url.database)).stat().st_size // 100))
    length = full.stat().st_size
    setrlimit(RLIMIT_FSIZE, (length + 100, limits[1]))
    try:
        assert run_due_seals(trial, str(full), moment + timedelta(hours=1)) is None
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    assert full.stat().st_size == length and column(trial, alerts.c.kind) == ["seal"]
    assert run_due_seals(trial, str(full), moment + timedelta(hours=2)) is not None
