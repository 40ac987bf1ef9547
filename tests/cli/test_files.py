import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.simulators import contaminate
from surefoot.study.draft import draft_study
from tests.cli.test_analyse import STUDY
from tests.cli.typed import run
from tests.datasets.test_heartsteps_v1 import FILE, FUNNEL, needs_file
from tests.linking.example_exports import EXAMPLES
from tests.studies import many, write_strangers_trial


def refuse(*arguments):
    """The message of a command that is refused."""
    with pytest.raises(sf.InputError) as refused:
        run(*arguments)
    return str(refused.value)


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
    assert "surefoot effects" in said and "surefoot fit" in said
    study = sf.Study.load(tmp_path / "study.toml")
    assert study.state_names == ("weather", "engagement", "fatigue")
    assert (study.columns.participant, study.columns.probability, study.outcome.column) == (
        "participant",
        "probability",
        "outcome",
    )
    said = run("fit", tmp_path / "logs.csv", "--study", tmp_path / "study.toml", "--out", tmp_path / "fitted")
    assert "50 people, 10,500 decision points" in said
    said = run(
        "fit", tmp_path / "logs.csv", "--study", tmp_path / "study.toml", "--out", tmp_path / "fitted", "--force", "--json"
    )
    assert json.loads(said)["people"] == 50
    assert "already there" in refuse("init", tmp_path / "logs.csv", "--out", tmp_path / "study.toml")


def test_a_stranger_learns_in_two_commands_whether_the_prompts_helped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_strangers_trial(tmp_path / "trial.csv")
    said = run("init", "trial.csv")
    assert "surefoot effects trial.csv" in said
    answer = run("effects", "trial.csv").splitlines()[0]
    low, high = map(
        float, re.fullmatch(r"A nudge raises minutes active by about .* \(95 % interval (.*) to (.*)\)\.", answer).groups()
    )
    assert 0 < low < 3 < high
    pyarrow.csv.write_csv(pa.table({"who": ["a"], "mood": [1]}), tmp_path / "few.csv")
    message = "no column looks like the participant or the time or the action or the outcome; say which with"
    assert f"{message} --participant NAME --time NAME --action NAME --outcome NAME" in refuse("init", "few.csv", "--force")


@pytest.mark.parametrize("name", ["qualtrics", "redcap", "fitbit", "apple-health", "beiwe"])
def test_init_names_the_platform_and_the_way_to_link_measurements(name, tmp_path):
    path = EXAMPLES[name].write(tmp_path / "export")
    message = refuse("init", path, "--out", tmp_path / "study.toml")
    assert message.endswith(f"link it to your decision points: surefoot link init DECISIONS --stream {path}")
    assert not (tmp_path / "study.toml").exists()


def test_init_reads_the_decision_table_of_a_platform(tmp_path):
    rng = np.random.default_rng(3)
    rows = ["user_id,user_decision_t,decision_time,action,prob,quality,state_tod"]
    for number in range(200):
        user, step = divmod(number, 50)
        time = f"2026-03-{1 + step // 2:02d} {8 + 12 * (step % 2):02d}:00:00"
        rows.append(f"robas+{user},{step},{time},{rng.integers(2)},0.5,{rng.integers(180)},{step % 2}")
    (tmp_path / "decisions.csv").write_text("\n".join(rows) + "\n")
    said = run("init", tmp_path / "decisions.csv", "--outcome", "quality", "--out", tmp_path / "study.toml")
    assert said.startswith(f"{tmp_path / 'decisions.csv'} fits an Oralytics-style decision table: the columns user_id, ")
    study = sf.Study.load(tmp_path / "study.toml")
    assert (study.columns.participant, study.columns.time, study.columns.probability) == ("user_id", "decision_time", "prob")


