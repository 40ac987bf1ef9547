"""Monitoring that tells the truth: full, read-only, frozen and moved databases, logs, counters, half-open connections."""

import json
import logging
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from surefoot.service import access, server
from surefoot.service.api import requests
from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.database.direct import execute_text
from surefoot.service.operations import monitoring
from surefoot.service.operations.monitoring import LineFormatter, make_log_settings, request_id
from surefoot.service.trial.trial import open_trial
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.client import Client, request
from tests.service.support.servers import running, serving
from tests.service.support.trials import STUDY

sqlite_only = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
postgresql_only = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


def is_away(client, caplog, cause):
    """Everything is 503 with Retry-After, and the log says why."""
    caplog.clear()
    replies = [client.decide(index=1), client.get("/readyz")]
    for reply in replies:
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_database"), reply.text
        assert int(reply.headers["retry-after"]) >= 1
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert all(cause in line for line in lines), lines
    # The schedule's thread may find it too, at any moment.
    assert sum("answered 503" in line for line in lines) == 2, lines
    assert client.get("/healthz").status_code == 200


@sqlite_only
def test_a_full_disk_is_not_ready_and_is_logged(client, caplog, monkeypatch):
    client.register("p1")
    assert client.get("/readyz").status_code == 200 and client.decide().status_code == 200
    begin = databases._wait_to_write

    def fill_disk(connection):
        execute_text(connection, "PRAGMA max_page_count = 1").close()
        begin(connection)

    monkeypatch.setattr(databases, "_wait_to_write", fill_disk)
    large = {"weather": 0.5, "engagement": 1.0, "place": "x" * 200}
    statuses = {client.decide(index=index, context=large).status_code for index in range(1, 40)}
    assert statuses == {200, 503}, "the pages that are there are filled first"
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert any("SQLITE_FULL" in line for line in lines)


@sqlite_only
def test_a_disk_with_room_for_readiness_alone_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(monitoring.shutil, "disk_usage", lambda folder: SimpleNamespace(free=5000))
    assert client.get("/readyz").json()["error"]["code"] == "disk_full"


@postgresql_only
def test_a_read_only_database_is_503_not_our_mistake(client, caplog):
    client.register("p1")
    name = client.trial.database.engine.url.database
    with client.trial.database.engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.commit()
    client.trial.database.engine.dispose()
    is_away(client, caplog, "ReadOnlySqlTransaction 25006")
    page = client.get("/sign-in")
    assert page.status_code == 200, "what needs no database works"


@sqlite_only
def test_a_renamed_file_is_noticed(client, caplog, tmp_path):
    client.register("p1")
    client.decide()
    (tmp_path / "trial.db").rename(tmp_path / "elsewhere.db")
    is_away(client, caplog, "DatabaseMovedError")
    (tmp_path / "trial.db").touch()
    is_away(client, caplog, "DatabaseMovedError")
    (tmp_path / "elsewhere.db").rename(tmp_path / "trial.db")
    assert client.decide(index=1).status_code == 200


