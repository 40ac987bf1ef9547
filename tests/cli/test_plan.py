"""`surefoot size` and `reproduce` as their users type them, on studies small enough for a test."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from surefoot import InputError
from surefoot.cli import app
from surefoot.experiments import coefficient_errors
from surefoot.experiments.paper import Settings
from surefoot.sample_size import several_arms
from tests.cli.typed import run, type_command
from tests.effects.test_study_effects import STUDY
from tests.effects.trials import make_trial
from tests.interrupts import heed_interrupts

SMALL = ["--replicates", "2", "--participants", "3", "--decision-points", "40", "--steps", "40", "--keep", "30"]
QUICKEST = ["s4", "--replicates", "3", *SMALL[2:]]
COMMAND = [sys.executable, "-m", "surefoot", "reproduce"]


def reproduce(*arguments, expected=0):
    done = type_command("reproduce", *arguments)
    assert done.returncode == expected, done.stderr
    return done


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An uninterrupted run in one process."""
    out = tmp_path_factory.mktemp("reproduce") / "results"
    return out, reproduce(*SMALL, "--jobs", 1, "--out", out)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "results"
    reproduce(*QUICKEST, "--jobs", 1, "--out", out)
    return contents(out)


def contents(out):
    """Every file but the summary's elapsed time."""
    files = {path.name: path.read_bytes() for path in Path(out).iterdir()}
    files["summary.json"] = re.sub(rb'"elapsed_seconds": [0-9.]+', b"", files["summary.json"])
    return files


def test_writes_everything(finished):
    out, done = finished
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["runs.parquet", "summary.json", "report.html", "figure.svg", "s1.md", "s2.md", "s3.md", "s4.md"]
    )
    assert "report.html" in done.stdout
    table = pq.read_table(out / "runs.parquet")
    keys = ["experiment", "data_set", "mechanism", "method", "filter", "ratio", "strength", "tau", "replicate"]
    assert table.num_rows == table.group_by(keys).aggregate([]).num_rows
    summary = json.loads((out / "summary.json").read_text())
    assert len(summary["claims"]) == 6
    assert {"parameters", "versions", "elapsed_seconds"} <= set(summary)
    # What two replicates are worth is said next to the verdicts, everywhere.
    assert summary["caution"].startswith("2 replicates are few")
    assert "2 replicates are few" in done.stdout
    assert "2 replicates are few" in (out / "report.html").read_text()
    assert {claim["verdict"] for claim in summary["claims"]} <= {"holds", "holds in part", "does not hold"}


