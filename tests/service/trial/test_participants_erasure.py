"""Erasure: the content is gone, from the files too; rows, draws, replay and ledger still add up."""

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.schema import decisions, erasures, outcomes, participant_events, staff_actions, updates
from surefoot.service.operations.export import export_decisions
from surefoot.service.trial import participants
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.verification import make_seal, replay, verify
from surefoot.service.updates import schedule
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import answer, column, erase, fill, update

SENTINEL = 7.7310625


def rows_of(trial, table):
    with trial.database.autocommit() as connection:
        return connection.execute(sa.select(table).order_by(table.c.id)).mappings().all()


def test_content_goes_and_accountability_stays(trial, url, tmp_path):
    fill(trial, points=40)
    update(trial)
    answer(trial, "p0", context={"weather": SENTINEL, "engagement": 0.0, "place": "home"})
    before = {row["id"]: row for row in rows_of(trial, decisions)}
    seal = make_seal(trial.database)
    assert erase(trial) == participants.Erasure(decisions=41, outcomes=32)
    for row in rows_of(trial, decisions):
        was = before[row["id"]]
        if row["participant_id"] == "p0":
            assert (row["context"], row["state"], row["availability_reasons"], row["salt"]) == ("{}", "[]", "[]", None)
            was = {**was, **{name: row[name] for name in ("context", "state", "availability_reasons", "salt")}}
        assert dict(row) == dict(was)
    gone = [row for row in rows_of(trial, outcomes) if row["salt"] is None]
    assert len(gone) == 32 and {row["outcome"] for row in gone} == {None}
    assert {row["fingerprint"] for row in gone} == {f"erased {row['id']}" for row in gone}
    replayed = replay(trial.database)
    assert (replayed.decisions, replayed.erased, replayed.differences) == (81, 41, [])
    checked = verify(trial.database, [seal])
    assert checked.discrepancies == [] and checked.erased == {"decisions": 41, "outcomes": 32, "adverse_events": 0}
    assert column(trial, participant_events.c.kind)[-1] == "withdrawn"
    assert column(trial, staff_actions.c.action) == ["asked to erase", "withdrawn", "erased"]
    assert str(SENTINEL) not in "".join(column(trial, updates.c.result))
    if trial.database.is_sqlite:
        files = [path for path in Path(trial.database.engine.url.database).parent.glob("trial.db*") if path.is_file()]
        assert not any(str(SENTINEL).encode() in path.read_bytes() for path in files)
    made = export_decisions(trial, tmp_path / "decisions.csv", "csv")
    assert made.rows == 81
    assert update(trial)[0] == "done", "learning goes on without them"


def test_it_takes_two_steps_and_the_right_code(trial, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    fill_one(trial)
    with pytest.raises(ValueError, match="nobody asked"):
        participants.confirm_erasure(trial.database, "p0", "00000000", by="x")
    with pytest.raises(ValueError, match="no participant 'p7'"):
        participants.ask_erasure(trial.database, "p7", reason="x", by="x")
    first = participants.ask_erasure(trial.database, "p0", reason="x", by="x")
    second = participants.ask_erasure(trial.database, "p0", reason="y", by="x")
    assert (second.decisions, second.outcomes) == (1, 0)
    for wrong in (first.code, "", "é"):
        with pytest.raises(ValueError, match="nothing was erased"):
            participants.confirm_erasure(trial.database, "p0", wrong, by="x")
    clock.set(BEGIN + timedelta(hours=25))
    with pytest.raises(ValueError, match="in the last 24 hours"):
        participants.confirm_erasure(trial.database, "p0", second.code, by="x")
    assert column(trial, erasures.c.id) == []
    clock.set(BEGIN + timedelta(hours=23))
    assert participants.confirm_erasure(trial.database, "p0", second.code, by="x").decisions == 1


def fill_one(trial):
    register_participant(trial.database, "p0")
    answer(trial, "p0", 0, timestamp=BEGIN.isoformat())


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_reader_that_keeps_the_log_is_named_and_the_schedule_empties_it_later(trial, tmp_path, monkeypatch):
    log = tmp_path / "trial.db-wal"
    monkeypatch.setattr(databases, "PRAGMAS", (*databases.PRAGMAS, "busy_timeout = 50"))
    trial.database.close()
    register_participant(trial.database, "p0")
    answer(trial, "p0", context={"weather": SENTINEL, "engagement": 0.0, "place": "home"})
    with trial.database.snapshot() as reader:
        reader.execute(sa.select(decisions.c.id)).all()
        assert not erase(trial).is_scrubbed
        assert str(SENTINEL).encode() in log.read_bytes()
    schedule.tick(trial, now())
    assert str(SENTINEL).encode() not in log.read_bytes() + (tmp_path / "trial.db").read_bytes()


def test_the_range_of_outcomes_does_not_outlive_them(trial):
    """The largest outcome is somebody's."""
    replies = fill(trial, points=40)
    sent = Outcome(decision_id=replies[0].decision_id, outcome=SENTINEL, timestamp="2026-03-02T08:00:00Z")
    record_outcomes(trial, [sent])
    update(trial)
    erase(trial)
    assert not any(
        str(SENTINEL) in text
        for name in ("result", "findings", "message")
        for text in column(trial, updates.c[name])
        if text
    )


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_policys_page_and_an_updates_result_forget_too(trial):
    fill(trial, points=40)
    update(trial)
    with trial.database.transaction() as connection:
        listed = (
            f'{{"removed_rows": [{{"participant_id": "p0", "decision_idx": 3, "outcome": {SENTINEL}, "expected": 1.0}}, '
        )
        listed += '{"participant_id": "p1", "decision_idx": 3, "outcome": 5.5, "expected": 1.0}]}'
        connection.execute(sa.update(updates).values(result=listed))
    erase(trial)
    (kept,) = column(trial, updates.c.result)
    assert str(SENTINEL) not in kept and "5.5" in kept


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_erasure_without_its_record_is_found(trial):
    fill(trial, people=1, points=3)
    blank = {"context": "{}", "state": "[]", "availability_reasons": "[]", "salt": None}
    with trial.database.transaction() as connection:
        connection.execute(sa.update(decisions).values(**blank))
    assert [discrepancy.problem for discrepancy in verify(trial.database).discrepancies] == [
        "was emptied without an erasure on record"
    ] * 3
