import json

import pytest

import surefoot as sf
from surefoot.cli import doctor
from surefoot.service.trial.trial import open_trial
from tests.cli.typed import run
from tests.service.support.trials import STUDY


def test_an_empty_folder_gets_the_next_command(tmp_path):
    text = run("doctor", tmp_path)
    assert "surefoot init LOGS writes a first one" in text
    assert "surefoot serve makes it" in text
    assert "  service  surefoot serve and every command of a trial: installed\n" in text


def test_a_study_and_its_trial_are_described(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    open_trial(sf.Study.parse(STUDY), f"sqlite:///{tmp_path / 'surefoot.db'}").close()
    status = json.loads(run("doctor", tmp_path, "--json"))
    assert status["study"]["valid"] and "with a [trial] section" in status["study"]["message"]
    assert "holds a trial with the schema version of this release" in status["database"]["message"]


def test_a_study_with_a_mistake_is_named(tmp_path):
    (tmp_path / "study.toml").write_text("[colums]\n", encoding="utf-8")
    (tmp_path / "surefoot.db").write_bytes(b"")
    text = run("doctor", tmp_path)
    assert "colums" in text
    assert "holds no trial" in text


@pytest.mark.parametrize(
    ("installed", "missing"), [(None, ["openpyxl"]), ("2.0", ["openpyxl <4,>=3.1 (version 2.0 is installed)"])]
)
def test_missing_and_old_packages_are_named(monkeypatch, installed, missing):
    def version(name):
        if name == "openpyxl" and installed is None:
            raise doctor.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert doctor._list_missing("excel") == missing
