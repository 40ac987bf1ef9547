"""Qualification on both databases: it passes where all is well, names what is not, and leaves nothing behind."""

import json

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.service.database import databases
from surefoot.service.database.postgresql import STATEMENT_SECONDS
from surefoot.service.database.schema import decisions
from surefoot.service.operations import backup, qualification
from tests.service.support.trials import STUDY, column, fill

SHORT = STUDY.replace("warm_up_decision_points = 20", "warm_up_decision_points = 8")


@pytest.fixture
def study_file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(SHORT)
    path.chmod(0o640)
    return path


@pytest.fixture(autouse=True)
def slow_disk(monkeypatch):
    """SQLite waits for the disk, as it does outside of tests."""
    settings = tuple(setting for setting in databases.PRAGMAS if setting != "synchronous = OFF")
    monkeypatch.setattr(databases, "PRAGMAS", settings)


def run(study_file, url, tmp_path):
    words = ["qualify", "--study", str(study_file), "--database", url, "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, words)
    report = json.loads((tmp_path / "out" / "qualification.json").read_text())
    page = (tmp_path / "out" / "qualification.html").read_text()
    return found, {one["name"]: one for one in report["installation"] + report["operation"]}, page


def test_an_installation_passes_and_keeps_its_trial_as_it_was(trial, url, study_file, tmp_path):
    found, checks, page = run(study_file, url, tmp_path)
    failed = {name for name, one in checks.items() if not one["passed"]}
    # The tests' own cluster does not wait for the disk, and has one role, which is a superuser: the checks say so.
    assert failed == (set() if trial.database.is_sqlite else {"rights in the database", "durability"}), found.output
    assert found.exit_code == (0 if trial.database.is_sqlite else 1)
    settings = "journal_mode = wal; synchronous = 2"
    if not trial.database.is_sqlite:
        settings = "synchronous_commit = on; fsync = off, not on; full_page_writes = off, not on"
    assert checks["durability"]["observed"] == settings
    assert {"retries", "backup and restore", "replay and ledger", "clock", "disk", "time limits"} <= set(checks)
    assert checks["retries"]["observed"].startswith("20 requests at once: 1 answer")
    assert "approved by" in page and "Signatures" in page
    assert column(trial, decisions.c.id) == []
    if trial.database.is_sqlite:
        assert not list(tmp_path.glob("surefoot_qualification_*"))
    else:
        with trial.database.autocommit() as connection:
            assert not [name for name in sa.inspect(connection).get_schema_names() if "qualification" in name]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_every_requirement_names_checks_that_run(trial, url, study_file, tmp_path):
    _, checks, page = run(study_file, url, tmp_path)
    requirements = qualification.load_requirements()
    # Of PostgreSQL the rights of the role are checked, not those on a file.
    assert {name for requirement in requirements for name in requirement.checks} <= {*checks, "rights in the database"}
    # Nothing that is tried is without a requirement, but for what only describes the machine.
    assert set(checks) - {name for requirement in requirements for name in requirement.checks} == {
        *("versions", "study file", "disk")
    }
    assert [requirement.number for requirement in requirements] == list(range(1, 27))
    assert checks["echoed probability"]["observed"] == "recorded probability: agrees True; half of it: agrees False"
    assert checks["fallback"]["observed"] == "empty context: fallback, sends with probability 0.25"
    assert checks["order"]["observed"] == "409 out_of_order"
    results = {
        one["number"]: one for one in json.loads((tmp_path / "out" / "qualification.json").read_text())["requirements"]
    }
    untried = {number for number, requirement in results.items() if requirement["result"] == "not tried here"}
    assert untried == {11, 12, 20, 25} and {results[number]["result"] for number in (19, 26)} == {"by hand"}
    assert results[15]["checks"] == ["pause"] and results[15]["result"] == "passed"
    assert page.count("☐") == sum(bool(requirement.by_hand) for requirement in requirements)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_service_that_does_not_pause_fails_its_requirements(trial, url, study_file, tmp_path, monkeypatch):
    monkeypatch.setattr(qualification, "set_pause", lambda *_, **__: None)
    _, checks, _ = run(study_file, url, tmp_path)
    assert [name for name, check in checks.items() if not check["passed"]] == ["pause"]
    report = json.loads((tmp_path / "out" / "qualification.json").read_text())
    assert [one["number"] for one in report["requirements"] if one["result"] == "FAILED"] == [15, 18]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_wrong_is_named(trial, url, study_file, tmp_path, monkeypatch):
    study_file.chmod(0o644)
    monkeypatch.setattr(databases, "PRAGMAS", (*databases.PRAGMAS, "synchronous = NORMAL"))
    monkeypatch.setattr(qualification, "replay", lambda database: type("R", (), {"decisions": 3, "differences": ["x"]}))
    found, checks, page = run(study_file, url, tmp_path)
    failed = {name for name, one in checks.items() if not one["passed"]}
    assert failed == {"rights on the study file", "replay and ledger", "durability", "erasure", "backup and restore"}
    assert checks["durability"]["observed"] == "journal_mode = wal; synchronous = 1, not 2"
    assert found.exit_code == 1 and "FAILED  replay and ledger" in found.output and "<strong>FAILED</strong>" in page


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_restore_that_breaks_on_erased_content_fails_the_qualification(trial, url, study_file, tmp_path, monkeypatch):
    def parse(line, table):
        row = json.loads(line)
        binary = [column.name for column in table.c if isinstance(column.type, sa.LargeBinary)]
        return {**row, **{name: bytes.fromhex(row[name]) for name in binary}}

    monkeypatch.setattr(backup, "_parse_row", parse)
    result, checks, _ = run(study_file, url, tmp_path)
    assert {name for name, check in checks.items() if not check["passed"]} == {"backup and restore"}
    assert checks["backup and restore"]["observed"].startswith("TypeError")
    assert checks["erasure"]["observed"].startswith("19 decisions") and result.exit_code == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("content", ["whole", "damaged"])
def test_the_newest_nightly_backup_is_restored_as_a_drill(trial, url, study_file, tmp_path, content):
    fill(trial, people=1, points=5)
    study_file.write_text(SHORT + f'[trial.backup]\nfolder = "{tmp_path}"\nencrypted = false\n')
    path = tmp_path / "trial-2026-03-01.zip"
    backup.back_up(trial.database, path)
    if content == "damaged":
        path.write_bytes(path.read_bytes()[:-100])
    found, checks, _ = run(study_file, url, tmp_path)
    failed = {name for name, check in checks.items() if not check["passed"]}
    assert failed == (set() if content == "whole" else {"restore drill"}), found.output
    if content == "whole":
        assert checks["restore drill"]["observed"] == "trial-2026-03-01.zip: 5 decisions restored, 0 differences"
        assert checks["backup and restore"]["observed"].endswith("0 differences; who was erased stays erased")


def test_options_in_the_url_reach_postgresql(postgres):
    database = databases.connect(f"{postgres}/postgres?options=-c%20application_name%3Dtry")
    with database.autocommit() as connection:
        assert connection.exec_driver_sql("SHOW application_name").scalar() == "try"
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == f"{STATEMENT_SECONDS}s"
    database.close()
