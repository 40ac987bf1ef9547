"""Every file that would mislead gives the right answer, a refusal, or a warning by name: at the command line and in Python."""

import json
from warnings import catch_warnings

import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot import InputError
from surefoot.cli import app
from surefoot.log_checks import check_logs
from tests.mistakes.misleading_files import EFFECT, FILES

SEED = 2026
SIZE = ["--days", "10", "--per-day", "5", "--effect", "20", "--pilot", "logs.csv"]
CALLS = {
    "effects": ["effects", "logs.csv", "--json"],
    "audit": ["audit", "logs.csv", "--json"],
    "evaluate": ["evaluate", "logs.csv", "--json"],
    "size --pilot": ["size", *SIZE, "--json"],
}


def list_warnings_of(command):
    """The warnings that a command shows; InputError where it refuses."""
    if command == "Python":
        study = sf.Study.load("study.toml")
        read = study.read("logs.csv")
        with catch_warnings(action="ignore"):
            study.method().fit(read.logs)
        sf.effects.analyse_study(study, "logs.csv")
        return [check.name for check in check_logs(read, study) if check.verdict != "fine"]
    if command == "fit":
        with catch_warnings(action="ignore"):
            manifest = sf.fit_study("logs.csv", "study.toml", "fit").manifest
        return manifest["warnings"]
    run = CliRunner().invoke(app, CALLS[command])
    if isinstance(run.exception, InputError):
        raise run.exception
    assert run.exit_code == 0, run.output
    result = json.loads(run.stdout)
    if command == "size --pilot":
        return result["pilot"]["warnings"]
    of_logs = {check.name for check in check_logs(sf.Study.load("study.toml").read("logs.csv"))}
    return [check["name"] for check in result["checks"] if check["verdict"] != "fine" and check["name"] in of_logs]


@pytest.mark.parametrize(
    ("file", "command", "says"),
    [
        pytest.param(file, command, says, id=f"{file.what}: {command}")
        for file in FILES
        for command, says in file.says.items()
    ],
)
def test_a_file_that_would_mislead_is_named(file, command, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file.write(SEED)
    if says == "refused":
        with pytest.raises(InputError):
            list_warnings_of(command)
        return
    warnings = list_warnings_of(command)
    if says == "right":
        assert warnings == []
    else:
        assert any(says in warning for warning in warnings)


@pytest.mark.parametrize("what", ["nothing is wrong", "the probability is that of sending, and the study says so"])
def test_the_right_answer_is_right(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    next(file for file in FILES if file.what == what).write(SEED)
    row = sf.effects.analyse_study(sf.Study.load("study.toml"), "logs.csv").table[0]
    assert row.low < EFFECT < row.high
