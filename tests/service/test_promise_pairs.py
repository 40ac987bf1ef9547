"""Every promise holds together with every other one: each pair once, with replay and ledger at the end."""

import csv
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path

import pytest

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.operations import backup
from surefoot.service.operations.export import EXPORTS, export_decisions
from surefoot.service.trial import participants as participant_module
from surefoot.service.trial.api_models import ApiError, DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import Erasure, erase_expired, register_participant, set_pause, withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import make_seal, replay, verify
from surefoot.service.updates import updates as update_module
from surefoot.study import Study
from tests.service.dashboard.pages import PAGES, sign_in
from tests.service.support.client import Client, request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, answer, erase, fill, moment, update

SENTINEL = 7.7310625
"""A value that is looked for in files."""
DERIVED = STUDY.replace(
    "[outcome]",
    '[state.lately]\nderived = "outcome mean"\nstart = 0\n\n[state.day]\nderived = "day in study"\n\n[outcome]',
).replace("[trial]\n", "[trial]\nday_boundary = 5\n")


def account(database, *seals, added=()):
    """Everything replays and every row is as the ledger and the seals have it; how many decisions are erased.

    `added` names what only a later release's tables have: this release's code says so, and nothing else.
    """
    replayed = replay(database)
    assert replayed.differences == []
    discrepancies = verify(database, seals).discrepancies
    assert [discrepancy.subject for discrepancy in discrepancies] == list(added), discrepancies
    return replayed.erased


@pytest.fixture
def restore(study, tmp_path):
    """Restore a backup into a new SQLite file and open the trial that it holds."""
    opened = []

    def restore_and_open(path, text=study, **settings):
        url = f"sqlite:///{tmp_path}/restored-{len(opened)}.db"
        database = databases.connect(url)
        restored = backup.restore(path, database, by="test", **settings)
        database.close()
        opened.append(open_trial(text, url))
        return opened[-1], restored

    yield restore_and_open
    for trial in opened:
        trial.close()


def send_sentinel(trial, participant="p0", index=900):
    context = {"weather": SENTINEL, "engagement": 0.0, "place": "home"}
    return answer(trial, participant, index, context=context)


def read_files(trial):
    """The bytes of a SQLite database and its log."""
    path = Path(trial.database.engine.url.database)
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_erase_and_restore(trial, restore, tmp_path):
    fill(trial, points=40)
    update(trial)
    send_sentinel(trial)
    erase(trial)
    counts = backup.back_up(trial.database, tmp_path / "trial.zip")
    copy, restored = restore(tmp_path / "trial.zip")
    assert restored == backup.Restoration(counts, Erasure(0, 0), None)
    assert account(copy.database) == account(trial.database) == 41
    assert str(SENTINEL).encode() not in read_files(copy)
    assert answer(copy, "p1")["action"] == answer(trial, "p1")["action"]
    assert update(copy)[0] == "done"
    again, _ = restore(tmp_path / "trial.zip")
    backup.back_up(again.database, tmp_path / "second.zip")
    third, _ = restore(tmp_path / "second.zip")
    assert account(third.database) == 41, "erased stays erased through every restore"


def test_erase_and_restore_a_backup_from_before(trial, restore, tmp_path):
    fill(trial, points=40)
    update(trial)
    send_sentinel(trial)
    backup.back_up(trial.database, tmp_path / "old.zip")
    erase(trial)
    backup.write_erasure_list(trial.database, tmp_path)
    listed = backup.write_erasure_list(trial.database, tmp_path)
    assert listed.read_text().count("\n") == 2, "an erasure and a withdrawal, no line twice"
    copy, restored = restore(tmp_path / "old.zip")
    assert (restored.erased, restored.erasure_list) == (Erasure(41, 32), listed)
    assert account(copy.database) == 41
    assert str(SENTINEL).encode() not in read_files(copy)
    with pytest.raises(Exception, match="has withdrawn"):
        answer(copy, "p0", 1001)
    assert answer(copy, "p1")["action"] == answer(trial, "p1")["action"]


