"""The commands that run a trial, on SQLite, as people type them."""

import http.client
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from surefoot import InputError
from surefoot.cli import app, serve
from surefoot.service.database.schema import alerts
from tests.cli.typed import run_words as run
from tests.service.support.postgres import free_port
from tests.service.support.trials import STUDY, fill


def test_keys_are_made_listed_and_revoked(trial):
    key = run("keys", "create", "--role", "app", "--label", "the phone").strip()
    assert re.fullmatch(r"sf_[0-9a-f]{12}_[0-9a-f]{64}", key)
    prefix = key.split("_")[1]
    assert f"{prefix}  app" in run("keys", "list") and "valid until 2" in run("keys", "list")
    assert key.split("_")[2] not in run("keys", "list")
    run("keys", "revoke", prefix)
    assert "revoked 2" in run("keys", "list")


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
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ, "its folder is gone"
    for limits in (
        "",
        "[probability_limits]\nminimum = 0\nmaximum = 0.9\n",
        "[probability_limits]\nminimum = 0.1\nmaximum = 1\n",
    ):
        without = re.sub(r"\[probability_limits\]\n.*\n.*\n", limits, STUDY)
        (tmp_path / "limits.toml").write_text(without)
        assert "minimum = 0.1 and maximum = 0.9" in refused("serve", "--study", "limits.toml")
    assert "leave out --studies" in refused("serve", "--demo", "--studies", "list.toml")
    assert "write --sandbox to try yours" in refused("serve", "--demo", "--study", "limits.toml")
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "fastapi" else find_spec(name))
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
    assert "policy 1 is kept; an admin activates it" in said and "policy 1 is live" not in said
    (tmp_path / "strict.toml").write_text(STUDY.replace("max_removed = 0.5", "max_removed = 0.0"))
    fill(trial, points=20, first=40, seed=1, effect=-5.0)
    assert "REFUSED" in run("update", "--study", "strict.toml", code=1)
    with trial.database.autocommit() as connection:
        messages = list(connection.scalars(sa.select(alerts.c.message)))
    assert len(messages) == 1 and "no policy is live, the warm-up goes on" in messages[0]


@pytest.mark.slow
def test_a_sandbox_gives_keys_says_what_it_is_and_forgets(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    port = free_port()
    command = [sys.executable, "-m", "surefoot", "serve", "--sandbox", "--port", str(port), "--log-level", "error"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - our own words
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        said = "".join(iter(process.stdout.readline, f"Surefoot listens at http://127.0.0.1:{port}\n"))
        assert (
            "not a trial: everything is forgotten" in said and f"http://127.0.0.1:{port}/sign-in\n  admin key  sf_" in said
        )
        key = re.search(r"^export SUREFOOT_KEY=(sf_\S+)$", said, re.MULTILINE)[1]
        body = re.search(r"^curl .* -d '(.*)'$", said, re.MULTILINE | re.DOTALL)[1]
        (folder,) = tmp_path.glob("surefoot-sandbox-*")
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
                connection.request("POST", "/api/v1/decisions", body, headers)
                break
            except OSError:
                time.sleep(0.1)
        reply = connection.getresponse()
        assert (reply.status, reply.headers["X-Surefoot-Sandbox"]) == (200, "true")
        connection.close()
        process.terminate()
        process.wait(60)
    assert not folder.exists() and not (tmp_path / "surefoot.db").exists()
