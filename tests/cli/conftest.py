import pytest

from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/trial.db")
    (tmp_path / "study.toml").write_text(STUDY)
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path}/trial.db")
    yield trial
    trial.close()
