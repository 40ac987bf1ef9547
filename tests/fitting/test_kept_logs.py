import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.fitting import fit_study

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
range = [-2.5, 2.5]
[state.engagement]
[state.fatigue]
[method]
name = "{name}"
pooling = "{pooling}"
"""


@pytest.fixture
def files(tmp_path):
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=50, seed=2)
    early = (logs.time < 30) & (logs.participant != 4)
    for name, part in (("first", logs[early]), ("later", logs[~early]), ("all", logs)):
        pyarrow.csv.write_csv(part.to_frame("pyarrow"), tmp_path / f"{name}.csv")
    return tmp_path


def write_study(folder, name="ts", pooling="person", more=""):
    path = folder / "study.toml"
    path.write_text(STUDY.format(name=name, pooling=pooling) + more)
    return path


@pytest.mark.parametrize(
    ("name", "pooling"), [("ts", "person"), ("ts", "partial"), ("linucb", "all"), ("hb-accb", "person")]
)
def test_going_on_equals_a_fit_to_all(files, name, pooling):
    study = write_study(files, name, pooling)
    fit_study(files / "first.csv", study, files / "one", keep=True)
    (files / "first.csv").unlink()
    found = fit_study(files / "later.csv", study, files / "two", since=files / "one")
    whole = fit_study(files / "all.csv", study)
    kept = sf.policies.load(files / "two" / "policies.json")
    logs = sf.Study.load(study).read(files / "all.csv").logs
    usable = logs.usable
    for policies in (found.policies, kept):
        assert_allclose(
            policies.probabilities(logs.participant[usable], logs.state[usable]),
            whole.policies.probabilities(logs.participant[usable], logs.state[usable]),
            rtol=1e-9,
            atol=1e-9,
        )
    for key in ("people", "decision_points", "used", "removed", "missing", "implausible", "reward_range"):
        assert found.manifest[key] == whole.manifest[key]
    assert [one["name"] for one in found.manifest["inputs"]] == ["first.csv", "later.csv"]
    assert sorted(found.weights["row"].to_pylist()) == list(range(300))


@pytest.mark.parametrize(("name", "pooling"), [("ts", "partial"), ("linucb", "person"), ("accb", "person")])
def test_an_outcome_that_comes_late_counts_once(files, name, pooling):
    """Of the first logs some outcomes are missing; they come with the later ones, and one comes still later."""
    study = write_study(files, name, pooling)
    rows = pyarrow.csv.read_csv(files / "all.csv").to_pylist()
    late = [row for row in rows if row["time"] < 30 and row["participant"] != 4 and row["time"] % 7 == 3]
    assert len(late) > 10
    without = [{**row, "reward": None} if row in late else row for row in rows]
    parts = {
        "first": [row for row in without if row["time"] < 30 and row["participant"] != 4],
        "later": [*late[1:], {**late[0], "reward": None}, *(row for row in rows if row["participant"] == 4)],
        "last": [late[0], *(row for row in rows if row["time"] >= 30 and row["participant"] != 4)],
    }
    since = None
    for part, content in parts.items():
        pyarrow.csv.write_csv(pa.Table.from_pylist(content), files / f"{part}.csv")
        found = fit_study(files / f"{part}.csv", study, files / f"to-{part}", keep=True, since=since)
        since = files / f"to-{part}"
    whole = fit_study(files / "all.csv", study)
    for column in whole.critic.column_names[1:]:
        assert_allclose(found.critic[column].to_numpy(), whole.critic[column].to_numpy(), rtol=1e-9, atol=1e-9)
    for key in ("people", "decision_points", "available", "used", "missing", "reward_range"):
        assert found.manifest[key] == whole.manifest[key], key
    assert found.policies.training.fingerprint == whole.policies.training.fingerprint
    with pytest.raises(sf.InputError, match="1 of the later decision points were learned from already"):
        pyarrow.csv.write_csv(pa.Table.from_pylist(late[:1]), files / "again.csv")
        fit_study(files / "again.csv", study, files / "no", since=since)


def test_moments_are_kept_instead_of_decision_points(files):
    """One row for each participant, which holds no value of any decision point beyond the ends of the ranges."""
    study = write_study(files)
    fit_study(files / "first.csv", study, files / "one", keep=True)
    assert not (files / "one" / "decision_points.parquet").exists()
    assert pq.read_table(files / "one" / "moments.parquet").num_rows == 5
    found = fit_study(files / "first.csv", write_study(files, "accb"), files / "two", keep=True)
    assert found.manifest["kept"] == "all decision points, because an actor searches over all states"
    assert not (files / "two" / "moments.parquet").exists() and (files / "two" / "decision_points.parquet").exists()


def test_it_goes_on_and_on_at_the_command_line(files):
    study = write_study(files)
    run = CliRunner()
    arguments = ["--study", str(study), "--out"]
    assert run.invoke(app, ["fit", str(files / "first.csv"), *arguments, str(files / "one"), "--keep"]).exit_code == 0
    done = run.invoke(app, ["fit", str(files / "later.csv"), *arguments, str(files / "two"), "--since", str(files / "one")])
    assert done.exit_code == 0 and "6 people, 300 decision points" in done.stdout
    assert "Kept for --since: everybody's moments and no decision points" in done.stdout
    again = run.invoke(
        app, ["fit", str(files / "later.csv"), *arguments, str(files / "three"), "--since", str(files / "two")]
    )
    assert "were learned from already" in str(again.exception)
    assert not (files / "three").exists()


def test_what_it_cannot_go_on_from_is_refused(files):
    study = write_study(files)
    fit_study(files / "first.csv", study, files / "plain")
    with pytest.raises(sf.InputError, match="keeps nothing to go on from; fit the first logs with --keep"):
        fit_study(files / "later.csv", study, files / "two", since=files / "plain")
    fit_study(files / "first.csv", study, files / "one", keep=True)
    with pytest.raises(sf.InputError, match="another study file"):
        fit_study(files / "later.csv", write_study(files, "linucb"), files / "two", since=files / "one")
    for more, words in (
        ("[screen]\n", "a screen judges"),
        ('[state.dose]\nderived = "dose"\n', "dose: a derived state remembers"),
    ):
        with pytest.raises(sf.InputError, match=words):
            fit_study(files / "first.csv", write_study(files, more=more), files / "other", keep=True)


@pytest.mark.parametrize(("name", "kept"), [("ts", "moments"), ("accb", "decision-points")])
def test_a_file_of_another_version_is_refused(files, name, kept):
    study = write_study(files, name)
    fit_study(files / "first.csv", study, files / "one", keep=True)
    path = files / "one" / f"{kept.replace('-', '_')}.parquet"
    table = pq.read_table(path)
    header = {**json.loads(table.schema.metadata[b"surefoot"]), "format": f"surefoot-{kept}-0"}
    pq.write_table(pa.table(table).replace_schema_metadata({"surefoot": json.dumps(header)}), path)
    with pytest.raises(sf.InputError, match=f"its format is 'surefoot-{kept}-0'"):
        fit_study(files / "later.csv", study, files / "two", since=files / "one")
