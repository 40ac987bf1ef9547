import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import surefoot as sf
from tests.cli.typed import run, type_command
from tests.datasets.test_heartsteps_v1 import FILE, needs_file
from tests.effects.test_study_effects import STUDY as EFFECTS_STUDY
from tests.effects.trials import make_trial

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
range = [-5, 5]
[state.engagement]
[state.fatigue]
scaling = { centre = 1.0, scale = 2.0 }
[probability_limits]
minimum = 0.1
maximum = 0.9
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """50 people × 210 decision points with `prompted` outliers, and studies of them."""
    folder = tmp_path_factory.mktemp("study")
    logs = sf.simulators.HeartSteps(participants=50).collect(sf.policies.coin(2), decision_points=210, seed=0)
    made = sf.simulators.contaminate(logs, mechanism="prompted", ratio=0.04, strength=5, seed=1).logs
    pyarrow.csv.write_csv(made.to_frame("pyarrow"), folder / "logs.csv")
    (folder / "study.toml").write_text(STUDY)
    (folder / "pooled.toml").write_text(STUDY + '[method]\nname = "ro-saccb"\npooling = "all"\n')
    (folder / "unlogged.toml").write_text(STUDY.replace('probability = "probability"\n', ""))
    design = STUDY.replace('probability = "probability"\n', "") + "[actions]\nprobabilities = [0.5, 0.5]\n"
    (folder / "design.toml").write_text(design)
    return folder


def test_audit_in_words_in_numbers_and_as_a_page(folder, tmp_path):
    said = run("audit", folder / "logs.csv", "--study", folder / "study.toml", "--html", tmp_path / "audit.html")
    assert "Verdict: fine" in said
    assert max(map(len, said.splitlines())) <= 80
    assert "<h1>Audit of logs.csv</h1>" in (tmp_path / "audit.html").read_text()
    found = json.loads(run("audit", folder / "logs.csv", "--study", folder / "pooled.toml", "--json"))
    assert found["verdict"] == "fine"
    assert found["totals"]["implausible weather"] == 0
    assert len(found["people"]) == 50
    assert [row["tau"] for row in found["sensitivity"]][-2:] == [4.0, None]


@pytest.mark.parametrize("study", ["study.toml", "pooled.toml"])
def test_explain_in_words_in_numbers_and_as_cards(folder, tmp_path, study):
    files = (tmp_path / "card.html", tmp_path / "card.md")
    said = run("explain", folder / "logs.csv", "--study", folder / study, "--html", files[0], "--markdown", files[1])
    assert max(map(len, said.splitlines())) <= 80
    assert "number, scaled as (value − 1) / 2" in " ".join(said.split())
    card = files[1].read_text()
    assert "kept between 0.1 and 0.9" in card
    assert "2 more of fatigue makes send" in card
    assert "Policy card: logs.csv" in files[0].read_text()


def test_explain_as_json(folder):
    found = json.loads(run("explain", folder / "logs.csv", "--study", folder / "pooled.toml", "--json"))
    assert {row["part"] for row in found["coefficients"]} == {"critic", "policy"}
    assert found["curves"][2]["variable"] == "fatigue"
    assert max(found["curves"][2]["grid"]) > 3  # in its own units again


def test_evaluate_in_words_in_numbers_and_as_a_page(folder, tmp_path):
    logs = folder / "logs.csv"
    said = run("evaluate", logs, "--study", folder / "study.toml", "--html", tmp_path / "value.html")
    assert "cross-fitted by time" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80
    assert "doubly robust" in (tmp_path / "value.html").read_text()
    pooled = json.loads(run("evaluate", logs, "--study", folder / "pooled.toml", "--json"))
    assert pooled["cross_fit"] == "person"
    assert {row["policy"] for row in pooled["values"]} == {"ro-saccb", "never", "always", "as logged"}
    design = json.loads(run("evaluate", logs, "--study", folder / "design.toml", "--json"))
    plain = json.loads(run("evaluate", logs, "--study", folder / "study.toml", "--json"))
    assert design["values"] == plain["values"]


def test_artefacts_in_the_reward_flatter_sending_and_can_be_left_out(folder):
    """`prompted` outliers follow prompts: the logs say that sending pays by 400 steps; it is really about 150."""
    logs, study = folder / "logs.csv", folder / "study.toml"

    def always(*more):
        found = json.loads(run("evaluate", logs, "--study", study, "--json", *more))
        value = {(row["policy"], row["estimator"]): row["value"]["value"] for row in found["values"]}
        return value["always", "doubly robust"] - value["never", "doubly robust"]

    sim = sf.simulators.HeartSteps(participants=50)
    states = sim.collect(sf.policies.coin(2), decision_points=210, seed=0).state
    truth = np.diff(sim.expected_reward(states), axis=1).mean()
    assert always() > 3 * truth
    assert always("--without-removed") == pytest.approx(truth, abs=80)


