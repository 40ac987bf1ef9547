import csv
import io

from pyarrow import parquet

from surefoot.service.operations.export import export_decisions, export_outcomes
from tests.service.support.trials import fill


def test_the_export_counts_its_rows_and_is_read_back_by_the_study(client, study, tmp_path):
    fill(client.trial, points=20)
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


def test_an_empty_trial_can_be_exported(trial):
    assert export_decisions(trial, "csv").rows == 0 and export_decisions(trial, "parquet").rows == 0
    assert export_outcomes(trial, "csv").content.startswith(b'"id","decision_id"')