def test_keep_days_and_restore(url, restore, monkeypatch, tmp_path):
    """A backup from after the erasure restores; one from before asks what to do with what has expired."""
    clock = Clock(monkeypatch, tmp_path)
    study = Study.parse(STUDY.replace("[trial]\n", "[trial]\nkeep_days = 30\n"))
    trial = open_trial(study, url)
    register_participant(trial.database, "p0")
    send_sentinel(trial, index=0)
    backup.back_up(trial.database, tmp_path / "old.zip")
    clock.set(BEGIN + timedelta(days=31))
    answer(trial, "p0", 1)
    assert erase_expired(trial, clock.moment) == Erasure(1, 0)
    backup.back_up(trial.database, tmp_path / "new.zip")
    with pytest.raises(ValueError, match=r"1 decisions and 0 outcomes .* --expired erase"):
        restore(tmp_path / "old.zip", study)
    (tmp_path / "restored-0.db").unlink()
    for name, erased in (("new.zip", 0), ("old.zip", 1)):
        copy, restored = restore(tmp_path / name, study, expired="erase")
        assert restored.erased == Erasure(erased, 0)
        assert account(copy.database) == 1
        assert str(SENTINEL).encode() not in read_files(copy)
    trial.close()


def test_a_clock_ahead_and_restore(url, restore, monkeypatch, tmp_path):
    """What a wrong clock erased comes back from a good backup, and whom people erased stays erased and withdrawn."""
    clock = Clock(monkeypatch, tmp_path)
    study = Study.parse(STUDY.replace("[trial]\n", "[trial]\nkeep_days = 30\n"))
    trial = open_trial(study, url)
    fill(trial, points=3)
    backup.back_up(trial.database, tmp_path / "good.zip")
    erase(trial, "p1")
    clock.set(BEGIN + timedelta(days=400))
    assert erase_expired(trial, clock.moment).decisions == 3
    backup.write_erasure_list(trial.database, tmp_path)
    clock.set(BEGIN + timedelta(days=1))
    with pytest.raises(ValueError, match=r"3 decisions and 3 outcomes .* check the server's clock"):
        restore(tmp_path / "good.zip", study)
    (tmp_path / "restored-0.db").unlink()
    copy, restored = restore(tmp_path / "good.zip", study, expired="keep")
    assert restored.erased == Erasure(3, 3) and account(copy.database) == 3
    with pytest.raises(Exception, match="has withdrawn"):
        answer(copy, "p1")
    assert answer(copy, "p0")["action"] == answer(trial, "p0")["action"]
    assert update(copy)[0] == "waiting"
    trial.close()


def test_a_clock_ahead_and_erase(url, study, monkeypatch, tmp_path):
    """Decisions that a wrong clock dated into the future can be erased, and replay accuses nobody."""
    clock = Clock(monkeypatch, tmp_path)
    trial = open_trial(study, url)
    register_participant(trial.database, "p0")
    clock.set(BEGIN + timedelta(days=400))
    answer(trial, "p0", 0, timestamp=BEGIN.isoformat())
    clock.set(BEGIN + timedelta(hours=1))
    answer(trial, "p0", 1, timestamp=clock.moment.isoformat())
    erase(trial)
    assert account(trial.database) == 2
    trial.close()


def test_erase_and_replay(url, monkeypatch, tmp_path):
    """Derived states follow from a past that is erased, in part by keep_days."""
    clock = Clock(monkeypatch, tmp_path)
    clock.set(BEGIN + timedelta(days=10))
    text = DERIVED.replace("[trial]\n", "[trial]\nkeep_days = 30\n")
    trial = open_trial(Study.parse(text), url)
    fill(trial, points=40)
    assert update(trial)[0] == "done"
    clock.set(BEGIN + timedelta(days=20))
    fill(trial, points=5, first=40)
    clock.set(BEGIN + timedelta(days=41))
    erase_expired(trial, clock.moment)
    fill(trial, points=5, first=45)
    assert account(trial.database) == 80
    erase(trial, "p1")
    assert account(trial.database) == 90
    trial.close()


def test_erase_and_retry(trial):
    fill(trial, people=1, points=3)
    asked = DecisionRequest.model_validate(request("p0", 900, timestamp=moment(6)))
    first = decide(trial, asked)
    erase(trial)
    assert decide(trial, asked) == first
    account(trial.database)


def test_erase_and_seal(trial):
    fill(trial, points=10)
    before = make_seal(trial.database)
    erase(trial)
    after = make_seal(trial.database)
    answer(trial, "p1")
    assert account(trial.database, before, after) == 10


