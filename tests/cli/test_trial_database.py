"""The commands around a trial, on SQLite, as people type them."""

import re
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import util
from typing import ClassVar

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from surefoot import InputError
from surefoot.cli import app
from surefoot.service.database import databases
from surefoot.service.database.schema import alerts
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, fill


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/trial.db")
    (tmp_path / "study.toml").write_text(STUDY)
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path}/trial.db")
    yield trial
    trial.close()


def run(*words, code=0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def test_keys_are_made_listed_and_revoked(trial):
    key = run("keys", "create", "--role", "app", "--label", "the phone").strip()
    assert re.fullmatch(r"sf_[0-9a-f]{12}_[0-9a-f]{64}", key)
    prefix = key.split("_")[1]
    assert f"{prefix}  app" in run("keys", "list") and "valid until 2" in run("keys", "list")
    assert key.split("_")[2] not in run("keys", "list")
    run("keys", "revoke", prefix)
    assert "revoked 2" in run("keys", "list")


def test_update_replay_export_backup_and_restore(trial, tmp_path, monkeypatch):
    assert "waiting" in run("update")
    fill(trial, points=40)
    said = run("update")
    assert "done" in said and "policy 1 is live" in said
    assert "80 decisions replayed, 0 differences" in run("replay")
    assert "80 rows, 2 participants" in run("export", "decisions.parquet")
    assert Study.load(tmp_path / "decisions.study.toml").collection.policy == "own"
    assert "64 rows" in run("export", "outcomes.csv", "--outcomes")
    assert len(Study.parse(STUDY).read(tmp_path / "decisions.parquet").logs) == 80
    assert "80 decisions, 64 outcomes" in run("backup", "trial.zip")
    assert f"schema version {databases.newest_schema_version()}" in run("db", "upgrade")
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/other.db")
    assert "0 differences" in run("restore", "trial.zip")
    assert "80 decisions replayed" in run("replay")


def test_mistakes_are_told_with_the_remedy(trial, tmp_path, monkeypatch):
    def refused(*words):
        result = CliRunner().invoke(app, list(words))
        assert isinstance(result.exception, InputError), result.output
        return str(result.exception)

    assert "choose from app" in refused("keys", "create", "--role", "boss")
    assert "no folder" in refused("replay", "--database", "sqlite:////nowhere/trial.db")
    assert "a database that stays" in refused("replay", "--database", "sqlite://")
    assert "no support for 'mysql'" in refused("replay", "--database", "mysql://host/trial")
    assert "is it running" in refused("replay", "--database", "postgresql://127.0.0.1:1/trial")
    (tmp_path / "plain.toml").write_text(STUDY.split("[trial]")[0])
    assert "[trial]" in refused("serve", "--study", "plain.toml")
    for limits in (
        "",
        "[probability_limits]\nminimum = 0\nmaximum = 0.9\n",
        "[probability_limits]\nminimum = 0.1\nmaximum = 1\n",
    ):
        without = re.sub(r"\[probability_limits\]\n.*\n.*\n", limits, STUDY)
        (tmp_path / "limits.toml").write_text(without)
        assert "minimum = 0.1 and maximum = 0.9" in refused("serve", "--study", "limits.toml")
    real = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "fastapi" else real(name))
    assert "pip install 'surefoot[service]'" in refused("serve")


COMMANDS = (
    ("keys", "list"),
    ("keys", "create", "--role", "app"),
    ("update",),
    ("replay",),
    ("export",),
    ("backup", "x.zip"),
    ("db", "upgrade"),
    ("policies", "load", "fitted"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_never_make_a_database_and_say_which_one_they_use(trial, tmp_path, monkeypatch, words):
    """An unquoted & in an environment file cuts the URL off: the default would be another, empty database."""
    result = CliRunner().invoke(app, list(words))
    assert f"using sqlite:///{tmp_path}/trial.db" in result.stderr
    monkeypatch.delenv("SUREFOOT_DATABASE")
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, InputError) and f"there is no database {tmp_path}/surefoot.db" in str(
        result.exception
    )
    assert not (tmp_path / "surefoot.db").exists()
    (tmp_path / "surefoot.db").touch()
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, InputError) and "holds no trial" in str(result.exception)


