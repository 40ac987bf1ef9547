import csv
import io
import json
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from pyarrow import csv as pa_csv
from pyarrow import parquet

from surefoot.fitting import fit_study
from surefoot.service.database.clock import now
from surefoot.service.database.schema import decisions
from surefoot.service.operations import export
from surefoot.service.operations.export import EXPORTS, export_decisions
from surefoot.service.trial import decisions as deciding
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, erase, fill, moment, update


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
    from surefoot.study.trial_section import EffectsSection

    fill(trial, people=10, points=10)
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    section = EffectsSection(controls=("weather", "engagement"), moderators=("weather",))
    found = analyse_study(study, tmp_path / "decisions.csv", section=section)
    by_weather = next(row for row in found.table if row.effect == "per 1 of weather")
    assert by_weather.low < 2.0 < by_weather.high and by_weather.p < 1e-6
    assert found.curve is None  # All within one day.
    assert found.quality.people_counted == 10 and found.quality.reasons["not available"] == 10


def test_an_empty_trial_can_be_exported(trial, tmp_path):
    for form in ("csv", "parquet"):
        assert export_decisions(trial, tmp_path / "decisions", form).rows == 0
    EXPORTS["outcomes"](trial, tmp_path / "outcomes.csv", "csv")
    assert (tmp_path / "outcomes.csv").read_bytes().startswith(b'"decision_id","id"')


@pytest.mark.parametrize("time", ["time", "timestamp", "decision_idx"])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_decision_points_that_share_a_timestamp_are_exported_in_order_and_fitted(url, tmp_path, time, monkeypatch):
    """A clock that went back comes to the moment of an earlier decision point again."""
    study = Study.parse(STUDY.replace('time = "time"', f'time = "{time}"'))
    trial = open_trial(study, url)
    fill(trial, people=1, points=40)
    answer(trial, index=1000)
    # By the server's clock it comes late enough after the one before.
    monkeypatch.setattr(deciding, "now", lambda: now() + timedelta(minutes=2))
    answer(trial, index=1001, timestamp=moment(2 * 39))
    path = tmp_path / "decisions.csv"
    export_decisions(trial, path, "csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    moments = "surefoot timestamp" if time == "timestamp" else "timestamp"
    assert [int(row[time]) for row in rows[-3:]] == [39, 1000, 1001]
    assert rows[-3][moments] == rows[-1][moments] < rows[-2][moments]
    assert update(trial)[0] == "done"
    live = trial.policies.get(trial.policies.live()[0]).policies
    np.testing.assert_array_equal(fit_study(path, study).policies.rule.coef, live.rule.coef)
    trial.close()


@pytest.mark.parametrize("text", ["=cmd|'/C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", "ill, = at home"])
def test_formulas_do_not_reach_spreadsheets(trial, tmp_path, text):
    register_participant(trial.database, "-p1")
    answer(trial, "-p1", 0, availability=False, reasons=[text])
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    (row,) = csv.DictReader((tmp_path / "decisions.csv").read_text().splitlines())
    assert row["participant"] == "'-p1"
    assert row["availability_reasons"] == (text if text.startswith("ill") else f"'{text}")
    export_decisions(trial, tmp_path / "decisions.parquet", "parquet")
    table = parquet.read_table(tmp_path / "decisions.parquet")
    assert table["availability_reasons"].to_pylist() == [text] and table["participant"].to_pylist() == ["-p1"]


def test_an_export_goes_through_in_pieces(trial, tmp_path, monkeypatch):
    """The same file whatever the size of a piece, and never more rows in memory than one."""
    fill(trial, people=3, points=30)
    export_decisions(trial, tmp_path / "whole.csv", "csv")
    sizes = []
    real = export._decision_table
    monkeypatch.setattr(export, "ROWS", 7)
    monkeypatch.setattr(export, "_decision_table", lambda trial, rows: sizes.append(len(rows)) or real(trial, rows))
    made = export_decisions(trial, tmp_path / "pieces.csv", "csv")
    assert (made.rows, made.participants) == (90, 3) and max(sizes) == 7 and sum(sizes) == 90
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_variable_may_be_missing_in_a_whole_piece(trial, tmp_path, monkeypatch, form):
    monkeypatch.setattr(export, "ROWS", 2)
    register_participant(trial.database, "p0")
    for index in range(4):
        answer(trial, "p0", index, context={} if index < 2 else {"weather": 0.5, "place": "home"})
    assert export_decisions(trial, tmp_path / f"decisions.{form}", form).rows == 4


def read_beside(trial, folder):
    """The files about updates, as rows."""
    for name in ("learned", "updates"):
        EXPORTS[name](trial, folder / f"{name}.csv", "csv")
    return [pa_csv.read_csv(folder / f"{name}.csv").to_pylist() for name in ("learned", "updates")]


def test_outcomes_are_exported_as_each_update_knew_them(trial, tmp_path):
    """A correction counts from the next update on."""
    fill(trial, points=40)
    update(trial)
    (decided,) = [row for row in column_rows(trial) if (row["participant_id"], row["decision_idx"]) == ("p1", 3)]
    record_outcomes(trial, [Outcome(decision_id=decided["id"], outcome=0.5, timestamp=moment(20))])
    update(trial)
    learned, updates = read_beside(trial, tmp_path)
    spans = [(row["outcome"], row["first_update"], row["last_update"]) for row in learned
             if (row["participant"], row["decision_idx"]) == ("p1", 3)]  # fmt: skip
    assert [span[1:] for span in spans] == [(1, 1), (2, 2)] and spans[0][0] != spans[1][0] == 0.5
    assert {(row["first_update"], row["last_update"]) for row in learned} == {(1, 2), (1, 1), (2, 2)}
    assert [row["learned_from"] for row in updates] == [64, 64] and len(learned) == 65
    versions = json.loads(export.write_policies_text(trial))
    assert [version["update_id"] for version in versions] == [1, 2] and len(versions[0]["activated_at"]) == 1
    assert versions[1]["parameters"]["participants"] == ["p0", "p1"]
    answer(trial)
    assert pa_csv.read_csv(export_to(trial, tmp_path))["updates_before"].to_pylist() == [0] * 40 + [2] + [0] * 40


def test_erased_participants_stay_erased_in_files_about_updates(trial, tmp_path):
    fill(trial, points=40)
    update(trial)
    erase(trial, "p0")
    learned, updates = read_beside(trial, tmp_path)
    assert {row["outcome"] is None for row in learned if row["participant"] == "p0"} == {True}
    assert {row["outcome"] is None for row in learned if row["participant"] == "p1"} == {False}
    assert updates[0]["learned_from"] == 64
    (version,) = json.loads(export.write_policies_text(trial))
    assert version["parameters"]["participants"] == ["p1"] and len(version["parameters"]["coef"]) == 1


def column_rows(trial):
    with trial.database.autocommit() as connection:
        return list(connection.execute(sa.select(decisions)).mappings())


def export_to(trial, folder):
    export_decisions(trial, folder / "decisions.csv", "csv")
    return folder / "decisions.csv"
