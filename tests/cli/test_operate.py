"""The commands for the records of a trial, on SQLite, as people type them."""

import json
import re
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.errors import InputError
from surefoot.service.database import databases
from surefoot.service.database.schema import metadata
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.cli.typed import run_words as run
from tests.service.support.trials import STUDY, fill, update


def test_update_replay_export_backup_and_restore(trial, tmp_path, monkeypatch):
    assert "waiting" in run("update")
    fill(trial, points=40)
    said = run("update")
    assert "done" in said and "policy 1 is live" in said
    assert "80 decisions replayed, 0 differences" in run("replay")
    assert "80 rows, 2 participants" in run("export", "decisions.parquet")
    assert Study.load(tmp_path / "decisions.study.toml").collection.policy == "own"
    assert "64 rows" in run("export", "outcomes.csv", "--outcomes")
    assert "80 rows, 2 participants" in run("export", "files/all")
    exported = [*(tmp_path / "files/all").iterdir(), tmp_path / "decisions.parquet", tmp_path / "outcomes.csv"]
    assert len(exported) == 7 and {file.stat().st_mode & 0o777 for file in exported} == {0o600}, "the owner's alone"
    names = ("csv", "learned.csv", "updates.csv", "policies.json", "study.toml")
    assert {path.name for path in (tmp_path / "files/all").iterdir()} == {f"decisions.{name}" for name in names}
    assert len(Study.parse(STUDY).read(tmp_path / "files/all").logs) == 80
    assert len(Study.parse(STUDY).read(tmp_path / "decisions.parquet").logs) == 80
    assert "80 decisions, 64 outcomes" in run("backup", "trial.zip")
    assert f"schema version {databases.newest_schema_version()}" in run("db", "upgrade")
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/other.db")
    assert "0 differences" in run("restore", "trial.zip")
    assert "80 decisions replayed" in run("replay")


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
        connection.execute("UPDATE ledger SET hash = zeroblob(32) WHERE position = (SELECT max(position) - 1 FROM ledger)")
    connection.close()
    assert "no longer matches" in run("seal", "seals.jsonl", code=1)
    said = run("replay", "--seal", "seals.jsonl", code=1)
    assert "is not what the seal of" in said and "ledger block" in said
    (tmp_path / "no.jsonl").write_text("{}\n")
    result = CliRunner().invoke(app, ["replay", "--seal", "no.jsonl"])
    assert "no.jsonl, line 1: not a seal" in str(result.exception)


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_replay_names_a_table_that_was_dropped(trial, tmp_path, table):
    fill(trial, people=1, points=3)
    with sqlite3.connect(tmp_path / "trial.db") as connection:
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    result = CliRunner().invoke(app, ["replay"])
    assert f"{table}: was dropped" in result.output
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1


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
        assert "could not be sent: 127.0.0.1 answered 403" in str(refused.exception)
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


def test_the_report_for_a_board_has_two_parts_and_asks_for_a_reason(trial, tmp_path):
    fill(trial, people=2, points=5)
    assert "board/board-open.html: the open part" in run("report", "--board")
    assert "by_action" not in json.loads((tmp_path / "board/board-open.json").read_text())
    for wrong in (["report"], ["report", "--board", "--closed"], ["report", "--board", "--reason", "x"]):
        refused = CliRunner().invoke(app, wrong)
        assert isinstance(refused.exception, InputError), wrong
    assert "the closed part" in run("report", "--board", "--closed", "--reason", "second meeting", "--since", "2026-01-01")
    closed = json.loads((tmp_path / "board/board-closed.json").read_text())
    assert closed["unblindings"][0]["by"].startswith("command line") and len(closed["by_action"]) == 2


def test_a_checklist_comes_from_the_database_the_logs_or_the_study_file(trial, tmp_path):
    fill(trial, people=3, points=12)
    assert "checklist/consort-ai.html and consort-ai.md: " in run("report", "--checklist", "consort-ai")
    page = (tmp_path / "checklist/consort-ai.html").read_text()
    assert "the database of the service, open part" in page and "36 draws recomputed" in page
    run("report", "--checklist", "consort-ai", "--closed", "--reason", "the end", "--out", "closed")
    assert "saw outcomes by action: the end." in (tmp_path / "closed/consort-ai.md").read_text()
    run("export", "all")
    run("report", "--checklist", "tidier-jitai", "--logs", "all/decisions.csv", "--study", "all/decisions.study.toml")
    assert "warm-up: 33 of 36 decision points" in (tmp_path / "checklist/tidier-jitai.md").read_text()
    run("report", "--checklist", "tidier-jitai", "--protocol", "--out", "protocol")
    assert "filled from study.toml.\n" in (tmp_path / "protocol/tidier-jitai.md").read_text()
    wrong = (
        ["--board", "--checklist", "consort-ai"],
        ["--board", "--protocol"],
        ["--checklist", "consort-ai", "--fit", "fitted"],
        ["--checklist", "consort-ai", "--protocol", "--logs", "logs.csv"],
        ["--checklist", "consort-ai", "--protocol", "--closed", "--reason", "x"],
    )
    for words in wrong:
        assert isinstance(CliRunner().invoke(app, ["report", *words]).exception, InputError), words


def test_effects_of_an_exported_trial_have_adaptive_errors(tmp_path, monkeypatch):
    """Nights of updates by a pooled `ts` in the service, exported and analysed by the commands, without further options."""
    monkeypatch.setenv("SUREFOOT_DATABASE", f"sqlite:///{tmp_path}/pooled.db")
    monkeypatch.chdir(tmp_path)
    text = STUDY.replace('name = "ro-accb"\npooling = "person"', 'name = "ts"\npooling = "all"')
    text = text.replace("warm_up_decision_points = 20", "warm_up_decision_points = 4")
    text = text.replace("max_removed = 0.5\nmax_send_rate_change = 0.8", "max_influence = 1\nmax_send_rate_change = 1")
    (tmp_path / "study.toml").write_text(text + '\n[effects]\ncontrols = ["weather"]\n')
    trial = open_trial(Study.load(tmp_path / "study.toml"), f"sqlite:///{tmp_path}/pooled.db")
    for night in range(4):
        fill(trial, people=8, points=6, first=6 * night, seed=night, effect=0.2)
        if night < 3:
            assert update(trial)[1]["state"] == "done"
    trial.close()
    run("export", "export")
    words = run("effects", "export", "--study", "study.toml")
    assert "This report uses the adaptive ones." in words
    for label in ("average", "mean outcome"):
        usual, _, _, adaptive, _, _, ratio = re.search(rf"{label}((?: +[-−]?\d+\.\d+){{7}})", words)[1].split()
        assert float(ratio) == pytest.approx(float(adaptive) / float(usual), abs=0.02)