def get(site, path, key=None, body=None):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = urllib.request.Request(site + path, None if body is None else json.dumps(body).encode(), headers)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310
            return reply.status, dict(reply.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


@postgresql_only
def test_a_frozen_database_hangs_nothing(trial, monkeypatch):
    """An answer that the service gives by its own clock says 5; one that had to wait for the database would say 1."""
    key = access.create_key(trial.database, "app")
    with running(trial) as site:
        assert get(site, "/api/v1/participants", key, {"participant_id": "p1"})[0] == 200
        with trial.database.autocommit() as connection:
            process = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        # The server's first process first: after that there are no new connections, and its children are all that there are.
        first = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(first, signal.SIGSTOP)
        frozen = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        for process in frozen[1:]:
            os.kill(process, signal.SIGSTOP)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(requests, "REQUEST_SECONDS", 0.7)
                status, headers = get(site, "/api/v1/decisions", key, request())
                assert (status, headers["retry-after"]) == (503, "5")
                assert get(site, "/readyz")[0] == 503
            assert get(site, "/healthz")[0] == 200
        finally:
            for process in frozen:
                os.kill(process, signal.SIGCONT)
        deadline = time.monotonic() + 60
        while get(site, "/readyz")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert get(site, "/api/v1/decisions", key, request())[0] == 200


@sqlite_only
def test_half_open_connections_and_slow_bodies_are_closed(trial, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 0.3)
    with running(trial) as site:
        address = ("127.0.0.1", int(site.rsplit(":", 1)[1]))
        for half in (b"", b"POST /api/v1/deci", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(address, timeout=60) as connection:
                connection.sendall(half)
                assert connection.recv(100) == b"", half
        with socket.create_connection(address, timeout=60) as connection:
            connection.sendall(
                b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nContent-Type: "
                b"application/x-www-form-urlencoded\r\n\r\nab"
            )
            reply = connection.recv(10_000)
            assert reply.startswith(b"HTTP/1.1 408") and b"\r\nx-frame-options: DENY\r\n" in reply


@sqlite_only
def test_a_head_without_an_end_is_cut_off(trial):
    with running(trial) as site:
        address = ("127.0.0.1", int(site.rsplit(":", 1)[1]))
        with socket.create_connection(address, timeout=60) as connection, pytest.raises(OSError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            for number in range(100_000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


def trial_client(client):
    """A client of another worker."""
    study = client.trial.study
    other = Client(create_app(open_trial(study, client.trial.database.url)), client.keys)
    other.follow_redirects = False
    return other


def test_failed_sign_ins_are_limited_at_all_workers_together(client):
    page = client.get("/sign-in")
    statuses = [client.post("/sign-in", data={"token": token(page), "key": "sf_wrong"}).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    client.follow_redirects = False
    assert sign_in(client, "admin").status_code == 429
    with trial_client(client) as other:
        assert sign_in(other, "admin").status_code == 429, "another worker counts the same attempts"


@sqlite_only
def test_requests_are_counted_by_route_and_time(client):
    client.register("p1")
    client.decide()
    client.decide(context={"weather": "x" * 1000})
    lines = client.get("/metrics").text.splitlines()
    for status in (200, 422):
        assert f'surefoot_requests_total{{route="/api/v1/decisions",status="{status}"}} 1.0' in lines
    assert 'surefoot_request_seconds_bucket{le="+Inf"} 3.0' in lines and not any("_created" in line for line in lines)


def test_metrics_are_those_of_all_workers(tmp_path, monkeypatch):
    """Whichever worker answers, it says what all of them counted, also those that were killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    with serving(study, f"sqlite:///{tmp_path}/trial.db", workers=2) as server:
        sent = 0
        deadline = time.monotonic() + 120
        # Until the second worker, which may start later, has had requests, too.
        while len(list(tmp_path.glob("surefoot-metrics-*/counter_*.db"))) < 2:
            assert time.monotonic() < deadline, "both workers get requests"
            # A connection of its own each time, so that both workers get requests.
            for _ in range(10):
                assert server.ask("GET", "/healthz")[0] == 200
                sent += 1
            expected = f'surefoot_requests_total{{route="/healthz",status="200"}} {sent}.0'
            # A worker counts a request after its reply has left, so the last one may be missing for a moment.
            while read_health_counts(server) != {expected}:
                assert time.monotonic() < deadline, f"every worker says {expected}"


def read_health_counts(server):
    """The lines about /healthz in six answers, of whichever worker."""
    answers = [server.ask("GET", "/metrics")[1].decode().splitlines() for _ in range(6)]
    return {line for lines in answers for line in lines if 'route="/healthz",status="200"' in line}


def test_lines_have_time_level_and_request_id():
    record = logging.LogRecord("surefoot.service", logging.ERROR, "", 0, "the disk is %s", ("full",), None)
    record.created = 1772357400.25
    mark = request_id.set("4f1c")
    try:
        text, line = (LineFormatter(form).format(record) for form in ("text", "json"))
    finally:
        request_id.reset(mark)
    assert text == "2026-03-01T09:30:00.250Z ERROR surefoot.service [4f1c] the disk is full"
    assert json.loads(line) == {
        "time": "2026-03-01T09:30:00.250Z",
        "level": "ERROR",
        "logger": "surefoot.service",
        "request_id": "4f1c",
        "message": "the disk is full",
    }
    settings = make_log_settings("json", "warning")
    assert settings["loggers"]["surefoot"]["level"] == "WARNING"
