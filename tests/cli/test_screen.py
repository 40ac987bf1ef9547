import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import surefoot as sf
from surefoot.simulators import contaminate
from tests.cli.test_insight_commands import STUDY, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screened")
    clean = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=60, seed=0)
    unworn = contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=10, seed=1).logs
    after = contaminate(clean, mechanism="nonwear", values="reward", ratio=0.2, after="nothing", seed=1).logs
    pyarrow.csv.write_csv(unworn.to_frame("pyarrow"), folder / "logs.csv")
    pyarrow.csv.write_csv(after.to_frame("pyarrow"), folder / "after.csv")
    (folder / "study.toml").write_text(STUDY)
    (folder / "screened.toml").write_text(STUDY + "[screen]\n[screen.level_shifts]\non = false\n")
    return folder


def test_screen_in_words_in_numbers_as_a_page_and_as_a_table(folder, tmp_path):
    files = ("--html", tmp_path / "screen.html", "--out", tmp_path / "flagged.csv")
    said = run("screen", folder / "logs.csv", "--study", folder / "study.toml", *files)
    assert "960 values flagged" in said
    assert "not_worn flags" in said
    assert max(map(len, said.splitlines())) <= 80
    page = (tmp_path / "screen.html").read_text()
    assert "<h1>Screen of logs.csv</h1>" in page
    assert "Map of participants and decision points" in page
    rows = pyarrow.csv.read_csv(tmp_path / "flagged.csv")
    assert rows.column_names == ["row", "participant", "time", "column", "reason", "score"]
    assert len(rows) == 960
    logs = pyarrow.csv.read_csv(folder / "logs.csv")
    first = rows.slice(0, 1).to_pylist()[0]
    assert logs[first["column"]][first["row"]].as_py() == 0
    assert logs["participant"][first["row"]].as_py() == first["participant"]
    found = json.loads(
        run("screen", folder / "logs.csv", "--study", folder / "screened.toml", "--json", "--out", tmp_path / "f.parquet")
    )
    assert found["now_missing"] == len(pyarrow.parquet.read_table(tmp_path / "f.parquet")) == 960
    assert found["blind_to_treatment"]


def test_a_screen_that_depends_on_the_action_is_unsafe_everywhere(folder, tmp_path):
    study = ("--study", folder / "screened.toml")
    assert "unsafe" in run("screen", folder / "after.csv", *study)
    found = json.loads(run("audit", folder / "after.csv", *study, "--json"))
    assert found["verdict"] == "unsafe"
    assert {check["name"]: check["verdict"] for check in found["checks"]}["screen"] == "unsafe"
    # What is evaluated has the flagged values missing.
    few = json.loads(run("evaluate", folder / "after.csv", *study, "--json"))
    many = json.loads(run("evaluate", folder / "after.csv", "--study", folder / "study.toml", "--json"))
    assert few["decision_points"] == 0.8 * many["decision_points"]


def test_zeros_after_nothing_come_first_in_every_command(folder, tmp_path):
    """Steps have honest zeros, so that no detector flags those of a watch that is put on when it buzzes."""
    frame = pyarrow.csv.read_csv(folder / "after.csv")
    steps = np.maximum(np.round(frame["reward"].to_numpy() / 10), 0)
    frame = frame.set_column(frame.column_names.index("reward"), "reward", pa.array(steps))
    pyarrow.csv.write_csv(frame, tmp_path / "logs.csv")
    study = ("--study", folder / "screened.toml")
    for command in ("screen", "effects"):
        said = " ".join(run(command, tmp_path / "logs.csv", *study, "--html", tmp_path / f"{command}.html").split())
        assert said.startswith("unsafe: values by action: 'reward' is 0 in ")
        assert 'write zero = "real" in [reward]' in said
        assert "there are two explanations" in (tmp_path / f"{command}.html").read_text()
    audited = json.loads(run("audit", tmp_path / "logs.csv", *study, "--json"))
    assert {check["name"]: check["verdict"] for check in audited["checks"]}["values by action"] == "unsafe"
    with pytest.warns(sf.FitWarning) as caught:
        sf.fit_study(tmp_path / "logs.csv", sf.Study.load(folder / "screened.toml"))
    assert any("values by action" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("name", "words"), [("flagged.txt", "written as .csv or .parquet"), ("no/flagged.csv", "there is no folder")]
)
def test_a_table_that_cannot_be_written_is_refused(folder, tmp_path, name, words):
    with pytest.raises(sf.InputError, match=words):
        run("screen", folder / "logs.csv", "--study", folder / "study.toml", "--out", tmp_path / name)


def test_the_first_study_is_screened(folder, tmp_path):
    run("init", folder / "logs.csv", "--out", tmp_path / "study.toml")
    study = sf.Study.load(tmp_path / "study.toml")
    assert study.screen is not None
    assert study.screen.on
    assert study.read(folder / "logs.csv").screen.counts() == {"not worn": 960}
