"""A connection to PostgreSQL that is lost without a word: every wait ends, decisions go on, the service can be stopped."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.service import access
from surefoot.service.database import databases, postgresql
from surefoot.service.database.ledger import insert_decisions
from surefoot.service.trial import decisions
from surefoot.service.trial.trial import open_trial
from tests.service.support.client import request
from tests.service.support.postgres import free_port
from tests.service.support.servers import running
from tests.service.support.silent_proxy import silent_proxy
from tests.service.support.trials import STUDY

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def proxy(url, monkeypatch):
    monkeypatch.setattr(postgresql, "SILENT_SECONDS", 1)
    monkeypatch.setattr(postgresql, "POOL_SECONDS", 2)
    parsed = make_url(url)
    with silent_proxy(parsed.host, parsed.port) as one:
        one.url = parsed.set(port=one.port).render_as_string(hide_password=False)
        yield one


def ask(site, path, key="", body=None):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = urllib.request.Request(site + path, None if body is None else json.dumps(body).encode(), headers)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=30) as reply:  # noqa: S310
            return reply.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_decisions_go_on_after_a_connection_was_lost_in_the_middle_of_one(study, proxy, monkeypatch):
    trial = open_trial(study, proxy.url)
    key = access.create_key(trial.database, "app")
    with running(trial) as site:
        assert ask(site, "/api/v1/participants", key, {"participant_id": "p1"}) == 200
        assert ask(site, "/api/v1/decisions", key, request()) == 200
        assert ask(site, "/readyz") == 200
        lock = threading.Event()

        def lose_connection(connection, rows):
            # With the ledger's lock in hand: the server keeps it for as long as it believes in the connection.
            if not lock.is_set():
                lock.set()
                proxy.go_silent()
            insert_decisions(connection, rows)

        monkeypatch.setattr(decisions, "insert_decisions", lose_connection)
        began = time.monotonic()
        assert ask(site, "/api/v1/decisions", key, request(index=1)) == 503
        assert lock.is_set()
        assert ask(site, "/readyz") == 503, "nothing can be decided"
        proxy.heal()
        while ask(site, "/api/v1/decisions", key, request(index=1)) != 200:
            assert time.monotonic() - began < 15
        while ask(site, "/readyz") != 200:
            assert time.monotonic() - began < 15
    trial.close()


@pytest.mark.parametrize("statement", ["SELECT 1", None])
def test_a_wait_ends_with_a_fault_and_the_next_connection_is_new(proxy, statement):
    database = databases.connect(proxy.url)
    with database.autocommit() as connection:
        assert connection.scalar(sa.select(1)) == 1
    proxy.go_silent()
    began = time.monotonic()
    with pytest.raises(databases.DATABASE_FAULTS):
        if statement:
            with database.autocommit() as connection:
                connection.exec_driver_sql(statement)
        else:
            with database.transaction():
                pass
    assert time.monotonic() - began < 4
    proxy.heal()
    with database.autocommit() as connection:
        assert connection.scalar(sa.select(1)) == 1
    database.close()


def test_an_export_may_take_longer_and_ends_with_the_service(proxy):
    database = databases.connect(proxy.url)
    with database.snapshot(unlimited=True) as connection:
        assert connection.exec_driver_sql("SELECT pg_sleep(1.5)").scalar() == ""
    faults = []

    def export():
        try:
            with database.snapshot(unlimited=True) as connection:
                proxy.go_silent()
                connection.exec_driver_sql("SELECT 1")
        except databases.DATABASE_FAULTS as fault:
            faults.append(fault)

    thread = threading.Thread(target=export, daemon=True)
    thread.start()
    time.sleep(1.5)
    assert thread.is_alive()
    database.close()
    thread.join(5)
    assert len(faults) == 1


def test_a_long_reading_survives_a_reader_that_is_held_up(url, monkeypatch):
    monkeypatch.setattr(postgresql, "SILENT_SECONDS", 1)
    database = databases.connect(url)
    with database.snapshot(unlimited=True) as connection:
        driver = connection.connection.driver_connection.pgconn
        driver.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 30000)")
        time.sleep(4)  # more than the buffers hold waits at the server
        result = driver.get_result()
        assert result.ntuples == 30000, result.error_message
        assert driver.get_result() is None
    database.close()


def test_commits_are_durable_whatever_the_role_says(url):
    database = databases.connect(url)
    with database.engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {database.engine.url.database} SET synchronous_commit = off")
    database.close()
    asked = "&" if "?" in url else "?"
    for weaker in (url, f"{url}{asked}options=-c%20synchronous_commit%3Doff"):
        database = databases.connect(weaker)
        with database.autocommit() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        database.close()


SCRIPT = """\
import sys
from surefoot.service.database import postgresql
postgresql.SILENT_SECONDS = 60
from surefoot.service.server import listen
listen("surefoot.service.app:from_environment", "127.0.0.1", int(sys.argv[1]), 1)
"""


@pytest.mark.slow
def test_a_signal_ends_a_service_whose_connections_are_all_lost(tmp_path, proxy, study):
    """Although each of them would be waited for a minute."""
    (tmp_path / "study.toml").write_text(STUDY)
    opened = open_trial(study, proxy.url)
    key = access.create_key(opened.database, "app")
    opened.close()
    port = free_port()
    environment = {**os.environ, "SUREFOOT_DATABASE": proxy.url, "SUREFOOT_STUDY": str(tmp_path / "study.toml")}
    command = [sys.executable, "-c", SCRIPT, str(port)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:  # noqa: S603
        site = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                assert ask(site, "/readyz") == 200
                break
            except OSError:
                time.sleep(0.1)
        assert ask(site, "/api/v1/participants", key, {"participant_id": "p1"}) == 200
        proxy.go_silent()
        threads = [
            threading.Thread(target=lambda: ask(site, "/api/v1/decisions", key, request()), daemon=True),
            threading.Thread(target=lambda: ask(site, "/metrics"), daemon=True),
        ]
        for thread in threads:
            thread.start()
        time.sleep(1)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert time.monotonic() - began < 15