def test_an_update_says_live_only_of_what_is(trial, tmp_path):
    fill(trial, points=40)
    (tmp_path / "manual.toml").write_text(STUDY.replace("[trial]", '[trial]\nactivation = "manual"', 1))
    said = run("update", "--study", "manual.toml")
    assert "policy 1 is kept; an admin activates it" in said and "is live" not in said
    (tmp_path / "strict.toml").write_text(STUDY.replace("max_removed = 0.5", "max_removed = 0.0"))
    fill(trial, points=20, first=40, seed=1, effect=-5.0)
    assert "REFUSED" in run("update", "--study", "strict.toml", code=1)
    with trial.database.autocommit() as connection:
        messages = list(connection.scalars(sa.select(alerts.c.message)))
    assert len(messages) == 1 and "no policy is live, the warm-up goes on" in messages[0]


def test_seals_are_kept_outside_and_compared(trial, tmp_path):
    fill(trial, people=1, points=5)
    assert "seals.jsonl: block " in run("seal", "seals.jsonl")
    fill(trial, people=1, points=5, first=5)
    run("seal", "seals.jsonl")
    said = run("replay", "--seal", "seals.jsonl")
    assert "0 discrepancies, against 2 seals" in said
    assert "no seal was compared" in run("replay")
    with sqlite3.connect(tmp_path / "trial.db") as connection:
        connection.execute("DROP TRIGGER ledger_no_update")
        connection.execute("UPDATE ledger SET hash = zeroblob(32) WHERE position = (SELECT max(position) FROM ledger)")
    connection.close()
    assert "no longer fits" in run("seal", "seals.jsonl", code=1)
    said = run("replay", "--seal", "seals.jsonl", code=1)
    assert "is not what the seal of" in said and "ledger block" in said
    (tmp_path / "no.jsonl").write_text("{}\n")
    result = CliRunner().invoke(app, ["replay", "--seal", "no.jsonl"])
    assert "no.jsonl, line 1: not a seal" in str(result.exception)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted to it; refuses at /no."""

    kept: ClassVar[list[bytes]] = []

    def do_POST(self):
        self.kept.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(403 if self.path == "/no" else 204)
        self.end_headers()

    def log_message(self, *words):
        """Nothing."""


def test_a_seal_can_be_sent_to_a_url(trial, tmp_path):
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}"
        run("seal", f"{where}/seals")
        (tmp_path / "received.jsonl").write_bytes(Receiver.kept[0])
        assert "against 1 seal" in run("replay", "--seal", "received.jsonl")
        refused = CliRunner().invoke(app, ["seal", f"{where}/no"])
        assert "could not be sent (status 403)" in str(refused.exception)
        server.shutdown()
    gone = CliRunner().invoke(app, ["seal", where])
    assert "nothing outside has it yet" in str(gone.exception)


def test_erasing_takes_two_steps_and_backups_learn_of_it(trial, tmp_path, monkeypatch):
    fill(trial, points=10)
    (tmp_path / "backups").mkdir()
    run("backup", "backups/old.zip")
    both = CliRunner().invoke(app, ["erase", "p0"])
    assert "--reason to get a code" in str(both.exception)
    said = run("erase", "p0", "--reason", "by letter")
    assert "10 decisions and 8 outcomes would lose their content" in said
    code = re.search(r"--confirm (\w+)", said)[1]
    said = run("erase", "p0", "--confirm", code, "--backups", "backups")
    assert "p0 is withdrawn; erased 10 decisions and 8 outcomes" in said and "backups/erasures.jsonl" in said
    assert "erased: the content of 10 decisions, 8 outcomes" in run("replay")
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/other.db")
    said = run("restore", "backups/old.zip")
    assert "erased again 10 decisions, 8 outcomes" in said and "0 differences" in said and "0 discrepancies" in said