def test_given_policies_are_judged_as_they_are_by_logs_that_they_have_not_seen(folder, tmp_path):
    """Judged by its own training logs a policy once seemed to gain 9.9 (1.3 to 20.9), cross-fitted −1.1."""
    table, study = pyarrow.csv.read_csv(folder / "logs.csv"), folder / "pooled.toml"
    place, day = np.array(table["participant"]), np.array(table["time"])
    for name, rows in (("first", (place < 25) & (day < 100)), ("later", (place < 25) & (day >= 100)), ("new", place >= 25)):
        pyarrow.csv.write_csv(table.filter(rows), tmp_path / f"{name}.csv")
    sf.fit_study(tmp_path / "first.csv", study, tmp_path / "fit")
    sf.fit_study(tmp_path / "first.csv", study, f"file://{tmp_path}/stored")
    parts = tmp_path / "stored" / "policies.parquet"
    assert parts.is_dir()
    alone = tmp_path / "alone.json"
    sf.policies.load(tmp_path / "fit" / "policies.parquet").save(alone)
    given = ("--study", study, "--policies")
    fits = (tmp_path / "fit", tmp_path / "fit" / "policies.parquet", parts, f"file://{tmp_path}/stored", f"file://{parts}")
    for policies in (*fits, alone):
        with pytest.raises(sf.InputError, match=r"was learned from 2500 of these 2500 decision points.*cross-fitted"):
            run("evaluate", tmp_path / "first.csv", *given, policies)
    with pytest.raises(sf.InputError, match=r"'fit' was learned from 2500 of these 10500 decision points"):
        run("evaluate", folder / "logs.csv", *given, tmp_path / "fit")
    later = " ".join(run("evaluate", tmp_path / "later.csv", *given, tmp_path / "fit").split())
    assert "look: fit was learned from 25 of these 25 people, at other times" in later
    assert "was learned from" not in run("evaluate", tmp_path / "new.csv", *given, tmp_path / "fit")
    rng = np.random.default_rng(0)
    other = sf.Trajectories.from_arrays(rng.standard_normal((3, 30, 1)), np.tile([0, 1], (3, 15)), rng.random((3, 30)))
    sf.method("accb", pooling="all").fit(other).policies_.save(tmp_path / "other.json")
    with pytest.raises(sf.InputError, match=r"other.json: its variables are \['s1'\], the study's"):
        run("evaluate", tmp_path / "new.csv", *given, tmp_path / "other.json")
    # The same names, but raw values that mean something else.
    changed = tmp_path / "changed.toml"
    scaled = "[state.weather]\nscaling = { centre = 10.0, scale = 2.0 }"
    changed.write_text(study.read_text(encoding="utf-8").replace("[state.weather]", scaled), encoding="utf-8")
    for policies in (tmp_path / "fit", alone):
        with pytest.raises(
            sf.InputError, match=r"'weather' has scaling None in the policies, \[10.0, 2.0\] in the study; use the"
        ):
            run("evaluate", tmp_path / "new.csv", "--study", changed, "--policies", policies)


def test_what_cannot_be_done_is_said_and_nothing_is_written(folder, tmp_path):
    logs, page = folder / "logs.csv", tmp_path / "page.html"
    with pytest.raises(sf.InputError, match=r"probability of the action taken is missing .*actions.probabilities"):
        run("evaluate", logs, "--study", folder / "unlogged.toml", "--html", page)
    with pytest.raises(sf.InputError, match="cross-fit by time"):
        run("evaluate", logs, "--study", folder / "study.toml", "--cross-fit", "person", "--html", page)
    with pytest.raises(sf.InputError, match="there is no folder"):
        run("explain", logs, "--study", folder / "pooled.toml", "--html", page, "--markdown", tmp_path / "no" / "card.md")
    with pytest.raises(sf.InputError, match="is a folder; name a file"):
        run("audit", logs, "--study", folder / "pooled.toml", "--html", tmp_path)
    empty = (
        pyarrow.csv.read_csv(logs).drop_columns("outcome").append_column("outcome", pyarrow.nulls(10500, pyarrow.float64()))
    )
    pyarrow.csv.write_csv(empty, tmp_path / "empty.csv")
    for command in ("audit", "explain", "evaluate"):
        with pytest.raises(sf.InputError, match=r"no decision point can be used"):
            run(command, tmp_path / "empty.csv", "--study", folder / "study.toml", "--html", page)
    (tmp_path / "empty.csv").unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["audit", "explain", "evaluate"])
