import zipfile

import pytest
import sqlalchemy as sa

from surefoot.service.database import databases
from surefoot.service.database.schema import secrets
from surefoot.service.operations import backup
from surefoot.service.operations.encrypted_files import AGE
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from tests.service.support.trials import answer, fill, update


def test_a_backup_restores_to_the_same_trial(trial, tmp_path, url, request):
    fill(trial, points=40)
    update(trial)
    answer(trial)
    path = tmp_path / "trial.zip"
    counts = backup.back_up(trial.database, path)
    assert counts["decisions"] == 81 and path.stat().st_mode & 0o077 == 0
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    assert backup.restore(path, copy, by="test").rows == counts
    result = replay(copy)
    assert result.decisions == 81 and result.differences == []
    again = tmp_path / "again.zip"
    backup.back_up(copy, again)
    with zipfile.ZipFile(path) as first, zipfile.ZipFile(again) as second:
        changed = {name for name in first.namelist() if first.read(name) != second.read(name)}
    assert changed == {"staff_actions.jsonl", "ledger.jsonl", "manifest.json"}, "the restore itself is on record"
    with pytest.raises(ValueError, match="restore into an empty one"):
        backup.restore(path, copy, by="test")
    copy.close()


def test_a_restored_trial_goes_on(empty_url, study, tmp_path):
    first = open_trial(study, f"sqlite:///{tmp_path}/first.db")
    fill(first, points=40)
    update(first)
    backup.back_up(first.database, tmp_path / "trial.zip")
    database = databases.connect(empty_url)
    backup.restore(tmp_path / "trial.zip", database, by="test")
    database.close()
    second = open_trial(study, empty_url)
    assert second.secret == first.secret
    assert answer(second)["action"] == answer(first)["action"]
    assert update(second)[0] == "done"
    assert replay(second.database).differences == []
    first.close()
    second.close()


def test_a_damaged_backup_is_refused_whole(trial, tmp_path):
    fill(trial, people=1, points=5)
    backup.back_up(trial.database, tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip") as good, zipfile.ZipFile(tmp_path / "bad.zip", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name).replace(b"warm-up", b"policyy"))
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    with pytest.raises(ValueError, match="not what was backed up"):
        backup.restore(tmp_path / "bad.zip", copy, by="test")
    with copy.autocommit() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(secrets)) == 0
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(ValueError, match="cannot be read as a backup"):
        backup.restore(tmp_path / "no.zip", copy, by="test")
    copy.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_damaged_erasure_list_stops_the_restore(trial, tmp_path):
    fill(trial, people=1, points=5)
    backup.back_up(trial.database, tmp_path / "trial.zip")
    (tmp_path / backup.ERASURE_LIST).write_text("{}\n")
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    with pytest.raises(ValueError, match="line 1: not an erasure"):
        backup.restore(tmp_path / "trial.zip", copy, by="test")
    with copy.autocommit() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(secrets)) == 0
    copy.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_encrypted_backup_needs_its_passphrase(trial, tmp_path, monkeypatch):
    fill(trial, people=1, points=5)
    path = tmp_path / "trial.zip.age"
    monkeypatch.setenv(backup.PASSPHRASE, "too short")
    with pytest.raises(ValueError, match=r"12 characters or more; set SUREFOOT_BACKUP_PASSPHRASE"):
        backup.back_up(trial.database, path)
    assert not path.exists()
    monkeypatch.setenv(backup.PASSPHRASE, "correct horse battery")
    counts = backup.back_up(trial.database, path)
    assert path.read_bytes().startswith(AGE) and b"weather" not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    monkeypatch.setenv(backup.PASSPHRASE, "wrong horse battery")
    with pytest.raises(ValueError, match="the passphrase is not the one"):
        backup.restore(path, copy, by="test")
    monkeypatch.setenv(backup.PASSPHRASE, "correct horse battery")
    assert backup.restore(path, copy, by="test").rows == counts
    assert replay(copy).differences == []
    copy.close()