def test_init_asks_for_words_at_a_terminal_only(simulated, tmp_path, monkeypatch):
    pyarrow.csv.write_csv(simulated.slice(0, 210), tmp_path / "logs.csv")
    command = ["init", str(tmp_path / "logs.csv"), "--out", str(tmp_path / "study.toml"), "--force"]
    run(*command)
    guessed = sf.Study.load(tmp_path / "study.toml").effects
    assert (guessed.treatment_words, guessed.outcome_words) == ("prompt", "outcome")
    monkeypatch.setattr("surefoot.cli.files.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    asked = CliRunner().invoke(app, command, input="suggestion\nsteps in the next hour\n")
    assert "A noun for what is sent" in asked.output and "with its unit" in asked.output
    study = sf.Study.load(tmp_path / "study.toml")
    assert (study.treatment_words, study.outcome_unit.words) == ("suggestion", "steps in the next hour")


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
    assert "no column looks like the outcome; say which with --outcome" in refuse(
        "init", _without(table, "outcome", tmp_path), "--out", tmp_path / "s.toml"
    )
    assert "did you mean 'city'" in refuse("init", tmp_path / "logs.csv", "--out", tmp_path / "s.toml", "--outcome", "cty")
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
            assert "  5,235 with outcome, prior steps, temperature and location" in said
        assert {path.name for path in out.iterdir()} == {name, "study.toml"}
        fitted = json.loads(
            run("fit", out / name, "--study", out / "study.toml", "--out", tmp_path / f"fit-{name}", "--json")
        )
        assert (fitted["people"], fitted["available"], fitted["used"]) == (37, 6061, 5235)
    assert "already there" in refuse("import", "heartsteps-v1", FILE, "--out", out)
    one, two = (sf.policies.load(tmp_path / f"fit-{name}" / "policies.json") for name in ("logs.csv", "logs.parquet"))
    np.testing.assert_array_equal(one.rule.coef, two.rule.coef)


def test_an_import_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "suggestions.csv").write_text("a,b\n1,2\n")
    assert "no column 'user.index'" in refuse(
        "import", "heartsteps-v1", tmp_path / "suggestions.csv", "--out", tmp_path / "x"
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


@pytest.fixture(scope="module")
def screened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screened")
    clean = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=60, seed=0)
    unworn = contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=10, seed=1).logs
    after = contaminate(clean, mechanism="nonwear", values="outcome", ratio=0.2, after="nothing", seed=1).logs
    pyarrow.csv.write_csv(unworn.to_frame("pyarrow"), folder / "logs.csv")
    pyarrow.csv.write_csv(after.to_frame("pyarrow"), folder / "after.csv")
    (folder / "study.toml").write_text(STUDY)
    (folder / "screened.toml").write_text(STUDY + "[screen]\n[screen.level_shifts]\non = false\n")
    return folder


def test_screen_in_words_in_numbers_as_a_page_and_as_a_table(screened, tmp_path):
    files = ("--html", tmp_path / "screen.html", "--out", tmp_path / "flagged.csv")
    said = run("screen", screened / "logs.csv", "--study", screened / "study.toml", *files)
    assert "960 values flagged" in said
    assert "not_worn flags" in said
    assert max(map(len, said.splitlines())) <= 80
    page = (tmp_path / "screen.html").read_text()
    assert "<h1>Screen of logs.csv</h1>" in page
    assert "Map of participants and decision points" in page
    rows = pyarrow.csv.read_csv(tmp_path / "flagged.csv")
    assert rows.column_names == ["row", "participant", "time", "column", "reason", "score"]
    assert len(rows) == 960
    logs = pyarrow.csv.read_csv(screened / "logs.csv")
    first = rows.slice(0, 1).to_pylist()[0]
    assert logs[first["column"]][first["row"]].as_py() == 0
    assert logs["participant"][first["row"]].as_py() == first["participant"]
    found = json.loads(
        run(
            "screen", screened / "logs.csv", "--study", screened / "screened.toml", "--json", "--out", tmp_path / "f.parquet"
        )
    )
    assert found["now_missing"] == len(pyarrow.parquet.read_table(tmp_path / "f.parquet")) == 960
    assert found["blind_to_treatment"]


def test_a_screen_that_depends_on_the_action_is_unsafe_everywhere(screened, tmp_path):
    study = ("--study", screened / "screened.toml")
    assert "unsafe" in run("screen", screened / "after.csv", *study)
    found = json.loads(run("audit", screened / "after.csv", *study, "--json"))
    assert found["verdict"] == "unsafe"
    assert {check["name"]: check["verdict"] for check in found["checks"]}["screen"] == "unsafe"
    # What is evaluated has the flagged values missing.
    few = json.loads(run("evaluate", screened / "after.csv", *study, "--json"))
    many = json.loads(run("evaluate", screened / "after.csv", "--study", screened / "study.toml", "--json"))
    assert few["decision_points"] == 0.8 * many["decision_points"]


