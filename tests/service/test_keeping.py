"""Export, replay, backup, migrations, schedule, alerts, metrics."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pyarrow import parquet

from surefoot import Study
from surefoot.service.database import databases
from surefoot.service.database.schema import APPEND_ONLY, alerts, decisions, metadata, secrets
from surefoot.service.operations import backup
from surefoot.service.operations.export import export_decisions, export_outcomes
from surefoot.service.trial.alerts import close_alert, raise_periodic_alerts
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import open_service
from surefoot.service.updates import schedule
from tests.service.client import request
from tests.service.conftest import STUDY
from tests.service.test_updates import answer, update
from tests.service.trials import fill


def test_the_tables_are_what_the_code_thinks(empty):
    databases.upgrade(empty)
    databases.upgrade(empty)
    with empty.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert databases.revision(empty) == databases.newest_revision()
    assert set(APPEND_ONLY) <= set(metadata.tables)


def test_an_older_database_is_refused_with_the_remedy(empty):
    databases.upgrade(empty)
    with empty.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(ValueError, match="surefoot db upgrade"):
        databases.prepare(empty)


def test_the_export_counts_its_rows_and_is_read_back_by_the_study(client, study, tmp_path):
    fill(client.service, points=20)
    reply = client.get("/api/v1/export/decisions", headers=client.as_role("analyst"))
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert int(reply.headers["x-row-count"]) == len(rows) == 40
    assert reply.headers["x-participant-count"] == "2"
    path = tmp_path / "decisions.parquet"
    path.write_bytes(client.get("/api/v1/export/decisions?format=parquet", headers=client.as_role("analyst")).content)
    assert parquet.read_table(path).num_rows == 40
    logs = study.read(path).logs
    assert (len(logs), int(logs.available.sum()), int(logs.usable.sum())) == (40, 36, 32)
    assert {row["source"] for row in rows} == {"warm-up", "unavailable"}
    assert client.get("/api/v1/export/decisions?format=xls", headers=client.as_role("analyst")).status_code == 422


def test_an_empty_trial_can_be_exported(service):
    assert export_decisions(service, "csv").rows == 0 and export_decisions(service, "parquet").rows == 0
    assert export_outcomes(service, "csv").content.startswith(b'"id","decision_id"')


def test_replay_finds_what_was_tampered_with(service):
    fill(service, points=40)
    update(service)
    answer(service)
    assert replay(service.database).differences == []
    changes = {"action": 0, "uniform": 0.9999, "state": "[0.5, -1.0, 0.0]", "probabilities": "[0.4, 0.6]"}
    with service.database.writing() as connection:
        if service.database.is_sqlite:
            connection.exec_driver_sql("DROP TRIGGER decisions_no_update")
        else:
            connection.exec_driver_sql("ALTER TABLE decisions DISABLE TRIGGER ALL")
        for index, (name, value) in enumerate(changes.items()):
            row = sa.and_(decisions.c.participant_id == "p1", decisions.c.decision_idx == index)
            connection.execute(sa.update(decisions).where(row).values({name: value}))
        connection.execute(sa.update(decisions).where(decisions.c.decision_idx == 1000).values(uniform=0.5))
    found = {(one.participant_id, one.decision_idx): one.what for one in replay(service.database).differences}
    assert {("p1", 1), ("p1", 2), ("p1", 3), ("p0", 1000)} <= set(found)


def test_a_backup_restores_to_the_same_trial(service, tmp_path, url, request):
    fill(service, points=40)
    update(service)
    answer(service)
    path = tmp_path / "trial.zip"
    counts = backup.back_up(service.database, path)
    assert counts["decisions"] == 81 and path.stat().st_mode & 0o077 == 0
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    assert backup.restore(path, copy) == counts
    result = replay(copy)
    assert result.decisions == 81 and result.differences == []
    again = tmp_path / "again.zip"
    backup.back_up(copy, again)
    import zipfile

    with zipfile.ZipFile(path) as one, zipfile.ZipFile(again) as other:
        assert one.read("decisions.jsonl") == other.read("decisions.jsonl")
        assert one.read("manifest.json") == other.read("manifest.json")
    with pytest.raises(ValueError, match="restore into an empty one"):
        backup.restore(path, copy)
    copy.close()


def test_a_restored_trial_goes_on(url, study, tmp_path):
    first = open_service(study, f"sqlite:///{tmp_path}/first.db")
    fill(first, points=40)
    update(first)
    backup.back_up(first.database, tmp_path / "trial.zip")
    database = databases.connect(url)
    backup.restore(tmp_path / "trial.zip", database)
    database.close()
    second = open_service(study, url)
    assert second.secret == first.secret
    assert answer(second)["action"] == answer(first)["action"]
    assert update(second)[0] == "done"
    assert replay(second.database).differences == []
    first.close()
    second.close()


def test_a_damaged_backup_is_refused_whole(service, tmp_path):
    import zipfile

    fill(service, people=1, points=5)
    backup.back_up(service.database, tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip") as good, zipfile.ZipFile(tmp_path / "bad.zip", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name).replace(b"warm-up", b"policyy"))
    copy = databases.connect(f"sqlite:///{tmp_path}/copy.db")
    with pytest.raises(ValueError, match="not what was backed up"):
        backup.restore(tmp_path / "bad.zip", copy)
    with copy.looking() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(secrets)) == 0
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(ValueError, match="cannot be read as a backup"):
        backup.restore(tmp_path / "no.zip", copy)
    copy.close()


def test_the_nightly_update_is_taken_once(url, monkeypatch):
    study = Study.parse(STUDY.replace('"never"', '"03:00"\ntime_zone = "Europe/Zurich"'))
    workers = [open_service(study, url), open_service(study, url)]
    started = []
    monkeypatch.setattr(schedule.update_process, "start", lambda service, by: started.append(by) or 1)
    begin = datetime.now(UTC)
    assert schedule.tick(workers[0], begin) is None, "nothing is due before the trial began"
    for days in (1, 1, 2, 2, 2):
        for worker in workers:
            schedule.tick(worker, begin + timedelta(days=days))
    assert started == ["schedule"] * 2
    for worker in workers:
        worker.close()


def test_alerts_come_once_a_day_and_can_be_closed(service):
    from surefoot.service.trial.participants import register

    now = datetime.now(UTC)
    raise_periodic_alerts(service, now)
    register(service.database, "p0")
    for index in range(20):
        answer(service, index=index, context={} if index < 10 else request()["context"])
    for _ in range(2):
        raise_periodic_alerts(service, now + timedelta(hours=1))
        raise_periodic_alerts(service, now + timedelta(hours=30))
    with service.database.looking() as connection:
        found = connection.execute(sa.select(alerts.c.id, alerts.c.kind).order_by(alerts.c.id)).all()
    assert [kind for _, kind in found] == ["fallbacks", "no-data"]
    assert close_alert(service.database, found[0].id) and not close_alert(service.database, found[0].id)


def test_metrics_and_health(client):
    client.register("p1")
    client.decide()
    client.decide(index=1, context={})
    lines = client.get("/metrics").text.splitlines()
    assert 'surefoot_decisions_total{source="warm-up"} 1' in lines
    assert 'surefoot_decisions_total{source="fallback"} 1' in lines
    assert "surefoot_participants 1" in lines and "surefoot_live_policy 0" in lines
    assert client.get("/healthz").json() == {"status": "alive"} and client.get("/readyz").json() == {"status": "ready"}
    page = client.get("/docs").text
    assert "POST /api/v1/decisions" in page and "<script" not in page and "src=" not in page
    assert json.dumps(client.get("/openapi.json").json())
