"""A backup every night, whichever worker makes it; old ones go, failures are alerts and are tried again."""

import os
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.database.clock import ClockWatch
from surefoot.service.database.schema import alerts, staff_actions
from surefoot.service.operations import backup, nightly_backup
from surefoot.service.operations.nightly_backup import list_backups, run_nightly_backup
from surefoot.service.trial.alerts import assess_trial
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from surefoot.study import Study
from tests.service.support.client import Client
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, answer, column, erase

sqlite_only = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    return Clock(monkeypatch, tmp_path)


@pytest.fixture
def open_backed_up(url, clock, tmp_path):
    """Open the trial with backups into a folder, the newest two of which are kept."""
    opened = []

    def open_with(settings="encrypted = false"):
        text = STUDY + f'[trial.backup]\nfolder = "{tmp_path / "backups"}"\nkeep = 2\n{settings}\n'
        opened.append(open_trial(Study.parse(text), url))
        return opened[-1]

    (tmp_path / "backups").mkdir()
    yield open_with
    for trial in opened:
        trial.close()


def list_kinds(trial, at):
    return [kind for _, kind, _ in assess_trial(trial, at).reasons]


def test_each_night_is_backed_up_once_and_old_ones_go(open_backed_up, clock, tmp_path):
    workers = [open_backed_up(), open_backed_up()]
    for participant in ("p0", "p1"):
        register_participant(workers[0].database, participant)
        answer(workers[0], participant, 0, timestamp=BEGIN.isoformat())
    erase(workers[0], "p1")
    assert run_nightly_backup(workers[0], BEGIN) is None, "the trial began after last night"
    for day in (1, 2, 3):
        clock.set(BEGIN + timedelta(days=day))
        made = [run_nightly_backup(worker, clock.moment) for worker in workers for _ in range(2)]
        assert [path.name for path in made if path] == [f"trial-2026-03-0{2 + day}.zip"]
    folder = tmp_path / "backups"
    assert [path.name for path in list_backups(folder)] == ["trial-2026-03-05.zip", "trial-2026-03-04.zip"]
    assert (folder / backup.ERASURE_LIST).exists()
    assert column(workers[0], staff_actions.c.subject).count("trial-2026-03-05.zip") == 1
    assert "backup" not in list_kinds(workers[0], clock.moment)
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    assert backup.restore(list_backups(folder)[0], copy, by="test").rows["decisions"] == 2
    assert replay(copy).differences == []
    copy.close()


@sqlite_only
def test_a_backup_of_a_clock_ahead_pushes_out_no_real_one(open_backed_up, clock, tmp_path):
    trial = open_backed_up()
    folder = tmp_path / "backups"
    clock.set(BEGIN + timedelta(days=400))
    assert run_nightly_backup(trial, clock.moment) is not None
    for day in (1, 2, 3):
        clock.set(BEGIN + timedelta(days=day))
        assert run_nightly_backup(trial, clock.moment) is not None
    assert [path.name for path in list_backups(folder)] == ["trial-2026-03-05.zip", "trial-2026-03-04.zip"]


@sqlite_only
def test_what_killed_backups_left_is_removed(open_backed_up, clock, tmp_path):
    trial = open_backed_up()
    left = [tmp_path / "backups" / f".trial-2026-03-0{day}.zip.age.x{day}yz" for day in (2, 4)]
    for path in left:
        path.write_bytes(b"half a backup")
    os.utime(left[0], (0, 0))
    clock.set(BEGIN + timedelta(days=1))
    assert run_nightly_backup(trial, clock.moment) is not None
    assert [path.exists() for path in left] == [False, True], "another worker may still write the young one"


@sqlite_only
def test_a_backup_whose_process_was_killed_before_it_was_recorded_counts(open_backed_up, clock, monkeypatch):
    trial = open_backed_up()
    register_participant(trial.database, "p0")
    answer(trial, "p0", 0, timestamp=BEGIN.isoformat())
    clock.set(BEGIN + timedelta(days=1, hours=12))

    def be_killed(*_):
        raise SystemExit

    with monkeypatch.context() as killed, pytest.raises(SystemExit):
        killed.setattr(nightly_backup, "write_erasure_list", be_killed)
        run_nightly_backup(trial, clock.moment)
    assert column(trial, staff_actions.c.action).count("backed up") == 0 and "backup" in list_kinds(trial, clock.moment)
    assert [run_nightly_backup(trial, clock.moment) for _ in range(2)] == [None, None]
    assert column(trial, staff_actions.c.action).count("backed up") == 1 and "backup" not in list_kinds(trial, clock.moment)


@sqlite_only
def test_a_backup_that_fails_is_an_alert_and_is_tried_again(open_backed_up, clock, tmp_path, monkeypatch):
    monkeypatch.delenv(backup.PASSPHRASE, raising=False)
    trial = open_backed_up(settings="")
    clock.set(BEGIN + timedelta(days=1))
    assert run_nightly_backup(trial, clock.moment) is None
    (message,) = column(trial, alerts.c.message)
    assert message.startswith("the backup of the night of 2026-03-03 failed: encrypted backups need a passphrase")
    assert list_kinds(trial, clock.moment) == ["backup"]
    mended = open_backed_up()
    assert run_nightly_backup(mended, clock.moment) is None, "within the hour another worker has it"
    clock.set(clock.moment + timedelta(hours=1))
    assert run_nightly_backup(mended, clock.moment).name == "trial-2026-03-03.zip"


@sqlite_only
def test_a_folder_that_is_not_there_is_named(open_backed_up, clock, tmp_path):
    """A disk that is not mounted must not become a folder of this machine."""
    trial = open_backed_up()
    (tmp_path / "backups").rmdir()
    clock.set(BEGIN + timedelta(days=1))
    assert run_nightly_backup(trial, clock.moment) is None and not (tmp_path / "backups").exists()
    assert "there is no folder" in column(trial, alerts.c.message)[0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("days", [0, 400])
def test_backups_wait_while_the_clock_may_be_wrong(trial, monkeypatch, days):
    """Also before the schedule has noticed that it was set."""
    looked, nights = threading.Event(), []

    class Watch(ClockWatch):
        def believe(self, at):
            looked.set()
            return at - timedelta(days=days)

    monkeypatch.setattr("surefoot.service.app.run_nightly_backup", lambda trial, at: nights.append(at))
    with Client(create_app(replace(trial, watch=Watch())), {}):
        assert looked.wait(30)
    assert len(nights) == (days == 0)