def test_zeros_after_nothing_come_first_in_every_command(screened, tmp_path):
    """Steps have honest zeros, so that no detector flags those of a watch that is put on when it buzzes."""
    frame = pyarrow.csv.read_csv(screened / "after.csv")
    steps = np.maximum(np.round(frame["outcome"].to_numpy() / 10), 0)
    frame = frame.set_column(frame.column_names.index("outcome"), "outcome", pa.array(steps))
    pyarrow.csv.write_csv(frame, tmp_path / "logs.csv")
    study = ("--study", screened / "screened.toml")
    for command in ("screen", "effects"):
        said = " ".join(run(command, tmp_path / "logs.csv", *study, "--html", tmp_path / f"{command}.html").split())
        assert said.startswith("unsafe: values by action: 'outcome' is 0 in ")
        assert 'write zero = "real" in [outcome]' in said
        assert "here are two explanations" in (tmp_path / f"{command}.html").read_text()
    audited = json.loads(run("audit", tmp_path / "logs.csv", *study, "--json"))
    assert {check["name"]: check["verdict"] for check in audited["checks"]}["values by action"] == "unsafe"
    with pytest.warns(sf.FitWarning) as caught:
        sf.fit_study(tmp_path / "logs.csv", sf.Study.load(screened / "screened.toml"))
    assert any("values by action" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("name", "words"), [("flagged.txt", "written as .csv or .parquet"), ("no/flagged.csv", "there is no folder")]
)
def test_a_table_that_cannot_be_written_is_refused(screened, tmp_path, name, words):
    with pytest.raises(sf.InputError, match=words):
        run("screen", screened / "logs.csv", "--study", screened / "study.toml", "--out", tmp_path / name)


def test_the_first_study_is_screened(screened, tmp_path):
    run("init", screened / "logs.csv", "--out", tmp_path / "study.toml")
    study = sf.Study.load(tmp_path / "study.toml")
    assert study.screen is not None
    assert study.screen.on
    assert study.read(screened / "logs.csv").screen.counts() == {"not worn": 960}


SAMPLING_STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "hb-ts"
pooling = "{pooling}"
parameters = {{ allocation = "{allocation}" }}
[probability_limits]
minimum = 0.2
maximum = 0.8
"""


@pytest.mark.parametrize(("pooling", "allocation"), [("all", "best"), ("person", "smooth")])
def test_every_command_knows_it(tmp_path, pooling, allocation):
    study, file = tmp_path / "study.toml", tmp_path / "logs.csv"
    study.write_text(SAMPLING_STUDY.format(pooling=pooling, allocation=allocation))
    logs = many(1, 12, 60, seed=3)[0][0]
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), file)
    fitted = sf.fit_study(file, study, tmp_path / "fitted")
    kept = sf.policies.load(tmp_path / "fitted" / "policies.json")
    assert (
        kept.probabilities(logs.participant, logs.state) == fitted.policies.probabilities(logs.participant, logs.state)
    ).all()
    run("audit", file, "--study", study)
    run("evaluate", file, "--study", study)
    run("explain", file, "--study", study, "--markdown", tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert "Sampled from the posterior" in card
    assert "kept between 0.2 and 0.8" in card
    assert "95 % interval" in card.split("## What it does")[1].split("##")[0]
    assert f"allocation {allocation}" in card


def test_a_prior_from_a_pilot_goes_into_the_study(tmp_path):
    study, file = tmp_path / "study.toml", tmp_path / "pilot.csv"
    text = SAMPLING_STUDY.format(pooling="all", allocation="best")
    study.write_text(text)
    logs = many(1, 12, 60, seed=3)[0][0]
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), file)
    section = run("prior", file, "--study", study)
    with_prior = sf.Study.parse(text + section)
    assert set(with_prior.method().rule.prior) >= {"intercept", "send", "send × weather"}
    without, informed = (one.method().fit(logs).critic_coef_ for one in (sf.Study.parse(text), with_prior))
    assert (without != informed).any()
    with pytest.raises(sf.InputError, match=r"method\.prior.*there is no coefficient 'sned'.*did you mean 'send'"):
        sf.Study.parse(text + "[method.prior]\nsned = { mean = 0.0, scale = 1.0 }\n")
    with pytest.raises(sf.InputError, match="'prior' is a parameter of rule = 'posterior-sampling'"):
        sf.Study.parse(text.replace("hb-ts", "ro-accb").replace("parameters", "#") + section)
    study.write_text(text.replace("hb-ts", "ro-accb").replace("parameters", "#"))
    with pytest.raises(sf.InputError, match="ro-accb has no prior"):
        run("prior", file, "--study", study)