def test_the_report_stands_alone_and_says_what_a_reader_needs(finished):
    text = (finished[0] / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text)
    assert "<script" not in text
    assert text.count("<svg") == 2
    for words in (
        "never",
        "always",
        "coin",
        "oracle-myopic",
        "mostly measures how often a policy sends",
        "paper gives no details",
    ):
        assert words in text
    assert "surefoot reproduce --replicates 2 --participants 3 --decision-points 40 --steps 40 --keep 30" in text


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on_and_ends_the_same(uninterrupted, tmp_path, how):
    """Begun with two jobs and ended with one: their number changes nothing either."""
    with heed_interrupts():
        started = subprocess.Popen(  # noqa: S603
            [*COMMAND, *QUICKEST, "--jobs", "2", "--out", str(tmp_path)], stderr=subprocess.DEVNULL, start_new_session=True
        )
    deadline = time.monotonic() + 180
    while len(list(tmp_path.glob(".units-*/*.json"))) < 2:
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(how)
    started.wait(timeout=120)
    assert started.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    done = len(list(tmp_path.glob(".units-*/*.json")))
    assert 2 <= done < 9
    assert not (tmp_path / "summary.json").exists()
    # Workers leave with their parent, also when it had no time to say goodbye.
    deadline = time.monotonic() + 120
    while _group_is_alive(started.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    again = reproduce(*QUICKEST, "--jobs", 1, "--out", tmp_path)
    assert "of them done before" in again.stderr
    assert contents(tmp_path) == uninterrupted


def _group_is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_json_is_alone_on_standard_output(tmp_path):
    done = reproduce("s4", *SMALL, "--jobs", 1, "--out", tmp_path, "--json")
    assert [claim["name"] for claim in json.loads(done.stdout)["claims"]] == ["S4 gain"]
    assert "units of work" in done.stderr
    assert (tmp_path / "figure.svg").exists()


def test_an_experiment_without_a_sweep_has_no_figure(tmp_path):
    reproduce("s1", *SMALL, "--jobs", 1, "--out", tmp_path)
    assert not list(tmp_path.glob("figure*"))
    assert "not run" not in (tmp_path / "report.html").read_text()


def test_s5_writes_its_table_and_says_what_held(tmp_path, monkeypatch):
    small = replace(coefficient_errors.S5, quick={"participants": 12, "replicates": 2, "peer_participants": 1})
    monkeypatch.setattr(coefficient_errors, "S5", small)
    done = CliRunner().invoke(app, ["reproduce", "s5", "--quick", "--jobs", "1", "--out", str(tmp_path), "--json"])
    limits = json.loads(done.stdout)["s5"]["limits"]
    assert [row["data"] for row in limits][:2] == ["clean", "sensor 4 %"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s5.json", "s5.md", "s5.parquet", "s5.svg"]
    table = (tmp_path / "s5.md").read_text()
    for words in ("high-breakdown / oracle", "huber", "careless 30 %", "no method can know", "Skewed but clean"):
        assert words in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--participants", "0"], "participants is 0"),
        (["--decision-points", "5"], "8 features"),
        (["--ratio", "1.2"], "between 0 and 1"),
        (["s9"], "no experiment 's9'"),
        (["--jobs", "-1"], "jobs is -1"),
        (["--replicates", "few"], "int"),
        (["--out", "/proc/nowhere"], "cannot write to the folder /proc/nowhere"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, words, tmp_path):
    done = reproduce("--out", tmp_path / "out", *arguments, expected=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_names_every_experiment():
    text = type_command("reproduce", "--help").stdout
    for name in (*Settings().experiments, "s5", "s6", "s7"):
        assert re.search(rf"\b{name}\b", text), name
    for name in ("s5", "s6", "s7"):
        assert f"surefoot reproduce {name}" in text
        assert name.upper() in text


def test_help_is_there():
    done = reproduce("--help")
    for words in ("--replicates", "--quick", "Examples", "continues"):
        assert words in done.stdout


@pytest.fixture(scope="module")
def pilot_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot")
    frame = make_trial(5)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    frame.drop(columns=["p", "home"]).to_csv(folder / "logs.csv", index=False)
    (folder / "study.toml").write_text(STUDY)
    return folder


def test_size_in_words_numbers_and_as_a_page(tmp_path):
    trial = "--days", 42, "--per-day", 5, "--probability", 0.4
    out = {form: tmp_path / f"size.{form}" for form in ("html", "csv", "tex")}
    growing = "mean=0.1,initial=0,peak_day=29"
    said = run("size", *trial, "--effect", growing, "--availability", 0.7,
               "--html", out["html"], "--csv", out["csv"], "--latex", out["tex"])  # fmt: skip
    assert said.startswith("With 32 participants") and "power with 32" in said
    assert (
        "<svg" in out["html"].read_text() and "people_80" in out["csv"].read_text() and "tabular" in out["tex"].read_text()
    )
    found = json.loads(run("size", *trial, "--effect", 0.1, "--people", 40, "--effect-sd", 0.1, "--json"))
    assert found["people"] == 40 and 0 < found["power"] < 1
    moderated = json.loads(
        run("size", *trial, "--effect", 0.0, "--moderator", "home: effect=0.3, sd=0.5", "--test-moderators", "--json")
    )
    assert moderated["degrees_of_freedom"][0] == 1
    binary = json.loads(run("size", *trial, "--outcome", "binary", "--baseline", 0.3, "--effect", 0.2, "--json"))
    assert "relative risk" in binary["sentence"]


def test_size_of_a_trial_with_several_treatments(tmp_path):
    trial = ("--days", 42, "--per-day", 5, "--availability", 0.7)
    arms = ("--arm", "walk: effect=0.1, probability=0.3", "--arm", "rest: effect=0.05, probability=0.3")
    page = tmp_path / "size.html"
    assert "walk 0.1, rest 0.05" in run("size", *trial, *arms, "--html", page) and "walk" in page.read_text()
    against_nothing = json.loads(run("size", *trial, *arms, "--json"))
    assert against_nothing["people"] == 42 and against_nothing["degrees_of_freedom"] == [2, 37]
    each_other = json.loads(run("size", *trial, *arms, "--compare", "each other", "--json"))
    assert each_other["people"] > 42 and each_other["degrees_of_freedom"][0] == 1
    by_day = ("--days", 4, "--per-day", 2, "--arm", "walk: effect=0.4, probability=0.3 0.3 0 0.2", "--json")
    probabilities = {"walk": [0.3, 0.3, 0.0, 0.2]}
    assert (
        json.loads(run("size", *by_day))["people"]
        == several_arms(4, 2, effects={"walk": 0.4}, probabilities=probabilities).people
    )
    for options, words in (
        (("--effect", 0.1), "without effect"),
        (("--probability", 0.4), "without probability"),
        (("--outcome", "binary"), "need --outcome binary"),
    ):
        with pytest.raises(InputError, match=words):
            run("size", *trial, *arms, *options)
    with pytest.raises(InputError, match="is not a treatment"):
        run("size", *trial, "--arm", "walk: effect=0.1")


def test_size_from_a_pilot_passes_its_values_on(pilot_folder):
    pilot = "--pilot", pilot_folder / "logs.csv", "--study", pilot_folder / "study.toml"
    found = json.loads(run("size", "--days", 20, "--per-day", 2, "--effect", 0.3, *pilot, "--json"))
    estimates = found["pilot"]["estimates"]
    assert set(estimates) == {"availability", "sd", "effect_sd"} and estimates["sd"]["low"] < estimates["sd"]["value"]
    assert found["cautious"]["people"] >= found["people"]
    fixed = json.loads(
        run("size", "--days", 20, "--per-day", 2, "--effect", 0.3, "--sd", 1, "--availability", 0.5, *pilot, "--json")
    )
    assert any("availability 0.5" in line for line in fixed["assumptions"])
    assert "From 30 people of the pilot" in run("size", "--days", 20, "--per-day", 2, "--effect", 0.3, *pilot)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--outcome", "count"), "no outcome 'count'"),
        (("--outcome", "binary"), "needs its baseline"),
        (("--baseline", "0.3"), "a continuous outcome has no baseline"),
        (("--moderator", "home"), "is not a moderator"),
    ],
)
def test_sizes_that_cannot_be_right_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        run("size", "--days", 10, "--per-day", 3, "--effect", 0.1, *options)


@pytest.mark.parametrize("command", ["effects", "size"])
def test_help_shows_examples(command):
    assert f"surefoot {command} " in run(command, "--help")
