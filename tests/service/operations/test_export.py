import csv
import io

import numpy as np
import pytest
from pyarrow import parquet

from surefoot.fitting import fit_study
from surefoot.service.operations.export import export_decisions, export_outcomes
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, fill, update


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


def test_the_export_goes_straight_into_the_primary_analysis(trial, study, tmp_path):
    from surefoot.effects import analyse_study
    from surefoot.study.effects_section import EffectsSection

    fill(trial, people=10, points=10)
    (tmp_path / "decisions.csv").write_bytes(export_decisions(trial, "csv").content)
    section = EffectsSection(controls=("weather", "engagement"), moderators=("weather",))
    found = analyse_study(study, tmp_path / "decisions.csv", section=section)
    by_weather = next(row for row in found.table if row.effect == "per 1 of weather")
    assert by_weather.low < 2.0 < by_weather.high and by_weather.p < 1e-6
    assert found.curve is None  # All within one day.
    assert found.quality.people_counted == 10 and found.quality.reasons["not available"] == 10


def test_an_empty_trial_can_be_exported(trial):
    assert export_decisions(trial, "csv").rows == 0 and export_decisions(trial, "parquet").rows == 0
    assert export_outcomes(trial, "csv").content.startswith(b'"id","decision_id"')


@pytest.mark.parametrize("time", ["time", "timestamp", "decision_idx"])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_decision_points_that_share_a_timestamp_are_exported_in_order_and_fitted(url, tmp_path, time):
    study = Study.parse(STUDY.replace('time = "time"', f'time = "{time}"'))
    trial = open_trial(study, url)
    fill(trial, people=1, points=40)
    for index in (1000, 1001):
        answer(trial, index=index)
    path = tmp_path / "decisions.csv"
    path.write_bytes(export_decisions(trial, "csv").content)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    moments = "surefoot timestamp" if time == "timestamp" else "timestamp"
    assert rows[-1][moments] == rows[-2][moments] and [int(row[time]) for row in rows[-2:]] == [1000, 1001]
    assert update(trial)[0] == "done"
    live = trial.policies.get(trial.policies.live()[0]).policies
    np.testing.assert_array_equal(fit_study(path, study).policies.rule.coef, live.rule.coef)
    trial.close()