def test_a_command_names_its_page_last_and_an_error_is_one_line(folder, tmp_path, command):
    few, page = tmp_path / "few.csv", tmp_path / "page.html"
    pyarrow.csv.write_csv(pyarrow.csv.read_csv(folder / "logs.csv").slice(0, 5 * 210), few)
    done = type_command(command, few, "--study", folder / "study.toml", "--html", page, one_pipe=True)
    assert done.returncode == 0
    # Both streams in one pipe: the file is named on a line of its own, after everything else.
    assert done.stdout.endswith(f"\nWritten: {page}\n")
    assert done.stdout.count("Written: ") == 1
    failed = type_command(command, folder / "none.csv", "--study", folder / "study.toml")
    assert failed.returncode == 2
    assert failed.stderr.startswith("surefoot: ")
    assert failed.stderr.count("\n") == 1


def test_whoever_reads_only_the_first_line_hears_no_complaint(folder):
    """`surefoot audit … | head -1`."""
    call = [sys.executable, "-m", "surefoot", "audit", str(folder / "logs.csv"), "--study", str(folder / "pooled.toml")]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1) as started:  # noqa: S603
        assert "people" in started.stdout.readline()
        started.stdout.close()
        assert "Error" not in started.stderr.read()


@needs_file
def test_heartsteps_v1_by_command(tmp_path):
    run("import", "heartsteps-v1", FILE, "--out", tmp_path / "v1")
    logs, study = tmp_path / "v1" / "logs.parquet", tmp_path / "v1" / "study.toml"
    raw = study.with_name("raw.toml")
    raw.write_text(study.read_text().replace('transform = "log(x + 0.5)"', 'transform = "none"'))
    verdicts = {}
    for file in (raw, study):
        found = json.loads(run("audit", logs, "--study", file, "--json"))
        verdicts[file.stem] = found["verdict"], {check["name"]: check["verdict"] for check in found["checks"]}
    assert verdicts["raw"][0] == "unsafe"
    assert verdicts["study"][0] == "look"
    assert verdicts["raw"][1]["skewness"] == verdicts["raw"][1]["outcome removed"] == "unsafe"
    assert verdicts["study"][1]["skewness"] == verdicts["study"][1]["outcome removed"] == "fine"
    assert "37 people, 5235 usable decision points" in run("evaluate", logs, "--study", study)


@pytest.fixture(scope="module")
def trial_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("effects")
    frame = make_trial(5)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    frame.drop(columns=["p", "home"]).to_csv(folder / "logs.csv", index=False)
    (folder / "study.toml").write_text(EFFECTS_STUDY)
    return folder


def test_effects_in_words_numbers_tables_and_as_a_page(trial_folder, tmp_path):
    logs = trial_folder / "logs.csv", "--study", trial_folder / "study.toml"
    out = {form: tmp_path / f"effects.{form}" for form in ("html", "csv", "tex")}
    said = run("effects", *logs, "--html", out["html"], "--csv", out["csv"], "--latex", out["tex"])
    assert said.startswith("A prompt ") and "Sensitivity, never the headline" in said
    assert "<h1>Effects in logs.csv</h1>" in out["html"].read_text()
    assert out["csv"].read_text().startswith('"analysis","effect","estimate"')
    assert out["tex"].read_text().startswith(r"\begin{tabular}")
    found = json.loads(run("effects", *logs, "--json"))
    assert len(found["effects"]) == 4 and found["quality"]["rows"] == 600


def test_options_change_what_the_study_asks(trial_folder):
    logs = trial_folder / "logs.csv", "--study", trial_folder / "study.toml"
    found = json.loads(run("effects", *logs, "--moderators", "day", "--controls", "x,day", "--at", "day=0", "--at", "day=3",
                           "--lag", 0, "--lag", 1, "--future", "none", "--numerator", 0.4, "--json"))  # fmt: skip
    names = [f"{row['analysis']}: {row['effect']}" for row in found["effects"]]
    assert "by day, lag 1: day = 3" in names and "average, lag 0: average" in names
    same = json.loads(run("effects", *logs, "--outcome", "b", "--estimator", "emee2", "--missing-as", 0, "--json"))
    assert same["estimator"] == "emee2"
    half = trial_folder / "half.toml"
    half.write_text(EFFECTS_STUDY.replace("[effects]\n", "[effects]\nnumerator = 0.5\n"))
    other = run("effects", logs[0], "--study", half, "--outcome", "b", "--estimator", "emee2", "--missing-as", 0, "--json")
    assert json.loads(other)["effects"] == same["effects"]
    with pytest.raises(sf.InputError, match="'emee2' has no numerator"):
        run("effects", *logs, "--outcome", "b", "--estimator", "emee2", "--missing-as", 0, "--numerator", 0.4)
    formula = json.loads(run("effects", *logs, "--formula", "y ~ prompt * C(at) + x", "--json"))
    assert [row["estimate"] for row in formula["effects"][1:]] == pytest.approx(
        [row["estimate"] for row in json.loads(run("effects", *logs, "--json"))["effects"][1:3]], rel=1e-9
    )


