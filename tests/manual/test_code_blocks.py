"""Every code block of docs runs, each page in a folder of its own with small example files; README: tests/release."""

import os
import tomllib
import warnings
from contextlib import contextmanager

import pytest
from manual.code_blocks import ROOT, PageRun, list_blocks, working_folder
from manual.tutorials import NEEDS

import surefoot as sf
from surefoot.service.access import create_key
from surefoot.service.trial.trial import open_trial
from tests.manual.example_files import STUDY, copy_example_files, make_example_files
from tests.service.support.servers import running
from tests.service.support.trials import STUDY as SERVED

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
"""Tutorials that need no file, and the examples of the reference, are run by `make docs`, which fails with them."""
WITHOUT = {
    "docs/study-file.md": ["study.toml", "fitted"],
    "docs/heartsteps-v1.md": ["fitted"],
}
"""Files that a page makes itself."""
VARIABLES = "[state.day]\n[state.log_steps_before]\n[state.mood]\n"
"""That sections of the study file on pages name, beside those of the example."""
LANGUAGES = {"python", "sh", "console", "toml", "json", "yaml", "text", "r"}


def is_run_here(page):
    return "tutorials/" not in page or NEEDS.search((ROOT / page).read_text(encoding="utf-8"))


@contextmanager
def with_posterior_sampling(folder):
    (folder / "study.toml").write_text(STUDY.replace("ro-accb", "ts"), encoding="utf-8")
    with working_folder(folder):
        yield


@contextmanager
def with_service(folder):
    """A service on loopback, and a key."""
    trial = open_trial(sf.Study.parse(SERVED), f"sqlite:///{folder / 'trial.db'}")
    with working_folder(folder), running(trial) as url:
        os.environ["SUREFOOT_URL"], os.environ["SUREFOOT_KEY"] = url, create_key(trial.database, "app")
        yield


PREPARED = {"docs/posterior-sampling.md": with_posterior_sampling, "docs/client.md": with_service}
"""What a page needs beside the files."""


def read(page):
    return list_blocks((ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def example_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example_files")
    make_example_files(folder)
    return folder


@pytest.fixture
def folder(example_files, tmp_path, monkeypatch):
    """The page's folder; `surefoot serve` gets as far as an application that answers, and `demo` has a test of its own."""
    monkeypatch.setattr("surefoot.service.server.listen", answer_once)
    monkeypatch.setattr("surefoot.cli.demo._run_steps", lambda *_: {"steps": []})
    return tmp_path


def answer_once(application, *_, **__):
    from fastapi.testclient import TestClient

    from surefoot.service.app import from_environment

    with TestClient(from_environment()) as client:
        assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", *filter(is_run_here, PAGES)])
def test_the_blocks_of_a_page_run(page, example_files, folder):
    blocks = [block for block in read(page) if block.is_run]
    if not any(block.language != "text" for block in blocks):
        return
    if "tutorials/" in page:
        copy_example_files(example_files, folder, ["study.toml", "fitted", "*logs.csv", "pilot.csv", "trial.csv"])
    else:
        copy_example_files(example_files, folder, WITHOUT.get(page, ()))
    run = PageRun(page, tomllib.loads(STUDY.split("[trial]")[0] + VARIABLES))
    with PREPARED.get(page, working_folder)(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            run.run(block)


def test_every_block_says_what_it_is():
    wrong = [
        f"{page}:{block.line} '{block.language}'"
        for page in PAGES
        for block in read(page)
        if block.language not in LANGUAGES
    ]
    assert wrong == []


def test_few_blocks_are_not_run():
    left = [f"{page}:{block.line}" for page in PAGES for block in read(page) if not block.is_run]
    assert len(left) <= 25, left