def test_erase_and_export(trial, tmp_path):
    fill(trial, points=40)
    send_sentinel(trial)
    erase(trial)
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    EXPORTS["outcomes"](trial, tmp_path / "outcomes.csv", "csv")
    assert str(SENTINEL) not in (tmp_path / "decisions.csv").read_text() + (tmp_path / "outcomes.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "decisions.csv").read_text().splitlines()))
    assert {row["erased"] for row in rows if row["participant"] == "p0"} == {"true"}
    assert {row["erased"] for row in rows if row["participant"] == "p1"} == {"false"}
    logs = trial.study.read(tmp_path / "decisions.csv").logs
    assert (len(logs), int(logs.usable.sum())) == (81, 32), "nothing of p0 is learned from"


def test_erase_and_an_update_under_way(trial, monkeypatch):
    """Nothing that was read before an erasure is written after it."""
    propose, calls = update_module.propose_policy, []

    def propose_late(*given, **settings):
        proposal = propose(*given, **settings)
        calls.append(len(given[1].row))
        if len(calls) == 1:
            erase(trial)
        return proposal

    fill(trial, points=40)
    monkeypatch.setattr(update_module, "propose_policy", propose_late)
    state, status = update(trial)
    assert state == "done" and len(calls) == 2
    live, _ = trial.policies.live()
    assert set(trial.policies.get(live).policies.participants) == {"p1"}
    assert {row["participant_id"] for row in status["result"]["removed_rows"]} <= {"p1"}
    assert account(trial.database) == 40


def test_erase_and_what_comes_at_the_same_moment(trial, monkeypatch):
    """A decision or an outcome that is sent while an erasure is under way is refused, not recorded beside it."""
    decision = fill(trial, people=1, points=3)[0].decision_id
    outcome = Outcome(decision_id=decision, outcome=SENTINEL, timestamp=moment(2))
    blank_copies = participant_module._blank_copies
    late = ThreadPoolExecutor(2)
    calls = []

    def blank_late(connection):
        calls.append(late.submit(send_sentinel, trial))
        calls.append(late.submit(record_outcomes, trial, [outcome]))
        wait(calls, timeout=0.5)
        blank_copies(connection)

    monkeypatch.setattr(participant_module, "_blank_copies", blank_late)
    erase(trial)
    with pytest.raises(ApiError, match="has withdrawn"):
        calls[0].result(10)
    assert calls[1].result(10)[0]["status"] == "withdrawn"
    late.shutdown()
    assert account(trial.database) == 3


def test_withdraw_and_update(trial, monkeypatch):
    """Before the update, and while it is under way."""
    propose, calls = update_module.propose_policy, []

    def propose_late(*given, **settings):
        calls.append(None)
        if len(calls) == 1:
            withdraw(trial, "p1", reason="no time", by="test")
        return propose(*given, **settings)

    fill(trial, people=3, points=40)
    withdraw(trial, "p2", reason="left", by="test")
    monkeypatch.setattr(update_module, "propose_policy", propose_late)
    assert update(trial)[0] == "done"
    live, _ = trial.policies.live()
    assert set(trial.policies.get(live).policies.participants) == {"p0"}
    account(trial.database)


def test_withdraw_and_restore(trial, restore, tmp_path):
    fill(trial, points=10)
    withdraw(trial, "p0", reason="left", by="test")
    backup.back_up(trial.database, tmp_path / "trial.zip")
    copy, _ = restore(tmp_path / "trial.zip")
    with pytest.raises(Exception, match="has withdrawn"):
        answer(copy, "p0")
    account(copy.database)


def test_withdraw_and_restore_a_backup_from_before(trial, restore, tmp_path):
    """Who withdrew stays withdrawn, and a key that was revoked stays revoked."""
    fill(trial, points=10)
    key = access.create_key(trial.database, "app")
    backup.back_up(trial.database, tmp_path / "trial.zip")
    withdraw(trial, "p0", reason="left", by="test")
    access.revoke_key(trial.database, key)
    backup.write_erasure_list(trial.database, tmp_path)
    copy, _ = restore(tmp_path / "trial.zip")
    with pytest.raises(ApiError, match="has withdrawn"):
        answer(copy, "p0")
    answer(copy, "p1")
    assert access.find_caller(copy.database, key) is None
    assert account(copy.database) == 0


def test_pause_and_retry(trial):
    """A retry repeats what was answered, whatever was paused or resumed since."""
    register_participant(trial.database, "p0")
    asked = [DecisionRequest.model_validate(request("p0", index)) for index in range(3)]
    before = decide(trial, asked[0])
    set_pause(trial, "p0", paused=True, reason="ill", by="test")
    assert decide(trial, asked[0]) == before and '"unavailable"' not in before
    paused = decide(trial, asked[1])
    assert '"unavailable"' in paused and decide(trial, asked[1]) == paused
    set_pause(trial, "p0", paused=False, reason="well", by="test")
    assert decide(trial, asked[1]) == paused
    set_pause(trial, None, paused=True, reason="holidays", by="test")
    study_paused = decide(trial, asked[2])
    set_pause(trial, None, paused=False, reason="back", by="test")
    assert decide(trial, asked[2]) == study_paused and "paused: the study" in study_paused
    account(trial.database)


def test_pause_and_restore(trial, restore, tmp_path):
    fill(trial, points=3)
    set_pause(trial, "p0", paused=True, reason="ill", by="test")
    backup.back_up(trial.database, tmp_path / "trial.zip")
    copy, _ = restore(tmp_path / "trial.zip")
    assert answer(copy, "p0")["source"] == "unavailable" and answer(copy, "p1")["source"] == "warm-up"
    account(copy.database)


def test_seal_and_restore(trial, restore, tmp_path):
    fill(trial, points=10)
    before = make_seal(trial.database)
    erase(trial)
    at_backup = make_seal(trial.database)
    backup.back_up(trial.database, tmp_path / "trial.zip")
    copy, _ = restore(tmp_path / "trial.zip")
    answer(copy, "p1")
    account(copy.database, before, at_backup, make_seal(copy.database))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("later", [0, 3])
def test_seal_and_restore_a_backup_from_before(trial, restore, tmp_path, later):
    """What was sealed after the backup is lost, and the restore is named as the reason."""
    fill(trial, points=10)
    backup.back_up(trial.database, tmp_path / "old.zip")
    answer(trial, "p0", 1000)
    answer(trial, "p1", 1000)
    seal = make_seal(trial.database)
    copy, _ = restore(tmp_path / "old.zip")
    for index in range(later):
        answer(copy, "p1", 1000 + index)
    (words,) = {
        discrepancy.problem
        for discrepancy in verify(copy.database, [seal]).discrepancies
        if "counted" not in discrepancy.problem
    }
    assert words.endswith("from an older backup, and what followed that backup is lost")
    account(copy.database)


def test_upgrade_and_replay(empty, study, restore, tmp_path, later_migration):
    """Rows, erasures and seals survive a later migration; a backup of the upgraded trial restores."""
    trial = open_trial(study, empty.url)
    fill(trial, points=40)
    update(trial)
    answer(trial, "p1")
    erase(trial)
    trial.close()
    seal = make_seal(empty)
    later_migration("op.add_column('decisions', sa.Column('remark', sa.Text))")
    with pytest.raises(ValueError, match=r"needs later; back it up with surefoot backup and run surefoot db upgrade"):
        databases.prepare(empty)
    assert backup.back_up(empty, tmp_path / "before.zip")["decisions"] == 81, "as the error says"
    with pytest.raises(ValueError, match=r"made with schema version \d+, .* and then run surefoot db upgrade"):
        restore(tmp_path / "before.zip")
    (tmp_path / "restored-0.db").unlink()
    databases.upgrade(empty)
    added = ("column decisions.remark",)
    assert account(empty, seal, added=added) == 40
    goes_on = open_trial(study, empty.url)
    answer(goes_on, "p1", 1001)
    assert update(goes_on)[0] == "done"
    assert account(goes_on.database, seal, added=added) == 40
    backup.back_up(goes_on.database, tmp_path / "trial.zip")
    goes_on.close()
    copy, _ = restore(tmp_path / "trial.zip")
    assert account(copy.database, seal) == 40, "restored into the tables of this release"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_erase_and_every_page(trial):
    fill(trial, points=40)
    update(trial)
    erase(trial)
    given = {role: access.create_key(trial.database, role) for role in access.ROLES}
    with Client(create_app(trial), given) as browser:
        sign_in(browser, "admin")
        for page in (*PAGES, "/participants/p0", "/updates/1", "/policies/1"):
            assert browser.get(page).status_code == 200, page
