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


def test_it_goes_on_and_on_at_the_command_line(files):
    study = write_study(files)
    run = CliRunner()
    arguments = ["--study", str(study), "--out"]
    assert run.invoke(app, ["fit", str(files / "first.csv"), *arguments, str(files / "one"), "--keep"]).exit_code == 0
    done = run.invoke(app, ["fit", str(files / "later.csv"), *arguments, str(files / "two"), "--since", str(files / "one")])
    assert done.exit_code == 0 and "6 people, 300 decision points" in done.stdout
    again = run.invoke(
        app, ["fit", str(files / "later.csv"), *arguments, str(files / "three"), "--since", str(files / "two")]
    )
    assert "were learned from already" in str(again.exception)
    assert not (files / "three").exists()


def test_what_it_cannot_go_on_from_is_refused(files):
    study = write_study(files)
    fit_study(files / "first.csv", study, files / "plain")
    with pytest.raises(sf.InputError, match="keeps no decision points to go on from; fit the first logs with --keep"):
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


def test_a_file_of_another_version_is_refused(files):
    study = write_study(files)
    fit_study(files / "first.csv", study, files / "one", keep=True)
    path = files / "one" / "decision_points.parquet"
    table = pq.read_table(path)
    header = {**json.loads(table.schema.metadata[b"surefoot"]), "format": "surefoot-decision-points-0"}
    pq.write_table(pa.table(table).replace_schema_metadata({"surefoot": json.dumps(header)}), path)
    with pytest.raises(sf.InputError, match="its format is 'surefoot-decision-points-0'"):
        fit_study(files / "later.csv", study, files / "two", since=files / "one")