def test_a_mediated_effect_of_a_distal_outcome(trial_folder, tmp_path):
    frame = pd.read_csv(trial_folder / "logs.csv")
    frame["weight"] = frame.groupby("person")["y"].transform("sum")
    frame.to_csv(tmp_path / "logs.csv", index=False)
    logs = tmp_path / "logs.csv", "--study", trial_folder / "study.toml"
    asked = ("--estimator", "mcee", "--mediator", "y", "--outcome", "weight", "--moderators", "day", "--controls", "x")
    said = json.loads(run("effects", *logs, *asked, "--json"))
    names = [f"{row['analysis']}: {row['effect']}" for row in said["effects"]]
    assert names[:3] == ["average: direct: average", "average: indirect: average", "average: total: average"]
    learned = json.loads(
        run("effects", *logs, "--estimator", "dcee", "--outcome", "weight", "--learner", "boosting", "--json")
    )
    assert learned["estimator"] == "dcee"


def test_missing_outcomes_are_analysed_as_asked(trial_folder, tmp_path):
    frame = make_trial(5)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    frame.loc[frame["t"] % 4 == frame["sent"], "y"] = np.nan
    frame.drop(columns=["p", "home"]).to_csv(tmp_path / "logs.csv", index=False)
    said = run("effects", tmp_path / "logs.csv", "--study", trial_folder / "study.toml", "--missing", "weighted", "--json")
    found = json.loads(said)
    missing = found["missing_outcomes"]
    assert missing["primary"] == "weighted" and min(missing["missing"].values()) > 0
    rows = {row["analysis"]: row["estimate"] for row in missing["effects"] if row["effect"] == "average"}
    assert rows["average, weighted"] == found["effects"][0]["estimate"] != rows["average, complete"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--moderators", "y"), "not a state variable"),
        (("--formula", "y ~ prompt * C(att)"), "term 'C.att.': there is no column 'att' .did you mean 'at'"),
        (("--formula", "y ~ x"), "no term 'prompt'"),
        (("--formula", "y ~ prompt", "--controls", "x"), "leave out controls"),
        (("--at", "day"), "is not an assignment"),
        (("--at", "day=x"), "is not a number"),
        (("--estimator", "gee"), "estimator"),
        (("--missing-as", "none"), "is not a number"),
        (("--errors", "robust"), "errors"),
        (("--mediator", "x"), "has no mediator"),
        (("--estimator", "mcee"), "needs a mediator"),
        (("--errors", "adaptive"), "surefoot export writes"),
        (("--numerator", "taken", "--moderators", "day"), "may depend on the moderators only"),
    ],
)
def test_options_that_cannot_be_right_are_refused(trial_folder, options, message):
    with pytest.raises(sf.InputError, match=message):
        run("effects", trial_folder / "logs.csv", "--study", trial_folder / "study.toml", *options)


def test_personalised_in_words_in_numbers_and_as_a_page(tmp_path):
    text = (
        STUDY + '[method]\nname = "ts"\npooling = "all"\n[trial]\nday_boundary = 5\n[trial.guard_rails]\nmax_influence = 1\n'
    )
    study = sf.Study.parse(text)
    (tmp_path / "study.toml").write_text(text)
    design = sf.rehearsal.TrialDesign(participants=5, days=4, per_day=5, update_every=2)
    people = sf.simulators.HeartSteps(participants=5)
    (record,) = sf.rehearsal.run_trials(people, sf.rehearsal.Candidate("ts", study), design, seeds=[1])
    decisions = sf.rehearsal.write_trial(record, study, tmp_path / "trial")
    options = ("personalised", decisions, "--study", tmp_path / "study.toml", "--resamples", 19, "--jobs", 1)
    said = run(*options, "--html", tmp_path / "page.html", "--csv", tmp_path / "people.csv", "--out", tmp_path / "out")
    assert "19 resampled trials without any advantage" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80
    assert "<h1>Did the algorithm personalise?</h1>" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "people.csv").read_text().splitlines()[0].count("p_value") == 2
    assert json.loads((tmp_path / "out" / "personalised.json").read_text())["resamples"] == 19
    assert len(json.loads(run(*options, "--json"))["people"]) == 5
