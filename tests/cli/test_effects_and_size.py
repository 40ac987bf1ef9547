import json

import numpy as np
import pytest
from typer.testing import CliRunner

from surefoot import InputError
from surefoot.cli import app
from tests.effects.test_study_effects import STUDY
from tests.effects.trials import make_trial


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("effects")
    frame = make_trial(5)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    frame.drop(columns=["p", "home"]).to_csv(folder / "logs.csv", index=False)
    (folder / "study.toml").write_text(STUDY)
    return folder


def test_effects_in_words_numbers_tables_and_as_a_page(folder, tmp_path):
    logs = folder / "logs.csv", "--study", folder / "study.toml"
    out = {form: tmp_path / f"effects.{form}" for form in ("html", "csv", "tex")}
    said = run("effects", *logs, "--html", out["html"], "--csv", out["csv"], "--latex", out["tex"])
    assert said.startswith("A send adds about") and "Sensitivity, never the headline" in said
    assert "<h1>Effects in logs.csv</h1>" in out["html"].read_text()
    assert out["csv"].read_text().startswith('"analysis","effect","estimate"')
    assert out["tex"].read_text().startswith(r"\begin{tabular}")
    found = json.loads(run("effects", *logs, "--json"))
    assert len(found["effects"]) == 4 and found["quality"]["rows"] == 600


def test_options_change_what_the_study_asks(folder):
    logs = folder / "logs.csv", "--study", folder / "study.toml"
    found = json.loads(run("effects", *logs, "--moderators", "day", "--controls", "x,day", "--at", "day=0", "--at", "day=3",
                           "--lag", 0, "--lag", 1, "--future", "none", "--numerator", 0.4, "--json"))  # fmt: skip
    names = [f"{row['analysis']}: {row['effect']}" for row in found["effects"]]
    assert "by day, lag 1: day = 3" in names and "average, lag 0: average" in names
    same = json.loads(run("effects", *logs, "--outcome", "b", "--estimator", "emee2", "--missing-as", 0, "--json"))
    assert same["estimator"] == "emee2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--moderators", "y"), "not a state variable"),
        (("--at", "day"), "is not an assignment"),
        (("--at", "day=x"), "is not a number"),
        (("--estimator", "gee"), "estimator"),
        (("--missing-as", "none"), "is not a number"),
        (("--numerator", "taken", "--moderators", "day"), "may depend on the moderators only"),
    ],
)
def test_options_that_cannot_be_right_are_refused(folder, options, message):
    with pytest.raises(InputError, match=message):
        run("effects", folder / "logs.csv", "--study", folder / "study.toml", *options)


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


def test_size_from_a_pilot_passes_its_values_on(folder):
    pilot = "--pilot", folder / "logs.csv", "--study", folder / "study.toml"
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
