"""A study in the middle of its course, made once and copied for every test that only looks at it."""

import shutil

import pytest

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.client import Client
from tests.service.support.seeded_trial import DESIGN, Clock, seed


@pytest.fixture(scope="session")
def seeded_file(same_draws, tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeded")
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch, folder)
        trial = open_trial(Study.parse(DESIGN), f"sqlite:///{folder}/trial.db")
        seed(trial, clock)
        trial.close()
    return folder / "trial.db", clock.moment


@pytest.fixture
def seeded(seeded_file, monkeypatch, tmp_path):
    file, moment = seeded_file
    shutil.copy(file, tmp_path / "trial.db")
    Clock(monkeypatch, tmp_path).set(moment)
    trial = open_trial(Study.parse(DESIGN), f"sqlite:///{tmp_path}/trial.db")
    yield trial
    trial.close()


@pytest.fixture
def seeded_browser(seeded):
    """A browser of that study, with a key of every role; it does not follow redirects by itself."""
    given = {role: access.create_key(seeded.database, role) for role in access.ROLES}
    with Client(create_app(seeded), given) as one:
        one.trial, one.follow_redirects = seeded, False
        yield one
