"""Posterior sampling from the study file to the policy card."""

import pyarrow.csv
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from tests.studies import many

STUDY = """
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


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(("pooling", "allocation"), [("all", "best"), ("person", "smooth")])
def test_every_command_knows_it(tmp_path, pooling, allocation):
    study, file = tmp_path / "study.toml", tmp_path / "logs.csv"
    study.write_text(STUDY.format(pooling=pooling, allocation=allocation))
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
    text = STUDY.format(pooling="all", allocation="best")
    study.write_text(text)
    logs = many(1, 12, 60, seed=3)[0][0]
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), file)
    result = CliRunner().invoke(app, ["prior", str(file), "--study", str(study)])
    assert result.exit_code == 0
    with_prior = sf.Study.parse(text + result.stdout)
    assert set(with_prior.method().prior) >= {"intercept", "send", "send × weather"}
    without, informed = (one.method().fit(logs).critic_coef_ for one in (sf.Study.parse(text), with_prior))
    assert (without != informed).any()
    with pytest.raises(sf.InputError, match=r"method\.prior.*there is no coefficient 'sned'.*did you mean 'send'"):
        sf.Study.parse(text + "[method.prior]\nsned = { mean = 0.0, scale = 1.0 }\n")
    with pytest.raises(sf.InputError, match="ro-accb has no prior"):
        sf.Study.parse(text.replace("hb-ts", "ro-accb").replace("parameters", "#") + result.stdout)
    study.write_text(text.replace("hb-ts", "ro-accb").replace("parameters", "#"))
    with pytest.raises(sf.InputError, match="ro-accb has no prior"):
        run("prior", file, "--study", study)
