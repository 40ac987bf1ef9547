import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.study.draft import draft_study
from tests.datasets.test_heartsteps_v1 import FILE, FUNNEL, needs_file


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if fails:
        assert isinstance(result.exception, sf.InputError)
        return str(result.exception)
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="module")
def simulated():
    return (
        sf.simulators.HeartSteps(participants=50)
        .collect(sf.policies.coin(2), decision_points=210, seed=0)
        .to_frame("pyarrow")
    )


def test_from_a_file_to_policies_without_writing_a_line(simulated, tmp_path):
    pyarrow.csv.write_csv(simulated, tmp_path / "logs.csv")
    said = run("init", tmp_path / "logs.csv", "--out", tmp_path / "study.toml")
    assert "surefoot fit" in said
    study = sf.Study.load(tmp_path / "study.toml")
    assert study.state_names == ("weather", "engagement", "fatigue")
    assert (study.columns.participant, study.columns.probability, study.reward.column) == (
        "participant",
        "probability",
        "reward",
    )
    said = run("fit", tmp_path / "logs.csv", "--study", tmp_path / "study.toml", "--out", tmp_path / "fitted")
    assert "50 people, 10,500 decision points" in said
    said = run(
        "fit", tmp_path / "logs.csv", "--study", tmp_path / "study.toml", "--out", tmp_path / "fitted", "--force", "--json"
    )
    assert json.loads(said)["people"] == 50
    assert "already there" in run("init", tmp_path / "logs.csv", "--out", tmp_path / "study.toml", fails=True)


def test_a_draft_study_for_awkward_columns_loads_and_reads(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "Participant ID": ["p1"] * 6 + ["p2"] * 6,
            "date": [f"2020-01-{day:02d}" for day in range(1, 13)],
            'mood "now" \\ then': rng.normal(50, 20, 12),
            "at.home": ["yes", "no", "yes", "no", "yes", None] * 2,
            "city": ["Ulm", "Bonn", "Köln"] * 4,
            "remark": [f"remark {n}" for n in range(12)],
            "always": [1] * 12,
            "arm": ["walk", "control", "rest"] * 4,
            "outcome": rng.exponential(5, 12) ** 3,
            "avail": ["TRUE"] * 12,
        }
    )
    pq.write_table(table, tmp_path / "logs.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "logs.csv")
    for name in ("logs.parquet", "logs.csv"):
        text = draft_study(tmp_path / name).text
        study = sf.Study.parse(text)
        assert set(study.state) == {'mood "now" \\ then', "at.home", "city"}
        assert study.state["at.home"].kind == "yes/no"
        assert set(study.state["city"].levels) == {"Ulm", "Bonn", "Köln"}
        assert study.actions.names[0] == "control"
        assert study.columns.available == "avail"
        assert '# Left out: "remark", which holds times, or text with many values.' in text
        assert '# Left out: "always", which is constant, or holds times.' in text
        assert len(study.read(tmp_path / name).logs) == 12
    assert "no column looks like the reward; say which with --reward" in run(
        "init", _without(table, "outcome", tmp_path), "--out", tmp_path / "s.toml", fails=True
    )
    assert "did you mean 'city'" in run(
        "init", tmp_path / "logs.csv", "--out", tmp_path / "s.toml", "--reward", "cty", fails=True
    )
    assert not (tmp_path / "s.toml").exists()


def _without(table, column, tmp_path):
    pq.write_table(table.drop_columns([column]), tmp_path / "less.parquet")
    return tmp_path / "less.parquet"


@needs_file
def test_heartsteps_v1_from_import_to_policies(tmp_path):
    for flag, name in (("--csv", "logs.csv"), ("--json", "logs.parquet")):
        out = tmp_path / name.replace(".", "-")
        said = run("import", "heartsteps-v1", FILE, "--out", out, flag)
        if flag == "--json":
            assert list(json.loads(said)["funnel"].values()) == FUNNEL
        else:
            assert "  5,235 with reward, prior steps, temperature and location" in said
        assert {path.name for path in out.iterdir()} == {name, "study.toml"}
        fitted = json.loads(
            run("fit", out / name, "--study", out / "study.toml", "--out", tmp_path / f"fit-{name}", "--json")
        )
        assert (fitted["people"], fitted["available"], fitted["used"]) == (37, 6061, 5235)
    assert "already there" in run("import", "heartsteps-v1", FILE, "--out", out, fails=True)
    one, two = (sf.policies.load(tmp_path / f"fit-{name}" / "policies.json") for name in ("logs.csv", "logs.parquet"))
    np.testing.assert_array_equal(one.rule.coef, two.rule.coef)


def test_an_import_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "suggestions.csv").write_text("a,b\n1,2\n")
    assert "no column 'user.index'" in run(
        "import", "heartsteps-v1", tmp_path / "suggestions.csv", "--out", tmp_path / "x", fails=True
    )
    assert [path.name for path in tmp_path.iterdir()] == ["suggestions.csv"]


def test_help_does_not_load_what_it_does_not_need():
    heavy = ["pyarrow", "pydantic", "pandas", "matplotlib", "scipy", "narwhals"]
    program = f"import sys, surefoot.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_the_documentation_knows_every_method_and_every_kind():
    from surefoot.data.column_kinds import KINDS
    from surefoot.learning.methods import METHODS

    docs = Path(__file__).parents[2] / "docs"
    for name in ("study-file.md", "method.md"):
        text = (docs / name).read_text(encoding="utf-8")
        assert [method for method in METHODS if f"`{method}`" not in text] == []
    text = (docs / "study-file.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f'`"{kind}"`' not in text] == []
